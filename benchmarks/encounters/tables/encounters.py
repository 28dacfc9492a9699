"""The table of encounters: all readings of completion, competencies, specialties, length, conduct.

Scores of a row are of the same cases for all models: those that every ranked one has. Intervals are of
a bootstrap over source articles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from medhelm import Aggregation, Table, TableRequest, TableSpec, make_table
from medhelm.errors import UsageError
from medhelm.schema.aggregation import Share
from medhelm.stats.aggregation import Floats, Pooling
from medhelm.stats.intervals import bootstrap, cluster_sums, percentile, seed_of
from medhelm.tables import notes
from medhelm.tables.format.table import Row, Settings
from medhelm.tables.slices import instance_tags
from medhelm.tables.study.cells import Cell, Keys
from medhelm.tables.study.study import Estimate, Panel, Study, estimate, restrict
from medhelm_benchmarks.encounters.grading.completion import CASE_MEAN, METRICS, POOLED
from medhelm_benchmarks.encounters.packets import COMPETENCIES, COMPETENCY_NAMES
from medhelm_benchmarks.encounters.tables.columns import COLUMNS, ENDED, LAYOUT, parts
from medhelm_benchmarks.encounters.tables.strategies import paired_strategies

COMPLETION, ACCURACY = "encounter_completion", "diagnosis_accuracy"
DRAWS = 10_000
LEAST_CASES = 5
"""A specialty with fewer has no row."""
BINS = 10
_READINGS: Mapping[str, Aggregation] = {
    "case_mean": CASE_MEAN,
    "pooled": POOLED,
    "competency_mean": METRICS[2].aggregation,
    "competency_case_mean": METRICS[3].aggregation,
}
_SAID = (
    "case mean: each case counts once (equation 2 of the paper, and its figures). pooled: each item "
    "counts once (its headline). mean of competencies: of the pooled shares (its table 1).",
    "An encounter that patient, surroundings or network failed is in no mean; one that the clinician "
    "failed counts as nothing met.",
    f"capped is a share, turns and what else the clinicians did are means, of {ENDED}. failed is a share of "
    "all encounters asked for.",
    f"Intervals are of {DRAWS:,} bootstrap draws over source articles.",
)


def encounters(asked: TableRequest) -> Table:
    """Return rows of each benchmark of encounters: per model, competency, specialty, length, strategies."""
    study = asked.study
    found = [b for b in study.panels if {COMPLETION, ACCURACY} & set(study.metrics(b))]
    rows = [row for b in found for row in _rows(_Encounters(study, b), asked)]
    said = [*notes.common(study), *(_SAID if rows else ["No benchmark here has encounters."])]
    return make_table(
        "encounters",
        "Encounters",
        COLUMNS,
        rows,
        said,
        notes.settings(study) | {"draws": DRAWS},
        parts=parts(len(found) > 1),
        layout=LAYOUT,
    )


ENCOUNTERS = TableSpec(
    name="encounters",
    help="completion of rubrics in all readings, by competency, specialty, length of input; strategies paired",
    columns=COLUMNS,
    make=encounters,
)


@dataclass(frozen=True)
class _Encounters:
    """One benchmark of encounters."""

    study: Study
    benchmark: str

    @property
    def metric(self) -> str:
        """Return the metric whose sums hold all that is counted."""
        names = set(self.study.metrics(self.benchmark))
        return COMPLETION if COMPLETION in names else ACCURACY

    @property
    def panel(self) -> Panel:
        """Return the scores of all models."""
        return self.study.panel(self.benchmark, self.metric)

    @property
    def settings(self) -> Settings:
        """Return the settings of intervals: those of the study, with enough draws."""
        return replace(self.study.settings, draws=max(DRAWS, self.study.settings.draws))

    @property
    def readings(self) -> Mapping[str, Aggregation]:
        """Return the readings of the sums by their columns."""
        if self.metric == COMPLETION:
            return _READINGS
        share = Aggregation(name="accuracy", sums=("right", "cases"), of=Share("right", "cases"))
        return {"accuracy": share}

    def estimates(self, panel: Panel, aggregation: Aggregation, *names: str) -> dict[str, Estimate]:
        """Return each model's estimate of one reading of the sums."""
        ref = msgspec.structs.replace(panel.metric, maximum=1.0, aggregation=aggregation.name)

        def cut(cell: Cell) -> Cell:
            own = cell.scores[self.metric]
            sums = own.pooling.columns(own.sums, aggregation.sums)
            pooling = Pooling(aggregation, aggregation.sums)
            return replace(cell, scores={self.metric: replace(own, sums=sums, pooling=pooling)})

        cells = {model: cut(cell) for model, cell in panel.cells.items()}
        cut_panel = replace(panel, metric=ref, cells=cells)
        return estimate(cut_panel, self.settings, self.benchmark, *names)

    def totals(self, model: str, ids: Keys) -> dict[str, float]:
        """Return a model's sums by name over some cases; none: over all of its own."""
        scores = self.panel.scores(model)
        at = scores.among(ids) if len(ids) else slice(None)
        return {
            name: float(column[at].sum())
            for name, column in scores.pooling.by_name(scores.sums).items()
        }


