"""Check whether each model reaches the thresholds of a profile: PASS, FAIL or INCONCLUSIVE.

docs/gate.md says what decides. Beside the decision by the whole interval is that by the score alone, as
the papers take it; which of the two counts is chosen.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from medhelm.data.rubrics import load_rubric
from medhelm.errors import UnknownName, UsageError
from medhelm.grading.grade import metric_ref
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.grading.jury.metric import offline_jury
from medhelm.models.identity import is_rankable
from medhelm.plugins.profiles import Profile, Threshold
from medhelm.plugins.registry import Registry
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import MetricRef
from medhelm.stats.aggregation import TIE, worst_case
from medhelm.tables import notes
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Settings, Table, several
from medhelm.tables.study.cells import Cell, Metadata
from medhelm.tables.study.judge_errors import ERRORS, error_columns, failure, grader_of
from medhelm.tables.study.study import Estimate, Study

Unread = Mapping[tuple[str, str], tuple[str, ModelSpec]]
"""Benchmark and model of stored runs that have no scores: why not, and the model's settings."""

_MANY = 10

_SEEDS = 5
"""Bootstraps that must come to one verdict: an interval's end moves with the seed."""


GATE = form(__file__, "gate", errors=ERRORS, flags=(notes.FLAGS_COLUMN,))


# Thresholds ------------------------------------------------------------------------------------

Verdict = Literal["PASS", "FAIL", "INCONCLUSIVE"]

Decision = Literal["interval", "point"]
"""Basis of a verdict: the whole interval of a score, or the score alone."""

EXIT_CODES: Mapping[str, int] = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 2}

_MOST_CASES = 1_000_000
"""More instances than any benchmark has: a score that needs them is at the threshold."""


@dataclass(frozen=True)
class Requirement:
    """A threshold with the metric that it is on."""

    benchmark: str
    metric: MetricRef
    value: float

    @property
    def needed(self) -> str:
        """The threshold as text formats show it."""
        return f"{'>=' if self.metric.higher_is_better else '<='} {self.value:g}"

    def verdict(self, low: float, high: float) -> Verdict:
        """Return the verdict on an interval."""
        return decide(low, high, self.value, is_minimum=self.metric.higher_is_better)


def resolve(
    profile: Profile, known: Mapping[str, Mapping[str, MetricRef]]
) -> tuple[Requirement, ...]:
    """Return the thresholds of a profile with their metrics, main ones first in `known`.

    Raises UnknownName and UsageError for a name, direction, value or repetition that is wrong.
    """
    found: dict[tuple[str, str], Requirement] = {}
    for place, own in enumerate(profile.thresholds, 1):
        where = f"profile {profile.name}, threshold {place}"
        if own.benchmark not in known:
            hint = f"({where}) `medhelm list benchmarks` shows all; --plugin FILE adds one."
            raise UnknownName("benchmark", own.benchmark, known, hint)
        metrics = known[own.benchmark]
        name = own.metric or next(iter(metrics))
        if name not in metrics:
            hint = f"({where}) {own.benchmark} has {', '.join(metrics)}."
            raise UnknownName("metric", name, metrics, hint)
        required = Requirement(
            own.benchmark, metrics[name], _value(own, metrics[name], f"{where}: {name}")
        )
        if (own.benchmark, name) in found:
            first = 1 + list(found).index((own.benchmark, name))
            raise UsageError(f"{where}: {own.benchmark} x {name} is in threshold {first} too")
        found[own.benchmark, name] = required
    return tuple(found.values())


def _value(own: Threshold, metric: MetricRef, where: str) -> float:
    key, other = ("minimum", "maximum") if metric.higher_is_better else ("maximum", "minimum")
    value: float | None = getattr(own, key)
    if value is None:
        better = "more" if metric.higher_is_better else "less"
        raise UsageError(f"{where}: {better} is better, so give a {key}, not a {other}")
    if not metric.minimum <= value <= metric.maximum:
        raise UsageError(
            f"{where}: {key} {value:g} is outside the metric's range, {metric.minimum:g} to "
            f"{metric.maximum:g}"
        )
    return value


