"""Threshold profiles: the least that a model must reach, from `conf/profile` or a user's file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml

from medhelm.config import Share, convert
from medhelm.errors import UnknownName, UsageError
from medhelm.files.durable import why
from medhelm.files.yaml_bounds import packaged_files, read_yaml
from medhelm.schema.run import NotEmpty

_SUFFIXES = (".yaml", ".yml")


class Threshold(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The threshold of one metric: one of `minimum` and `maximum`, in the metric's units."""

    benchmark: NotEmpty
    metric: NotEmpty | None = None
    """None: the benchmark's main metric."""
    minimum: float | None = None
    """For metrics of which more is better."""
    maximum: float | None = None
    """For metrics of which less is better."""


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    description: NotEmpty
    max_false_positives: Share = 0.10
    thresholds: Annotated[list[Any], msgspec.Meta(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A set of thresholds and the file that they were read from."""

    name: str
    """The packaged name, or the path that was asked for."""
    description: str
    thresholds: tuple[Threshold, ...]
    max_false_positives: float = 0.10
    """The most that the upper bound of judges' false positives on controls may be."""
    sha256: str
    """Of the file's bytes."""

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """Names of the benchmarks, each once."""
        return tuple(dict.fromkeys(t.benchmark for t in self.thresholds))


def packaged_profiles() -> dict[str, Profile]:
    """Return the profiles that come with medhelm, by name."""
    return {name: read_profile(name) for name in profile_names()}


def profile_names() -> list[str]:
    """Return the names of the profiles that come with medhelm."""
    return [*packaged_files("profile")]


def read_profile(name: str | Path) -> Profile:
    """Return a packaged profile by name, or the one of a file: a `Path`, a name with a folder or .yaml.

    Raises UnknownName, and UsageError with file, threshold and key where the file is not as it
    should be.
    """
    if isinstance(name, Path) or name.endswith(_SUFFIXES) or os.path.dirname(name):
        try:
            return _parse(Path(name).read_bytes(), str(name), str(name))
        except OSError as e:
            hint = f"; did you mean {Path(name).stem!r}, which needs no file?"
            hint = hint if Path(name).stem in profile_names() else ""
            raise UsageError(f"profile {name} cannot be read: {why(e)}{hint}") from None
    known = packaged_files("profile")
    if name not in known:
        hint = "`medhelm list profiles` shows all; the name of a file of your own ends in .yaml."
        raise UnknownName("profile", name, known, hint)
    return _parse(known[name].read_bytes(), name, f"conf/profile/{name}.yaml")


def _parse(content: bytes, name: str, where: str) -> Profile:
    where = f"profile {where}"
    values = _load(content, where)
    if not isinstance(values, dict):
        what = "is empty" if values is None else "holds no keys"
        raise UsageError(f"{where} {what}; it needs description and thresholds")
    file: _File = convert(values, _File, where)
    thresholds = []
    for place, value in enumerate(file.thresholds, 1):
        own: Threshold = convert(value, Threshold, f"{where}: threshold {place}")
        if (own.minimum is None) == (own.maximum is None):
            raise UsageError(
                f"{where}: threshold {place} ({own.benchmark}) needs either minimum or maximum"
            )
        thresholds.append(own)
    return Profile(
        name=name,
        description=" ".join(file.description.split()),
        thresholds=tuple(thresholds),
        max_false_positives=file.max_false_positives,
        sha256=hashlib.sha256(content).hexdigest(),
    )


class _StrictLoader(yaml.SafeLoader):
    """Refuse a key that occurs twice, of which YAML would take the last and say nothing, and one
    that is not a text: of `minimum: 0,5` between braces YAML makes the keys minimum and 5."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key for key, _ in node.value] if isinstance(node, yaml.MappingNode) else []
        for place, key in enumerate(keys):
            if any(key.value == other.value for other in keys[:place]):
                raise _WrongKey(key.value, key.start_mark.line + 1, "is there twice")
            if isinstance(key, yaml.ScalarNode) and key.tag not in _KEY_TAGS:
                why = "is not a name (decimals have a point, not a comma)"
                raise _WrongKey(key.value, key.start_mark.line + 1, why)
        found: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return found


_KEY_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")


class _WrongKey(Exception):
    """A key that a profile cannot have: the key, its line, why."""


def _load(content: bytes, where: str) -> Any:
    try:
        return read_yaml(content, where, loader=_StrictLoader)
    except _WrongKey as e:
        key, line, why = e.args
        raise UsageError(f"{where}: the key {key!r} in line {line} {why}") from None
