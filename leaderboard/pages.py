"""Define the data of the site's pages: each struct is the content of one kind of data file.

Those of single instances and answers are published of open data only. Lists of them are cut into
shards, which `RunPage` names.

A file `data/<key>.js` calls `medhelmData(key, text)` with one of these as JSON. Values of tables
are in lists, never under names that data could choose. What is missing is null.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from medhelm.schema.score import Outcome
from medhelm.tables.format.table import ColumnType, Table, Value
from medhelm.tables.instances import JudgeReply, MetricLine
from medhelm.tables.published import Mark

SCHEMA: Literal["medhelm.site/4"] = "medhelm.site/4"


class PageColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a table, with how it is shown; see `tables.table.Column`."""

    name: str
    type: ColumnType
    description: str
    unit: str
    heading: str
    digits: int
    percent: bool
    low: str | None
    """Name of the column with the lower end of its interval."""
    high: str | None


class PageTable(msgspec.Struct, frozen=True, kw_only=True):
    """A table: rows are lists of values in the order of `columns`."""

    name: str
    title: str
    columns: tuple[PageColumn, ...]
    rows: tuple[tuple[Value, ...], ...]
    notes: tuple[str, ...]
    settings: tuple[tuple[str, Value], ...]


def page_table(table: Table) -> PageTable:
    """Return a table as pages take it: every column, every number as the table has it."""
    return PageTable(
        name=table.name,
        title=table.title,
        columns=tuple(
            PageColumn(
                name=c.name,
                type=c.type,
                description=c.description,
                unit=c.unit,
                heading=c.heading,
                digits=c.digits,
                percent=c.is_percent,
                low=c.interval[0] if c.interval else None,
                high=c.interval[1] if c.interval else None,
            )
            for c in table.columns
        ),
        rows=tuple(tuple(row[c.name] for c in table.columns) for row in table.rows),
        notes=table.notes,
        settings=tuple(table.settings.items()),
    )


class ModelCard(msgspec.Struct, frozen=True, kw_only=True):
    """A model as the site names it."""

    name: str
    weights: Literal["open", "closed", "none"]
    provider: str
    is_baseline: bool
    is_ranked: bool
    """False where it reads the gold, or where people answered."""
    reasoning: bool


class BenchmarkLine(msgspec.Struct, frozen=True, kw_only=True):
    """A benchmark as lists name it."""

    name: str
    title: str
    category: str
    subcategory: str
    access: str
    has_text: bool
    """True if its instances may be read on the site."""
    tasks: tuple[str, ...]


class PluginPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page that a plugin brings, where any run of the site is its own."""

    name: str
    title: str
    benchmarks: tuple[str, ...]
    """Those that it is about."""
    marks: tuple[Mark, ...]


class View(msgspec.Struct, frozen=True, kw_only=True):
    """A choice of filters and the set of benchmarks that it leaves."""

    scoring: str
    suite: str
    """Empty: all benchmarks."""
    access: str
    """public, gated, private; empty: all."""
    category: str
    key: str
    """Of the data file with its tables (`ViewPage`); several views may share one."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was left out, and why."""

    where: str
    what: str


class TaskLine(msgspec.Struct, frozen=True, kw_only=True):
    """A task of the taxonomy and the benchmarks of the site that cover it."""

    id: str
    title: str
    benchmarks: tuple[str, ...]


class SubcategoryLine(msgspec.Struct, frozen=True, kw_only=True):
    """A subcategory of the taxonomy."""

    id: str
    title: str
    tasks: tuple[TaskLine, ...]
    benchmarks: tuple[str, ...]


class CategoryLine(msgspec.Struct, frozen=True, kw_only=True):
    """A category of the taxonomy."""

    id: str
    title: str
    subcategories: tuple[SubcategoryLine, ...]


class ScoringPages(msgspec.Struct, frozen=True, kw_only=True):
    """The content of one scoring, with tables by key of their data file."""

    scoring: str
    tables: tuple[tuple[str, str], ...]
    """(name, key): benchmarks, mde, cost, jury, pairs, ranks, and those of plugins' pages.
    Content: `PageTable`."""
    benchmarks: tuple[tuple[str, str], ...]
    """(benchmark, key). Content: `BenchmarkPage`."""
    runs: tuple[tuple[str, str, str], ...]
    """(benchmark, model, key). Content: `RunPage`."""
    values: tuple[tuple[str, str], ...]
    """(page, key) of what else pages of plugins read. Content: as its plugin writes it."""
    made: str
    """Key of how and when each run was made. Content: a list of `RunLine`."""


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """The facts that are needed to make a run again, and when it was made."""

    benchmark: str
    model: str
    seed: int
    repeats: int
    state: str
    dataset_sha256: str
    prompt_sha256: str
    answered_from: str
    answered_until: str
    graded_at: str
    medhelm: str
    """Version that graded it, with the commit where it is known."""


class Download(msgspec.Struct, frozen=True, kw_only=True):
    """A table as a file."""

    title: str
    path: str
    format: str
    scoring: str


