"""Runs and their records: all that decides one, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec

from medhelm.schema.asking import Asking
from medhelm.schema.data import PART, AnswerKind, DataClass, Rubric
from medhelm.schema.episode import SCHEMA, of_threads
from medhelm.schema.model import ModelSpec
from medhelm.schema.score import IntervalKind, Outcome, Scoring

Positive = Annotated[int, msgspec.Meta(ge=1)]
NotEmpty = Annotated[str, msgspec.Meta(min_length=1)]


class RunSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that decides one run: benchmark x model x settings."""

    benchmark: str
    benchmark_version: str
    data: Literal["sample", "full"]
    split: str = ""
    dataset_sha256: str
    prompt_name: str = ""
    prompt_version: str = ""
    prompt_sha256: str = ""
    """Hash of template, instruction and system prompt together."""
    model: ModelSpec
    max_output_tokens: int
    repeats: int = 1
    seed: int = 0
    max_instances: int | None = None
    """First N by a seeded hash of the ids; not part of the request hash."""
    protocol: str = ""
    """The protocol, where an episode is more than one call."""
    protocol_version: str = "1"
    cast: dict[str, ModelSpec] = {}
    """The models of the other roles. The first role is `model`'s."""
    settings: dict[str, Any] = {}
    """The protocol's settings that differ from its defaults."""
    strategies: dict[str, str] = {}
    """Versions of the strategies of roles that have one, but for the first version."""
    variant: str = ""
    """The form in which a robustness run asks the questions again; empty: as they are."""
    asking: Asking | None = None
    """The way to ask it where that is not as the benchmark declares."""
    answer: AnswerKind | None = None
    """The kind of the answer, by which a form of it is read; None: as the benchmark declares, where the
    metric reads."""
    examples: tuple[str, ...] = ()
    """Ids of the drawn examples, in the order in which they are shown."""
    examples_sha256: str = ""
    """Hash of the file or split that the examples are drawn from."""

    @property
    def column(self) -> str:
        """Return the benchmark's name in tables: with the split, where it is a part of the published set."""
        is_part = self.data == "full" and self.split.startswith(PART)
        return f"{self.benchmark}.{self.split}" if is_part else self.benchmark

    @property
    def names(self) -> tuple[str, str]:
        """Return the names by which a user may choose the benchmark of a run."""
        return self.benchmark, self.column


