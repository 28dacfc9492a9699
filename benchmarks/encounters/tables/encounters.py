"""The table of encounters: all readings of completion, competencies, specialties, length, conduct.

Scores of a row are of the same cases for all models: those that every ranked one has, or every one where
none is ranked. Intervals are of a bootstrap over source articles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from medhelm import (
    Aggregation,
    Floats,
    Study,
    Table,
    TableRequest,
    TableSpec,
    UsageError,
    pooled_share,
)
from medhelm.plugin import aggregation, compare, intervals, notes
from medhelm.plugin import column_kinds as kinds
from medhelm.plugin import study as studies
from medhelm_benchmarks.encounters.grading.completion import (
    CASE_MEAN,
    COMPETENCY_CASE_MEAN,
    COMPETENCY_MEAN,
    LEFT_OUT,
    POOLED,
    TURNED,
)
from medhelm_benchmarks.encounters.packets import COMPETENCY_NAMES

COMPLETION, ACCURACY = "encounter_completion", "diagnosis_accuracy"
DRAWS = 10_000
LEAST_CASES = 5
"""A specialty with fewer has no row."""
BINS = 10
_READINGS: Mapping[str, Aggregation] = {
    "case_mean": CASE_MEAN,
    "pooled": POOLED,
    "competency_mean": COMPETENCY_MEAN,
    "competency_case_mean": COMPETENCY_CASE_MEAN,
}
_WORDED = {"turned": TURNED, "left_out": LEFT_OUT}


_Keys = NDArray[np.uint64]
FORM = kinds.form(__file__, "encounters", errors=studies.ERRORS)


def encounters(asked: TableRequest) -> Table:
    """Return rows of each benchmark of encounters: per model, competency, specialty, length, strategies."""
    study = asked.study
    found = [b for b in study.panels if {COMPLETION, ACCURACY} & set(study.metrics(b))]
    rows = [row for b in found for row in _rows(_Encounters(study, b), asked)]
    said = [*FORM.texts.values()] if rows else ["No benchmark here has encounters."]
    return notes.study_table(
        study,
        FORM,
        rows,
        [*notes.fewer_instances(study), *said],
        more={"draws": DRAWS},
        under=("benchmark",) if len(found) > 1 else (),
    )


ENCOUNTERS = TableSpec(name=FORM.name, help=FORM.help, columns=FORM.columns, make=encounters)


class _Encounters:
    """One benchmark of encounters: the metric whose sums hold all that is counted, and their readings by column."""

    def __init__(self, study: Study, benchmark: str) -> None:
        self.study, self.benchmark = study, benchmark
        is_rated = COMPLETION in study.metrics(benchmark)
        self.metric = COMPLETION if is_rated else ACCURACY
        self.panel = study.panel(benchmark, self.metric)
        self.settings = replace(study.settings, draws=max(DRAWS, study.settings.draws))
        accuracy = pooled_share("accuracy", "right", "cases")
        self.readings = _READINGS if is_rated else {"accuracy": accuracy}

    def estimates(
        self, panel: studies.Panel, reading: Aggregation, *names: str
    ) -> dict[str, studies.Estimate]:
        """Return each model's estimate of one reading of the sums."""
        shares = panel.with_reading(reading)
        return shares.estimates(self.settings, self.benchmark, *names)

    def totals(self, model: str, ids: _Keys, metric: str = "") -> dict[str, float]:
        """Return a model's sums of a metric over some cases, by name; none: over all of its own."""
        return self.panel.cells[model].scores[metric or self.metric].totals(ids)


def _rows(own: _Encounters, asked: TableRequest) -> Iterator[dict[str, object]]:
    panel = own.panel
    _refuse_other_items(own)
    found = {
        column: own.estimates(panel, reading, column) for column, reading in own.readings.items()
    }
    first = next(iter(found.values()))
    models = studies.best_first(first)
    has_worded = TURNED in own.study.metrics(own.benchmark)
    worded = {m: own.totals(m, panel.ids, TURNED)["failures"] for m in models if has_worded}
    for column, metric in _WORDED.items() if any(worded.values()) else ():
        part = own.study.panel(own.benchmark, metric)
        found[column] = part.estimates(own.settings, own.benchmark, column)
    for model in models:
        row = _row(own, model, "model", n=first[model].n, clusters=first[model].clusters)
        row["failures"] = worded.get(model) or None
        for column, estimates in found.items():
            row |= estimates[model].cells(column)
        record = panel.cells[model].record
        row |= studies.error_columns([record], own.metric, own.settings.confidence)
        yield row | _asked(own, model) | _counts(own.totals(model, panel.ids))
    for level, groups in (
        ("competency", _competencies(own)),
        ("specialty", _specialties(own, asked)),
    ):
        parts = [*groups]
        for model in models:
            yield from filter(None, (_part(own, model, level, part) for part in parts))
    yield from _lengths(own, models)
    yield from _strategies(own)


