"""The tables of groups of instances: slices, scores by the values of a metadata key, and gaps between groups, all at once."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from medhelm.errors import UnknownName, UsageError
from medhelm.stats import aggregation as stats
from medhelm.stats.aggregation import MEAN_OF_PARTS, TIE, Floats
from medhelm.stats.intervals import bootstrap, cluster_sums, difference, score_limits, seed_of
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Settings, Table, Value
from medhelm.tables.notes import study_table
from medhelm.tables.study.cells import Keys, Metadata
from medhelm.tables.study.study import Panel, Study
from medhelm.tables.table_spec import TableRequest

OTHERS = "all others"
NOTHING = "none (too few clusters, or nothing to compare with)"
GAPS = form(__file__, "gaps")


def gaps(asked: TableRequest) -> Table:
    """Return one row per group and model: by the key `by`, else by part where a benchmark names a reference part.

    An instance of the group and one of the reference in one cluster (a question in two languages)
    are resampled together, so that the gap is a paired one. Raises UnknownName for a key that no instance has.
    """
    study, by, least = asked.study, asked.by, asked.study.settings.min_group
    rows: list[Row] = []
    said: list[str] = []
    keys: set[str] = set()
    for benchmark, panel in study.panels.items():
        reference, names = "", dict[int, str]()
        if by is not None:
            tags = panel.instance_tags(asked.metadata)
            keys.update(*tags.values())
            names = {i: tag[by] for i, tag in tags.items() if by in tag}
            lacking = len(tags) - len(names) if names else 0
            said += GAPS.say(lacking=(lacking, benchmark, by) if lacking else None)
        elif panel.card.reference_part and panel.metric.aggregation == MEAN_OF_PARTS.name:
            reference, names = panel.card.reference_part, _parts(panel)
        ids, of = np.array(sorted(names), dtype=np.uint64), [names[i] for i in sorted(names)]
        groups = {g: ids[np.array(of) == g] for g in sorted({*of})}
        own, small = _rows(study, panel, by or "part", groups, reference)
        rows += own
        said += GAPS.say(few=(least, benchmark, ", ".join(small)) if small else None)
    if by is not None and by not in keys:
        known = sorted(keys)
        raise UnknownName("metadata key", by, known, f"keys of these runs: {', '.join(known)}")
    said += GAPS.say(none=not rows)
    title = f"Gaps between groups by {by}" if by else ""
    more: dict[str, Value] = {"min_group": least}
    return study_table(study, GAPS, rows, said, title=title, is_ranking=True, more=more)


def _parts(panel: Panel) -> dict[int, str]:
    """Return the part of each compared instance, by the sums of the parts."""
    found: dict[int, str] = {}
    for scores in map(panel.scores, panel.cells):
        counts = {n: i for i, n in enumerate(scores.pooling.names) if n.startswith("count/")}
        for name, place in counts.items():
            own = scores.ids[(scores.sums[:, place] > 0) & np.isin(scores.ids, panel.ids)]
            found |= dict.fromkeys(own.tolist(), name.partition("/")[2])
    return found


def _rows(
    study: Study, panel: Panel, key: str, groups: Mapping[str, Keys], reference: str
) -> tuple[list[Row], list[str]]:
    """Return a row a group and model, of parts with a reference also of the mean of the others; and the small groups."""
    least, large = study.settings.min_group, dict[str, Keys]()
    for name, ids in groups.items():
        if len(np.unique(panel.clusters[np.isin(panel.ids, ids)])) >= least:
            large[name] = ids
    names: list[str | None] = [g for g in groups if g != reference]
    names += [None] * bool(reference in large and len(large) > 1)
    models = sorted(panel.cells, key=lambda m: (m not in study.ranked, m))
    found = {m: _model_rows(study.settings, panel, m, large, reference) for m in models}
    rows: list[Row] = [
        {
            "benchmark": panel.card.name,
            "metric": panel.metric.name,
            "key": key,
            "part": name,
            "reference": reference or OTHERS,
            "model": model,
            "ranked": model in study.ranked,
            "n": len(groups[name]) if name else 0,
            "interval_method": NOTHING,
            **found[model].get(name, {}),
        }
        for name in names
        for model in models
    ]
    return rows, [f"{g} (n {len(ids)})" for g, ids in groups.items() if g not in large]


def _model_rows(
    settings: Settings, panel: Panel, model: str, groups: Mapping[str, Keys], reference: str
) -> dict[str | None, Row]:
    """Return the numbers of a model by group, under None those of all but the reference."""
    names: list[str | None] = [g for g in groups if g != reference]
    if len(groups) < 2 or (reference and reference not in groups):
        return {}
    side, found = partial(_Side, settings, panel, model), dict[str | None, Row]()
    everyone = np.concatenate([*groups.values()])
    mean, plain = side(everyone, settings.confidence).score, settings.confidence
    for name in [*names, *([None] * bool(reference))]:
        own = np.setdiff1d(everyone, groups[reference]) if name is None else groups[name]
        against = groups[reference] if reference else np.setdiff1d(everyone, own)
        level = plain if name is None else 1 - (1 - plain) / len(names)
        one, two = side(own, level), side(against, level)
        if min(len(one.clusters), len(two.clusters)) < settings.min_group:
            continue
        ends = difference(one.limits, two.limits, one.correlation(two))
        found[name] = {
            "score": one.score,
            "reference_score": two.score,
            "mean": mean,
            "gap": one.limits[0] - two.limits[0],
            **ends.ends(),
            "interval_method": ends.method,
            "n": one.n,
            "reference_n": two.n,
            "clusters": len(np.union1d(one.clusters, two.clusters)),
        }
    best = 1 if panel.metric.higher_is_better else -1
    scores = {g: best * float(str(row["score"])) for g, row in found.items() if g is not None}
    for name, score in scores.items():
        found[name]["worst"] = score <= min(scores.values()) + TIE
    return found


class _Side:
    """A model's score on some instances, with limits of a confidence on the scale from 0 to 1."""

    def __init__(
        self, settings: Settings, panel: Panel, model: str, ids: Keys, confidence: float
    ) -> None:
        scores = panel.scores(model)
        at = np.isin(scores.ids, ids)
        values, sums, metric = scores.values[at], scores.sums[at], panel.metric
        keys, codes = np.unique(scores.clusters, return_inverse=True)
        own, codes = cluster_sums(sums, codes[at], len(keys)), codes[at]
        self.n, self.clusters = len(values), np.unique(scores.clusters[at])
        self.score = float(scores.pooling(sums.sum(0)))
        self._own, self._pooling, self._draws = own, scores.pooling, settings.draws
        self._seed = seed_of(settings.bootstrap_seed, panel.card.name, "gaps")
        is_mean = metric.aggregation == "mean"
        if metric.aggregation == MEAN_OF_PARTS.name and len(values):
            is_mean = abs(float(values.mean()) - self.score) <= TIE  # one part, or equal ones
        if is_mean:
            error = stats.clustered_error(values, codes)
        else:
            known, c = self._drawn(), len(self.clusters)
            error = stats.sample_sd(known[~np.isnan(known)], ddof=1) * math.sqrt(c / max(1, c - 1))
        is_rate = is_mean and (metric.minimum, metric.maximum) == (0.0, 1.0)
        ends = score_limits(self.score, values if is_rate else None, codes, error, confidence)
        scaled = panel.normalise(np.array([self.score, *ends]))
        self.limits = (float(scaled[0]), float(scaled[1:].min()), float(scaled[1:].max()))

    def _drawn(self) -> Floats:
        return np.asarray(self._pooling(bootstrap(self._own, self._draws, self._seed)))

    def correlation(self, other: _Side) -> float:
        """Return the correlation of two scores, by their draws; 0 where they share no cluster."""
        if not len(np.intersect1d(self.clusters, other.clusters)):
            return 0.0
        both = np.stack([self._drawn(), other._drawn()])
        both = both[:, ~np.isnan(both).any(axis=0)]
        is_still = both.shape[1] < 2 or bool((both.std(axis=1) <= TIE).any())
        return 0.0 if is_still else float(np.asarray(np.corrcoef(both))[0, 1])