def known_metrics(
    profile: Profile, registry: Registry, cells: Iterable[Cell] = ()
) -> dict[str, dict[str, MetricRef]]:
    """Return the metrics of every benchmark that is installed or has a run, the main one first.

    Of installed benchmarks only those that the profile names have their metrics looked up.
    """
    known: dict[str, dict[str, MetricRef]] = {name: {} for name in registry.benchmarks}
    for cell in cells:
        own = {m.name: m for m in cell.record.grading.metrics}
        known[cell.run.benchmark] = known.get(cell.run.benchmark, {}) | own
    for name in {*profile.benchmarks} & registry.benchmarks.keys():
        refs = {m: metric_ref(registry.metric(m)) for m in registry.benchmarks[name].metrics}
        if JURY in refs:
            jury = offline_jury(load_rubric(registry.benchmarks[name]))
            refs |= {m.name: metric_ref(m) for m in jury if not m.judge}
        known[name] |= {m: ref for m, ref in refs.items() if m not in known[name]}
    return known


def decide(low: float, high: float, threshold: float, *, is_minimum: bool) -> Verdict:
    """Return the verdict on an interval. A threshold at one of its ends is reached."""
    if not is_minimum:
        low, high, threshold = -high, -low, -threshold
    if low >= threshold - TIE:
        return "PASS"
    return "FAIL" if high < threshold - TIE else "INCONCLUSIVE"


def over_all(verdicts: Collection[object]) -> Verdict:
    """Return FAIL if any is, else INCONCLUSIVE if any is or there is none, else PASS."""
    if "FAIL" in verdicts:
        return "FAIL"
    return "INCONCLUSIVE" if "INCONCLUSIVE" in verdicts or not verdicts else "PASS"


def cases_needed(score: float, low: float, high: float, n: int, bar: Requirement) -> int | None:
    """Return about how many instances would give a verdict if the score stayed where it is.

    The half-width shrinks with 1 / sqrt(n), of a rate of 0 or 1 with 1 / n. It must become the
    distance of score and threshold. None where that is nothing, or no benchmark is so large.
    """
    gap = abs(score - bar.value)
    half = score - low if score > bar.value else high - score
    if gap <= TIE or half <= 0:
        return None
    is_at_end = not bar.metric.minimum < score < bar.metric.maximum
    needed = n * (half / gap) ** (1 if is_at_end else 2)
    return math.ceil(needed - TIE) if needed <= _MOST_CASES else None


# Verdicts --------------------------------------------------------------------------------------

_SETTINGS = ("bootstrap_seed", "draws", "confidence", "min_coverage", "data", "scoring")