def _row(own: _Encounters, model: str | None, level: str, **more: object) -> dict[str, object]:
    row: dict[str, object] = {"benchmark": own.benchmark, "level": level, "model": model, **more}
    if model is None:
        return row
    cast = own.panel.cells[model].record.spec.cast
    played = ", ".join(f"{role}: {spec.name}" for role, spec in cast.items())
    return row | {"cast": played, "ranked": model in own.study.ranked}


def _asked(own: _Encounters, model: str) -> dict[str, object]:
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


def _counts(sums: Mapping[str, float]) -> dict[str, object]:
    """Return what was counted in encounters that came to an end, as means of one."""
    row: dict[str, object] = {
        n: sums.get(n) for n in ("met", "items", "invalid", "no_evidence", "extra")
    }
    means = ("turns", "questions", "actions", "unsupported", "corrections", "overruled")
    if ended := sums["encounters"]:
        for name in (*means, "capped", "tests_first", "input_chars"):
            row[name] = sums[name] / ended
        if sums["decided"]:
            row["turns_to_decision"] = sums["turns_to_decision"] / sums["decided"]
    return row


_Part = tuple[str, _Keys, Mapping[str, Mapping[str, studies.Estimate]], str]
"""A competency or specialty: its name, its cases, its scores by column and model, the end of its sums' names."""


def _competencies(own: _Encounters) -> Iterator[_Part]:
    """Yield each competency, pooled and as a mean over the cases that have it."""
    for code, name in COMPETENCY_NAMES.items() if own.metric == COMPLETION else ():
        ways = {
            "pooled": pooled_share(f"pooled_{code}", f"met/{code}", f"items/{code}"),
            "case_mean": pooled_share(f"case_mean_{code}", f"rate/{code}", f"cases/{code}"),
        }
        found = {way: own.estimates(own.panel, share, way, code) for way, share in ways.items()}
        yield f"{code}: {name}", own.panel.ids, found, f"/{code}"


def _specialties(own: _Encounters, asked: TableRequest) -> Iterator[_Part]:
    members: dict[str, list[int]] = {}
    for case, tags in own.panel.instance_tags(asked.metadata).items():
        if name := tags.get("specialty"):
            members.setdefault(name, []).append(case)
    column, reading = next(iter(own.readings.items()))
    for name in sorted(name for name, cases in members.items() if len(cases) >= LEAST_CASES):
        ids = np.array(sorted(members[name]), dtype=np.uint64)
        found = own.estimates(own.panel.restrict(ids), reading, "specialty", name)
        yield name, ids, {column: found}, ""


def _part(own: _Encounters, model: str, level: str, part: _Part) -> dict[str, object] | None:
    """Return a model's row of a competency or specialty; None where it has no item of it."""
    group, ids, found, end = part
    sums = own.totals(model, ids)
    if end and not sums[f"items{end}"]:
        return None
    row = _row(own, model, level, group=group)
    row |= {name: sums.get(f"{name}{end}") for name in ("met", "items")}
    for column, estimates in found.items():
        row |= {"n": estimates[model].n} | estimates[model].cells(column)
    return row | ({"n": round(sums[f"cases{end}"])} if end else {})


