"""Select the graded runs of a table: one for each cell, all of one kind in each column.

Runs that cannot be compared are refused with the names of two runs and the way out; what is left
out by rule is counted in a note.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import msgspec

from medhelm.config import DEFAULT_RESULTS
from medhelm.errors import RecordError, UnknownName, UsageError
from medhelm.models.identity import identity, is_rankable, reads_prompt
from medhelm.schema.episode import Episode
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import GraderTerms, RunRecord, RunSpec
from medhelm.schema.score import Scoring
from medhelm.store.records import grader_hash, judge_hash, read_plan, read_record
from medhelm.store.runlog import read_episodes
from medhelm.tables.format.column_kinds import read_tables
from medhelm.tables.format.table import filled

Data = Literal["sample", "full"]


@dataclass(frozen=True)
class GradedRun:
    """A grading folder and its record, not yet its scores."""

    path: Path
    folder: str
    """The path below the results folder, as printed and linked."""
    record: RunRecord

    @property
    def benchmark(self) -> str:
        """Name of the benchmark in tables."""
        return self.record.spec.column

    @property
    def model(self) -> str:
        """Name of the model in tables."""
        return self.record.spec.model.name

    @property
    def run_folder(self) -> Path:
        """The folder of the run that was graded."""
        return self.path.parents[1]

    def episodes(self) -> Iterator[Episode]:
        """Return the last episode of every planned instance and repeat, in the order of the log."""
        return read_episodes(self.run_folder, read_plan(self.run_folder))


@dataclass(frozen=True)
class ChosenRuns:
    """At most one run for each benchmark and model, and what was left out."""

    runs: tuple[GradedRun, ...]
    data: Data
    notes: tuple[str, ...]
    variants: tuple[GradedRun, ...] = ()
    """Runs that asked the questions of these in other forms."""


def read_graded(gradings: Iterable[Path], damaged: list[str]) -> Iterator[GradedRun]:
    """Yield the graded runs of grading folders; adds what is wrong with the others to `damaged`."""
    for path in gradings:
        try:
            record = read_record(path)
        except RecordError as e:
            damaged.append(str(e))
        else:
            yield GradedRun(path, path.relative_to(path.parents[5]).as_posix(), record)


@dataclass(frozen=True, kw_only=True)
class RunChoice:
    """The choice of stored runs in a results folder."""

    results_dir: Path = Path(DEFAULT_RESULTS)
    benchmarks: Collection[str] = ()
    models: Collection[str] = ()
    data: Data | None = None
    """None: full runs where there is any, else those on bundled samples."""
    scoring: Scoring = "fixed"
    latest: bool = False
    """True if the newest of several runs of one cell is taken, which are an error otherwise."""
    folders: Collection[str | Path] = ()
    """Those of runs, or of their gradings, to take where a cell has several."""

    def ranked(self, runs: Sequence[GradedRun]) -> Sequence[GradedRun]:
        """Return the runs of models that may be ranked, where the choice names no model."""
        return runs if self.models else [r for r in runs if is_rankable(r.record.spec.model)]

    def names(self, spec: RunSpec) -> bool:
        """Return whether a run is of the benchmarks and models that the choice names."""
        is_of = not self.benchmarks or any(is_named(n, self.benchmarks) for n in spec.names)
        return is_of and (not self.models or is_named(spec.model.name, self.models))

    def of(self, runs: Iterable[GradedRun]) -> ChosenRuns:
        """Return one run of each model on each benchmark; raises UsageError where they do not fit together."""
        return _choose([*runs], self)


def _choose(runs: Sequence[GradedRun], choice: RunChoice) -> ChosenRuns:
    varied = [r for r in runs if r.record.spec.variant]
    runs = [r for r in runs if not r.record.spec.variant]
    if varied and not runs:
        raise UsageError(
            "the runs chosen all ask questions in other forms, and none asks them as they are; "
            "`medhelm run` with the same arguments makes such a run"
        )
    chosen = of_names(runs, choice.benchmarks, choice.models)
    chosen, passed_over = _in_folders(chosen, choice.folders)
    chosen = _of_scoring(chosen, choice.scoring)
    has_full = any(r.record.spec.data == "full" for r in chosen)
    is_full = choice.data == "full" or (choice.data is None and has_full)
    kind: Data = "full" if is_full else "sample"
    kept = [r for r in chosen if r.record.spec.data == kind]
    if not kept:
        raise UsageError(
            f"no run on data={kind} among those chosen; "
            f"`medhelm run data={kind} ...` makes one, or leave --data out"
        )
    samples = len(chosen) - len(kept) if is_full else 0
    kept, superseded = _one_per_cell(newest_gradings(kept), choice.latest)
    by_benchmark = defaultdict(list)
    for run in kept:
        by_benchmark[run.benchmark].append(run)
    for column in by_benchmark.values():
        check_column(column)
    variants = _of_forms(newest_gradings(varied), kept)
    names = sorted({r.record.spec.variant for r in variants})
    notes = filled(
        read_tables(__file__)["runs"]["texts"],
        passed_over=_several("other run", passed_over),
        samples=_several("run", samples),
        superseded=_several("older run", superseded),
        variants=(_several("run", len(variants)), ", ".join(names)) if variants else None,
    )
    return ChosenRuns(tuple(kept), kind, (*notes, *_drift(kept)), variants)


def _several(what: str, count: int) -> str:
    return f"{count} {what}{'s' * (count > 1)}" if count else ""


def _drift(runs: Iterable[GradedRun]) -> list[str]:
    """Return what each address of a model served, where these did not all serve one thing."""
    found: dict[str, set[str]] = defaultdict(set)
    for party in (party for run in runs for party in run.record.parties):
        if party.served_at and len(party.served_models) > 1:
            found[party.model.name].update(party.served_at)
    said = ((name, "; ".join(sorted(served))) for name, served in found.items())
    return [f"The addresses of {name} did not serve one model: {all_}." for name, all_ in said]


_SHARED = (
    *("benchmark", "benchmark_version", "data", "split", "dataset_sha256", "seed", "repeats"),
    "max_output_tokens",
)
"""Settings by which a run of questions in another form belongs to one of the original ones."""


def _of_forms(varied: Sequence[GradedRun], kept: Sequence[GradedRun]) -> tuple[GradedRun, ...]:
    """Return the newest run of each form that belongs to one of the kept runs."""

    def kind(run: GradedRun) -> tuple[object, ...]:
        own = run.record.spec
        main, scoring = run.record.grading.metrics[0], run.record.grading.scoring
        return (
            own.model.name,
            scoring,
            main.name,
            main.version,
            *(getattr(own, f) for f in _SHARED),
        )

    known = {kind(run) for run in kept}
    newest = {(kind(r), r.record.spec.variant): r for r in sorted(varied, key=_age)}
    return tuple(run for (of, _), run in newest.items() if of in known)


def of_names(
    runs: Sequence[GradedRun], benchmarks: Iterable[str] | None, models: Iterable[str] | None
) -> list[GradedRun]:
    """Return the runs of these benchmarks and models, all where none is named; raises UnknownName."""
    chosen = list(runs)
    kinds: tuple[tuple[str, Iterable[str] | None, Callable[[GradedRun], tuple[str, ...]]], ...] = (
        ("benchmark", benchmarks, lambda r: r.record.spec.names),
        ("model", models, lambda r: (r.model,)),
    )
    for kind, wanted, names_of in kinds:
        patterns = sorted(set(wanted or ()))
        if not patterns:
            continue
        known = sorted({name for r in chosen for name in names_of(r)})
        for pattern in patterns:
            if not any(is_named(name, (pattern,)) for name in known):
                raise UnknownName(kind, pattern, known, f"runs were found of: {', '.join(known)}")
        chosen = [r for r in chosen if any(is_named(name, patterns) for name in names_of(r))]
    return chosen


def is_named(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a name is one of these names, or matches one in which `*` stands for any text."""
    return any(name == p or ("*" in p and fnmatchcase(name, p)) for p in patterns)


