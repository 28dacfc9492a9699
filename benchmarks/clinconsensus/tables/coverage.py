"""Coverage of criteria: models, other thresholds, slices, and what length has to do with it.

Rows of a benchmark are of the cases that every ranked model has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from medhelm.tables import notes
from medhelm.tables.format.column_kinds import count, ends, number, text, yes
from medhelm.tables.format.table import Column, Layout, Part, Row, Table, make_table
from medhelm.tables.slices import instance_tags
from medhelm.tables.study.cells import Keys, Metadata
from medhelm.tables.study.study import Estimate, Panel, Study, estimate, restrict
from medhelm.tables.table_spec import TableSpec
from medhelm_benchmarks.clinconsensus.cases import JOIN
from medhelm_benchmarks.clinconsensus.tables.measures import (
    Floats,
    Hits,
    alternatives,
    partial_correlation,
    pearson,
    spearman,
    top_overlap,
)

MAIN, HITS, LENGTH = "rubric_coverage", "rubric_hits", "answer_characters"
_SHARES = {
    "accuracy": "rubric_accuracy",
    "passed": "rubric_pass_at_k",
    "hits": HITS,
    "invalid": "rubric_invalid",
}
AXES = ("register", "difficulty", "families", "themes", "group", "specialties", "language")
"""Lay against professional first; a case counts in each of its labels."""
NOT_CLEARANCE = (
    "Coverage says how much of what its authors ask for an answer holds. It is not clearance for "
    "clinical use, and its threshold is not a threshold of safety."
)


def _share(name: str, description: str, heading: str) -> Column:
    return number(name, description, "share", heading, (f"{name}_low", f"{name}_high"), 1, True)


COLUMNS = (
    text("benchmark", "name of the benchmark"),
    text("level", "model, score, threshold, slice or length"),
    text("axis", "metadata key of the slice", "axis"),
    text("value", "value of the slice; several labels of a case count each", "value"),
    text("model", "name of the model", "model"),
    yes("ranked", "whether the model is ranked"),
    text(
        "measure", "the score that is compared with the main one, or what is correlated", "measure"
    ),
    count("n", "cases", "n"),
    count("k", "hits from which on a case counts"),
    number("coverage", "CACS@k, 0 to 100", "metric", "CACS", ("coverage_low", "coverage_high"), 1),
    *ends("coverage", "CACS@k", "metric"),
    number(
        "difference",
        "coverage of the slice less that of all other cases",
        "metric",
        "less others",
        ("difference_low", "difference_high"),
        1,
    ),
    *ends("difference", "the difference", "metric"),
    _share("accuracy", "share of criteria that are met", "accuracy"),
    *ends("accuracy", "the accuracy", "share"),
    _share("passed", "share of cases that reach k", "pass"),
    *ends("passed", "the share that reaches k", "share"),
    number("hits", "mean number of criteria met", "", "hits", ("hits_low", "hits_high"), 1),
    *ends("hits", "the mean number", ""),
    number("hits_first_quartile", "first quartile of hits over cases"),
    number("hits_median", "median of hits", "", "median"),
    number("hits_third_quartile", "third quartile of hits over cases"),
    number("reaching", "mean share of criteria met in cases that reach k", "share"),
    number(
        "invalid", "share of criteria without a valid verdict", "share", "invalid", None, 1, True
    ),
    number(
        "correlation", "Spearman's with the main score over models, or as named", "", "r", None, 3
    ),
    text("top3", "models in the first three by both scores", "top 3"),
    text("top5", "models in the first five by both scores", "top 5"),
)
_PARTS = (
    Part(
        level="model",
        title="Coverage",
        group=("benchmark",),
        columns=("model", "n", "coverage", "invalid", "accuracy", "passed", "hits", "hits_median"),
    ),
    Part(
        level="score",
        title="Coverage at other thresholds",
        group=("benchmark", "measure"),
        columns=("model", "n", "coverage"),
    ),
    Part(
        level="threshold",
        title="Ranks by other scores",
        group=("benchmark",),
        columns=("measure", "correlation", "top3", "top5"),
    ),
    Part(
        level="slice",
        title="Slices",
        group=("benchmark", "axis"),
        columns=("value", "model", "n", "coverage", "difference"),
    ),
    Part(
        level="length",
        title="Length of answers",
        group=("benchmark",),
        columns=("measure", "n", "correlation"),
    ),
)


def has_coverage(study: Study, benchmark: str) -> bool:
    """Return whether a benchmark's criteria have a threshold, and its scores are of it."""
    return {MAIN, *_SHARES.values()} <= set(study.metrics(benchmark))


