"""Select the graded runs of a table: one for each cell, all of one kind in each column.

Runs that cannot be compared are refused with the names of two runs and the way out; what is left
out by rule is counted in a note.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from medhelm.errors import UnknownName, UsageError
from medhelm.models.identity import identity, is_rankable, reads_prompt
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import GraderTerms, JuryTerms, MetricRef, RunRecord, RunSpec
from medhelm.schema.score import Scoring
from medhelm.store.records import grader_hash, judge_hash

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


@dataclass(frozen=True)
class ChosenRuns:
    """At most one run for each benchmark and model, and what was left out."""

    runs: tuple[GradedRun, ...]
    data: Data
    scoring: Scoring
    notes: tuple[str, ...]
    variants: tuple[GradedRun, ...] = ()
    """Runs that asked the questions of these in other forms."""


def is_ranked(model: ModelSpec) -> bool:
    """Return whether a model may be ranked: whatever its name, it reads no gold and is not a person."""
    return is_rankable(model)


def choose_runs(
    runs: Sequence[GradedRun],
    *,
    data: Data | None = None,
    scoring: Scoring = "fixed",
    latest: bool = False,
    benchmarks: Iterable[str] | None = None,
    models: Iterable[str] | None = None,
    folders: Iterable[str | Path] = (),
) -> ChosenRuns:
    """Return the runs that a table is made of, or raise UsageError where they do not fit together.

    `data=None`: full runs where there is any, else those on bundled samples. `latest` takes the
    newest of several runs of one cell. Without it they are an error. `folders` are those of runs,
    or of their gradings, to take where a cell has several.
    """
    notes: list[str] = []
    varied = [r for r in runs if r.record.spec.variant]
    runs = [r for r in runs if not r.record.spec.variant]
    if varied and not runs:
        raise UsageError(
            "the runs chosen all ask questions in other forms, and none asks them as they are; "
            "`medhelm run` with the same arguments makes such a run"
        )
    chosen = of_names(runs, benchmarks, models)
    chosen, passed_over = _in_folders(chosen, folders)
    if passed_over:
        notes.append(f"{passed_over} other run{'s' * (passed_over > 1)} left out by --run.")
    chosen = _of_scoring(chosen, scoring)
    is_full = data == "full" or (data is None and any(r.record.spec.data == "full" for r in chosen))
    kind: Data = "full" if is_full else "sample"
    kept = [r for r in chosen if r.record.spec.data == kind]
    if not kept:
        raise UsageError(
            f"no run on data={kind} among those chosen; "
            f"`medhelm run data={kind} ...` makes one, or leave --data out"
        )
    if is_full and (left := len(chosen) - len(kept)):
        notes.append(
            f"{left} run{'s' * (left > 1)} on bundled samples left out, since there are runs on "
            "full data; --data sample shows them."
        )
    kept = _newest_gradings(kept)
    kept, superseded = _one_per_cell(kept, latest)
    if superseded:
        notes.append(f"{superseded} older run{'s' * (superseded > 1)} left out by --latest.")
    by_benchmark = defaultdict(list)
    for run in kept:
        by_benchmark[run.benchmark].append(run)
    for column in by_benchmark.values():
        check_column(column)
    variants = _of_forms(_newest_gradings(varied), kept)
    if variants:
        names = sorted({r.record.spec.variant for r in variants})
        notes.append(
            f"{len(variants)} run{'s' * (len(variants) > 1)} of questions in other forms "
            f"({', '.join(names)}): `--table robustness` compares them."
        )
    return ChosenRuns(tuple(kept), kind, scoring, tuple(notes), variants)


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


def _newest_gradings(runs: Sequence[GradedRun]) -> list[GradedRun]:
    """Return one grading of each run: grading again takes the place of what was there.

    A run is its folder: gradings may name its model differently, which is not a second model.
    """
    newest: dict[Path, GradedRun] = {}
    for run in sorted(runs, key=_age):
        newest[run.path.parents[1]] = run
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


def check_column(runs: Sequence[GradedRun]) -> None:
    """Raise UsageError where runs of one benchmark cannot be compared."""
    same_of_all(runs, "benchmark version", lambda r: r.record.spec.benchmark_version, _RERUN)
    same_of_all(runs, "split", lambda r: r.record.spec.split, _RERUN)
    same_of_all(runs, "data set (sha256)", lambda r: r.record.spec.dataset_sha256[:12], _RERUN)
    same_of_all(runs, "protocol", lambda r: _protocol_text(r.record.spec), _RERUN)
    for role in dict.fromkeys(role for r in runs for role in r.record.spec.cast):
        same_of_all(runs, f"the model in the role {role}", partial(_cast_text, role=role), _RECAST)
    _same_jury([r for r in runs if r.record.grading.jury is not None])
    for name in sorted({own.grader for r in runs for own in r.record.grading.graders}):
        graded = [r for r in runs if any(g.grader == name for g in r.record.grading.graders)]
        same_of_all(graded, f"grader {name}", partial(_grader_text, name=name), _REJUDGE)
    free = [r for r in runs if r.record.spec.asking is None or r.record.spec.asking.form == "text"]
    same_of_all(free, "reader", _reader_text, _REREAD)
    same_of_all(runs, "main metric", lambda r: r.record.grading.metrics[0].name, _REGRADE)
    for name in sorted({m.name for r in runs for m in r.record.grading.metrics}):
        having = [r for r in runs if _metric(r, name) is not None]
        same_of_all(having, f"metric {name}", partial(_metric_text, name=name), _REGRADE)
    by_prompt: dict[tuple[str, str | None], list[GradedRun]] = defaultdict(list)
    for run in (r for r in runs if reads_prompt(r.record.spec.model)):
        asking, model = run.record.spec.asking, run.record.spec.model
        by_prompt[asking.name if asking else "", model.system_prompt].append(run)
    for group in by_prompt.values():  # other askings are rows of their own, and named as such
        same_of_all(group, "prompt", _prompt_text, _RERUN)
        same_of_all(group, "prompt (sha256)", lambda r: r.record.spec.prompt_sha256[:12], _RERUN)
        same_of_all(group, "asking (hash)", _asking_text, _RERUN)


def same_of_all(
    runs: Sequence[GradedRun], what: str, value: Callable[[GradedRun], str], fix: str
) -> None:
    """Raise UsageError where `value` is not the same of all runs of one benchmark."""
    for run in runs[1:]:
        a, b = value(runs[0]), value(run)
        if a != b:
            raise UsageError(
                f"{run.benchmark}: {runs[0].model} ({runs[0].folder}) and {run.model} "
                f"({run.folder}) differ in {what}: {a} and {b}; {fix}"
            )


def _asking_text(run: GradedRun) -> str:
    """Return a hash of all that an asking changes; of several texts under one name each has its own."""
    spec = run.record.spec
    asking = spec.asking and msgspec.structs.replace(spec.asking, examples_from="")
    said = msgspec.json.encode([asking, spec.examples, spec.examples_sha256], order="sorted")
    return hashlib.sha256(said).hexdigest()[:12]


def _protocol_text(spec: RunSpec) -> str:
    chosen = ", ".join(f"{name}={value}" for name, value in sorted(spec.settings.items()))
    text = f"{spec.protocol or 'one call'} version {spec.protocol_version}"
    return f"{text} ({chosen})" if chosen else text


def _cast_text(run: GradedRun, role: str) -> str:
    model = run.record.spec.cast.get(role)
    if model is None:
        return "nobody"
    decides = msgspec.json.encode(identity(model), order="sorted")
    return f"{model.name} (settings {hashlib.sha256(decides).hexdigest()[:8]})"


def _same_jury(runs: Sequence[GradedRun]) -> None:
    """Raise UsageError where runs were not rated by the same judges, rubric and rules."""
    same_of_all(runs, "judges", lambda r: _judges_text(_terms(r)), _REJUDGE)
    same_of_all(runs, "rubric", lambda r: _rubric_text(_terms(r)), _REJUDGE)
    same_of_all(runs, "version of the judges' prompt", lambda r: _terms(r).version, _REJUDGE)
    same_of_all(runs, "quorum of the jury", lambda r: str(_terms(r).jury.quorum), _REJUDGE)
    judges = _terms(runs[0]).jury.judges if runs else ()
    for place, judge in enumerate(judges):
        what = f"settings of judge {judge.name} (hash)"
        same_of_all(runs, what, partial(_judge_text, place=place), _REJUDGE)


def _reader_text(run: GradedRun) -> str:
    terms = run.record.grading.reader
    return "none" if terms is None else _by_terms(terms)


def _grader_text(run: GradedRun, name: str) -> str:
    return _by_terms(next(own for own in run.record.grading.graders if own.grader == name))


def _by_terms(terms: GraderTerms) -> str:
    chosen = "".join(f", {name}={value}" for name, value in sorted(terms.settings.items()))
    judges = (f"{j.name} (hash {grader_hash(j, terms)})" for j in terms.jury.judges)
    who = ", ".join(judges) or "its rule"
    return f"version {terms.version} by {who}, quorum {terms.jury.quorum}{chosen}"


def _terms(run: GradedRun) -> JuryTerms:
    terms = run.record.grading.jury
    assert terms is not None
    return terms


def _judges_text(terms: JuryTerms) -> str:
    return ", ".join(judge.name for judge in terms.jury.judges) or "the offline graders"


def _rubric_text(terms: JuryTerms) -> str:
    content = hashlib.sha256(msgspec.json.encode(terms.rubric)).hexdigest()[:8]
    return f"{terms.rubric.name} version {terms.rubric.version} (sha256 {content})"


def _judge_text(run: GradedRun, place: int) -> str:
    terms = _terms(run)
    return judge_hash(terms.jury.judges[place], terms)


def _metric(run: GradedRun, name: str) -> MetricRef | None:
    return next((m for m in run.record.grading.metrics if m.name == name), None)


def _metric_text(run: GradedRun, name: str) -> str:
    m = _metric(run, name)
    assert m is not None
    return (
        f"version {m.version} ({m.aggregation}, {m.minimum:g} to {m.maximum:g}, "
        f"{'no floor' if m.floor is None else f'floor {m.floor:g}'}{'' if m.higher_is_better else ', lower is better'})"
    )


def _prompt_text(run: GradedRun) -> str:
    return f"{run.record.spec.prompt_name} version {run.record.spec.prompt_version}"