def _lengths(own: _Encounters, models: list[str]) -> Iterator[dict[str, object]]:
    """Yield ten equal bins of the encounters by the clinician's input: each model's, and all ranked ones'."""
    column, reading = next(iter(own.readings.items()))
    pairs = []
    for model in models:
        scores = own.panel.scores(model)
        sums, ended = scores.columns, scores.columns["encounters"] > 0
        if ended.sum() >= BINS:
            names = (*reading.sums[:2], "input_chars", "encounters")
            part, whole, chars, count = (sums[name][ended] for name in names)
            values = np.stack([part, whole, chars / count], 1)
            pairs.append((model, values, scores.clusters[ended]))
    for name, values, clusters in pairs:
        yield from _bins(own, name, column, values, clusters)
    ranked = [values for model, *values in pairs if model in own.study.ranked]
    if len(ranked) > 1:
        together = [np.concatenate(parts) for parts in zip(*ranked, strict=True)]
        yield from _bins(own, None, column, *together)


def _bins(
    own: _Encounters, model: str | None, column: str, values: Floats, clusters: _Keys
) -> Iterator[dict[str, object]]:
    order = np.argsort(values[:, 2], kind="stable")
    for tenth, part in enumerate(np.array_split(order, BINS), start=1):
        keys, codes = np.unique(clusters[part], return_inverse=True)
        sums = intervals.cluster_sums(values[part, :2], codes, len(keys))
        seed = intervals.seed_of(
            own.settings.bootstrap_seed, own.benchmark, "length", model or "", str(tenth)
        )
        drawn = intervals.bootstrap(sums, own.settings.draws, seed)
        found = intervals.percentile(drawn[:, 0] / drawn[:, 1], own.settings.confidence)
        yield _row(own, model, "length", group=f"{tenth} of {BINS}") | {
            "n": len(part),
            "clusters": len(keys),
            "input_chars": float(values[part, 2].mean()),
            column: float(sums[:, 0].sum() / sums[:, 1].sum()),
            **found.ends(column),
        }


def _strategies(own: _Encounters) -> Iterator[dict[str, object]]:
    """Yield a row for each pair of strategies of one model: the first less the second on common cases."""
    panel = own.panel.with_reading(next(iter(own.readings.values())))
    rows = [row for pair in _pairs(panel) if (row := _pair(own, panel, *pair))]
    for row, p in zip(rows, aggregation.holm([p for _, p in rows]), strict=True):
        yield row[0] | {"p_holm": p}


def _pairs(panel: studies.Panel) -> Iterator[tuple[str, str, str]]:
    """Yield the pairs of strategies of one model after its plain name, the plain one last."""
    by_model: dict[str, list[str]] = {}
    for name, cell in panel.cells.items():
        strategy = cell.record.spec.model.strategy
        plain = name.removesuffix(f"+{strategy}") if strategy else name
        by_model.setdefault(plain, []).append(name)
    for plain, names in sorted(by_model.items()):
        names.sort(key=lambda name: (name == plain, name))
        yield from ((plain, *pair) for pair in combinations(names, 2))


def _pair(
    own: _Encounters, panel: studies.Panel, plain: str, one: str, other: str
) -> tuple[dict[str, object], float] | None:
    """Return the row of two strategies, and p by swaps within source articles; None without a common case."""
    seed = intervals.seed_of(own.settings.bootstrap_seed, plain, one, other)
    cells = panel.cells[one], panel.cells[other]
    found = compare.pair(*cells, panel.metric, own.settings, own.benchmark, (seed, seed))
    if found is None:
        return None
    row = _row(own, None, "strategy", n=found.n, clusters=found.clusters) | {
        "model": plain,
        "group": " less ".join(cell.record.spec.model.strategy or "none" for cell in cells),
        "score_one": found.scores[0],
        "score_other": found.scores[1],
        "difference": found.difference,
        **found.interval.ends("difference"),
    }
    return row, found.p


def _refuse_other_items(own: _Encounters) -> None:
    """Refuse models whose rubrics differ on common cases: their scores are not of one kind."""
    if own.metric != COMPLETION or not len(own.panel.ids):
        return
    seen: dict[str, Floats] = {}
    for model in own.panel.cells:
        scores = own.panel.scores(model)
        if np.isin(own.panel.ids, scores.ids).all():
            seen[model] = scores.columns["items"][scores.among(own.panel.ids)]
    first = next(iter(seen), "")
    for model, items in seen.items():
        if not np.allclose(items, seen[first], equal_nan=True):
            cases = int(np.count_nonzero(~np.isclose(items, seen[first])))
            raise UsageError(
                f"{own.benchmark}: {model} and {first} were scored on other items in {cases:,} cases; "
                "`medhelm score` scores the stored encounters by one rubric"
            )
