"""The models that have a config file, and models by name that need none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from medhelm.config import convert
from medhelm.errors import UnknownName, UsageError, closest
from medhelm.files.durable import why
from medhelm.files.yaml_bounds import packaged_files, read_yaml, yaml_files
from medhelm.models.provider import Provider
from medhelm.models.providers import known_provider, known_providers
from medhelm.schema.model import ModelSpec


@cache
def load_models() -> Mapping[str, ModelSpec]:
    """Return the models of the packaged `conf/model` by name, in the order of their names."""
    return {
        name: read_model(name, file.read_bytes(), f"conf/model/{name}.yaml")
        for name, file in packaged_files("model").items()
    }


def plain_models(folder: Path) -> dict[str, ModelSpec]:
    """Return the models of a user's folder `model` by name.

    A file that only Hydra can complete (a defaults list, a reference to another key) is left out.
    """
    found: dict[str, ModelSpec] = {}
    for name, file in yaml_files(folder) if folder.is_dir() else ():
        with suppress(UsageError):
            values = yaml_values(file.read_bytes(), name)
            found[name] = make_spec({"name": name} | values, name)
    return found


def find_model(name: str, extra: Mapping[str, ModelSpec] | None = None) -> ModelSpec:
    """Return the spec of a model by name.

    `extra`: models of plugins and of the user, which come first. A name that ends in `.yaml` is a
    file of the user with the keys of `conf/model`. Without a config file, `PROVIDER/ANY` is the
    model ANY of a provider that takes any. Raises `UnknownName` with the nearest names,
    `UsageError` for a file that is not a model.
    """
    if name.endswith((".yaml", ".yml")):
        try:
            values = yaml_values(Path(name).read_bytes(), name)
        except OSError as e:
            raise UsageError(f"model {name}: {why(e)}") from None
        return make_spec({"name": Path(name).stem} | values, name)
    known = {**load_models(), **(extra or {})}
    if name in known:
        return known[name]
    if (provider := open_provider(name)) is not None:
        return provider.named(name.partition("/")[2])
    raise unknown_model(name, known)


def open_provider(name: str) -> Provider | None:
    """Return the provider that takes a model of this name without a config; None without one."""
    vendor, _, model = name.partition("/")
    provider = known_provider(vendor)
    return provider if model and provider is not None and provider.is_open else None


def open_providers() -> list[Provider]:
    """Return the providers any of whose models can be named without a config.

    Those whose answers people wrote are named by a file, which their own pages say.
    """
    return [p for p in known_providers().values() if p.is_open and p.is_ranked]


def unknown_model(name: str, known: Iterable[str]) -> UnknownName:
    """Return the error of a model's name that has no config, with what to write in its place."""
    vendor, slash, model = name.partition("/")
    takers = {provider.name: provider for provider in open_providers()}
    if slash and vendor not in {n.partition("/")[0] for n in known}:
        known = [f"{near}/{model}" for near in closest(vendor, takers, n=1)] + [*known]
    forms = [f"{p.name}/{'ITS-NAME' if slash else name} ({p.help})" for p in takers.values()]
    hint = f"`medhelm list models` shows all; without a config: {', '.join(forms)}."
    return UnknownName("model", name, known, hint)


def read_model(name: str, text: bytes, place: str) -> ModelSpec:
    """Return the spec that a config file holds.

    Raises `UsageError` naming the file for damaged YAML, an unknown key, a wrong type, or a
    `name` that is not the file's.
    """
    values = yaml_values(text, place)
    if values.setdefault("name", name) != name:
        raise UsageError(f"{place}: name is {values['name']!r} but the file is that of {name!r}")
    return make_spec(values, place)


def yaml_values(text: bytes, place: str) -> dict[str, Any]:
    """Return the keys and values of a config file; raises UsageError, naming the place."""
    values = read_yaml(text, place)
    if not isinstance(values, dict):
        raise UsageError(f"{place} must hold keys and values")
    return values


def make_spec(values: Mapping[str, Any], place: str) -> ModelSpec:
    """Return the spec that plain values describe; `place` is their place, for messages.

    A value `???` is one that the user gives. Raises `UsageError` for an unknown key, also inside
    `sampling` and `price`, with the nearest known one, and for a wrong type.
    """
    values = {name: value for name, value in values.items() if value != "???"}
    spec: ModelSpec = convert(values, ModelSpec, place)
    return spec
