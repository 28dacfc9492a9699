"""Benchmarks and what they are made of: data sets, instances, prompts, rubrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from medhelm.schema.asking import Asking

Row = Mapping[str, Any]
"""One record of a data file, as its reader yields it."""

DataClass = Literal["public", "gated", "private"]
"""Those who may read a benchmark's data: anyone, those with a data agreement, the owner only."""

OptionForm = Literal["shuffled", "digits", "roman", "none_of_these"]
_PatientForm = Literal["patient_female", "patient_male", "patient_name", "patient_pronoun"]
_EthnicForm = Literal["patient_asian", "patient_black", "patient_hispanic", "patient_white"]
Variant = Literal[OptionForm, _PatientForm, _EthnicForm]
"""Names another form of questions, by which a robustness run asks them again: of their options, or of their patient."""

AnswerKind = Literal["choice", "number", "labels", "text", "items"]
"""The form of an answer; `items`: of each of several items. The baselines act on it."""

PART = "part_"
"""Prefix of a split that is a part of the published set."""

MADE_BY = "made_by"
"""Key of `Instance.metadata`: models that wrote or rated the instance, separated by ", ". A model
that is asked what it made itself is named while it runs."""

VALIDATION = "validation"
"""Key of `Instance.metadata`: by whom and when its ratings were validated; without it by nobody."""


SPECIALTY = "specialty"
"""Key of `Instance.metadata`: the clinical specialty of the instance."""


