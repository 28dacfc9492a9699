"""The gaps table: each part of a benchmark against the part that it is compared with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from medhelm.stats import aggregation as stats
from medhelm.stats.aggregation import MEAN_OF_PARTS, Floats
from medhelm.stats.intervals import (
    bootstrap,
    cluster_sums,
    clustered_percentile,
    seed_of,
)
from medhelm.tables.format.column_kinds import count, measured, number, text, yes
from medhelm.tables.format.table import Row, Table
from medhelm.tables.notes import study_table
from medhelm.tables.study.study import Panel, Study, placed_sums

GAPS = (
    text("benchmark", "name of the benchmark", "benchmark"),
    text("metric", "name of the main metric"),
    text(
        "part",
        "part of the benchmark; missing: the mean of all others",
        "part",
        "(mean of all others)",
    ),
    text("reference", "the part that it is compared with", "against"),
    text("model", "name of the model", "model"),
    yes("ranked", "whether the model is ranked"),
    number("score", "score on the part", "metric", "score", digits=3),
    number(
        "reference_score", "score on the part that it is compared with", "metric", "of it", digits=3
    ),
    *measured(
        "gap",
        "normalised score on the part less that on the reference; below 0 the part is worse",
        "normalised",
        "gap",
        digits=3,
        is_main=True,
        how="clusters resampled whole",
    ),
    text("interval_method", "how the interval was made, or why there is none"),
    count("n", "compared instances of the part that the model has a value for", "n"),
    count("reference_n", "the same of the reference"),
    count("clusters", "clusters of both; one that has both is a pair"),
)


def gaps(study: Study) -> Table:
    """Return one row per part and model of each benchmark that names a reference part.

    An instance of the part and one of the reference in one cluster (a question in two languages)
    are resampled together, so that the gap is a paired one.
    """
    having = [b for b, panel in study.panels.items() if _has_reference(panel)]
    rows = [row for b in having for row in _rows(study, b)]
    return study_table(
        study,
        "gaps",
        "Gaps between the parts of a benchmark",
        GAPS,
        rows,
        [] if having else ["No benchmark of these runs has a part to compare others with."],
        is_ranking=True,
        group=("benchmark", "part"),
    )


def _has_reference(panel: Panel) -> bool:
    return bool(panel.card.reference_part) and panel.metric.aggregation == MEAN_OF_PARTS.name


def _rows(study: Study, benchmark: str) -> Iterator[Row]:
    panel = study.panels[benchmark]
    found = {m: list(_model_rows(study, panel, m)) for m in panel.cells}
    models = sorted(found, key=lambda m: (m not in study.ranked, m))
    for rows in zip(*(found[m] for m in models), strict=True):
        yield from rows


def _model_rows(study: Study, panel: Panel, model: str) -> Iterator[Row]:
    """Yield a model's rows: of each other part, then of their mean."""
    reference = panel.card.reference_part
    names = panel.scores(model).pooling.names
    ((sums, codes, count),) = placed_sums(panel, [model])
    own = cluster_sums(sums, codes, count)
    seed = seed_of(study.settings.bootstrap_seed, panel.card.name, "gaps")
    draws = bootstrap(own, study.settings.draws, seed) if len(own) else own
    known = [name.partition("/")[2] for name in names if name.startswith("count/")]
    others = [part for part in known if part != reference]
    means = {part: _mean(own.sum(0), names, part) for part in known}
    drawn = {part: _mean(draws, names, part) for part in known}
    counts = {part: own[:, names.index(f"count/{part}")] for part in known}

    def gap(values: dict[str, Floats], parts: list[str]) -> Floats:
        each = [panel.normalise(values[p]) for p in parts]
        return np.asarray(np.mean(each, axis=0) - panel.normalise(values[reference]))

    for part, members in [*((p, [p]) for p in others), (None, others)]:
        in_part = np.sum([counts[p] for p in members], axis=0)
        sizes = (in_part + counts[reference]).astype(np.int64)
        ends = clustered_percentile(gap(drawn, members), study.settings.confidence, sizes)
        yield {
            "benchmark": panel.card.name,
            "metric": panel.metric.name,
            "part": part,
            "reference": reference,
            "model": model,
            "ranked": model in study.ranked,
            "score": float(np.mean([means[p] for p in members])),
            "reference_score": float(means[reference]),
            "gap": float(gap(means, members)),
            **ends.ends(),
            "interval_method": ends.described,
            "n": int(in_part.sum()),
            "reference_n": int(counts[reference].sum()),
            "clusters": int(np.count_nonzero(sizes)),
        }


def _mean(sums: Floats, names: tuple[str, ...], part: str) -> Floats:
    """Return the mean of a part from sums (..., k); NaN where it has no instance."""
    whole = sums[..., names.index(f"count/{part}")]
    return stats.ratio(sums[..., names.index(f"sum/{part}")], whole)
