"""Every data type that crosses a module border, in the order in which data flows.

    Benchmark -> Instance -> Request -> Response -> Score -> RunRecord -> Tables

What is written to disk is a frozen msgspec struct, the rest a frozen dataclass.
`SCHEMA` is the version of the records; a reader of an older one migrates or refuses.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

SCHEMA = 1

Row = Mapping[str, Any]
"""One record of a data file, as its reader yields it."""

DataClass = Literal["public", "gated", "private"]
"""Who may read a benchmark's data: anyone, those with a data agreement, the owner only."""

EndpointClass = Literal["local", "contracted", "external"]
"""Where a model runs: this machine, a party under contract, or anyone else."""

Outcome = Literal[
    "scored",
    "unparsed",
    "empty",
    "refused",
    "truncated",
    "oversize",
    "error",
    "unscored",
    "uninformative",
]
"""How one instance ended.

scored: an answer was read and scored. unparsed: text came, no answer could be read.
empty: no text came. refused: the endpoint said so. truncated: nothing could be read
because the output budget ended. oversize: the prompt exceeds the model's window.
error: infrastructure. unscored: the answer is there, but no score can be given (a jury
below its quorum). uninformative: the gold of this instance cannot tell right from wrong,
whatever the model answers; it does not count against coverage.
"""

FLOORED: frozenset[Outcome] = frozenset({"unparsed", "empty", "refused", "truncated"})
"""Outcomes that count with the metric's floor. The others but `scored` are in no mean."""

Finish = Literal["stop", "length", "refusal", "oversize", "error"]
"""Why a response ended: by itself, at the budget, by a refusal, or it never came."""

AnswerKind = Literal["choice", "number", "labels", "text", "actions"]
"""What an answer looks like; the baselines act on it."""

MADE_BY = "made_by"
"""Key of `Instance.metadata`: models that wrote or rated the instance, parted by ", ". A model
that is asked what it made itself is named while it runs."""

VALIDATION = "validation"
"""Key of `Instance.metadata`: by whom and when its ratings were validated; without it by nobody."""

IntervalKind = Literal["auto", "exact", "bounded"]
"""How a score's interval is made (`Metric.interval`)."""

Scoring = Literal["fixed", "helm"]
"""fixed: the metric as it should be. helm: the published scorer, faults included."""


class Criterion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One thing that a judge rates."""

    name: str
    """snake_case; the key of its score in the judge's reply."""
    text: str
    """What is asked, and what the ends of the scale mean."""


class Rubric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the judges of a jury rate, and by which scale."""

    name: str
    version: str
    task: str
    """What the judge is to do, in one or two sentences."""
    criteria: tuple[Criterion, ...]
    reference: str = (
        "an answer that is known to be good. Compare with it where that helps; another answer can "
        "be as good."
    )
    """What `<reference>` holds and how a judge uses it; empty: judges are not shown it."""
    minimum: int = 1
    maximum: int = 5


class Instance(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """One item of a benchmark.

    Its JSON leaves defaults out, so that a field added later changes no stored instance.
    """

    id: str = ""
    """The source's key; left empty it becomes a hash of the content. Never a position
    in a shuffled list."""
    context: str = ""
    """The clinical text given."""
    question: str = ""
    """What is asked about the context, where the instance brings its own question."""
    choices: tuple[str, ...] = ()
    """Texts of the options; they are lettered A, B, C, ... in this order."""
    references: tuple[str, ...] = ()
    """Accepted answers, the gold first. With choices: option letters."""
    answer_key: dict[str, str] = {}
    """What only the metric may see besides the references (limits, output type)."""
    cluster: str | None = None
    """Key of the patient, note or dialogue that instances share; intervals resample it whole."""
    metadata: dict[str, str] = {}
    """What tables can slice by (specialty, difficulty, language, demographics). `part` names
    the part of a benchmark of several."""
    criteria: tuple[Criterion, ...] = ()
    """Criteria of this instance alone, in place of the rubric's."""
    menu: dict[str, str] = {}
    """Actions that are labelled one by one: id -> text; the question shows them."""


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


class Sampling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the model is asked to decode; None leaves a setting to the endpoint."""

    temperature: float | None = 0.0
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    reasoning_effort: str | None = None


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent. It never carries the gold."""

    instance_id: str
    repeat: int = 0
    messages: tuple[Message, ...]
    max_output_tokens: int
    sampling: Sampling = Sampling()
    seed: int | None = None
    json_schema: dict[str, Any] | None = None
    """JSON Schema of the object that the answer must be, where the endpoint holds answers to one;
    None: free text."""