def _rows(own: _Encounters, asked: TableRequest) -> Iterator[Row]:
    panel = own.panel
    _refuse_other_items(own)
    found = {
        column: own.estimates(panel, aggregation, column)
        for column, aggregation in own.readings.items()
    }
    first = next(iter(found.values()))
    models = sorted(first, key=lambda m: (-np.nan_to_num(first[m].score, nan=-1.0), m))
    for model in models:
        row = _row(own, model, "model", n=first[model].n, clusters=first[model].clusters)
        for column, estimates in found.items():
            row |= _ends(column, estimates[model])
        yield row | _asked(own, model) | _counts(own.totals(model, panel.ids))
    if own.metric == COMPLETION:
        yield from sorted(
            _competencies(own, models), key=lambda row: models.index(str(row["model"]))
        )
    specialties = _specialties(own, models, asked)
    yield from sorted(specialties, key=lambda row: models.index(str(row["model"])))
    yield from _lengths(own, models)
    for row in paired_strategies(panel, next(iter(own.readings.values())), own.settings):
        yield {"benchmark": own.benchmark, **row}


def _row(own: _Encounters, model: str | None, level: str, **more: object) -> Row:
    row: Row = {"benchmark": own.benchmark, "level": level, "model": model, **more}
    if model is None:
        return row
    cast = own.panel.cells[model].record.spec.cast
    played = ", ".join(f"{role}: {spec.name}" for role, spec in cast.items())
    return row | {"cast": played, "ranked": model in own.study.ranked}


def _ends(column: str, found: Estimate) -> Row:
    ends = {f"{column}_low": found.interval.low, f"{column}_high": found.interval.high}
    return {column: found.score, **ends}


def _asked(own: _Encounters, model: str) -> Row:
    """Return how many encounters there are, and what became of those without a score."""
    cell = own.panel.cells[model]
    scores = cell.scores[own.metric]
    planned = cell.planned(own.metric)
    others = {o: n for o, n in scores.outcomes.items() if o != "scored" and n}
    return {
        "attempted": planned,
        "scored": scores.counted,
        "not_scored": ", ".join(f"{n:,} {o}" for o, n in others.items()),
        "failed": scores.outcomes.get("error", 0) / planned if planned else None,
    }


def _counts(sums: Mapping[str, float]) -> Row:
    """Return what was counted in encounters that came to an end, as means of one."""
    row: Row = {n: sums.get(n) for n in ("met", "items", "invalid", "no_evidence", "extra")}
    ended = sums["encounters"]
    if not ended:
        return row
    for name in ("turns", "questions", "actions", "unsupported", "corrections", "overruled"):
        row[name] = sums[name] / ended
    for name in ("capped", "tests_first", "input_chars"):
        row[name] = sums[name] / ended
    row["turns_to_decision"] = (
        sums["turns_to_decision"] / sums["decided"] if sums["decided"] else None
    )
    return row


def _competencies(own: _Encounters, models: list[str]) -> Iterator[Row]:
    """Yield each competency of each model, pooled and as a mean over the cases that have it."""
    for competency in COMPETENCIES:
        ways = {
            "pooled": (f"met/{competency}", f"items/{competency}"),
            "case_mean": (f"rate/{competency}", f"cases/{competency}"),
        }
        found = {
            column: own.estimates(
                own.panel,
                Aggregation(name=f"{column}_{competency}", sums=pair, of=Share(*pair)),
                column,
                competency,
            )
            for column, pair in ways.items()
        }
        for model in models:
            sums = own.totals(model, own.panel.ids)
            if not sums[f"items/{competency}"]:
                continue
            row = _row(
                own, model, "competency", group=f"{competency}: {COMPETENCY_NAMES[competency]}"
            )
            for column, estimates in found.items():
                row |= _ends(column, estimates[model])
            cases = round(sums[f"cases/{competency}"])
            yield row | {
                "n": cases,
                "met": sums[f"met/{competency}"],
                "items": sums[f"items/{competency}"],
            }


