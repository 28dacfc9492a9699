"""A YAML file of values -> the same `Benchmark` that a Python plugin declares."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from string import ascii_uppercase
from typing import Any, get_type_hints

import msgspec

from medhelm.data.instance_ids import text_key
from medhelm.data.table_layout import TableLayout
from medhelm.errors import DataError, PluginError, closest
from medhelm.files.folders import beside
from medhelm.files.yaml_bounds import read_yaml
from medhelm.grading.jury.metric import NAME as JURY
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

    id: str | tuple[str, ...] = ()
    """A column; several are joined by a slash."""
    context: str | None = None
    question: str | None = None
    choices: str | tuple[str, ...] = ()
    """A column of each choice, or one column that holds their list, also as JSON text."""
    gold_index: str | None = None
    """Column with the index of the right choice."""
    index_from: int = 0
    """The index of the first choice."""
    reference: str | None = None
    """Column with the right letter or text."""
    options: dict[str, str] = {}
    """Options of every row: the label that `reference` holds -> the text that is shown."""
    questions: dict[str, str] = {}
    """The request for each value of the column `question`. Empty: its text as it is."""
    ask: str = ""
    """The request of a row whose column `question` is empty or absent; without that column of all rows."""
    cluster: str | tuple[str, ...] = ()
    """Column with the key of rows that belong together; where empty, the questions of one context do."""
    cluster_text: str | None = None
    """Column whose text, whatever its case and blanks, is the same in rows that belong together."""
    part: str | None = None
    """Column with one of `parts`."""
    metadata: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    """Those of the declared `columns` that a file may lack, or leave empty."""
    skip_empty: tuple[str, ...] = ()
    """Those whose empty cell leaves a row out."""
    strip: bool = False
    """True: blanks around a cell's text are taken off."""


