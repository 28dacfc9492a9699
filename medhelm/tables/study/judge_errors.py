"""Errors of judges on answers whose verdicts are known, over the runs of a benchmark."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from medhelm.grading.jury.metric import NAME as JURY
from medhelm.models.identity import is_rankable
from medhelm.schema.run import FALSE_POSITIVE, ControlCount, RunRecord
from medhelm.stats.intervals import exact_share
from medhelm.tables.format.column_kinds import declared, read_tables
from medhelm.tables.format.table import filled, several

LIMIT = 0.10
"""Judges rank nobody if the upper bound of their false positives is above this."""
_MANY = 10
FAILED = "its judges fail their controls"


@dataclass(frozen=True)
class JudgeError:
    """The verdicts of one judge, or of all together, that should be of one kind and are of the other."""

    judge: str
    """Empty: more than half of several judges."""
    what: str
    runs: int
    cases: int
    wrong: int
    verdicts: int
    invalid: int
    kinds: Mapping[str, Mapping[str, int]]
    ends: tuple[float, float]
    is_above: bool
    """True if it is above the limit over all controls."""
    above: Sequence[str]
    """The kinds of controls on which it is."""

    @property
    def share(self) -> float | None:
        """Return the share of the valid verdicts that are wrong; None where there is none."""
        return self.wrong / self.verdicts if self.verdicts else None

    def row(self, name: str) -> dict[str, float | None]:
        """Return the share and the ends of its interval as the columns `name`."""
        return {name: self.share, f"{name}_low": self.ends[0], f"{name}_high": self.ends[1]}


def is_jury(metric: str) -> bool:
    """Return whether a metric is a jury's score, or that of one judge or criterion."""
    return metric == JURY or metric.startswith((f"{JURY}[", f"{JURY}."))


def grader_of(record: RunRecord, metric: str) -> str:
    """Return the grader that a metric of a run rests on; empty where it rests on none."""
    if is_jury(metric):
        return JURY
    found = (own.grader for own in record.grading.graders if metric in own.metrics)
    return next(found, "")


def judge_errors(
    records: Iterable[RunRecord], metric: str, confidence: float = 0.95, limit: float = LIMIT
) -> Iterator[JudgeError]:
    """Yield the errors of each judge that a metric rests on, then of several together, over all runs.

    Runs on the same cases ask much the same, so that their verdicts count as those of one run.
    """
    found: dict[tuple[str, str], list[ControlCount]] = {}
    for record in records:
        grader = grader_of(record, metric)
        for one in record.controls:
            if one.grader == grader:
                found.setdefault((one.judge, one.what), []).append(one)
    for (judge, what), counts in found.items():
        runs, kinds = len(counts), defaultdict[str, Counter[str]](Counter)
        for kind, own in ((kind, own) for one in counts for kind, own in one.kinds.items()):
            kinds[kind].update(own)
        wrong, verdicts = sum(c.wrong for c in counts), sum(c.verdicts for c in counts)
        cases = max(c.cases for c in counts)
        ww, wv, vv = (sum(c.squares[n] for c in counts) / runs for n in range(3))
        whole = _Sums(wrong / runs, verdicts / runs, ww, wv, vv, cases)
        parts = {k: _Sums(**{n: own[n] / runs for n in _Sums._fields}) for k, own in kinds.items()}
        yield JudgeError(
            judge=judge,
            what=what,
            runs=runs,
            cases=cases,
            wrong=wrong,
            verdicts=verdicts,
            invalid=sum(c.invalid for c in counts),
            kinds=kinds,
            ends=whole.interval(confidence),
            is_above=whole.is_above(confidence, limit),
            above=[k for k in sorted(parts) if parts[k].is_above(confidence, limit)],
        )


class _Sums(NamedTuple):
    """Sums over the controls of one run, on average of the runs on the same cases."""

    wrong: float
    verdicts: float
    ww: float
    wv: float
    vv: float
    cases: float

    def interval(self, confidence: float) -> tuple[float, float]:
        """Return the interval of the share that is wrong."""
        squares = (self.ww, self.wv, self.vv)
        return exact_share(self.wrong, self.verdicts, squares, round(self.cases), confidence)

    def is_above(self, confidence: float, limit: float) -> bool:
        """Return whether the share may be above a limit; of too few for a faultless judge to pass: whether it is."""
        faultless = self._replace(wrong=0.0, ww=0.0, wv=0.0)
        if faultless.interval(confidence)[1] <= limit:
            return self.interval(confidence)[1] > limit
        return self.wrong > limit * self.verdicts


def of_score(
    records: Iterable[RunRecord], metric: str, confidence: float = 0.95, limit: float = LIMIT
) -> dict[str, JudgeError]:
    """Return the errors behind a score, by their kind: of its one judge, or of all judges together."""
    found = [*judge_errors(records, metric, confidence, limit)]
    judge = metric.partition("[")[2].removesuffix("]")
    if not judge and len({one.judge for one in found}) == 1:
        judge = found[0].judge
    return {one.what: one for one in found if one.judge == judge}


def failure(records: Iterable[RunRecord], metric: str, limit: float = LIMIT) -> str:
    """Return why judges may rank nobody; empty where they may.

    They are within the limit over all controls, and on each kind of them, since one kind may be easy. Of controls
    that are too few to show that a faultless judge is within the limit, the share itself counts.
    """
    own = of_score(records, metric, limit=limit).get(FALSE_POSITIVE)
    if own is None:
        return ""
    if own.share is None:
        return f"{FAILED} (none of {own.invalid:,} verdicts that should be no is valid)"
    if not own.above and not own.is_above:
        return ""
    worst = ((kind, own.kinds[kind]) for kind in own.above)
    said = "".join(f"; {kind}: {k['wrong']:,} of {k['verdicts']:,}" for kind, k in worst)
    return f"{FAILED} (false positives {own.share:.0%}, up to {own.ends[1]:.0%}{said})"


def control_notes(
    of: Iterable[tuple[str, str, Sequence[RunRecord]]], confidence: float
) -> Iterator[str]:
    """Yield the notes on judges' errors. `of`: the name of each benchmark, its metric, its runs."""
    known, without = [], []
    for benchmark, metric, records in of:
        judged = [r for r in records if grader_of(r, metric) and _is_by_models(r)]
        errors = of_score(judged, metric, confidence)
        said = [
            f"{e.share:.1%} {what}s (up to {e.ends[1]:.1%})"
            for what, e in errors.items()
            if e.verdicts
        ]
        if said:
            known.append(f"{benchmark} {', '.join(said)}")
        elif judged:
            without.append(benchmark)
    yield from filled(
        read_tables(__file__)["errors"]["texts"],
        known=several(known, _MANY),
        without=several(without, _MANY),
    )


def _is_by_models(record: RunRecord) -> bool:
    raters = record.grading.raters
    return raters is not None and any(map(is_rankable, raters.judges))


def error_columns(
    records: Iterable[RunRecord], metric: str, confidence: float
) -> dict[str, float | None]:
    """Return the shares of wrong verdicts with their intervals, under the names of `ERRORS`."""
    found = of_score(records, metric, confidence).items()
    rows = [one.row(f"{what}s".replace(" ", "_")) for what, one in found]
    return {name: value for row in rows for name, value in row.items()}


ERRORS = declared(__file__, "errors")
"""The columns of a table of scores that say how far its judges err."""
