"""Whether each model reaches the thresholds of a profile: PASS, FAIL or INCONCLUSIVE.

A model is judged by its own run alone: on all of its instances, whatever other models answered.
PASS where the whole interval of the score is at or beyond the threshold, FAIL where all of it is
short of it, INCONCLUSIVE where the threshold lies in it or where nothing can be said. Where rows of
a run have no value, the interval is first widened to what they could make of it at their worst and
at their best. A verdict that other seeds of the bootstrap do not share is INCONCLUSIVE. Over all:
FAIL if any is, else INCONCLUSIVE if any is.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from medhelm.errors import UnknownName, UsageError
from medhelm.profiles import Profile
from medhelm.schema import ModelSpec
from medhelm.stats import TIE, worst_case
from medhelm.tables import notes
from medhelm.tables.bars import Bar
from medhelm.tables.cells import MIN_COVERAGE, Cell
from medhelm.tables.column_kinds import count, number, text
from medhelm.tables.selection import is_ranked
from medhelm.tables.study import Estimate, Study
from medhelm.tables.table import Part, Row, Settings, Table, Value, make_table

Verdict = Literal["PASS", "FAIL", "INCONCLUSIVE"]

EXIT_CODES: Mapping[str, int] = {"PASS": 0, "FAIL": 1, "INCONCLUSIVE": 2}

Unread = Mapping[tuple[str, str], tuple[str, ModelSpec]]
"""Benchmark and model of stored runs that have no scores: why not, and the model's settings."""

_MOST_CASES = 1_000_000
"""More instances than any benchmark has: a score that needs them is at the threshold."""

_MANY = 10

_SEEDS = 5
"""Bootstraps that must come to one verdict: an interval's end moves with the seed."""

COLUMNS = (
    text("level", "model: over all thresholds; threshold: one of them"),
    text("model", "name of the model", "model"),
    text("verdict", "PASS, FAIL or INCONCLUSIVE", "verdict"),
    count("passed", "thresholds passed", "passed", of="thresholds"),
    count("failed", "thresholds failed", "failed"),
    count("inconclusive", "thresholds of which nothing can be said", "inconclusive"),
    count("thresholds", "thresholds of the profile"),
    text("benchmark", "name of the benchmark", "benchmark"),
    text("metric", "name of the metric", "metric"),
    text("needed", "what the profile asks for", "needed"),
    text("bound", "minimum (more is better) or maximum (less is better)"),
    number("threshold", "the least, or the most, that passes", "metric"),
    number("score", "score on the model's own instances", "metric", "score", ("low", "high"), 3),
    number("low", "lower end of the interval of score", "metric"),
    number("high", "upper end of the interval of score", "metric"),
    text("interval_method", "how the interval was made, or why there is none"),
    number("bound_low", "low, of a mean with missing rows at their lowest", "metric"),
    number("bound_high", "high, of a mean with missing rows at their highest", "metric"),
    number(
        "margin",
        "distance of the threshold to the nearer of bound_low and bound_high; below 0 where that "
        "end is short of it",
        "metric",
        "margin",
        digits=3,
    ),
    count("n", "instances with a value", "n"),
    count("clusters", "clusters among them; n where independent"),
    count(
        "cases",
        "about how many instances a verdict needs if the score stays where it is; missing where "
        "there is a verdict, or none in sight",
        "needs about",
    ),
    count("planned", "rows of the finished run: instances times repeats"),
    count("counted", "rows with a value: scored, or counted with the metric's floor"),
    number("coverage", "counted / planned", "share"),
    text("reason", "why the verdict is what it is"),
    text("flags", "what a reader must know of the run (legend in the notes)", "flag"),
    text("run", "folder of the graded run below the results folder"),
)


def decide(low: float, high: float, threshold: float, *, is_minimum: bool) -> Verdict:
    """Return the verdict on an interval; a threshold at one of its ends is reached."""
    if not is_minimum:
        low, high, threshold = -high, -low, -threshold
    if low >= threshold - TIE:
        return "PASS"
    return "FAIL" if high < threshold - TIE else "INCONCLUSIVE"


def over_all(verdicts: Collection[Verdict]) -> Verdict:
    """Return FAIL if any is, else INCONCLUSIVE if any is or there is none, else PASS."""
    if "FAIL" in verdicts:
        return "FAIL"
    return "INCONCLUSIVE" if "INCONCLUSIVE" in verdicts or not verdicts else "PASS"


