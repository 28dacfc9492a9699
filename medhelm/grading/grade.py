"""Episode -> score: the rules that hold for every metric.

Missing is never a score: `error` and `oversize` have no value; `refused`, `empty`, `truncated`
and `unparsed` count with the metric's floor and keep their names, or have no value where it has none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import SupportsFloat

import msgspec

from medhelm.errors import DataError, MedhelmError, PluginError
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode
from medhelm.schema.run import MetricRef
from medhelm.schema.score import FLOORED, Metric, Outcome, Score

_WITHOUT_VALUE: tuple[Outcome, ...] = ("unscored", "uninformative")
AS_FIXED = "no published form, scored as fixed"
"""Describes the scoring of a metric under scoring=helm that HELM does not have."""

_ROUNDING = 1e-9
"""Limits rounding outside the range. The value is then set to the border."""


def grade(metric: Metric, episode: Episode) -> Score:
    """Return what `metric` says of an episode, its outcome settled and its statistics filled.

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
    if not episode.text.strip():
        return _floor(metric, instance, ended or "empty")
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
    """Return a score with its statistics at the place of the instance's part, 0 elsewhere.

    A score without a value, or of another aggregation, comes back as it is. Raises DataError where
    the instance names no part of the benchmark.
    """
    if score.value is None or aggregation != "mean_of_parts":
        return score
    part = instance.metadata.get("part", "")
    if part not in parts:
        raise DataError(
            f"instance {instance.id!r} has no part of the benchmark as metadata['part']: "
            f"{', '.join(parts)}"
        )
    before, behind = parts.index(part), len(parts) - parts.index(part) - 1
    stats = (0.0, 0.0) * before + score.stats + (0.0, 0.0) * behind
    return msgspec.structs.replace(score, stats=stats)


def metric_ref(metric: Metric, parts: Sequence[str] = ()) -> MetricRef:
    """Return all of a metric but its code, as records keep it.

    The mean over a benchmark of several parts is the mean of the parts' means.
    """
    is_split = bool(parts) and metric.aggregation == "mean"
    return MetricRef(
        name=metric.name,
        version=metric.version,
        scoring=metric.scoring,
        minimum=metric.minimum,
        maximum=metric.maximum,
        floor=metric.floor,
        higher_is_better=metric.higher_is_better,
        aggregation="mean_of_parts" if is_split else metric.aggregation,
        interval=metric.interval,
    )


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
    """Return `score` with its value in range and its statistics filled."""
    if not isinstance(score, Score):
        raise _fault(metric, instance, f"returned {type(score).__name__}, not a Score")
    if score.outcome not in allowed:
        raise _fault(metric, instance, f"gave the outcome {score.outcome!r}")
    if score.value is None:
        is_unread = score.outcome in FLOORED and metric.floor is None
        if score.outcome not in _WITHOUT_VALUE and not is_unread:
            raise _fault(metric, instance, f"gave no value for the outcome {score.outcome!r}")
        return msgspec.structs.replace(score, stats=())
    if score.outcome in _WITHOUT_VALUE:
        raise _fault(metric, instance, f"gave a value for the outcome {score.outcome!r}")
    if not isinstance(score.value, (float, SupportsFloat)):  # the protocol alone takes 9 us
        raise _fault(metric, instance, f"gave a {type(score.value).__name__} as value")
    value = _in_range(metric, instance, float(score.value))
    if not score.stats and metric.aggregation != "mean":
        raise _fault(metric, instance, f"gave no stats, which {metric.aggregation} is made of")
    stats = tuple(map(float, score.stats)) or (value, 1.0)
    if not all(map(math.isfinite, stats)):
        raise _fault(metric, instance, "gave stats that are not finite")
    return msgspec.structs.replace(score, value=value, stats=stats)


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