class Usage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Tokens as the endpoint counted them; None where it did not say.

    `cached_tokens` are part of `input_tokens`, `reasoning_tokens` part of `output_tokens`.
    """

    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None


class Response(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What came back for one request."""

    instance_id: str
    repeat: int = 0
    text: str = ""
    """The completion, without hidden reasoning."""
    finish: Finish = "stop"
    error: str = ""
    """Kind of the failure ('http 500', 'timeout'); never text of the prompt."""
    usage: Usage = Usage()
    attempts: int = 1
    lost: int = 0
    """Requests that were sent and whose answer was lost; they may be billed."""
    latency_s: float = 0.0
    """Seconds of the attempt that was answered."""
    served_model: str = ""
    fingerprint: str = ""
    finished_at: float = 0.0
    """Unix time; provenance only."""


class Exchange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of `responses.jsonl`: an instance, what was sent, what came back."""

    schema: int = SCHEMA
    instance: Instance
    messages: tuple[Message, ...] = ()
    """Empty for baselines, which are handed the instance itself."""
    response: Response


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """What one metric says of one response."""

    value: float | None
    """Finite, in the metric's range; None where there is no score."""
    outcome: Outcome = "scored"
    extracted: str = ""
    """The answer that was read out of the completion."""
    reason: str = ""
    """Why there is no value, or why it is what it is."""
    stats: tuple[float, ...] = ()
    """Additive statistics for metrics that are not a mean (see `Metric.aggregation`)."""


@dataclass(frozen=True, kw_only=True)
class Metric(ABC):
    """Scores one response purely: the same instance and text, the same score."""

    name: str
    """The name in the literature (`exact_match`); key of the registry with `scoring`."""
    version: str = "1"
    """Raised whenever a number can change."""
    scoring: Scoring = "fixed"
    is_as_published: bool = False
    """Whether the published scorer follows the same rule and needs no class of its own."""
    minimum: float = 0.0
    maximum: float = 1.0
    floor: float | None = 0.0
    """What an unparsed, empty, refused or truncated response counts; None: it is in no mean, and a
    model is ranked only where nearly all of its responses were read."""
    higher_is_better: bool = True
    aggregation: str = "mean"
    """Key of `stats.AGGREGATIONS`: how the sums of `Score.stats` make the run's value."""
    source: str = ""
    """The paper or the code that defines it."""
    interval: IntervalKind = "auto"
    """exact: a rate of independent instances, which gets Clopper-Pearson's interval. bounded: a
    score that one bad instance not seen yet could change much, which gets Gaffke's."""
    is_slow: bool = False
    """Whether one score takes milliseconds; such metrics are computed on all cores."""

    @abstractmethod
    def score(self, instance: Instance, response: Response) -> Score:
        """Return the score of a non-empty completion; value None and `unparsed` if unreadable."""

    def floor_score(self, instance: Instance, outcome: Outcome, reason: str = "") -> Score:
        """Return what an instance counts whose answer could not be read."""
        return Score(value=self.floor, outcome=outcome, reason=reason)

    def prepare(self, folder: Path) -> Metric:
        """Return the metric as it grades a benchmark whose data files lie in `folder`.

        Called once before grading, with `<data dir>/<benchmark>` or the folder of the samples.
        A metric that needs a file besides the instance (a database) keeps the folder and opens
        the file in `score`; the others return themselves.
        """
        return self


class SourceFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One upstream file, or a folder of files that come in one archive."""

    name: str
    """Path below `<data dir>/<benchmark>/`."""
    url: str = ""
    """Where `medhelm data fetch` gets it; empty where a user must bring it."""
    sha256: str = ""
    """Empty means unpinned: the hash of the first fetch is recorded beside the file."""
    folder: str = ""
    """Path inside the zip archive at `url`, below its one top folder, of the files that make the
    folder `name`; its hash is that of their listing. Empty: `name` is a file."""
    max_bytes: int = 256 << 20
    """The most that is fetched from `url`, and unpacked of its archive; more is an error."""
    splits: tuple[str, ...] = ()
    """The splits that are read from it; empty: all."""
    cells: dict[str, str] = {}
    """Columns that each of its rows has besides, and their cell: what the file's name says."""