def gate(
    cells: Sequence[Cell],
    profile: Profile,
    required: Sequence[Requirement],
    settings: Settings,
    *,
    models: Collection[str] | None = None,
    run_notes: Iterable[str] = (),
    unread: Unread | None = None,
    decision: Decision = "interval",
    metadata: Metadata | None = None,
) -> Table:
    """Return one row per model and one per model and threshold, with the verdicts.

    `models`: those to judge, of which runs must be among the cells; None: every model with a run
    on one of the benchmarks that reads no gold. `metadata` reads that of a cell's instances, to
    name the models that made some. `settings["verdict"]` of the table is the worst.
    Raises UnknownName, UsageError.
    """
    unread = {key: why for key, why in (unread or {}).items() if key[0] in profile.benchmarks}
    cells = [c for c in cells if c.run.benchmark in profile.benchmarks]
    chosen, gold = _judged_models(cells, unread, profile, models)
    if decision not in get_args(Decision):
        raise UsageError(f"decision must be interval or point, not {decision!r}")
    own = [c for c in cells if c.run.model in chosen]
    made = {(c.run.benchmark, c.run.model): c.made_itself(metadata) for c in own if metadata}
    rows: list[Row] = []
    for model in chosen:
        ran = [c for c in own if c.run.model == model]
        found = [*_threshold_rows(model, ran, required, settings, unread, decision, profile)]
        for row in found:
            n, _ = made.get((str(row["benchmark"]), model), (0, ""))
            row["made_itself"] = n or None
        rows += [_model_row(model, found), *found]
    shown = Study(own or cells, settings, run_notes)
    worst = over_all([row["verdict"] for row in rows])
    is_sample = shown.any_record.spec.data == "sample"
    warning = " on BUNDLED SAMPLES, which say nothing about models" * is_sample
    title = f"Gate {profile.name}: {worst} (by {_BY[decision]}){warning}"
    by_model, by_threshold = GATE.parts
    own_form = replace(GATE, parts=(replace(by_model, title=title), by_threshold))
    return own_form.table(
        rows,
        [
            *GATE.say(profile=(profile.name, profile.sha256[:12], profile.description)),
            *notes.common(shown),
            *(note for _, note in made.values() if note),
            *_notes(rows, settings, gold, chosen, decision),
            *notes.flag_legend(str(row.get("flags", "")) for row in rows),
        ],
        {name: value for name, value in notes.settings(shown).items() if name in _SETTINGS}
        | {"profile": profile.name, "profile_sha256": profile.sha256}
        | {"seeds": _SEEDS, "decision": decision, "verdict": worst},
        title=title,
    )


def _judged_models(
    cells: Sequence[Cell],
    unread: Unread,
    profile: Profile,
    models: Collection[str] | None,
) -> tuple[list[str], list[str]]:
    """Return the models to judge, and those with runs that read the gold."""
    specs = {c.run.model: c.record.spec.model for c in cells}
    specs = {model: spec for (_, model), (_, spec) in unread.items()} | specs
    if not cells:
        raise UsageError(f"no graded run on {', '.join(profile.benchmarks)}: nothing to judge")
    for name in models or ():
        if name not in specs:
            hint = f"runs on benchmarks of the profile were found of: {', '.join(sorted(specs))}"
            raise UnknownName("model", name, specs, hint)
    chosen = sorted(set(models or (m for m, spec in specs.items() if is_rankable(spec))))
    gold = sorted(m for m, spec in specs.items() if not is_rankable(spec))
    if not chosen:
        raise UsageError(
            f"every run here reads the gold or is of people ({', '.join(gold)}); "
            "--model names one to judge it all the same"
        )
    return chosen, gold


_BY: Mapping[Decision, str] = {"interval": "interval", "point": "score alone"}
_Reached = tuple[Verdict, str]
"""A verdict and its reason."""


def _threshold_rows(
    model: str,
    cells: Sequence[Cell],
    required: Sequence[Requirement],
    settings: Settings,
    unread: Unread,
    decision: Decision,
    profile: Profile,
) -> Iterator[Row]:
    own = {c.run.benchmark: c for c in cells}
    seeds = range(settings.bootstrap_seed, settings.bootstrap_seed + _SEEDS)
    studies = [Study(cells, replace(settings, bootstrap_seed=seed)) for seed in seeds]
    for wanted in required:
        row: Row = {
            "level": "threshold",
            "model": model,
            "benchmark": wanted.benchmark,
            "metric": wanted.metric.name,
            "needed": wanted.needed,
            "bound": "minimum" if wanted.metric.higher_is_better else "maximum",
            "threshold": wanted.value,
        }
        cell, open_ = own.get(wanted.benchmark), ""
        if cell is None:
            open_, _ = unread.get((wanted.benchmark, model), ("no graded run", None))
        else:
            row["run"] = cell.run.folder
            if wanted.metric.name not in cell.scores:
                open_ = "not graded with this metric; `medhelm score` does"
            else:
                limit = profile.max_false_positives
                row |= error_columns([cell.record], wanted.metric.name, settings.confidence)
                open_ = failure([cell.record], wanted.metric.name, limit)
        by: dict[Decision, _Reached] = dict.fromkeys(get_args(Decision), ("INCONCLUSIVE", open_))
        if cell is not None and not open_:
            found = (s.estimates(wanted.benchmark, wanted.metric.name)[model] for s in studies)
            first = next(found)
            row |= _numbers(wanted, cell, first)
            by["interval"] = _by_interval(wanted, cell, first, found, row)
            by["point"] = _by_point(wanted, cell, first)
        row |= {f"by_{name}": verdict for name, (verdict, _) in by.items()}
        row["verdict"], row["reason"] = by[decision]
        yield row


