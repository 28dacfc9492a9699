"""The models that have a config file, and models by name that need none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import msgspec
import yaml

from medhelm.errors import UnknownName, UsageError, closest
from medhelm.files.durable import why
from medhelm.files.yaml_bounds import refuse_many
from medhelm.schema.episode import Sampling
from medhelm.schema.model import ModelSpec, Price

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_THINKING = re.compile(r"(o\d|gpt-(?:[5-9]|\d\d)(?:\.\d+)?)(-|$)")


def load_models() -> dict[str, ModelSpec]:
    """Return the models of the packaged `conf/model` by name, in the order of their names."""
    root = resources.files("medhelm.conf") / "model"
    found = sorted(_yaml_files(root))
    return {
        name: read_model(name, file.read_bytes(), f"conf/model/{name}.yaml") for name, file in found
    }


def find_model(name: str, extra: Mapping[str, ModelSpec] | None = None) -> ModelSpec:
    """Return the spec of a model by name.

    `extra`: models of plugins and of the user, which come first. A name that ends in `.yaml` is a
    file of the user with the keys of `conf/model`. Without a config file, `openai/ANY` is the
    model ANY of an OpenAI-protocol endpoint (OpenAI's own unless `base_url` is set). Raises
    `UnknownName` with the nearest names, `UsageError` for a file that is not a model.
    """
    if name.endswith((".yaml", ".yml")):
        return _read_own(Path(name))
    known = {**load_models(), **(extra or {})}
    if name in known:
        return known[name]
    vendor, _, model = name.partition("/")
    if vendor == "openai" and model:
        return make_openai_spec(model)
    raise unknown_model(name, known)


def unknown_model(name: str, known: Iterable[str]) -> UnknownName:
    """Return the error of a model's name that has no config, with what to write in its place."""
    hint = "`medhelm list models` shows all; any model of an OpenAI-protocol endpoint is openai/"
    return UnknownName("model", name, known, hint + ("ITS-NAME." if "/" in name else f"{name}."))


def _read_own(path: Path) -> ModelSpec:
    try:
        values = _yaml_values(path.read_bytes(), str(path))
    except OSError as e:
        raise UsageError(f"model {path}: {why(e)}") from None
    return make_spec({"name": path.stem} | values, str(path))


def make_openai_spec(model: str) -> ModelSpec:
    """Return the spec of a model without a config file, with the facts in OpenAI's names.

    The o series, and gpt-5 and later ones, think, take no temperature, and name the output budget differently.
    """
    thinks = _THINKING.match(model) is not None
    return ModelSpec(
        name=f"openai/{model}",
        model=model,
        reasoning=thinks,
        sampling=Sampling(temperature=None) if thinks else Sampling(),
        token_limit_field="max_completion_tokens" if thinks else "max_tokens",
    )


def read_model(name: str, text: bytes, place: str) -> ModelSpec:
    """Return the spec that a config file holds.

    Raises `UsageError` naming the file for damaged YAML, an unknown key, a wrong type, or a
    `name` that is not the file's.
    """
    values = _yaml_values(text, place)
    if values.setdefault("name", name) != name:
        raise UsageError(f"{place}: name is {values['name']!r} but the file is that of {name!r}")
    return make_spec(values, place)


def _yaml_values(text: bytes, place: str) -> dict[str, Any]:
    refuse_many(text, place)
    try:
        values = yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        raise UsageError(f"{place} is no YAML{line}") from None
    if not isinstance(values, dict):
        raise UsageError(f"{place} must hold keys and values of a model")
    return values


def make_spec(values: Mapping[str, Any], place: str) -> ModelSpec:
    """Return the spec that plain values describe; `place` is their place, for messages.

    Raises `UsageError` for an unknown key, also inside `sampling` and `price`, with the
    nearest known one, and for a wrong type.
    """
    for prefix, part, struct in (
        ("", values, ModelSpec),
        ("sampling.", values.get("sampling"), Sampling),
        ("price.", values.get("price"), Price),
    ):
        known = struct.__struct_fields__
        for key in part if isinstance(part, Mapping) else ():
            if key not in known:
                nearest = closest(str(key), known, n=1)
                did = f"; did you mean '{prefix}{nearest[0]}'?" if nearest else ""
                raise UsageError(f"{place}: unknown key '{prefix}{key}'{did}")
    try:
        return msgspec.convert(values, ModelSpec)
    except msgspec.ValidationError as error:
        raise UsageError(f"{place}: {error}") from None


def _yaml_files(folder: Traversable | Path, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _yaml_files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".yaml"):
            yield prefix + entry.name.removesuffix(".yaml"), entry
