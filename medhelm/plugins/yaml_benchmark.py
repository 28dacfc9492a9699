"""A YAML file of values -> the same `Benchmark` that a Python plugin declares."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from string import ascii_uppercase
from typing import Any, get_type_hints

import msgspec

from medhelm.data.table_layout import TableLayout
from medhelm.errors import DataError, PluginError, closest
from medhelm.files.folders import beside
from medhelm.files.yaml_bounds import read_yaml
from medhelm.schema.data import (
    Benchmark,
    FileDataset,
    HubDataset,
    Instance,
    LeftOut,
    Row,
    SourceFile,
)
from medhelm.schema.type_errors import explain


class _Dataset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    hub: str | None = None
    revision: str | None = None
    config: str | None = None
    split: str = "test"
    splits: tuple[str, ...] = ()
    """The splits of `files`, the default first; empty: `split` alone."""
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
    """The request for each value of the column `question`. Empty: its text as it is."""
    ask: str = ""
    """The request of a row whose column `question` is empty or absent."""
    cluster: str | None = None
    """Column with the key of rows that belong together; where empty, rows of one context do."""
    part: str | None = None
    """Column with one of `parts`."""
    metadata: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    """Those of the declared `columns` that a file may lack, or leave empty."""


class _Published(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Differences of the published table from the declared one."""

    columns: dict[str, str] = {}
    """The declared column -> its name there, for each column that it has."""
    labels: dict[str, str] = {}
    """A label there -> the label of `instance.options`."""
    skip_empty: tuple[str, ...] = ()
    """Declared columns whose empty cell leaves a row out there."""