def _specialties(own: _Encounters, models: list[str], asked: TableRequest) -> Iterator[Row]:
    members: dict[str, list[int]] = {}
    for case, tags in instance_tags(own.panel, asked.metadata).items():
        if name := tags.get("specialty"):
            members.setdefault(name, []).append(case)
    column, aggregation = next(iter(own.readings.items()))
    for name in sorted(name for name, cases in members.items() if len(cases) >= LEAST_CASES):
        ids = np.array(sorted(members[name]), dtype=np.uint64)
        found = own.estimates(restrict(own.panel, ids), aggregation, "specialty", name)
        for model in models:
            row = _row(own, model, "specialty", group=name, n=found[model].n)
            sums = own.totals(model, ids)
            yield row | _ends(column, found[model]) | {n: sums.get(n) for n in ("met", "items")}


def _lengths(own: _Encounters, models: list[str]) -> Iterator[Row]:
    """Yield ten equal bins of the encounters by the input of the clinician: each model's, and all's.

    Models that are not ranked, such as rules that read the rubric, are in no row over all.
    """
    column, aggregation = next(iter(own.readings.items()))
    pairs = []
    for model in models:
        scores = own.panel.scores(model)
        sums = scores.pooling.by_name(scores.sums)
        ended = sums["encounters"] > 0
        if ended.sum() >= BINS:
            length = sums["input_chars"] / np.maximum(
                sums["encounters"], 1e-9
            )  # of those that ended
            values = np.stack([*(sums[name] for name in aggregation.sums[:2]), length], 1)
            pairs.append((model, values[ended], scores.clusters[ended]))
    for name, values, clusters in pairs:
        yield from _bins(own, name, column, values, clusters)
    ranked = [values for model, *values in pairs if model in own.study.ranked]
    if len(ranked) > 1:
        whole = [np.concatenate(parts) for parts in zip(*ranked, strict=True)]
        yield from _bins(own, None, column, *whole)


def _bins(
    own: _Encounters, model: str | None, column: str, values: Floats, clusters: Keys
) -> Iterator[Row]:
    order = np.argsort(values[:, 2], kind="stable")
    for number, part in enumerate(np.array_split(order, BINS), start=1):
        keys, codes = np.unique(clusters[part], return_inverse=True)
        sums = cluster_sums(values[part, :2], codes, len(keys))
        seed = seed_of(
            own.settings.bootstrap_seed, own.benchmark, "length", model or "", str(number)
        )
        drawn = bootstrap(sums, own.settings.draws, seed)
        found = percentile(drawn[:, 0] / drawn[:, 1], own.settings.confidence)
        yield _row(own, model, "length", group=f"{number} of {BINS}") | {
            "n": len(part),
            "clusters": len(keys),
            "input_chars": float(values[part, 2].mean()),
            column: float(sums[:, 0].sum() / sums[:, 1].sum()),
            f"{column}_low": found.low,
            f"{column}_high": found.high,
        }


def _refuse_other_items(own: _Encounters) -> None:
    """Refuse models whose rubrics differ on common cases: their scores are not of one kind."""
    if own.metric != COMPLETION or not len(own.panel.ids):
        return
    seen: dict[str, Floats] = {}
    for model in own.panel.cells:
        scores = own.panel.scores(model)
        if np.isin(own.panel.ids, scores.ids).all():
            items = scores.pooling.by_name(scores.sums)["items"]
            seen[model] = items[scores.among(own.panel.ids)]
    first = next(iter(seen), None)
    for model, items in seen.items():
        if first is not None and not np.allclose(items, seen[first], equal_nan=True):
            cases = int(np.count_nonzero(~np.isclose(items, seen[first])))
            raise UsageError(
                f"{own.benchmark}: {model} and {first} were scored on other items in {cases:,} cases; "
                "`medhelm score` scores the stored encounters by one rubric"
            )