class SitePage(msgspec.Struct, frozen=True, kw_only=True):
    """`data/site.js`: what every page needs; read first."""

    schema: Literal["medhelm.site/4"] = SCHEMA
    title: str
    logo: str
    """Path of the picture beside the title; empty: none."""
    data: Literal["sample", "full"]
    medhelm: str
    built_at: str
    models: tuple[ModelCard, ...]
    benchmarks: tuple[BenchmarkLine, ...]
    offline_jury: tuple[str, ...]
    """Benchmarks rated by the offline stand-in."""
    pages: tuple[PluginPage, ...]
    incomplete: tuple[tuple[str, str], ...]
    """(benchmark, model) of runs that were stopped before their end."""
    taxonomy: tuple[CategoryLine, ...]
    views: tuple[View, ...]
    first_suite: str
    """The suite that is shown where none is chosen; empty: all benchmarks, which are of one."""
    scorings: tuple[ScoringPages, ...]
    problems: tuple[Problem, ...]
    agreement: str | None
    """Key of the table of agreement with clinicians, where ratings were given."""
    downloads: tuple[Download, ...]
    command: str
    """Command that builds the site anew."""


class ViewPage(msgspec.Struct, frozen=True, kw_only=True):
    """The overall tables of one set of benchmarks: ranked by either win rate."""

    benchmarks: tuple[str, ...]
    half: PageTable
    literal: PageTable
    categories: PageTable


class Histogram(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of instances of a model with a score in each bin. Bins have equal width."""

    model: str
    counts: tuple[int, ...]


class BenchmarkPage(msgspec.Struct, frozen=True, kw_only=True):
    """One benchmark under one scoring."""

    name: str
    title: str
    description: str
    category: str
    subcategory: str
    tasks: tuple[str, ...]
    access: str
    has_text: bool
    licence: str
    curation: str
    citation: str
    source: str
    version: str
    split: str
    dataset_sha256: str
    prompt_name: str
    prompt_version: str
    prompt_sha256: str
    instruction: str | None
    """None where it is not published."""
    cluster: str
    instances: int
    max_output_tokens: int
    metrics: tuple[tuple[str, str, float, float, float | None, bool, str], ...]
    """(name, version, minimum, maximum, floor, higher is better, aggregation); main one first."""
    jury: str | None
    rubric: tuple[tuple[str, str], ...]
    """(criterion, text)."""
    embedded: tuple[tuple[str, float | None], ...]
    """Scores of embedded answers (oracle, empty, ...) on the main metric, from the manifest."""
    scores: PageTable
    """Rows of `--table benchmarks --metrics all` of this benchmark."""
    bins: tuple[float, ...]
    """Edges of the histograms' bins."""
    histograms: tuple[Histogram, ...]


class JudgeLine(msgspec.Struct, frozen=True, kw_only=True):
    """A judge of a run's jury."""

    name: str
    judgements: tuple[tuple[str, int], ...]
    input_tokens: int
    output_tokens: int


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """One graded run: its settings, and a line of each instance and repeat in lists of one order.

    Ids are those of the source where text is published, else hashes of the whole instance.
    """

    benchmark: str
    model: str
    scoring: str
    folder: str
    request_hash: str
    grading_hash: str
    state: str
    instances: int
    settings: tuple[tuple[str, Value], ...]
    provenance: tuple[tuple[str, str], ...]
    served: tuple[tuple[str, int], ...]
    usage: tuple[tuple[str, int], ...]
    judges: tuple[JudgeLine, ...]
    metrics: tuple[str, ...]
    results: tuple[tuple[str, float | None, int, int], ...]
    """(metric, value, counted, scored)."""
    command: str
    """Command that makes the run again; empty where none can be told."""
    parts: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    """Legend of `outcome`."""
    ids: tuple[str, ...]
    repeat: tuple[int, ...]
    """Empty where each instance was asked once."""
    part: tuple[int, ...]
    """Places in `parts`, -1 for none; empty where the benchmark has none."""
    outcome: tuple[int, ...]
    """Outcome on the main metric: places in `outcomes`."""
    value: tuple[float | None, ...]
    """Score on the main metric."""
    answers: tuple[tuple[int, str], ...]
    """(first line, key) of the shards of answers (`AnswerLine` lists); empty where no text is
    published."""
    texts: tuple[tuple[int, str], ...]
    """(first place, key) of the benchmark's shards of instances (`InstanceLine` lists; null where
    no run that can be read has it)."""
    place: tuple[int, ...]
    """Place of each line's instance in those shards; empty: as in the lines."""
    note: str
    """The reason, where there is no text."""


Details = tuple[tuple[str, msgspec.Raw], ...]
"""(page, what it shows), as the page's plugin returned it."""


class InstanceLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One instance of a benchmark whose text may be published."""

    id: str
    context: str
    question: str
    choices: tuple[str, ...]
    references: tuple[str, ...]
    answer_key: tuple[tuple[str, str], ...]
    metadata: tuple[tuple[str, str], ...]
    criteria: tuple[tuple[str, str], ...]
    prompt: tuple[tuple[str, str], ...]
    """(role, content) as models are asked; empty where only baselines ran."""
    details: Details | UnsetType = UNSET
    """Of plugins' pages; absent where none shows anything."""
    gold: str | UnsetType = UNSET
    """The page whose detail shows the gold, in place of references and answer key."""


class AnswerLine(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One answer of a model."""

    text: str
    finish: str
    error: str
    extracted: str
    scores: tuple[MetricLine, ...]
    judges: tuple[JudgeReply, ...]
    latency_s: float
    input_tokens: int | None
    output_tokens: int | None
    prompt: tuple[tuple[str, str], ...] | None
    """The prompt, where it differs from the instance's."""
    details: Details | UnsetType = UNSET
    """Of plugins' pages; absent where none shows anything."""
    turns: tuple[tuple[str, str], ...] | UnsetType = UNSET
    """(who, text) of an episode of many calls, in order; absent of one with a single call."""