@dataclass(frozen=True, kw_only=True)
class FileDataset:
    """Rows read from files that lie below the data directory."""

    files: tuple[SourceFile, ...]
    read: Callable[[Sequence[Path], str], Iterable[Row]] | None = None
    """(paths of `files`, split) -> rows. None: by suffix (.csv, .jsonl, .json, .parquet,
    .xlsx), of a folder its .txt files as rows of `name` and `text`."""
    splits: tuple[str, ...] = ("test",)
    """The splits that can be chosen; the first is the default."""
    source: str = ""
    """The upstream repository and commit, for people."""

    def needed(self, split: str) -> tuple[SourceFile, ...]:
        """Return the files that a split is read from."""
        return tuple(f for f in self.files if not f.splits or split in f.splits)


@dataclass(frozen=True, kw_only=True)
class HubDataset:
    """Rows of a Hugging Face dataset at one pinned revision."""

    repo: str = field(kw_only=False)
    revision: str
    config: str | None = None
    splits: tuple[str, ...] = ("test",)


@dataclass(frozen=True)
class Prompt:
    """A template with the fields {instruction} {context} {question} {choices} {letters}."""

    name: str
    version: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Phrasing:
    """A reply by which `medhelm validate` tries the reading of one instance's answer."""

    name: str
    text: str
    gives_gold: bool = True
    """Whether a reader finds the gold in it; False: nothing may be read."""
    is_cut: bool = False
    """Whether the reply ended at the output budget."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Data, prompt and metrics of one benchmark: all that a plugin declares."""

    name: str
    subcategory: str
    """An id of `taxonomy.yaml`."""
    dataset: FileDataset | HubDataset
    to_instance: Callable[[Row], Instance | None]
    """Maps one row, purely; None leaves the row out by the benchmark's documented rule."""
    metrics: Sequence[str]
    """Names of metrics; the first is the main one. `evaluate:NAME` is allowed after it."""
    published_metric: str = ""
    """The one of `metrics` that HELM ranks by, and so the main one under scoring=helm; empty:
    the first, too."""
    prompt: str | Prompt = "multiple_choice"
    """Name of a template of `prompts.TEMPLATES`, or a template."""
    instruction: str = ""
    """What the model is to do, in our own words; fills {instruction}."""
    version: str = "1"
    """Raised whenever prompt, mapping or extraction changes."""
    title: str = ""
    description: str = ""
    tasks: tuple[str, ...] = ()
    """Ids of taxonomy tasks."""
    answer: AnswerKind = "choice"
    labels: tuple[str, ...] = ()
    """All labels of a label-set task."""
    phrasings: Callable[[Instance], Iterable[Phrasing]] | None = None
    """Replies by which the reading of answers is tried, for forms of answers other than choices,
    numbers and label sets; None: those of `answer`."""
    parts: tuple[str, ...] = ()
    """Values of metadata['part']; the score is then the unweighted mean of the parts' means."""
    rubric: str = ""
    """What a jury rates: a rubric beside the plugin (`rubrics/NAME.yaml`) or one of medhelm's."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of a file that users fill with their own data, and what each holds."""
    how_to_get: tuple[str, ...] = ()
    """Steps to data that cannot be fetched."""
    max_output_tokens: int = 256
    reasoning_output_tokens: int = 8192
    """The budget of models that think before they answer; declared, and shown."""
    data_class: DataClass = "public"
    redistributable: bool = False
    """Whether the text of instances may be republished."""
    curation: Literal["existing", "formulated", "new"] = "existing"
    licence: str = "unknown"
    citation: str = ""
    expected_instances: Mapping[str, int] = field(default_factory=dict)
    """Number of instances of each split of the full data."""
    cluster: str = ""
    """What `Instance.cluster` stands for ('note'); empty: instances are independent."""
    samples: Path | None = None
    """JSONL of synthetic rows; None: `samples/<name>.jsonl` beside the plugin's file."""
    origin: str = ""
    """The plugin file or distribution; filled by the registry."""