def cases_needed(score: float, low: float, high: float, n: int, bar: Bar) -> int | None:
    """Return about how many instances would give a verdict if the score stayed where it is.

    The half-width shrinks with 1 / sqrt(n), of a rate of 0 or 1 with 1 / n; it must become the
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


def gate(
    cells: Sequence[Cell],
    profile: Profile,
    bars: Sequence[Bar],
    settings: Settings,
    *,
    models: Collection[str] | None = None,
    said: Iterable[str] = (),
    unread: Unread | None = None,
) -> Table:
    """Return one row per model and one per model and threshold, with the verdicts.

    `models`: those to judge, of which runs must be among the cells; None: every model with a run
    on one of the benchmarks that reads no gold. `settings["verdict"]` of the table is the worst.
    Raises UnknownName, UsageError.
    """
    unread = {key: why for key, why in (unread or {}).items() if key[0] in profile.benchmarks}
    cells = [c for c in cells if c.run.benchmark in profile.benchmarks]
    specs = {c.run.model: c.record.spec.model for c in cells}
    specs = {model: spec for (_, model), (_, spec) in unread.items()} | specs
    if not cells:
        raise UsageError(f"no graded run on {', '.join(profile.benchmarks)}: nothing to judge")
    for name in models or ():
        if name not in specs:
            hint = f"runs on benchmarks of the profile were found of: {', '.join(sorted(specs))}"
            raise UnknownName("model", name, specs, hint)
    chosen = sorted(set(models or (m for m, spec in specs.items() if is_ranked(spec))))
    gold = sorted(m for m, spec in specs.items() if not is_ranked(spec))
    if not chosen:
        raise UsageError(
            f"every run here is of a baseline that reads the gold ({', '.join(gold)}); "
            "--model names one to judge it all the same"
        )
    rows: list[Row] = []
    for model in chosen:
        rows += _rows(model, [c for c in cells if c.run.model == model], bars, settings, unread)
    shown = Study([c for c in cells if c.run.model in chosen] or cells, settings, said)
    worst = over_all([_verdict(row) for row in rows])
    is_sample = shown.any_record.spec.data == "sample"
    warning = " on BUNDLED SAMPLES, which say nothing about models" if is_sample else ""
    title = f"Gate {profile.name}: {worst}{warning}"
    return make_table(
        "gate",
        title,
        COLUMNS,
        rows,
        [
            f"Profile {profile.name} (sha256 {profile.sha256[:12]}). {profile.description}",
            *notes.common(shown),
            *_notes(rows, settings, gold, chosen),
            *notes.flag_legend(str(row.get("flags", "")) for row in rows),
        ],
        _settings(shown)
        | {"profile": profile.name, "profile_sha256": profile.sha256}
        | {"seeds": _SEEDS, "verdict": worst},
        parts=(
            Part(level="model", title=title),
            Part(level="threshold", title="By threshold", group=("model", "benchmark")),
        ),
    )


def _verdict(row: Row) -> Verdict:
    found: Verdict = row["verdict"]  # type: ignore[assignment]
    return found


def _settings(study: Study) -> dict[str, Value]:
    kept = ("bootstrap_seed", "draws", "confidence", "min_coverage", "data", "scoring")
    return {k: v for k, v in notes.settings(study).items() if k in kept}


def _rows(
    model: str,
    cells: Sequence[Cell],
    bars: Sequence[Bar],
    settings: Settings,
    unread: Unread,
) -> Iterator[Row]:
    own = {c.run.benchmark: c for c in cells}
    seeds = range(settings.bootstrap_seed, settings.bootstrap_seed + _SEEDS)
    studies = [Study(cells, replace(settings, bootstrap_seed=seed)) for seed in seeds]
    rows: list[Row] = []
    for bar in bars:
        row: Row = {
            "level": "threshold",
            "model": model,
            "benchmark": bar.benchmark,
            "metric": bar.metric.name,
            "needed": bar.needed,
            "bound": "minimum" if bar.metric.higher_is_better else "maximum",
            "threshold": bar.value,
        }
        cell = own.get(bar.benchmark)
        if cell is None:
            why, _ = unread.get((bar.benchmark, model), ("no graded run", None))
            rows.append(row | _open(why))
        elif bar.metric.name not in cell.scores:
            why = "not graded with this metric; `medhelm score` does"
            rows.append(row | _open(why) | {"run": cell.run.folder})
        else:
            found = (s.estimates(bar.benchmark, bar.metric.name)[model] for s in studies)
            rows.append(row | _judged(bar, cell, found))
    counts = Counter(_verdict(row) for row in rows)
    yield {
        "level": "model",
        "model": model,
        "verdict": over_all([*counts]),
        "passed": counts["PASS"],
        "failed": counts["FAIL"],
        "inconclusive": counts["INCONCLUSIVE"],
        "thresholds": len(rows),
    }
    yield from rows


def _open(reason: str) -> Row:
    return {"verdict": "INCONCLUSIVE", "reason": reason}


def _judged(bar: Bar, cell: Cell, estimates: Iterator[Estimate]) -> Row:
    """Return the verdict on one threshold and the numbers behind it.

    `estimates`: by seed of the bootstrap, the first of which is shown.
    """
    own, name = next(estimates), bar.metric.name
    interval = own.interval
    row: Row = {
        "score": own.score,
        "low": interval.low,
        "high": interval.high,
        "interval_method": interval.method,
        "n": own.n,
        "clusters": own.clusters,
        "planned": cell.planned(name),
        "counted": cell.scores[name].counted,
        "coverage": cell.coverage(name),
        "flags": " ".join(notes.flags(cell, name)),
        "run": cell.run.folder,
    }
    if reason := _unsayable(bar, cell, own):
        return row | _open(reason)
    ends, is_minimum = _ends(bar, cell, own), bar.metric.higher_is_better
    sign = 1 if is_minimum else -1
    row |= {
        "bound_low": ends[0],
        "bound_high": ends[1],
        "margin": min((sign * (end - bar.value) for end in ends), key=abs),
    }
    verdict = decide(*ends, bar.value, is_minimum=is_minimum)
    if interval.method == "bootstrap" and any(
        decide(*_ends(bar, cell, e), bar.value, is_minimum=is_minimum) != verdict for e in estimates
    ):
        return row | _open(_SEEDED)
    assert interval.low is not None and interval.high is not None
    plain = interval.low, interval.high
    if decide(*plain, bar.value, is_minimum=is_minimum) == "INCONCLUSIVE":
        needed = cases_needed(own.score, *plain, own.n, bar)
        return row | _open(_WHY["INCONCLUSIVE"]) | {"cases": needed}
    how = _WHY[verdict] if ends == plain else f"{_lacks(cell, name)}; {_HOW[verdict]}"
    return row | {"verdict": verdict, "reason": how}


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
_SEEDED = "so near an end of the interval that the bootstrap's seed decides; more --draws may tell"


def _unsayable(bar: Bar, cell: Cell, own: Estimate) -> str:
    """Return why nothing can be said of a score; empty where something can."""
    name = bar.metric.name
    terms = cell.record.grading.jury
    if notes.is_jury(name) and terms is not None and not terms.jury.judges:
        return "rated by the offline jury, which stands in for judges"
    if not cell.planned(name):
        return "undefined: no instance of the run can have a value"
    if not own.n:
        return "no instance has a value"
    if math.isnan(own.score):
        return "undefined"
    if cell.lacks_parts(name):
        return "a part of the benchmark has no instance with a value"
    if own.interval.low is None or own.interval.high is None:
        return f"no interval {own.interval.method.removeprefix('none ')}"
    is_short = cell.coverage(name) < MIN_COVERAGE or cell.record.state == "partial"
    if is_short and bar.metric.aggregation != "mean":
        return f"{_lacks(cell, name)}, and no worst case is defined"
    return ""


def _lacks(cell: Cell, metric: str) -> str:
    """Return what a run lacks that may turn the verdict."""
    planned = cell.planned(metric)
    stopped = "stopped before its end, " if cell.record.state == "partial" else ""
    return f"{stopped}{planned - cell.scores[metric].counted:,} of {planned:,} without a value"


def _ends(bar: Bar, cell: Cell, own: Estimate) -> tuple[float, float]:
    """Return the ends of the interval, a mean's with missing rows at their lowest and their highest.

    The mean of all p planned rows is (sum of the c values + missing * extreme) / p, and of its
    uncertainty only that of the c values is left: the half-widths shrink by c / p.
    """
    low, high = own.interval.low, own.interval.high
    if low is None or high is None:  # with another seed every draw was equal
        return bar.metric.minimum, bar.metric.maximum
    scores, planned = cell.scores[bar.metric.name], cell.planned(bar.metric.name)
    missing = planned - scores.counted
    if not missing or bar.metric.aggregation != "mean":
        return low, high
    share = scores.counted / planned
    lowest, highest = (
        worst_case(scores.total, scores.counted, missing, extreme)
        for extreme in (bar.metric.minimum, bar.metric.maximum)
    )
    return lowest - (own.score - low) * share, highest + (high - own.score) * share


# Notes -----------------------------------------------------------------------------------------


def _notes(
    rows: Sequence[Row], settings: Settings, gold: Sequence[str], chosen: Sequence[str]
) -> Iterator[str]:
    yield (
        f"PASS: the whole {settings.confidence:.0%} interval is at or beyond the threshold. FAIL: "
        f"all of it is short, for {_SEEDS} seeds of a bootstrap. INCONCLUSIVE: the threshold lies in "
        "it, or nothing can be said. Over all: FAIL if any is, else INCONCLUSIVE if any is. Every "
        "model is judged by its own run alone; `medhelm compare` compares two."
    )
    yield from _reasons(rows)
    if any(row.get("cases") for row in rows):
        yield (
            "needs about: instances for a verdict if the score stays where it is, since intervals "
            "shrink with the root of their number."
        )
    if judged := [m for m in gold if m in chosen]:
        yield f"Reads the gold, so that its verdict is none on a model: {', '.join(judged)}."
    if left := [m for m in gold if m not in chosen]:
        yield f"Not judged, since they read the gold: {', '.join(left)}."


def _reasons(rows: Sequence[Row]) -> Iterator[str]:
    """Yield one note for each reason that is not the interval alone."""
    found: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        if row["level"] == "threshold" and row["reason"] not in _WHY.values():
            what = f"{row['model']} x {row['benchmark']} x {row['metric']}"
            found[f"{row['verdict']}, {row['reason']}"].append(what)
    for reason, where in found.items():
        more = f" and {len(where) - _MANY} more" if len(where) > _MANY else ""
        yield f"{reason}: {', '.join(where[:_MANY])}{more}."