def _model_row(model: str, rows: Sequence[Row]) -> Row:
    counts = Counter(row["verdict"] for row in rows)
    verdicts = ("verdict", "by_interval", "by_point")
    return {
        "level": "model",
        "model": model,
        **{name: over_all([row[name] for row in rows]) for name in verdicts},
        "passed": counts["PASS"],
        "failed": counts["FAIL"],
        "inconclusive": counts["INCONCLUSIVE"],
        "thresholds": len(rows),
    }


def _by_point(wanted: Requirement, cell: Cell, own: Estimate) -> _Reached:
    """Return the verdict on the score alone: PASS or FAIL, unless it is of too little of the run."""
    reason = _without_score(wanted, cell, own)
    if not reason and (cell.shortfall(wanted.metric.name) or cell.record.state == "partial"):
        reason = _lacks(cell, wanted.metric.name)
    if reason:
        return "INCONCLUSIVE", reason
    found = wanted.verdict(own.score, own.score)
    return found, f"the score {'reaches it' if found == 'PASS' else 'is short of it'}"


def _numbers(wanted: Requirement, cell: Cell, own: Estimate) -> Row:
    name = wanted.metric.name
    return {
        **own.row("n", "clusters"),
        "interval_method": own.interval.method,
        "planned": cell.planned(name),
        "counted": cell.scores[name].counted,
        "coverage": cell.coverage(name),
        "flags": " ".join(notes.flags(cell, name)),
    }


def _by_interval(
    wanted: Requirement, cell: Cell, own: Estimate, others: Iterator[Estimate], row: Row
) -> _Reached:
    """Return the verdict on the whole interval, and add the numbers behind it to the row.

    `others`: estimates with the next seeds of the bootstrap.
    """
    name, interval = wanted.metric.name, own.interval
    if reason := _unsayable(wanted, cell, own):
        return "INCONCLUSIVE", reason
    ends = _ends(wanted, cell, own)
    sign = 1 if wanted.metric.higher_is_better else -1
    row |= {
        "bound_low": ends[0],
        "bound_high": ends[1],
        "margin": min((sign * (end - wanted.value) for end in ends), key=abs),
    }
    verdict = wanted.verdict(*ends)
    if interval.method in ("bootstrap", "gaffke") and any(
        wanted.verdict(*_ends(wanted, cell, other)) != verdict for other in others
    ):
        return "INCONCLUSIVE", _SEEDED
    assert interval.low is not None and interval.high is not None
    plain = interval.low, interval.high
    if wanted.verdict(*plain) == "INCONCLUSIVE":
        row["cases"] = cases_needed(own.score, *plain, own.n, wanted)
        return "INCONCLUSIVE", _WHY["INCONCLUSIVE"]
    how = _WHY[verdict] if ends == plain else f"{_lacks(cell, name)}; {_HOW[verdict]}"
    if ends == plain and cell.scores[name].counted < cell.planned(name):
        how = f"{how}; {_lacks(cell, name)}, left out"
    return verdict, how


