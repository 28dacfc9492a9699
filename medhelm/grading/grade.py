"""Episode -> score: the rules that hold for every metric.

Missing is never a score: `error` and `oversize` have no value; `refused`, `empty`, `truncated`
and `unparsed` count with the metric's floor and keep their names, or have no value where it has none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import SupportsFloat

import msgspec

from medhelm.errors import DataError, MedhelmError, PluginError, closest
from medhelm.grading.answer_form import metric_names_of
from medhelm.schema.aggregation import EACH, MEAN
from medhelm.schema.asking import Asking
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import Episode
from medhelm.schema.run import MetricRef, fields_of
from medhelm.schema.score import FLOORED, Metric, Outcome, Score, Scoring

_WITHOUT_VALUE: tuple[Outcome, ...] = ("unscored", "uninformative")
AS_FIXED = "no published form, scored as fixed"
"""The scoring of a metric that HELM does not have, under scoring=helm."""

MEAN_OF_PARTS = "mean_of_parts"
"""Name of the aggregation of a mean over a benchmark of several parts."""

_ROUNDING = 1e-9
"""Largest error of rounding outside the range. The value is then set to the border."""


def grade(metric: Metric, episode: Episode) -> Score:
    """Return what `metric` says of an episode, its outcome settled and its sums checked.

    Raises PluginError where the metric fails, or gives a value that is not finite or not in its
    range. A MedhelmError of the metric itself (an instance that it cannot use) passes through.
    """
    instance = episode.instance
    if episode.finish in ("error", "oversize"):
        outcome: Outcome = "error" if episode.finish == "error" else "oversize"
        return Score(value=None, outcome=outcome, reason=episode.error)
    if episode.finish == "refusal":
        return _floor(metric, instance, "refused")
    ended: Outcome | None = "truncated" if episode.finish == "length" else None
    if not (episode.text.strip() or episode.unread):
        return _floor(metric, instance, ended or "empty")
    if episode.unread and episode.error:  # a fault of the endpoint, not of the model
        return Score(value=None, outcome="unscored", reason=episode.unread)
    if episode.unread:
        return _floor(metric, instance, ended or "unparsed", episode.unread)
    try:
        score = metric.score(episode.instance, episode)
    except MedhelmError:
        raise
    except (Exception, SystemExit) as e:  # the boundary to plugins: whatever they raise is theirs
        raise _fault(metric, instance, f"raised {type(e).__name__}") from None
    if isinstance(score, Score) and score.outcome == "unparsed":
        floored = _floor(metric, instance, ended or "unparsed", score.reason)
        return msgspec.structs.replace(floored, extracted=score.extracted)
    return _checked(metric, instance, score, ("scored", *_WITHOUT_VALUE))


def in_parts(score: Score, aggregation: str, instance: Instance, parts: Sequence[str]) -> Score:
    """Return a score with its sums under the name of the instance's part, 0 under the others'.

    A score without a value, or of another aggregation, comes back as it is. Raises DataError where
    the instance names no part of the benchmark.
    """
    if score.value is None or aggregation != MEAN_OF_PARTS:
        return score
    part = instance.metadata.get("part", "")
    if part not in parts:
        raise DataError(
            f"instance {instance.id!r} has no part of the benchmark as metadata['part']: "
            f"{', '.join(parts)}"
        )
    sums = {f"{name}/{p}": 0.0 for p in parts for name in ("sum", "count")}
    sums |= {f"{name}/{part}": value for name, value in summands(score).items()}
    return msgspec.structs.replace(score, sums=sums)


def summands(score: Score) -> Mapping[str, float]:
    """Return what a score with a value adds to the sums of a run."""
    if score.sums or score.value is None:
        return score.sums
    return {"sum": score.value, "count": 1.0}


def metric_ref(metric: Metric, parts: Sequence[str] = ()) -> MetricRef:
    """Return all of a metric but its code, as records keep it.

    The mean over a benchmark of several parts is the mean of the parts' means.
    """
    is_split = bool(parts) and metric.aggregation == MEAN
    return MetricRef(
        **fields_of(metric, *MetricRef.__struct_fields__)
        | {"aggregation": MEAN_OF_PARTS if is_split else metric.aggregation.name}
    )


def metric_names(
    benchmark: Benchmark, scoring: Scoring, asking: Asking | None = None
) -> tuple[str, ...]:
    """Return the metrics of a benchmark, the main one first: under `helm` what HELM ranks by.

    The form of an asking may add some.
    """
    first = benchmark.published_metric if scoring == "helm" else ""
    own = sorted(benchmark.metrics, key=lambda name: name != first)
    return (*dict.fromkeys([*own, *metric_names_of(asking)]),)


def _floor(metric: Metric, instance: Instance, outcome: Outcome, reason: str = "") -> Score:
    try:
        score = metric.floor_score(instance, outcome, reason)
    except MedhelmError:
        raise
    except (Exception, SystemExit) as e:  # the boundary to plugins
        raise _fault(metric, instance, f"raised {type(e).__name__} in floor_score") from None
    return _checked(metric, instance, score, (*FLOORED, "uninformative"))


def _checked(
    metric: Metric, instance: Instance, score: Score, allowed: tuple[Outcome, ...]
) -> Score:
    """Return `score` with its value in range and its sums checked."""
    if not isinstance(score, Score):
        raise _fault(metric, instance, f"returned {type(score).__name__}, not a Score")
    if score.outcome not in allowed:
        raise _fault(metric, instance, f"gave the outcome {score.outcome!r}")
    if score.value is None:
        is_unread = score.outcome in FLOORED and metric.floor is None
        if score.outcome not in _WITHOUT_VALUE and not is_unread:
            raise _fault(metric, instance, f"gave no value for the outcome {score.outcome!r}")
        return msgspec.structs.replace(score, sums={})
    if score.outcome in _WITHOUT_VALUE:
        raise _fault(metric, instance, f"gave a value for the outcome {score.outcome!r}")
    if not isinstance(score.value, (float, SupportsFloat)):  # the protocol alone takes 9 us
        raise _fault(metric, instance, f"gave a {type(score.value).__name__} as value")
    value = _in_range(metric, instance, float(score.value))
    return msgspec.structs.replace(score, value=value, sums=_checked_sums(metric, instance, score))


def _checked_sums(metric: Metric, instance: Instance, score: Score) -> dict[str, float]:
    """Return the sums of a score, which are those that the metric's aggregation names.

    A mean has none of its own: each value counts once, as its standard error takes it.
    """
    own = metric.aggregation
    if not score.sums and own == MEAN:
        return {}
    names = () if own == MEAN else own.sums
    known = ", ".join(names) or "none, since it is a mean"
    for name, value in score.sums.items():
        if not _is_named(name, names):
            near = closest(name, names)
            mean = f"; did you mean {near[0]!r}?" if near else ""
            raise _fault(metric, instance, f"gave the sum {name!r}, its sums are: {known}{mean}")
        if not isinstance(value, (float, SupportsFloat)) or not math.isfinite(value):
            raise _fault(metric, instance, f"gave {value!r} as sum {name!r}, not a finite number")
    if not own.is_full(tuple(score.sums)):
        lacking = [name for name in names if not any(_is_named(n, [name]) for n in score.sums)]
        what = f"the sum {lacking[0]!r}" if lacking else "a sum of each label"
        raise _fault(metric, instance, f"gave a score without {what}; its sums are: {known}")
    return {name: float(value) for name, value in score.sums.items()}


def _is_named(name: str, names: Sequence[str]) -> bool:
    """Return whether a sum is one of the names, or of a label under one that ends in `/*`."""
    return name in names or f"{name.partition('/')[0]}/{EACH}" in names


def _in_range(metric: Metric, instance: Instance, value: float) -> float:
    nearest = min(max(value, metric.minimum), metric.maximum)
    if not math.isfinite(value) or abs(value - nearest) > _ROUNDING:
        allowed = f"[{metric.minimum:g}, {metric.maximum:g}]"
        raise _fault(metric, instance, f"gave the value {value}, which is not in {allowed}")
    return nearest


def _fault(metric: Metric, instance: Instance, what: str) -> PluginError:
    return PluginError(
        f"metric {metric.name!r} (scoring {metric.scoring}) {what} for instance {instance.id!r}; "
        "mend the metric's score or floor_score"
    )
