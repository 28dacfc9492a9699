"""Tables of questions that are asked in other forms, of the places of options, and of how sure models are of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from string import ascii_uppercase

import numpy as np

from medhelm.data.variants import ORDER, RIGHT, VARIANTS, original_letter
from medhelm.grading.answer_form import BRIER, BY_LENGTH, CONFIDENCE
from medhelm.stats import calibration as stats
from medhelm.stats.aggregation import TIE, Floats, Ints, holm
from medhelm.stats.aggregation import normalise as on_unit_scale
from medhelm.stats.intervals import Interval, bootstrap, cluster_sums, score_interval, seed_of
from medhelm.tables.compare import pair
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Settings, Table
from medhelm.tables.notes import study_table
from medhelm.tables.study.cells import Cell, Keys, chosen_of
from medhelm.tables.study.study import Panel, Study
from medhelm.tables.table_spec import TableRequest

ORIGINAL = "original"
ROBUSTNESS = form(__file__, "robustness")


def robustness(asked: TableRequest) -> Table:
    """Return one row per benchmark, model and form of the questions, the original one first."""
    study = asked.study
    rows: list[Row] = []
    for forms in by_run(study, asked.variants()):
        found = list(_rows(asked, forms))
        tested = [row for row in found if "p" in row]
        for row, p in zip(tested, holm([float(str(row["p"])) for row in tested]), strict=True):
            row["p_holm"] = p
        rows += found
    has_none_of_these = any(row["variant"] == "none_of_these" for row in rows)
    said = ROBUSTNESS.say(none=not rows, always_right=has_none_of_these)
    return study_table(study, ROBUSTNESS, rows, said)


def by_run(study: Study, variants: Sequence[Cell]) -> Iterator[dict[str, Cell]]:
    """Yield by form the run of the original questions and those of their other forms, of each model."""
    for benchmark, cells in study.cells.items():
        for model, original in cells.items():
            own = {
                form.record.spec.variant: form
                for form in variants
                if (form.run.benchmark, form.run.model) == (benchmark, model)
            }
            if own:
                yield {ORIGINAL: original, **{v: own[v] for v in VARIANTS if v in own}}


def _rows(asked: TableRequest, forms: Mapping[str, Cell]) -> Iterator[Row]:
    study, original = asked.study, forms[ORIGINAL]
    benchmark, model = original.run.benchmark, original.run.model
    metric = study.panels[benchmark].metric
    chosen = chosen_of(original)
    for variant, cell in forms.items():
        own, before = cell.scores[metric.name], original.scores[metric.name]
        ids = np.intersect1d(own.ids, before.ids)
        panel = Panel(
            metric, cell.record.card, {model: cell}, {}, ids, own.clusters[own.among(ids)]
        )
        found = panel.estimates(study.settings, benchmark, variant)[model]
        outcomes = own.outcomes
        row: Row = {
            "benchmark": benchmark,
            "metric": metric.name,
            "model": model,
            "variant": variant,
            **found.row("n", "clusters"),
            "unread": sum(outcomes.get(o, 0) for o in ("unparsed", "empty", "truncated")),
            "refused": outcomes.get("refused", 0),
            "failed": sum(outcomes.get(o, 0) for o in ("error", "oversize")),
        }
        if variant != ORIGINAL:
            row["left_out"] = original.record.instances - cell.record.instances
            now, then = (panel.normalise(s.values[s.among(ids)]) for s in (own, before))
            row |= {"lost": int((now < then - TIE).sum()), "gained": int((now > then + TIE).sum())}
            if (both := pair(cell, original, metric, study.settings, benchmark)) is not None:
                row |= {
                    "original": both.scores[1],
                    "difference": both.difference,
                    **both.interval.ends("difference"),
                    "p": both.p,
                    "test": both.test,
                }
            row |= _flips(asked, cell, chosen)
        yield row


def _flips(asked: TableRequest, cell: Cell, before: Mapping[tuple[int, int], str]) -> Row:
    """Return the share of pairs of read answers that give another answer."""
    marks, after = asked.metadata(cell), chosen_of(cell)
    flips: dict[int, list[bool]] = {}
    for (instance, repeat), letter in after.items():
        if earlier := before.get((instance, repeat)):
            is_other = original_letter(marks[instance], letter) != earlier
            flips.setdefault(instance, []).append(is_other)
    names = (cell.run.benchmark, cell.record.spec.variant, "flips")
    share, ends = share_of(flips, cell, asked.study.settings, *names)
    return {
        "flipped": share,
        **ends.ends("flipped"),
        "pairs": sum(map(len, flips.values())),
    }


def share_of(
    marks: Mapping[int, Sequence[bool]], cell: Cell, settings: Settings, *names: str
) -> tuple[float | None, Interval]:
    """Return the mean over instances of a cell of what share of their marks is set, with its interval."""
    own, ids = cell.scores[cell.record.grading.metrics[0].name], sorted(marks)
    values = np.array([np.mean(marks[i]) for i in ids], dtype=np.float64)
    places = np.searchsorted(own.ids, np.array(ids, dtype=np.uint64))
    return rate(values, own.clusters[places], settings, *names)


def rate(
    values: Floats, clusters: Keys, settings: Settings, *names: str
) -> tuple[float | None, Interval]:
    """Return the mean of values from 0 to 1 of instances with its interval; None without any."""
    if not len(values):
        return None, Interval(None, None, "none (no instance)")
    keys, codes = np.unique(clusters, return_inverse=True)
    sums = cluster_sums(np.stack([values, np.ones(len(values))], axis=1), codes, len(keys))
    draws = bootstrap(sums, settings.draws, seed_of(settings.bootstrap_seed, *names))
    with np.errstate(invalid="ignore"):
        means = draws[:, 0] / draws[:, 1]
    ends = score_interval(
        values, codes, means, span=(0.0, 1.0), is_mean=True, confidence=settings.confidence
    )
    return float(values.mean()), ends


POSITIONS = form(__file__, "positions")


def positions(asked: TableRequest) -> Table:
    """Return one row per benchmark, model, form of the questions, and place of the option."""
    rows = [
        row
        for forms in by_run(asked.study, asked.variants())
        for row in _position_rows(asked, forms)
    ]
    return study_table(asked.study, POSITIONS, rows, ROBUSTNESS.say(none=not rows))


def _position_rows(asked: TableRequest, forms: Mapping[str, Cell]) -> Iterator[Row]:
    benchmark, model = forms[ORIGINAL].run.benchmark, forms[ORIGINAL].run.model
    read = {v: asked.metadata(cell) for v, cell in forms.items() if v != ORIGINAL}
    marks = {v: {i: m for i, m in own.items() if ORDER in m} for v, own in read.items()}
    known = {i: mark for own in marks.values() for i, mark in own.items()}
    plain = {i: {ORDER: "".join(sorted(m[ORDER])), RIGHT: m[RIGHT]} for i, m in known.items()}
    for variant, cell in forms.items():
        own = plain if variant == ORIGINAL else marks[variant]
        right = {i: m[ORDER].index(m[RIGHT]) for i, m in own.items() if len(m[RIGHT]) == 1}
        size = {i: len(own[i][ORDER]) for i in right}
        for place in range(max(size.values(), default=0)):
            names = (benchmark, variant, str(place))
            yield {
                "benchmark": benchmark,
                "model": model,
                "variant": variant,
                "position": place + 1,
                **_place(asked, cell, place, right, size, names),
            }


def _place(
    asked: TableRequest,
    cell: Cell,
    place: int,
    right: Mapping[int, int],
    size: Mapping[int, int],
    names: tuple[str, ...],
) -> Row:
    """Return the score where the right option is in a place, and how often the place is chosen."""
    scores = cell.scores[cell.record.grading.metrics[0].name]
    here = np.array([right.get(int(i)) == place for i in scores.ids], dtype=np.bool_)
    settings = asked.study.settings
    score, ends = rate(scores.values[here], scores.clusters[here], settings, *names)
    picks: dict[int, list[bool]] = {}
    for (instance, _), letter in chosen_of(cell).items():
        if size.get(instance, 0) > place:
            picks.setdefault(instance, []).append(letter == ascii_uppercase[place])
    share, of = share_of(picks, cell, settings, *names, "chosen")
    return {
        "score": score,
        **ends.ends(),
        "n": int(here.sum()),
        "chosen": share,
        **of.ends("chosen"),
        "right": float(np.mean([right[i] == place for i in picks])) if picks else None,
        "answers": sum(map(len, picks.values())),
    }


_THRESHOLDS = (50, 80, 95)
"""Percent of confidence below which a model might abstain."""
CALIBRATION = form(__file__, "calibration")
RELIABILITY = form(__file__, "reliability")


def confidence_pairs(cell: Cell) -> tuple[Floats, Floats, Keys]:
    """Return how sure a run's answers are, their normalised scores (1: right), and their instances' clusters.

    They are of the instances whose options all have a probability, in the order of their keys. Empty where
    the run asked for none.
    """
    sure, main = cell.scores.get(CONFIDENCE), cell.record.grading.metrics[0]
    if sure is None:
        return np.empty(0), np.empty(0), np.empty(0, dtype=np.uint64)
    own = cell.scores[main.name]
    _, at, of = np.intersect1d(sure.ids, own.ids, assume_unique=True, return_indices=True)
    scale = main.minimum, main.maximum, main.higher_is_better
    return sure.values[at], on_unit_scale(own.values[of], *scale), sure.clusters[at]


def calibration(study: Study) -> Table:
    """Return one row per benchmark and model that was asked for log-probabilities."""
    rows = [_calibration_row(study, *place) for place in _rated(study)]
    return study_table(study, CALIBRATION, rows, CALIBRATION.say(none=not rows))


def reliability(study: Study) -> Table:
    """Return the bins of each benchmark and model, for a reliability plot and an abstention curve."""
    rows = [row for place in _rated(study) for row in _bins(study.settings, *place)]
    return study_table(study, RELIABILITY, rows, CALIBRATION.say(none=not rows))


def _rated(study: Study) -> Iterator[tuple[str, str, Cell]]:
    for benchmark, cells in study.cells.items():
        for model, cell in cells.items():
            if CONFIDENCE in cell.scores and cell.scores[CONFIDENCE].counted:
                yield benchmark, model, cell


def _calibration_row(study: Study, benchmark: str, model: str, cell: Cell) -> Row:
    settings = study.settings
    sure, right, clusters = confidence_pairs(cell)
    row: Row = {"benchmark": benchmark, "model": model, "n": len(sure)}
    row |= study.estimates(benchmark)[model].row()
    for metric, name in ((BY_LENGTH, "acc_norm"), (BRIER, "brier")):
        own = study.estimates(benchmark, metric)[model]
        row |= {name: own.score, **own.interval.ends(name)}
    row |= _error(settings, sure, right, clusters, benchmark, model)
    row["confidence"] = float(sure.mean())
    for level in _THRESHOLDS:
        is_kept = sure >= level / 100
        row[f"coverage_{level}"] = float(is_kept.mean())
        row[f"score_{level}"] = float(right[is_kept].mean()) if is_kept.any() else None
    return row


def _error(
    settings: Settings, sure: Floats, right: Floats, clusters: Keys, *names: str
) -> dict[str, float | None]:
    """Return the calibration error with its interval, and what chance alone would give."""
    bins = stats.equal_mass_bins(sure)
    keys, codes = np.unique(clusters, return_inverse=True)
    sums = cluster_sums(stats.gap_sums(sure, right, bins), codes, len(keys))
    error = float(stats.calibration_error(sums.sum(0)))
    seed = seed_of(settings.bootstrap_seed, *names, "calibration")
    by_chance = stats.errors_by_chance(sure, bins, settings.draws, seed)
    low = high = None
    if len(keys) > 1:
        draws = stats.calibration_error(bootstrap(sums, settings.draws, seed))
        low, high = stats.error_interval(error, draws, by_chance, settings.confidence)
    return {
        "ece": error,
        "ece_low": low,
        "ece_high": high,
        "ece_by_chance": float(by_chance.mean()),
    }


def _bins(settings: Settings, benchmark: str, model: str, cell: Cell) -> Iterator[Row]:
    sure, right, clusters = confidence_pairs(cell)
    bins: Ints = stats.equal_mass_bins(sure)
    for place in range(int(bins.max()) + 1):
        own, kept = bins == place, bins >= place
        names = (benchmark, model, str(place), "reliability")
        score, ends = rate(right[own], clusters[own], settings, *names)
        yield {
            "benchmark": benchmark,
            "model": model,
            "bin": place + 1,
            "n": int(own.sum()),
            "confidence": float(sure[own].mean()),
            "right": score,
            **ends.ends(),
            "coverage": float(kept.mean()),
            "kept": float(right[kept].mean()),
        }