class _Own(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The keys from which a benchmark's dataset and its mapping of rows are made."""

    name: str
    dataset: _Dataset
    instance: _Mapping
    metrics: tuple[str, ...]
    prompt: str = "multiple_choice"
    """Name of a template: one of its own needs a Python plugin."""
    columns: dict[str, str] = {}
    parts: tuple[str, ...] = ()
    published: _Published = _Published()


_NOT_VALUES = frozenset({"to_instance", "phrasings", "items", "row_findings", "samples", "origin"})
"""Fields of a benchmark that hold code, or what the registry fills."""


def _declared() -> type[_Own]:
    """Return the form of a file: besides `_Own` all fields of a benchmark that are values."""
    known = {*_Own.__struct_fields__, *_NOT_VALUES}
    types = get_type_hints(Benchmark)
    more: list[Any] = []
    for f in fields(Benchmark):
        if f.name in known:
            continue
        default: Any = f.default
        factory: Any = f.default_factory
        if factory is not MISSING:
            default = msgspec.field(default_factory=factory)
        more.append((f.name, types[f.name], *([] if default is MISSING else [default])))
    form: Any = msgspec.defstruct("_Declared", more, bases=(_Own,), frozen=True, kw_only=True)
    made: type[_Own] = form
    return made


_FORM = _declared()
_MADE = frozenset({"dataset", "instance", "published"})
_FILES = "files: [{name: notes.csv}]"


def read_yaml_benchmark(path: Path) -> Benchmark:
    """Return the benchmark that a YAML file declares; raises PluginError naming file and key."""
    try:
        parsed = msgspec.convert(read_yaml(path.read_bytes(), str(path), PluginError), _FORM)
    except msgspec.ValidationError as e:
        what = explain(e, _FORM)
        example = f"; write {_FILES}" if what.startswith("dataset.files") else ""
        raise PluginError(f"{path}: {what}{example}") from None
    if parsed.name != path.stem:
        raise PluginError(f"{path}: the name {parsed.name!r} must equal the file's name")
    same = {f: getattr(parsed, f) for f in parsed.__struct_fields__ if f not in _MADE}
    return Benchmark(
        **same,
        dataset=_dataset(parsed.dataset, path),
        to_instance=_mapper(parsed, path),
        samples=beside(path, "samples", f"{parsed.name}.jsonl"),
        origin=str(path),
    )


def _dataset(values: _Dataset, path: Path) -> FileDataset:
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
    splits = values.splits or (values.split,)
    return FileDataset(files=values.files, splits=splits, source=values.source)


def _mapper(values: _Own, path: Path) -> Callable[[Row], Instance | LeftOut]:
    for fault in _faults(values):
        raise PluginError(f"{path}: {fault}")
    columns, published = values.instance, values.published
    layout = TableLayout(
        columns=values.columns,
        optional=columns.optional,
        filled=[name for name in values.columns if name not in columns.optional],
        published=published.columns,
    )

    def text(row: Row, column: str | None) -> str:
        if column is None or (column in values.columns and column not in row):
            return ""
        if column not in row:
            nearest = closest(column, row)
            did = f"; did you mean {nearest[0]!r}?" if nearest else ""
            raise DataError(f"no column {column!r} in the data{did}")
        value: Any = row[column]
        return "" if value is None else str(value)

    def to_instance(row: Row) -> Instance | LeftOut:
        labels: Mapping[str, str] = {}
        if values.columns:
            if layout.is_published(row):
                labels = published.labels
                for column in (published.columns[name] for name in published.skip_empty):
                    if row[column] is None or not str(row[column]).strip():
                        return LeftOut(f"column {column} is empty")
            row = layout.read(row)
        question = text(row, columns.question)
        if columns.questions and columns.question:
            question = columns.questions[_known(question, columns.question, columns.questions)]
        metadata = {c: text(row, c) for c in columns.metadata}
        if columns.part:
            metadata["part"] = _known(text(row, columns.part), columns.part, values.parts)
        return Instance(
            id=text(row, columns.id).strip(),
            context=text(row, columns.context),
            question=question if question.strip() else columns.ask,
            choices=tuple(columns.options.values()) or tuple(text(row, c) for c in columns.choices),
            references=reference(row, labels),
            cluster=_cluster(text(row, columns.cluster), text(row, columns.context), columns),
            metadata=metadata,
        )

    def reference(row: Row, labels: Mapping[str, str]) -> tuple[str, ...]:
        if columns.gold_index is not None:
            return (_letter(text(row, columns.gold_index), len(columns.choices)),)
        gold = text(row, columns.reference)
        if columns.options and columns.reference:
            options = [*columns.options]
            known = {**{name: name for name in options}, **labels}
            label = known[_known(gold, columns.reference, known)]
            return (ascii_uppercase[options.index(label)],)
        return (gold,) if gold.strip() else ()

    return to_instance


def _cluster(value: str, context: str, columns: _Mapping) -> str | None:
    """Return the key of the rows that belong together; where it is not given, those of one context."""
    if columns.cluster is None or value.strip():
        return value.strip() or None
    words = " ".join(context.split())
    return hashlib.sha256(words.encode()).hexdigest()[:16] if words else None


def _faults(values: _Own) -> Iterator[str]:
    columns, published = values.instance, values.published
    if (columns.gold_index is None) == (columns.reference is None):
        yield "instance needs either gold_index or reference"
    if columns.gold_index is not None and not columns.choices:
        yield "instance.gold_index needs instance.choices"
    if columns.options and (columns.choices or columns.reference is None):
        yield "instance.options needs instance.reference, and no choices"
    if len(columns.options) > len(ascii_uppercase):
        yield f"instance.options has more than {len(ascii_uppercase)} labels"
    if columns.questions and columns.question is None:
        yield "instance.questions needs instance.question"
    if columns.part and not values.parts:
        yield "instance.part needs parts, the values of that column"
    if values.parts and not columns.part and "part" not in columns.metadata:
        yield "parts need instance.part, the column that names a row's part"
    for key, names in (("options", columns.options), ("questions", columns.questions)):
        if len({_folded(name) for name in names}) < len(names):
            yield f"instance.{key}: two keys differ in case or blanks only"
    if columns.ask and columns.question is None:
        yield (
            "instance.ask needs instance.question, the column that it stands in for; a question "
            "that is the same for every row is `instruction`"
        )
    for key, named, known in (
        ("columns", published.columns, values.columns),
        ("labels", published.labels.values(), columns.options),
        ("skip_empty", published.skip_empty, published.columns),
    ):
        for name in (name for name in named if name not in known):
            yield f"published.{key} names {name!r}; known are {', '.join(known)}"
    used = _used(columns) if values.columns else ()
    for name in (name for name in (*columns.optional, *used) if name not in values.columns):
        yield f"instance names {name!r}, which columns do not declare"


def _used(columns: _Mapping) -> list[str]:
    texts = (columns.id, columns.context, columns.question, columns.cluster, columns.part)
    golds = (columns.gold_index, columns.reference)
    return [*filter(None, texts + golds), *columns.choices, *columns.metadata]


def _known(cell: str, column: str, known: Iterable[str]) -> str:
    """Return which of the known values a cell holds, whatever its case and blanks around it."""
    names = [*known]
    for name in names:
        if _folded(name) == _folded(cell):
            return name
    raise DataError(f"column {column!r} must hold one of: {', '.join(names)}")


def _folded(text: str) -> str:
    return text.strip().casefold()


def _letter(index: str, n: int) -> str:
    letters = ascii_uppercase[:n]
    places = {str(i): letter for i, letter in enumerate(letters)}
    places |= {f"{i}.0": letter for i, letter in enumerate(letters)}  # a column read as floats
    if index not in places:
        raise DataError(f"gold_index {index[:20]!r} is not in 0..{n - 1}")
    return places[index]