class _Published(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Differences of the published table from the declared one."""

    columns: dict[str, str] = {}
    """The declared column -> its name there, for each column that it has."""
    labels: dict[str, str] = {}
    """A label there -> the label of `instance.options`."""
    skip_empty: tuple[str, ...] = ()
    """Further columns whose empty cell leaves a row out there."""


class _Own(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The keys from which a benchmark's dataset and its mapping of rows are made."""

    name: str
    dataset: _Dataset
    instance: _Mapping
    metrics: tuple[str, ...]
    rubric: str = ""
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
        to_instance=_Mapper(parsed, path).to_instance,
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


class _Mapper:
    """Makes instances of the rows of a file."""

    def __init__(self, values: _Own, path: Path) -> None:
        for fault in _faults(values):
            raise PluginError(f"{path}: {fault}")
        self.values, self.columns, self.published = values, values.instance, values.published
        can_be_empty = (*self.columns.optional, *self.columns.skip_empty)
        self.layout = TableLayout(
            columns=values.columns,
            optional=self.columns.optional,
            filled=[name for name in values.columns if name not in can_be_empty],
            published=self.published.columns,
        )

    def text(self, row: Row, column: str | None) -> str:
        if column is None or (column in self.values.columns and column not in row):
            return ""
        if column not in row:
            nearest = closest(column, row)
            did = f"; did you mean {nearest[0]!r}?" if nearest else ""
            raise DataError(f"no column {column!r} in the data{did}")
        value = "" if row[column] is None else str(row[column])
        return value.strip() if self.columns.strip else value

    def joined(self, row: Row, names: str | tuple[str, ...]) -> str:
        parts = [self.text(row, name).strip() for name in _listed(names)]
        return "/".join(parts) if any(parts) else ""

    def choices(self, row: Row) -> tuple[str, ...]:
        if not isinstance(self.columns.choices, str):
            of_columns = tuple(self.text(row, name) for name in self.columns.choices)
            return tuple(self.columns.options.values()) or of_columns
        self.text(row, self.columns.choices)  # refuses a column that the data lack
        listed = map(str, _list_in(row.get(self.columns.choices), self.columns.choices))
        return tuple(one.strip() if self.columns.strip else one for one in listed)

    def to_instance(self, row: Row) -> Instance | LeftOut:
        columns = self.columns
        names, labels, skipped = {}, {}, columns.skip_empty
        if self.layout.is_published(row):
            names, labels = self.published.columns, self.published.labels
            skipped += self.published.skip_empty
        for column in (names.get(name, name) for name in skipped):
            if column in row and (row[column] is None or not str(row[column]).strip()):
                return LeftOut(f"column {column} is empty")
        if self.values.columns:
            row = self.layout.read(row)
        question, shown = self.text(row, columns.question), self.choices(row)
        if columns.questions and columns.question:
            question = columns.questions[_known(question, columns.question, columns.questions)]
        part = {}
        if columns.part:
            named = self.text(row, columns.part)
            part = {"part": _known(named, columns.part, self.values.parts)}
        return Instance(
            id=self.joined(row, columns.id),
            context=self.text(row, columns.context),
            question=question if question.strip() else columns.ask,
            choices=shown,
            references=self.reference(row, labels, len(shown)),
            cluster=self.cluster(row),
            metadata=part | {c: self.text(row, c) for c in columns.metadata},
        )

    def cluster(self, row: Row) -> str | None:
        if self.columns.cluster_text:
            text = self.text(row, self.columns.cluster_text)
            return text_key(text) if text.strip() else None
        shares_context = self.columns.cluster and self.columns.question
        of_context = _context_key(self.text(row, self.columns.context)) if shares_context else None
        return self.joined(row, self.columns.cluster) or of_context

    def reference(self, row: Row, labels: Mapping[str, str], n: int) -> tuple[str, ...]:
        if self.columns.gold_index is not None:
            index = self.text(row, self.columns.gold_index)
            return (_letter(index, self.columns.gold_index, self.columns.index_from, n),)
        gold = self.text(row, self.columns.reference)
        if self.columns.options and self.columns.reference:
            options = [*self.columns.options]
            known = {**{name: name for name in options}, **labels}
            label = known[_known(gold, self.columns.reference, known)]
            return (ascii_uppercase[options.index(label)],)
        return (gold,) if gold.strip() else ()


def _list_in(cell: Any, column: str) -> list[Any]:
    """Return the list that a cell is, or holds as JSON; raises DataError."""
    try:
        found = json.loads(cell) if isinstance(cell, str) else cell
    except ValueError:
        found = None
    if not isinstance(found, list) or not found:
        raise DataError(f"column {column!r} holds no list of choices")
    return found


def _context_key(context: str) -> str | None:
    words = " ".join(context.split())
    return hashlib.sha256(words.encode()).hexdigest()[:16] if words else None


def _faults(values: _Own) -> Iterator[str]:
    columns, published = values.instance, values.published
    golds = [*filter(None, (columns.gold_index, columns.reference))]
    if len(golds) > 1 or not (golds or JURY in values.metrics[:1]):
        yield f"instance needs either gold_index or reference; neither only where metrics begin with {JURY}"
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
    single = (columns.context, columns.question, columns.part, columns.cluster_text)
    golds = (columns.gold_index, columns.reference)
    several = (columns.id, columns.cluster, columns.choices, columns.metadata, columns.skip_empty)
    return [*filter(None, single + golds), *(name for names in several for name in _listed(names))]


def _listed(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def _known(cell: str, column: str, known: Iterable[str]) -> str:
    """Return which of the known values a cell holds, whatever its case and blanks around it."""
    names = [*known]
    for name in names:
        if _folded(name) == _folded(cell):
            return name
    raise DataError(f"column {column!r} must hold one of: {', '.join(names)}")


def _folded(text: str) -> str:
    return text.strip().casefold()


def _letter(index: str, column: str, first: int, n: int) -> str:
    numbers = range(first, first + n)
    for number, letter in zip(numbers, ascii_uppercase, strict=False):
        if index in (str(number), f"{number}.0"):  # a column read as floats
            return letter
    raise DataError(
        f"column {column!r}: gold_index {index[:20]!r} is not in {first}..{numbers[-1]}"
    )
