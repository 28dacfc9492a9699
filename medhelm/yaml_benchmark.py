"""A YAML file of values -> the same `Benchmark` that a Python plugin declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
    options: dict[str, str] = {}
    """Options of every row: the label that `reference` holds -> the text that is shown."""
    questions: dict[str, str] = {}
    """What is asked for each value of the column `question`; empty: its text as it is."""
    cluster: str | None = None
    part: str | None = None
    """Column with one of `parts`."""
    metadata: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    """Those of the declared `columns` that a file may lack, or leave empty."""


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
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where it is built


def read_yaml_benchmark(path: Path) -> Benchmark:
    """Return the benchmark that a YAML file declares; raises PluginError naming file and key."""
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), _Loader)
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
        to_instance=_mapper(parsed, path),
        samples=samples if samples.is_file() else None,
        origin=str(path),
    )


def _nearest(message: str) -> str:
    text, _, place = message.partition(" - at ")
    if place.startswith("`key` in"):
        level = place.removeprefix("`key` in ").strip("`$.")
        return f'{level}: a key is no text; put it in quotes ("yes", not yes)'
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


def _mapper(values: _Yaml, path: Path) -> Callable[[Row], Instance]:
    _check_mapping(values, path)
    columns, declared = values.instance, values.columns
    required = [name for name in declared if name not in columns.optional]

    def text(row: Row, column: str | None) -> str:
        if column is None or (column in columns.optional and column not in row):
            return ""
        if column not in row:
            nearest = closest(column, row)
            did = f"; did you mean {nearest[0]!r}?" if nearest else ""
            raise DataError(f"no column {column!r} in the data{did}")
        value: Any = row[column]
        return "" if value is None else str(value)

    def to_instance(row: Row) -> Instance:
        if declared:
            _check_columns(row, declared, required)
        question = text(row, columns.question)
        if columns.questions and columns.question:
            question = columns.questions[_known(question, columns.question, columns.questions)]
        metadata = {c: text(row, c) for c in columns.metadata}
        if columns.part:
            metadata["part"] = _known(text(row, columns.part), columns.part, values.parts)
        return Instance(
            id=text(row, columns.id).strip(),
            context=text(row, columns.context),
            question=question,
            choices=tuple(columns.options.values()) or tuple(text(row, c) for c in columns.choices),
            references=reference(row),
            cluster=text(row, columns.cluster).strip() or None,
            metadata=metadata,
        )

    def reference(row: Row) -> tuple[str, ...]:
        if columns.gold_index is not None:
            return (_letter(text(row, columns.gold_index), len(columns.choices)),)
        gold = text(row, columns.reference)
        if columns.options and columns.reference:
            labels = [*columns.options]
            return (ascii_uppercase[labels.index(_known(gold, columns.reference, labels))],)
        return (gold,) if gold.strip() else ()

    return to_instance


def _check_mapping(values: _Yaml, path: Path) -> None:
    """Raise PluginError for keys of `instance` that do not go together."""
    columns = values.instance
    if (columns.gold_index is None) == (columns.reference is None):
        raise PluginError(f"{path}: instance needs either gold_index or reference")
    if columns.gold_index is not None and not columns.choices:
        raise PluginError(f"{path}: instance.gold_index needs instance.choices")
    if columns.options and (columns.choices or columns.reference is None):
        raise PluginError(f"{path}: instance.options needs instance.reference, and no choices")
    if len(columns.options) > len(ascii_uppercase):
        raise PluginError(f"{path}: instance.options has more than {len(ascii_uppercase)} labels")
    if columns.questions and columns.question is None:
        raise PluginError(f"{path}: instance.questions needs instance.question")
    if columns.part and not values.parts:
        raise PluginError(f"{path}: instance.part needs parts, the values of that column")
    if values.parts and not columns.part and "part" not in columns.metadata:
        raise PluginError(f"{path}: parts need instance.part, the column that names a row's part")
    for key, names in (("options", columns.options), ("questions", columns.questions)):
        if len({_plain(name) for name in names}) < len(names):
            raise PluginError(f"{path}: instance.{key}: two keys differ in case or blanks only")
    undeclared = [name for name in columns.optional if name not in values.columns]
    if values.columns:
        undeclared += [name for name in _used(columns) if name not in values.columns]
    if undeclared:
        raise PluginError(f"{path}: instance names {undeclared[0]!r}, which columns do not declare")


def _used(columns: _Mapping) -> list[str]:
    """Return the columns that a mapping reads."""
    texts = (columns.id, columns.context, columns.question, columns.cluster, columns.part)
    golds = (columns.gold_index, columns.reference)
    return [*filter(None, texts + golds), *columns.choices, *columns.metadata]


def _check_columns(row: Row, declared: Mapping[str, str], required: Iterable[str]) -> None:
    """Raise DataError for a row of a user's file that lacks a column or has an unknown one."""
    for name in required:
        if name not in row:  # the header may be missing: the names it has are not repeated
            raise DataError(f"there is no column {name!r}; the columns are {', '.join(declared)}")
        if row[name] is None or not str(row[name]).strip():
            raise DataError(f"column {name!r} is empty")
    for name in row:
        if name not in declared:
            raise DataError(f"unknown column {name[:40]!r}; the columns are {', '.join(declared)}")


def _known(cell: str, column: str, known: Iterable[str]) -> str:
    """Return which of the known values a cell holds, whatever its case and blanks around it."""
    names = [*known]
    for name in names:
        if _plain(name) == _plain(cell):
            return name
    raise DataError(f"column {column!r} must hold one of: {', '.join(names)}")


def _plain(text: str) -> str:
    return text.strip().casefold()


def _letter(index: str, n: int) -> str:
    letters = ascii_uppercase[:n]
    places = {str(i): letter for i, letter in enumerate(letters)}
    places |= {f"{i}.0": letter for i, letter in enumerate(letters)}  # a column read as floats
    if index not in places:
        raise DataError(f"gold_index {index[:20]!r} is not in 0..{n - 1}")
    return places[index]