def coverage(study: Study, metadata: Metadata) -> Table:
    """Return the rows of every benchmark with binary criteria and a threshold."""
    found = [b for b in study.cells if has_coverage(study, b)]
    rows = [row for b in found for row in _rows(study, b, metadata)]
    said = (
        [
            NOT_CLEARANCE,
            "Ranks of models with equal scores are ordered by name in the overlaps of the first "
            "three and five, which are of more models than that; ties of rank correlations have their mean rank.",
            "Criteria without a valid verdict count as not met.",
            "A difference is of a slice less all other cases; its interval is made of those of both, which are "
            "of different cases (the square-and-add rule).",
        ]
        if rows
        else ["No benchmark here has criteria with a threshold."]
    )
    repeated = [b for b in found if hits_of(study, b) is None]
    if repeated:
        said.append(
            f"{', '.join(repeated)}: without other thresholds and hits, which need one answer a case "
            "and the same number of criteria in all."
        )
    return make_table(
        "coverage",
        "Coverage of criteria",
        COLUMNS,
        rows,
        [*notes.common(study), *said],
        notes.settings(study),
        parts=_PARTS,
        layout=Layout(main=("coverage",)),
    )


COVERAGE = TableSpec(
    name="coverage",
    help="thresholded coverage of criteria, with other thresholds, slices and length",
    columns=COLUMNS,
    make=lambda asked: coverage(asked.study, asked.metadata),
)


def hits_of(study: Study, benchmark: str) -> Hits | None:
    """Return the hits of the models on the compared cases; None where there is no one threshold."""
    panel = study.panel(benchmark, MAIN)
    record = next(iter(panel.cells.values())).record
    if record.spec.repeats > 1 or not len(panel.ids):
        return None
    own = study.panel(benchmark, HITS)
    models = [m for m in panel.cells if np.isin(panel.ids, own.scores(m).ids).all()]
    if not models:
        return None
    main = panel.scores(models[0])
    most = main.pooling.columns(main.sums[main.among(panel.ids)], ["most"])[:, 0]
    shares = study.panel(benchmark, _SHARES["accuracy"]).scores(models[0])
    size = shares.pooling.columns(shares.sums[shares.among(panel.ids)], ["criteria"])[:, 0]
    if len(set(most)) != 1 or len(set(size)) != 1:
        return None
    n = int(size[0])
    return Hits(
        k=n - int(most[0]) + 1,
        n=n,
        of={m: _values(own, m, panel) for m in models},
    )


def _values(panel: Panel, model: str, of: Panel) -> Floats:
    scores = panel.scores(model)
    return np.asarray(scores.values[scores.among(of.ids)], dtype=np.float64)


def _rows(study: Study, benchmark: str, metadata: Metadata) -> Iterator[Row]:
    hits = hits_of(study, benchmark)
    yield from _models(study, benchmark, hits)
    if hits is not None:
        yield from _other_thresholds(study, benchmark, hits)
        ranked = {m: h for m, h in hits.of.items() if m in study.ranked}
        yield from _thresholds(benchmark, Hits(hits.k, hits.n, ranked))
    yield from _slices(study, benchmark, metadata)
    yield from _lengths(study, benchmark)


def _models(study: Study, benchmark: str, hits: Hits | None) -> Iterator[Row]:
    found = study.estimates(benchmark, MAIN)
    others = {name: study.estimates(benchmark, metric) for name, metric in _SHARES.items()}
    for model in sorted(found, key=lambda m: (m not in study.ranked, -found[m].score, m)):
        own = found[model]
        row: Row = {
            "benchmark": benchmark,
            "level": "model",
            "model": model,
            "ranked": model in study.ranked,
            "n": own.n,
            "coverage": own.score,
            "coverage_low": own.interval.low,
            "coverage_high": own.interval.high,
            **{name: scores[model].score for name, scores in others.items()},
        }
        for name in ("accuracy", "passed"):
            interval = others[name][model].interval
            row |= {f"{name}_low": interval.low, f"{name}_high": interval.high}
        if hits is not None and model in hits.of:
            values = hits.of[model]
            low, median, high = (float(q) for q in np.quantile(values, (0.25, 0.5, 0.75)))
            reaching = values[values >= hits.k]
            row |= {"k": hits.k, "hits_median": median}
            # N times those of the accuracy: the metric itself does not know N, and so has no upper bound.
            share = others["accuracy"][model].interval
            row["hits_low"] = None if share.low is None else hits.n * share.low
            row["hits_high"] = None if share.high is None else hits.n * share.high
            row |= {"hits_first_quartile": low, "hits_third_quartile": high}
            row["reaching"] = float(reaching.mean()) / hits.n if len(reaching) else None
        yield row


def _other_thresholds(study: Study, benchmark: str, hits: Hits) -> Iterator[Row]:
    """Yield the coverage of all models at the other thresholds, most at each first."""
    panel = study.panel(benchmark, MAIN)
    for k in hits.other_thresholds:
        found = estimate(_at_threshold(panel, hits, k), study.settings, benchmark)
        for model in sorted(found, key=lambda m: (m not in study.ranked, -found[m].score, m)):
            own = found[model]
            yield {
                "benchmark": benchmark,
                "level": "score",
                "measure": f"CACS@{k}",
                "k": k,
                "model": model,
                "ranked": model in study.ranked,
                "n": own.n,
                "coverage": own.score,
                "coverage_low": own.interval.low,
                "coverage_high": own.interval.high,
            }