class Price(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """USD per million tokens at a date."""

    input: float
    output: float
    cached: float | None = None
    date: str


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model config says. `name` is the id in tables, `model` what the endpoint is sent."""

    name: str
    provider: str = "openai"
    model: str = ""
    base_url: str | None = None
    api_key_env: str | None = None
    """Name of the environment variable that holds the key; never the key."""
    endpoint_class: EndpointClass = "external"
    weights: Literal["open", "closed", "none"] = "closed"
    reasoning: bool = False
    """Whether the model thinks before it answers and gets the benchmark's reasoning budget."""
    max_output_tokens: int | None = None
    """Replaces the benchmark's budget; then the run is not comparable with others."""
    context_window: int | None = None
    system_prompt: str | None = None
    sampling: Sampling = Sampling()
    token_limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    send_seed: bool = True
    json_schema: bool = False
    """Whether the endpoint holds answers to a JSON Schema that a request carries."""
    extra_body: dict[str, Any] = {}
    """Further fields of the request's JSON body (chat template options and the like)."""
    timeout_s: float = 120.0
    max_concurrency: int | None = None
    """The most requests in flight; None: as many as raise the throughput, up to 512."""
    max_attempts: int = 6
    price: Price | None = None
    note: str = ""
    """What `medhelm list models` says of the config (`unverified`, `retired 2026-10-23`)."""


class RunSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that decides one run: benchmark x model x settings."""

    benchmark: str
    benchmark_version: str
    data: Literal["sample", "full"]
    split: str
    dataset_sha256: str
    prompt_name: str
    prompt_version: str
    prompt_sha256: str
    """Of template, instruction and system prompt together."""
    model: ModelSpec
    max_output_tokens: int
    repeats: int = 1
    seed: int = 0
    max_instances: int | None = None
    """First N by a seeded hash of the ids; not part of the request hash."""


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
    """Who rates free text. Without judges: the offline graders, a stand-in."""

    name: str
    judges: tuple[ModelSpec, ...] = ()
    quorum: int = 2
    """Verdicts that a score needs; below, the instance is unscored."""
    repairs: int = 2
    """How often a judge is asked again whose reply cannot be read."""
    reasons: bool = True
    """Whether judges give a short reason for each score."""
    max_output_tokens: int = 1024
    reasoning_output_tokens: int = 8192


class JuryTerms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who rates, what, and by which version of the judges' prompt (or of the offline graders)."""

    jury: JurySpec
    rubric: Rubric
    version: str
    instruction: str = ""
    """What the model was told to do, as the judges are shown it."""


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


class MetricResult(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One metric over one run; the interval is computed by the tables.

    Counts are of instances x repeats.
    """

    metric: str
    value: float | None
    """None where no instance has a value."""
    counted: int
    """How many are in the value: scored ones and those that count with the floor."""
    scored: int
    outcomes: dict[Outcome, int]
    cut: int | None = None
    """How many of the scored ones ended at the output budget; None: graded before it was counted."""


class UsageTotals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sums over a run. `unknown` counts answered requests whose usage was not reported."""

    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    unknown: int = 0
    lost: int = 0
    output_limit_tokens: int = 0
    """Output tokens if every answer had used its whole budget (the paper's upper bound)."""


class JudgeTotals(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one judge used over a run, repairs and repeated tries included."""

    judge: ModelSpec
    judgements: dict[str, int]
    """How its judgements ended ('scored', 'unreadable', 'refused', 'error', 'not asked', ...)."""
    usage: UsageTotals
    served_models: dict[str, int]


class BenchmarkCard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What reporting needs of a benchmark without loading its plugin."""

    name: str
    title: str
    category: str
    subcategory: str
    data_class: DataClass
    redistributable: bool
    licence: str
    curation: str
    citation: str
    cluster: str
    description: str = ""
    instruction: str = ""
    tasks: tuple[str, ...] = ()
    source: str = ""
    """Where the data come from, for people."""
    plugin: str = ""
    """File that declares the benchmark, with the start of its sha256."""


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
    results: tuple[MetricResult, ...]
    usage: UsageTotals
    served_models: dict[str, int]
    """Model ids and fingerprints as served, with counts; more than one means drift."""
    provenance: dict[str, str]
    """Versions, dates, machine class: recorded, never hashed."""
    judges: tuple[JudgeTotals, ...] = ()


class Model(Protocol):
    """A model that answers requests. It raises nothing but `ModelError`: every failure of
    one request is a `Response` with finish 'error' or 'oversize'."""

    spec: ModelSpec

    async def acquire(self) -> None:
        """Wait for a place among the endpoint's requests in flight."""

    def release(self) -> None:
        """Give the place back."""

    async def respond(self, request: Request) -> Response:
        """Send one request, with the endpoint's retries, and return what came."""

    async def close(self) -> None:
        """Close connections."""


class InstanceModel(Protocol):
    """A baseline, which is handed the instance with its gold; never a contestant by itself."""

    spec: ModelSpec

    def prepare(self, instances: Iterator[Instance]) -> None:
        """Read what is needed of all instances (a label distribution)."""

    def answer(self, benchmark: Benchmark, instance: Instance, seed: int) -> str:
        """Return the completion for one instance."""