def _in_folders(
    runs: Sequence[GradedRun], folders: Iterable[str | Path]
) -> tuple[list[GradedRun], int]:
    """Return the runs without those whose cell has one in the folders, and how many these are."""
    named: set[Path] = set()
    for folder in map(Path, folders):
        own = {r.path for r in runs if _is_in(r, folder)}
        if not own:
            raise UsageError(
                f"--run {folder} is not the folder of a graded run among those chosen; give one as "
                "the tables name it, like runs/BENCHMARK/MODEL/HASH"
            )
        named |= own
    cells = {(r.benchmark, r.model) for r in runs if r.path in named}
    kept = [r for r in runs if r.path in named or (r.benchmark, r.model) not in cells]
    return kept, len(runs) - len(kept)


def _is_in(run: GradedRun, folder: Path) -> bool:
    """Return whether a folder, from the results folder or from here, is a run's or a grading's."""
    above = Path(run.folder), run.path, run.path.resolve()
    wanted = folder, folder.resolve()
    return any(path in wanted or path.parents[1] in wanted for path in above)


def _of_scoring(runs: Sequence[GradedRun], scoring: Scoring) -> list[GradedRun]:
    kept = [r for r in runs if r.record.grading.scoring == scoring]
    if not kept:
        other = sorted({r.record.grading.scoring for r in runs})
        raise UsageError(
            f"no run is graded with scoring={scoring} (found: {', '.join(other)}); "
            "`medhelm score` grades stored responses"
        )
    return kept