_WHY: Mapping[Verdict, str] = {
    "PASS": "all of the interval reaches it",
    "FAIL": "all of the interval is short of it",
    "INCONCLUSIVE": "it lies in the interval",
}
_HOW: Mapping[Verdict, str] = {
    "PASS": f"{_WHY['PASS']} even with these at their worst",
    "FAIL": f"{_WHY['FAIL']} even with these at their best",
    "INCONCLUSIVE": "these could decide",
}
_PLAIN = (*_WHY.values(), "the score reaches it", "the score is short of it")
_SEEDED = "so near an end of the interval that the bootstrap's seed decides; more --draws may tell"


def _without_score(wanted: Requirement, cell: Cell, own: Estimate) -> str:
    """Return why there is no score that says anything; empty where there is one."""
    name = wanted.metric.name
    raters = cell.record.grading.raters
    if grader_of(cell.record, name) and raters is not None and not raters.judges:
        return "rated by the offline jury, which stands in for judges"
    if not cell.planned(name):
        return "undefined: no instance of the run can have a value"
    if not own.n:
        return "no instance has a value"
    if math.isnan(own.score):
        return "undefined"
    there, declared = cell.parts(name)
    if there < declared:
        return "a part of the benchmark has no instance with a value"
    return ""


def _unsayable(wanted: Requirement, cell: Cell, own: Estimate) -> str:
    """Return why nothing can be said of an interval; empty where something can."""
    if reason := _without_score(wanted, cell, own):
        return reason
    name = wanted.metric.name
    if own.interval.low is None or own.interval.high is None:
        return f"no interval {own.interval.method.removeprefix('none ')}"
    is_short = bool(cell.shortfall(name)) or cell.record.state == "partial"
    if is_short and wanted.metric.aggregation != "mean":
        return f"{_lacks(cell, name)}, and no worst case is defined"
    return ""


def _lacks(cell: Cell, metric: str) -> str:
    """Return what a run lacks that may turn the verdict."""
    planned = cell.planned(metric)
    stopped = "stopped before its end, " if cell.record.state == "partial" else ""
    return f"{stopped}{planned - cell.scores[metric].counted:,} of {planned:,} without a value"


def _ends(wanted: Requirement, cell: Cell, own: Estimate) -> tuple[float, float]:
    """Return the ends of the interval, a mean's with missing rows at their lowest and their highest.

    The mean of all p planned rows is (sum of the c values + missing * extreme) / p, and of its
    uncertainty only that of the c values is left: the half-widths shrink by c / p.
    """
    low, high = own.interval.low, own.interval.high
    if low is None or high is None:  # with another seed every draw was equal
        return wanted.metric.minimum, wanted.metric.maximum
    scores, planned = cell.scores[wanted.metric.name], cell.planned(wanted.metric.name)
    missing = planned - scores.counted
    if not missing or wanted.metric.aggregation != "mean":
        return low, high
    share = scores.counted / planned
    lowest, highest = (
        worst_case(scores.total, scores.counted, missing, extreme)
        for extreme in (wanted.metric.minimum, wanted.metric.maximum)
    )
    return lowest - (own.score - low) * share, highest + (high - own.score) * share


# Notes -----------------------------------------------------------------------------------------


def _notes(
    rows: Sequence[Row],
    settings: Settings,
    gold: Sequence[str],
    chosen: Sequence[str],
    decision: Decision,
) -> Iterator[str]:
    rule = "by_point" if decision == "point" else "by_interval"
    yield from GATE.say(decision=_BY[decision], **{rule: (settings.confidence, _SEEDS)})
    yield from _reasons(rows)
    yield from GATE.say(
        cases=any(row.get("cases") for row in rows),
        gold=", ".join(m for m in gold if m in chosen),
        not_judged=", ".join(m for m in gold if m not in chosen),
    )


def _reasons(rows: Sequence[Row]) -> Iterator[str]:
    """Yield one note for each reason that is not the interval alone."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["level"] == "threshold" and row["reason"] not in _PLAIN:
            what = f"{row['model']} x {row['benchmark']} x {row['metric']}"
            found[f"{row['verdict']}, {row['reason']}"].append(what)
    for reason, where in found.items():
        yield f"{reason}: {several(where, _MANY)}."