class MetricRef(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A metric as tables need it: everything but its code."""

    name: str
    version: str
    scoring: Scoring
    minimum: float
    maximum: float
    floor: float | None
    higher_is_better: bool
    aggregation: str
    interval: IntervalKind = "auto"


class JurySpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The judges who rate free text. Without any: the offline graders, a stand-in."""

    name: NotEmpty
    judges: tuple[ModelSpec, ...] = ()
    quorum: Positive = 2
    """Number of verdicts that a score needs; with fewer, the instance is unscored."""
    repairs: Annotated[int, msgspec.Meta(ge=0, le=5)] = 2
    """Times that a judge's unreadable reply is requested again."""
    reasons: bool = True
    """True if judges give a short reason for each score."""
    max_output_tokens: Positive = 1024
    reasoning_output_tokens: Positive = 8192


class JuryTerms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The jury, what it rates, and by which version of the judges' prompt (or of the offline graders)."""

    jury: JurySpec
    rubric: Rubric
    version: str
    instruction: str = ""
    """The model's instruction, as the judges are shown it."""


class GraderTerms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A grader, its settings, and who judges for it. Without judges: its rule, a stand-in."""

    grader: str
    version: str
    jury: JurySpec
    settings: dict[str, Any] = {}
    """The grader's settings that differ from its defaults."""
    metrics: tuple[str, ...] = ()
    """Names of the metrics that rest on its verdicts."""


class GradingSpec(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """All that decides how stored responses are graded. The first metric is the main one."""

    scoring: Scoring
    metrics: tuple[MetricRef, ...]
    parts: tuple[str, ...] = ()
    """Parts of the benchmark, in the order of the statistics of `mean_of_parts`."""
    jury: JuryTerms | None = None
    """None where no metric needs one."""
    graders: tuple[GraderTerms, ...] = ()
    """The graders of the metrics, in order of name."""
    reader: GraderTerms | None = None
    """The model that reads what the rules could not; None where only they read."""

    @property
    def judged_by(self) -> tuple[JuryTerms | GraderTerms, ...]:
        """Return what models are asked for: a jury's ratings, what each grader asks, then readings."""
        own = (self.jury, *self.graders, self.reader)
        return tuple(terms for terms in own if terms is not None)

    @property
    def raters(self) -> JurySpec | None:
        """Return who judges, as a jury or for graders; None where nobody does."""
        rated = (terms.jury for terms in self.judged_by if terms is not self.reader)
        return next(rated, None)

    @property
    def judges(self) -> tuple[ModelSpec, ...]:
        """Return the models that judge, and the one that reads."""
        own = self.reader.jury.judges if self.reader is not None else ()
        return (*(self.raters.judges if self.raters is not None else ()), *own)

    def is_graded(self, metric: str) -> bool:
        """Return whether a metric rests on the verdicts of a grader."""
        return any(metric in own.metrics for own in self.graders)


class MetricResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One metric over one run. The interval is computed by the tables.

    Counts are of instances x repeats.
    """

    metric: str
    value: float | None
    """None where no instance has a value."""
    counted: int
    """Answers in the value: scored ones and those that count with the floor."""
    scored: int
    outcomes: dict[Outcome, int]
    cut: int | None = None
    """Scored ones that ended at the output budget. None: graded before it was counted."""
    refused_in_words: int | None = None
    """Unparsed ones that look like refusals. None: graded before they were counted."""


class UsageTotals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Usage summed over a run. `unknown` counts answered requests whose usage was not reported."""

    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    unknown: int = 0
    lost: int = 0
    output_limit_tokens: int = 0
    """Output tokens if every answer had used its whole budget (the paper's upper bound)."""
    batch_input_tokens: int = 0
    """Of all of these, those of requests in batches, which have a price of their own; so the next two."""
    batch_cached_tokens: int = 0
    batch_output_tokens: int = 0


JUDGE = "judge"
"""The role of the models of a jury."""
READER = "reader"
"""The role, and the grader's name, of the model that reads what the rules could not."""


class Party(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Usage of one model that was asked in a run, repairs and repeated tries included."""

    role: str
    model: ModelSpec
    usage: UsageTotals
    served_models: dict[str, int]
    """Model ids and fingerprints as served, with counts; more than one means drift."""
    served_at: dict[str, int] = {}
    """The same behind the address that answered, of a model with several."""
    is_grader: bool = False
    """True if it graded answers, and took no part in the episodes."""
    ends: dict[str, int] = {}
    """A grader's judgements by outcome ('scored', 'unreadable', 'refused', 'error', ...)."""


FALSE_POSITIVE, FALSE_NEGATIVE = "false positive", "false negative"


class ControlCount(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Verdicts on answers whose verdicts are known, of one judge or of all together."""

    grader: str
    judge: str = ""
    """Empty: what more than half of several judges say."""
    what: str
    """false positive: of the verdicts that should be no, the wrong ones. false negative: of those that should
    be yes."""
    cases: int
    """Those with a valid verdict."""
    wrong: int
    verdicts: int
    """Valid ones."""
    invalid: int
    """Those that were due and are no valid ones: in no share."""
    squares: tuple[int, int, int]
    """Sums over cases of wrong^2, wrong * verdicts and verdicts^2, of which the variance of the share is made."""
    kinds: dict[str, dict[str, int]]
    """The same sums by the kind of the control: empty, other, right."""


class BenchmarkCard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The facts of a benchmark that reporting needs without loading its plugin."""

    name: str
    title: str
    category: str = ""
    subcategory: str = ""
    data_class: DataClass
    redistributable: bool = False
    licence: str = ""
    curation: str = ""
    citation: str = ""
    cluster: str = ""
    description: str = ""
    instruction: str = ""
    tasks: tuple[str, ...] = ()
    source: str = ""
    """Source of the data, for people."""
    plugin: str = ""
    """File that declares the benchmark, with the start of its sha256."""
    reference_part: str = ""
    """The part of the benchmark that the others are compared with."""
    public_since: str = ""
    """Date on which the test items became public: YYYY, YYYY-MM or YYYY-MM-DD; empty: not known or not public."""


@of_threads
class RunRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`summary.json`: one graded run."""

    schema: int = SCHEMA
    spec: RunSpec
    request_hash: str
    grading: GradingSpec
    grading_hash: str
    card: BenchmarkCard
    state: Literal["complete", "partial"]
    """partial: the run was stopped before every planned instance had its outcome."""
    instances: int
    """Planned instances (each asked `spec.repeats` times)."""
    left_out: dict[str, int] = {}
    """Rows of the data that the benchmark leaves out, by reason."""
    results: tuple[MetricResult, ...]
    parties: tuple[Party, ...]
    """All models that were asked: the one under test first, the rest of the cast, the graders."""
    controls: tuple[ControlCount, ...] = ()
    """Verdicts of judges on answers whose verdicts are known; empty: they were asked about none."""
    provenance: dict[str, str]
    """Versions, dates, machine class: recorded, never hashed."""

    @property
    def column_card(self) -> BenchmarkCard:
        """Return the card under the name that tables give the benchmark."""
        if self.spec.column == self.card.name:
            return self.card
        title = f"{self.card.title}, {self.spec.split}"
        return msgspec.structs.replace(self.card, name=self.spec.column, title=title)

    @property
    def own(self) -> Party:
        """Return the model under test."""
        return self.parties[0]

    @property
    def others(self) -> tuple[Party, ...]:
        """Return the models of the other roles of the cast."""
        return tuple(p for p in self.parties[1:] if not p.is_grader)

    @property
    def graders(self) -> tuple[Party, ...]:
        """Return the models that graded the answers."""
        return tuple(p for p in self.parties if p.is_grader)


@dataclass(frozen=True, kw_only=True)
class EndedRun:
    """Names, hashes and numbers of a run: no text of data, prompts or answers, no address and no path."""

    id: str
    """16 hex digits, the same each time that a command ends with this run and grading."""
    name: str
    settings: Mapping[str, str | int | float | None]
    """Values that decide `id`: never another one under the same."""
    numbers: Mapping[str, float]
    """Each score under its metric's name with `METRIC.low`, `.high` and `.n`; coverage, outcomes, tokens, USD. What is
    not known is not there."""


Tracker = Callable[[EndedRun], None]
"""Receives each finished run."""


def fields_of(record: object, *names: str) -> dict[str, Any]:
    """Return these fields of a record, by name and in this order."""
    return {name: getattr(record, name) for name in names}