def _age(run: GradedRun) -> tuple[str, int]:
    """Return what orders gradings by time: the recorded date, else that of the file."""
    stamp = (run.path / "summary.json").stat().st_mtime_ns
    return run.record.provenance.get("graded_at", ""), stamp


def newest_gradings(runs: Sequence[GradedRun]) -> list[GradedRun]:
    """Return one grading of each run: grading again takes the place of what was there.

    A run is its folder: gradings may name its model differently, which is not a second model.
    """
    newest = {run.run_folder: run for run in sorted(runs, key=_age)}
    return list(newest.values())


def _one_per_cell(runs: Sequence[GradedRun], latest: bool) -> tuple[list[GradedRun], int]:
    cells: dict[tuple[str, str], list[GradedRun]] = defaultdict(list)
    for run in runs:
        cells[run.benchmark, run.model].append(run)
    for (benchmark, model), several in cells.items():
        if len(several) > 1 and not latest:
            one, two = several[:2]
            raise UsageError(
                f"{model} has {len(several)} runs on {benchmark} ({one.folder} and {two.folder}); "
                "--latest (latest=True) takes the newest, --run DIR that one; `medhelm runs list "
                f"{benchmark}` says what sets them apart, `medhelm runs remove` takes one away"
            )
    kept = [max(several, key=_age) for several in cells.values()]
    return sorted(kept, key=lambda r: (r.benchmark, r.model)), len(runs) - len(kept)


_RERUN = "run the older one again with `medhelm run`, or choose models with --model"
_REJUDGE = (
    "run both with one jury=NAME (answers and verdicts are kept), or choose models with --model"
)
_RECAST = "run both with one cast, or choose models with --model"
_REREAD = "run both with one reader=MODEL or both without, or choose models with --model"
_REGRADE = "grade both again with `medhelm score`, then add --latest"


Fact = tuple[tuple[str | None, ...], str, str]
"""A setting (its name, then what else tells it apart), its value as text, and how to mend a difference."""


def check_column(runs: Sequence[GradedRun]) -> None:
    """Raise UsageError where runs of one benchmark cannot be compared."""
    roles = dict.fromkeys(role for r in runs for role in r.record.spec.cast)
    same_of_all(runs, lambda run: _facts(run, roles))