SLICES = form(__file__, "slices")


def slices(study: Study, by: str | None, metadata: Metadata) -> Table:
    """Return one row per benchmark, value of the metadata key `by`, and model.

    Raises UsageError without a key and UnknownName for one that no instance has.
    """
    tags = {b: panel.instance_tags(metadata) for b, panel in study.panels.items()}
    keys = sorted({key for found in tags.values() for tag in found.values() for key in tag})
    if not by:
        raise UsageError(f"slices need --by KEY; keys of these runs: {', '.join(keys) or 'none'}")
    if by not in keys:
        raise UnknownName("metadata key", by, keys, f"keys of these runs: {', '.join(keys)}")
    having = [b for b, found in tags.items() if any(by in tag for tag in found.values())]
    rows = [row for b in having for row in _slice_rows(study, b, by, tags[b])]
    without = [b for b in tags if b not in having]
    said = SLICES.say(without=(by, ", ".join(without)) if without else None)
    more: dict[str, Value] = {"min_group": study.settings.min_group}
    title = f"Scores by {by}"
    return study_table(study, SLICES, rows, said, title=title, is_ranking=True, more=more)


def _slice_rows(
    study: Study, benchmark: str, by: str, tags: Mapping[int, Mapping[str, str]]
) -> Iterator[Row]:
    panel = study.panels[benchmark]
    members: dict[str | None, list[int]] = defaultdict(list)
    for instance, tag in tags.items():
        members[tag.get(by)].append(instance)
    for value in sorted(members, key=lambda v: (v is None, v or "")):
        part = panel.restrict(np.array(sorted(members[value]), dtype=np.uint64))
        is_small = len(np.unique(part.clusters)) < (least := study.settings.min_group)
        found = part.estimates(study.settings, benchmark, by, value or "")
        for model in sorted(found, key=lambda m: (m not in study.ranked, m)):
            numbers = found[model].row("interval_method", "normalised", "n")
            if is_small:
                why = f"none (fewer than {least} clusters)"
                numbers = {"score": None, "n": numbers["n"], "interval_method": why}
            yield {
                "benchmark": benchmark,
                "metric": panel.metric.name,
                "key": by,
                "value": value,
                "model": model,
                "ranked": model in study.ranked,
                **numbers,
                "share": len(part.ids) / len(panel.ids),
            }