def _at_threshold(panel: Panel, hits: Hits, k: int) -> Panel:
    """Return the panel with the sums that the hits of its cases give at another threshold."""
    most = hits.n - k + 1
    cells = {}
    for model, own in hits.of.items():
        scores = panel.scores(model)
        credit = np.maximum(0.0, own - k + 1)
        sums = {"credit": credit, "most": np.full(len(credit), float(most))}
        changed = replace(
            scores,
            ids=panel.ids,
            values=100 * credit / most,
            sums=np.stack([sums[name] for name in scores.pooling.names], axis=-1),
        )
        cells[model] = replace(panel.cells[model], scores={MAIN: changed})
    return replace(panel, cells=cells)


def _thresholds(benchmark: str, hits: Hits) -> Iterator[Row]:
    main = {m: hits.coverage(m, hits.k) for m in hits.of}
    of = {f"CACS@{k}": k for k in hits.other_thresholds} | {f"Pass@{hits.k}": hits.k}
    for measure, scores in alternatives(hits).items():
        row: Row = {"benchmark": benchmark, "level": "threshold", "measure": measure}
        row["k"] = of.get(measure)
        row["correlation"] = spearman([*main.values()], [scores[m] for m in main])
        for size in (3, 5):
            shared = top_overlap(main, scores, size)
            row[f"top{size}"] = None if shared is None else f"{shared}/{size}"
        yield row


def _slices(study: Study, benchmark: str, metadata: Metadata) -> Iterator[Row]:
    panel = study.panel(benchmark, MAIN)
    tags = instance_tags(panel, metadata)
    for axis in AXES:
        members: dict[str, list[int]] = {}
        for case, tag in tags.items():
            for value in filter(None, tag.get(axis, "").split(JOIN)):
                members.setdefault(value, []).append(case)
        for value in sorted(members):
            inside = np.array(sorted(members[value]), dtype=np.uint64)
            yield from _slice(study, benchmark, (axis, value), panel, inside)


def _slice(
    study: Study, benchmark: str, names: tuple[str, str], panel: Panel, inside: Keys
) -> Iterator[Row]:
    outside = np.setdiff1d(panel.ids, inside)
    own = estimate(restrict(panel, inside), study.settings, benchmark, *names)
    rest = (
        estimate(restrict(panel, outside), study.settings, benchmark, *names, "others")
        if len(outside)
        else {}
    )
    for model in sorted(own, key=lambda m: (m not in study.ranked, m)):
        found = own[model]
        row: Row = {
            "benchmark": benchmark,
            "level": "slice",
            "axis": names[0],
            "value": names[1],
            "model": model,
            "ranked": model in study.ranked,
            "n": found.n,
            "coverage": found.score,
            "coverage_low": found.interval.low,
            "coverage_high": found.interval.high,
        }
        if model in rest and min(found.n, rest[model].n) > 1:
            row |= _difference(found, rest[model])
        yield row


def _difference(a: Estimate, b: Estimate) -> Row:
    """Return the difference of two independent scores, with the interval of their own intervals.

    Not of draws: where no case reaches the threshold all draws are 0, and so would be their ends.
    """
    value = a.score - b.score
    ends = (a.interval.low, a.interval.high, b.interval.low, b.interval.high)
    a_low, a_high, b_low, b_high = (math.nan if end is None else end for end in ends)
    low = value - math.hypot(a.score - a_low, b_high - b.score)
    high = value + math.hypot(a_high - a.score, b.score - b_low)
    return {
        "difference": value,
        "difference_low": None if math.isnan(low) else low,
        "difference_high": None if math.isnan(high) else high,
    }


def _lengths(study: Study, benchmark: str) -> Iterator[Row]:
    if LENGTH not in study.metrics(benchmark):
        return
    panel = study.panel(benchmark, MAIN)
    lengths, shares = study.panel(benchmark, LENGTH), study.panel(benchmark, _SHARES["accuracy"])
    models = [
        m
        for m in panel.cells
        if m in study.ranked
        and all(np.isin(panel.ids, p.scores(m).ids).all() for p in (panel, lengths, shares))
    ]
    if not models or not len(panel.ids):
        return
    x, main, share = (
        np.stack([_values(p, m, panel) for m in models]) for p in (lengths, panel, shares)
    )
    measures: Mapping[str, float | None] = {
        "Pearson, length and coverage": pearson(x.ravel(), main.ravel()),
        "Spearman, length and coverage": spearman([*x.ravel()], [*main.ravel()]),
        "Pearson, length and accuracy": pearson(x.ravel(), share.ravel()),
        "Spearman, length and accuracy": spearman([*x.ravel()], [*share.ravel()]),
        "given model and case, length and coverage": partial_correlation(x, main),
    }
    for measure, value in measures.items():
        yield {
            "benchmark": benchmark,
            "level": "length",
            "measure": measure,
            "correlation": value,
            "n": int(x.size),
        }