def same_of_all(runs: Sequence[GradedRun], facts: Callable[[GradedRun], Iterable[Fact]]) -> None:
    """Raise UsageError where a setting is not the same in all runs of one benchmark that have it."""
    seen: dict[tuple[str | None, ...], tuple[GradedRun, str]] = {}
    for run in runs:
        for what, text, fix in facts(run):
            first, before = seen.setdefault(what, (run, text))
            if before != text:
                raise UsageError(
                    f"{run.benchmark}: {first.model} ({first.folder}) and {run.model} "
                    f"({run.folder}) differ in {what[0]}: {before} and {text}; {fix}"
                )


def _facts(run: GradedRun, roles: Iterable[str]) -> Iterator[Fact]:
    """Yield all that must be the same in the runs of one benchmark."""
    spec, grading = run.record.spec, run.record.grading
    yield ("benchmark version",), spec.benchmark_version, _RERUN
    yield ("split",), spec.split, _RERUN
    yield ("data set (sha256)",), spec.dataset_sha256[:12], _RERUN
    chosen = ", ".join(f"{name}={value}" for name, value in sorted(spec.settings.items()))
    protocol = f"{spec.protocol or 'one call'} version {spec.protocol_version}"
    yield ("protocol",), f"{protocol} ({chosen})" if chosen else protocol, _RERUN
    for role in roles:
        yield (f"the model in the role {role}",), _cast_text(spec.cast.get(role)), _RECAST
    if (terms := grading.jury) is not None:
        judges = ", ".join(judge.name for judge in terms.jury.judges) or "the offline graders"
        yield ("judges",), judges, _REJUDGE
        rubric = f"{terms.rubric.name} version {terms.rubric.version}"
        yield ("rubric",), f"{rubric} (sha256 {_hash(terms.rubric, 8)})", _REJUDGE
        yield ("version of the judges' prompt",), terms.version, _REJUDGE
        yield ("quorum of the jury",), str(terms.jury.quorum), _REJUDGE
        for judge in terms.jury.judges:
            yield (f"settings of judge {judge.name} (hash)",), judge_hash(judge, terms), _REJUDGE
    for own in grading.graders:
        yield (f"grader {own.grader}",), _by_terms(own), _REJUDGE
    if spec.asking is None or spec.asking.form == "text":
        yield ("reader",), _by_terms(grading.reader) if grading.reader else "none", _REREAD
    yield ("main metric",), grading.metrics[0].name, _REGRADE
    for metric in grading.metrics:
        floor = "no floor" if metric.floor is None else f"floor {metric.floor:g}"
        way = "" if metric.higher_is_better else ", lower is better"
        span = f"{metric.aggregation}, {metric.minimum:g} to {metric.maximum:g}, {floor}{way}"
        yield (f"metric {metric.name}",), f"version {metric.version} ({span})", _REGRADE
    if reads_prompt(spec.model):  # other askings are rows of their own, and named as such
        group = (spec.asking.name if spec.asking else "", spec.model.system_prompt)
        yield ("prompt", *group), f"{spec.prompt_name} version {spec.prompt_version}", _RERUN
        yield ("prompt (sha256)", *group), spec.prompt_sha256[:12], _RERUN
        asking = spec.asking and msgspec.structs.replace(spec.asking, examples_from="")
        said = _hash([asking, spec.examples, spec.examples_sha256], 12)
        yield ("asking (hash)", *group), said, _RERUN  # several texts may have one name


def _hash(value: object, digits: int) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:digits]


def _cast_text(model: ModelSpec | None) -> str:
    if model is None:
        return "nobody"
    return f"{model.name} (settings {_hash(identity(model), 8)})"


def _by_terms(terms: GraderTerms) -> str:
    chosen = "".join(f", {name}={value}" for name, value in sorted(terms.settings.items()))
    judges = (f"{j.name} (hash {grader_hash(j, terms)})" for j in terms.jury.judges)
    who = ", ".join(judges) or "its rule"
    return f"version {terms.version} by {who}, quorum {terms.jury.quorum}{chosen}"