class Criterion(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """One thing that a judge rates.

    Its JSON leaves defaults out, so that a rubric of before there were points has the same hash.
    """

    name: str
    """snake_case. The key of its score in the judge's reply."""
    text: str
    """The question, and the meaning of the ends of the scale."""
    points: float = 1.0
    """Points of a binary criterion that is met; negative where it should not be met."""
    tags: tuple[str, ...] = ()
    """Slices of a table of criteria, as `axis:accuracy`."""
    is_critical: bool = False
    """True if an answer that fails it alone is unsafe."""


class CriteriaRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The numbered rules by which a judge decides whether an answer meets a single criterion."""

    name: str
    version: str
    """Raised whenever a word changes; verdicts by other rules are never used for these."""
    en: str
    zh: str = ""
    """The same in Chinese, for judges of Chinese cases; empty: those are given `en`."""


class Rubric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The criteria of a jury, and their scale."""

    name: str
    version: str
    task: str
    """The judge's task, in one or two sentences."""
    criteria: tuple[Criterion, ...]
    reference: str = (
        "an answer that is known to be good. Compare with it where that helps; another answer can "
        "be as good."
    )
    """The words that tell a judge what `<reference>` is and how to use it. Empty: judges are not shown one."""
    minimum: int = 1
    maximum: int = 5


class Turn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One turn of a conversation that an instance brings."""

    role: Literal["user", "assistant"]
    content: str


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
    """Question about the context, where the instance has its own."""
    choices: tuple[str, ...] = ()
    """Texts of the options. They are lettered A, B, C, ... in this order."""
    references: tuple[str, ...] = ()
    """Accepted answers, the gold first. With choices: option letters."""
    answer_key: dict[str, str] = {}
    """Facts for the metric alone, besides the references (limits, output type)."""
    cluster: str | None = None
    """Key of the patient, note or dialogue that instances share; intervals resample it whole."""
    metadata: dict[str, str] = {}
    """Slices of tables (specialty, difficulty, language, demographics). `part` names
    the part of a benchmark of several."""
    criteria: tuple[Criterion, ...] = ()
    """Criteria of this instance alone, in place of the rubric's."""
    turns: tuple[Turn, ...] = ()
    """A conversation that the model is to continue, sent turn by turn in place of a template."""
    option_labels: tuple[str, ...] = ()
    """Labels the options in place of A, B, C, ...; references are letters all the same."""
    payload: dict[str, Any] = msgspec.field(default_factory=dict, name="menu")
    """Values that only the benchmark's protocol needs, by name; the protocol types and checks it. Its name in
    files is that of the first one, whose stored instances are found by their JSON."""


@dataclass(frozen=True)
class LeftOut:
    """A row that a benchmark leaves out by its documented rule."""

    reason: str
    """The rule, in the same words for all rows that it concerns and without any of their text."""


class HubSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rows of one split of a data set on the Hugging Face hub, at one commit."""

    repo: str
    revision: str
    config: str | None = None
    split: str = "test"
    file: str = ""
    """Path in the repository of the one file of the split; empty: the configuration names its files."""

    def __str__(self) -> str:
        """Return the place in words."""
        config = f", configuration {self.config}" if self.config else ""
        what = f"file {self.file}" if self.file else f"split {self.split}"
        return f"{self.repo} at {self.revision}{config}, {what}"


class SourceFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One upstream file, or a folder of files that come in one archive."""

    name: str
    """Path below `<data dir>/<benchmark>/`."""
    url: str = ""
    """Address for `medhelm data fetch`. Empty where a user must bring the file."""
    sha256: str = ""
    """Empty means unpinned: the hash of the first fetch is recorded beside the file."""
    folder: str = ""
    """Path inside the zip archive at `url`, below its one top folder, of the files that make the
    folder `name`; its hash is that of their listing. Empty: `name` is a file."""
    hashed_unpacked: bool = False
    """True if the file is gzipped. Its hash is that of the content, however compressed."""
    max_bytes: int = 256 << 20
    """Most bytes fetched from `url` and unpacked from its archive; more is an error."""
    splits: tuple[str, ...] = ()
    """The splits that are read from it; empty: all."""
    cells: dict[str, str] = {}
    """Further columns of each row, with the values that the file's name gives."""
    hub: HubSource | None = None
    """Its rows on the hub, instead of `url`. A file below the data directory takes
    precedence."""
    redistributable: bool = True
    """False: its text may not be republished, even where that of the benchmark's other files may be."""

    @property
    def is_fetchable(self) -> bool:
        """Return whether `medhelm data fetch` can get it."""
        return bool(self.url or self.hub)


ReadFiles = Callable[[Sequence[Path], str], Iterable["Row | LeftOut"]]
"""Reads the rows of a split from its files, and those that it leaves out."""


@dataclass(frozen=True)
class GitHub:
    """One commit of a repository on GitHub, and the files in it."""

    repository: str
    commit: str

    def __str__(self) -> str:
        return f"{self.repository} at {self.commit}"

    def file(
        self, path: str, sha256: str, name: str = "", splits: Sequence[str] = ()
    ) -> SourceFile:
        """Return a file of the commit; without a name it keeps its own."""
        address = f"https://raw.githubusercontent.com/{self.repository}/{self.commit}/{path}"
        own = name or path.rpartition("/")[2]
        return SourceFile(name=own, url=address, sha256=sha256, splits=tuple(splits))

    def dataset(
        self,
        path: str,
        sha256: str,
        read: ReadFiles | None = None,
        *,
        name: str = "",
        source: str = "",
    ) -> FileDataset:
        """Return the dataset that one file of the commit is."""
        file = self.file(path, sha256, name)
        return FileDataset(files=(file,), read=read, source=source or str(self))

    def files(self, listing: Path, folder: str) -> tuple[SourceFile, ...]:
        """Return the files of a folder that a listing has, as `sha256sum` writes one."""
        lines = (line.split("  ", 1) for line in listing.read_text("utf-8").splitlines())
        return tuple(self.file(f"{folder}/{name}", sha256, name) for sha256, name in lines)


@dataclass(frozen=True)
class Hub:
    """One revision of a data set on the Hugging Face hub, and the files of its splits."""

    repository: str
    revision: str

    def __str__(self) -> str:
        return f"{self.repository} at revision {self.revision}"

    def file(
        self,
        name: str,
        split: str = "test",
        *,
        path: str = "",
        sha256: str = "",
        config: str | None = None,
        cells: dict[str, str] | None = None,
    ) -> SourceFile:
        """Return the rows of a split: those of the file at `path`, else of a configuration."""
        own = HubSource(
            repo=self.repository, revision=self.revision, config=config, split=split, file=path
        )
        return SourceFile(name=name, sha256=sha256, splits=(split,), hub=own, cells=cells or {})


@dataclass(frozen=True, kw_only=True)
class FileDataset:
    """Rows read from files below the data directory."""

    files: tuple[SourceFile, ...]
    read: ReadFiles | None = None
    """(paths of `files`, split) -> rows, and those that it leaves out. None: by suffix (.csv, .tsv, .jsonl, .json, .parquet,
    .xlsx), of a folder its .txt files as rows of `name` and `text`."""
    expand: Callable[[Iterable[Row]], Iterable[Row | LeftOut]] | None = None
    """Function from the rows read to the rows used, where one becomes several; only without `read`."""
    splits: tuple[str, ...] = ("test",)
    """The splits that can be chosen. The first is the default. One named `part_...` is a part of the
    published set: taken where the first one's files are missing and its own are there, and named beside
    the benchmark wherever its numbers are shown."""
    split_column: str = ""
    """Column in which `to_instance` finds the split, where the mapping depends on it."""
    source: str = ""
    """The upstream repository and commit, for people."""

    @classmethod
    def brought(cls, *names: str, source: str, read: ReadFiles | None = None) -> FileDataset:
        """Return the dataset of files that its users bring under these names."""
        return cls(files=tuple(SourceFile(name=own) for own in names), read=read, source=source)

    def needed(self, split: str) -> tuple[SourceFile, ...]:
        """Return the files that a split is read from."""
        return tuple(f for f in self.files if not f.splits or split in f.splits)


class HubDataset(FileDataset):
    """Rows of a Hugging Face dataset at one pinned revision, split by split.

    Files in the benchmark's folder that are named after a split (`test.jsonl`) take precedence.
    """

    def __init__(
        self,
        repo: str,
        *,
        revision: str,
        config: str | None = None,
        splits: tuple[str, ...] = ("test",),
        split_column: str = "",
    ) -> None:
        """Name repository, commit, configuration and splits."""
        hubs = {s: HubSource(repo=repo, revision=revision, config=config, split=s) for s in splits}
        super().__init__(
            files=tuple(
                SourceFile(name=f"{split}.parquet", hub=hub, splits=(split,))
                for split, hub in hubs.items()
            ),
            splits=splits,
            split_column=split_column,
            source=f"Hugging Face dataset {repo} at {revision}",
        )


@dataclass(frozen=True)
class Prompt:
    """A template with the fields {instruction} {context} {question} {choices} {letters}."""

    name: str
    version: str
    text: str
    closing: str = ""
    """Its last words, which ask for the form of the answer. An asking of another form has its own in their place."""

    @property
    def whole(self) -> str:
        """Return the template with its last words."""
        return "\n\n".join(filter(None, (self.text, self.closing)))


class Exposure(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Date since which a model can have read the test items, and where else they occur."""

    public_since: str = ""
    """Date on which the test items and their golds became public: YYYY, YYYY-MM or YYYY-MM-DD; empty: not
    known, or not public."""
    overlaps: tuple[str, ...] = ()
    """Other sets that share items or sources with it, each in a sentence."""


@dataclass(frozen=True)
class RowFinding:
    """One thing that a benchmark's own check of its rows finds; `medhelm validate` shows it."""

    check: str
    """Name in snake_case."""
    text: str
    """The fault, without text of the row."""
    is_failure: bool = True
    """False where somebody should look at it."""


@dataclass(frozen=True)
class Phrasings:
    """Wordings by which `medhelm validate` tries the reading of answers in a form of one's own."""

    file: Path
    """YAML of the form of `proof/phrasings.yaml`: wordings by kind, with fields in double brackets."""
    fill: Callable[[Instance], tuple[Sequence[str], Mapping[str, str]]]
    """The kinds of wordings that fit an instance, and its fields."""


@dataclass(frozen=True)
class Example:
    """A worked example that an instance is shown with."""

    instance: Instance
    reply: str
    """Gold, in the requested form of answer."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A way to ask a benchmark in a run, with all that its messages need."""

    asking: Asking
    examples: tuple[Example, ...] = ()
    """The examples that every instance is shown with, in order."""
    answer_schema: Mapping[str, Any] | None = None
    """JSON Schema of an answer that has parts of its own; None: by the kind of answer."""


@dataclass(frozen=True)
class Items:
    """Functions by which embedded baselines read and answer an instance with several items, each right or wrong."""

    texts: Callable[[Instance], Sequence[str]]
    """The items of an instance as a model is shown them."""
    golds: Callable[[Instance], Sequence[bool]]
    """True for those that are right, in the same order."""
    write: Callable[[Instance, Sequence[bool]], str]
    """The reply that marks each item as right or wrong."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Data, prompt and metrics of one benchmark: all that a plugin declares."""

    name: str
    subcategory: str
    """An id of `taxonomy.yaml`."""
    dataset: FileDataset
    to_instance: Callable[[Row], Instance | LeftOut]
    """Pure function from one row to an instance."""
    metrics: Sequence[str]
    """Names of metrics. The first is the main one. `evaluate:NAME` is allowed after it."""
    published_metric: str = ""
    """The metric that HELM ranks by, the main one under scoring=helm. Empty: the first."""
    prompt: str | Prompt = "multiple_choice"
    """Name of a template of `prompts.TEMPLATES`, or a template."""
    instruction: str = ""
    """The model's task in our own words; fills {instruction}."""
    version: str = "1"
    """Raised whenever prompt, mapping or extraction changes."""
    title: str = ""
    description: str = ""
    tasks: tuple[str, ...] = ()
    """Ids of taxonomy tasks."""
    examples: str = ""
    """The split of its data from which worked examples are drawn (train, validation, dev); empty: only a file
    of the user's can serve."""
    protocol: str = "completion"
    """Protocol by which an instance is conducted."""
    answer: AnswerKind = "choice"
    labels: tuple[str, ...] = ()
    """All labels of a label-set task, or all values of a scale (`answer` number)."""
    phrasings: Phrasings | None = None
    """For forms of answers other than choices, numbers and label sets; None: those of `answer`."""
    items: Items | None = None
    """Access for embedded baselines to instances with several items; None: one answer."""
    parts: tuple[str, ...] = ()
    """Values of metadata['part']. The score is then the unweighted mean of the parts' means."""
    languages: Mapping[str, str] = field(default_factory=dict)
    """ISO 639-1 code of the language of each part; under "" that of questions without a part.
    Parts that are not named are English."""
    reference_part: str = ""
    """The part with which the table `gaps` compares the others, paired by cluster."""
    rubric: str = ""
    """The jury's rubric: one beside the plugin (`rubrics/NAME.yaml`) or of medhelm."""
    criteria_rules: CriteriaRules | None = None
    """The rules by which judges decide on the criteria of its instances; None: the strict ones."""
    jury: str = ""
    """The jury (of `conf/jury`) that grades where the user names none; empty: the default one."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Columns of a file that users fill with their own data, and what each holds."""
    how_to_get: tuple[str, ...] = ()
    """Steps to get data that cannot be fetched."""
    max_output_tokens: int = 256
    reasoning_output_tokens: int = 8192
    """The budget of models that think before they answer; declared, and shown."""
    data_class: DataClass = "public"
    redistributable: bool = False
    """True if the text of instances may be republished: of the files that do not say otherwise, as their source
    has them, and of its samples. Those that come with medhelm always may be where the data are public."""
    curation: Literal["existing", "formulated", "new"] = "existing"
    licence: str = "unknown"
    citation: str = ""
    row_findings: Callable[[Row], Iterable[RowFinding]] | None = None
    """Checks one row as its source does. None: `to_instance` is the only check."""
    expected_instances: Mapping[str, int] = field(default_factory=dict)
    """Number of instances of each split of the full data."""
    cluster: str = ""
    """The unit of `Instance.cluster` ('note'). Empty: instances are independent."""
    exposure: Exposure = Exposure()
    unverified: bool = False
    """True if the reading of the files was written from descriptions and never tried on the real ones."""
    mended: tuple[str, ...] = ()
    """Known faults of data, prompt or published scorer, and what is done about each, in sentences."""
    samples: Path | None = None
    """JSONL of synthetic rows; None: `samples/<name>.jsonl` beside the plugin's file."""
    origin: str = ""
    """The plugin file or distribution; filled by the registry."""
    asked: Asked | None = None
    """The way in which a run asks it; filled by the run, None: as it declares."""
