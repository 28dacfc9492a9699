"""A YAML file of values -> the same `Benchmark` that a Python plugin declares."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Literal

import msgspec
import yaml

from medhelm.errors import DataError, PluginError, closest
from medhelm.schema import (
    AnswerKind,
    Benchmark,
    DataClass,
    FileDataset,
    HubDataset,
    Instance,
    Row,
    SourceFile,
)


class _Dataset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    hub: str | None = None
    revision: str | None = None
    config: str | None = None
    split: str = "test"
    files: tuple[SourceFile, ...] = ()
    source: str = ""


class _Mapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names of columns."""

    id: str | None = None
    context: str | None = None
    question: str | None = None
    choices: tuple[str, ...] = ()
    gold_index: str | None = None
    """Column with the zero-based index of the right choice."""
    reference: str | None = None
    """Column with the right letter or text."""
    cluster: str | None = None
    metadata: tuple[str, ...] = ()


class _Yaml(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    subcategory: str
    dataset: _Dataset
    instance: _Mapping
    metrics: tuple[str, ...]
    prompt: str = "multiple_choice"
    instruction: str = ""
    version: str = "1"
    title: str = ""
    description: str = ""
    tasks: tuple[str, ...] = ()
    answer: AnswerKind = "choice"
    labels: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    rubric: str = ""
    columns: dict[str, str] = {}
    how_to_get: tuple[str, ...] = ()
    max_output_tokens: int = 256
    reasoning_output_tokens: int = 8192
    data_class: DataClass = "public"
    redistributable: bool = False
    curation: Literal["existing", "formulated", "new"] = "existing"
    licence: str = "unknown"
    citation: str = ""
    expected_instances: dict[str, int] = {}
    cluster: str = ""


_LEVELS: dict[str, type[msgspec.Struct]] = {
    "dataset": _Dataset,
    "instance": _Mapping,
}
_FILES = "files: [{name: notes.csv}]"


def read_yaml_benchmark(path: Path) -> Benchmark:
    """Return the benchmark that a YAML file declares; raises PluginError naming file and key."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        parsed = msgspec.convert(values, _Yaml)
    except msgspec.ValidationError as e:
        raise PluginError(f"{path}: {_nearest(str(e))}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as e:
        mark = getattr(e, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        raise PluginError(f"{path}: not readable as YAML{line}") from None
    if parsed.name != path.stem:
        raise PluginError(f"{path}: the name {parsed.name!r} must equal the file's name")
    samples = path.parent / "samples" / f"{parsed.name}.jsonl"
    same = {
        f: getattr(parsed, f) for f in parsed.__struct_fields__ if f not in ("dataset", "instance")
    }
    return Benchmark(
        **same,
        dataset=_dataset(parsed.dataset, path),
        to_instance=_mapper(parsed.instance, path),
        samples=samples if samples.is_file() else None,
        origin=str(path),
    )


def _nearest(message: str) -> str:
    text, _, place = message.partition(" - at ")
    level = place.strip("`$.")
    if "unknown field" in text:
        name = text.split("`")[1]
        known = _LEVELS.get(level, _Yaml).__struct_fields__
        prefix = f"{level}." if level else ""
        nearest = closest(name, known)
        did = f"did you mean {prefix + nearest[0]!r}?" if nearest else f"keys: {', '.join(known)}"
        return f"unknown key {prefix + name!r}; {did}"
    example = f"; write {_FILES}" if level.startswith("dataset.files") else ""
    return f"{level or 'file'}: {text[0].lower()}{text[1:]}{example}"


def _dataset(values: _Dataset, path: Path) -> FileDataset | HubDataset:
    if bool(values.hub) == bool(values.files):
        raise PluginError(
            f"{path}: dataset needs either hub (with revision) or files, such as {_FILES}"
        )
    if values.hub:
        if not values.revision:
            raise PluginError(f"{path}: dataset.revision is missing; pin a commit of {values.hub}")
        return HubDataset(
            values.hub, revision=values.revision, config=values.config, splits=(values.split,)
        )
    return FileDataset(files=values.files, splits=(values.split,), source=values.source)


def _mapper(columns: _Mapping, path: Path) -> Callable[[Row], Instance]:
    if (columns.gold_index is None) == (columns.reference is None):
        raise PluginError(f"{path}: instance needs either gold_index or reference")
    if columns.gold_index is not None and not columns.choices:
        raise PluginError(f"{path}: instance.gold_index needs instance.choices")

    def text(row: Row, column: str | None) -> str:
        if column is None:
            return ""
        if column not in row:
            nearest = closest(column, row)
            did = f"; did you mean {nearest[0]!r}?" if nearest else ""
            raise DataError(f"no column {column!r} in the data{did}")
        value: Any = row[column]
        return "" if value is None else str(value)

    def to_instance(row: Row) -> Instance:
        if columns.gold_index is not None:
            reference = _letter(text(row, columns.gold_index), len(columns.choices), path)
        else:
            reference = text(row, columns.reference)
        return Instance(
            id=text(row, columns.id),
            context=text(row, columns.context),
            question=text(row, columns.question),
            choices=tuple(text(row, c) for c in columns.choices),
            references=(reference,) if reference.strip() else (),
            cluster=text(row, columns.cluster) or None,
            metadata={c: text(row, c) for c in columns.metadata},
        )

    return to_instance


def _letter(index: str, n: int, path: Path) -> str:
    letters = ascii_uppercase[:n]
    places = {str(i): letter for i, letter in enumerate(letters)}
    places |= {f"{i}.0": letter for i, letter in enumerate(letters)}  # a column read as floats
    if index not in places:
        raise DataError(f"gold_index {index[:20]!r} is not in 0..{n - 1}")
    return places[index]
