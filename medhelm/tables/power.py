"""The MDE table: what difference between two models a benchmark can detect."""

from __future__ import annotations

import numpy as np

from medhelm.schema.run import MetricRef
from medhelm.stats import aggregation as stats
from medhelm.stats.aggregation import TIE, Floats, Ints
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Table
from medhelm.tables.notes import study_table
from medhelm.tables.study.study import Panel, Study

MDE = form(__file__, "mde")


def mde(study: Study) -> Table:
    """Return one row per benchmark: what difference of two ranked models it can detect."""
    rows = [_mde_row(study, benchmark) for benchmark in study.panels]
    without = [str(row["benchmark"]) for row in rows if not row["pairs"]]
    beyond = [
        f"{row['benchmark']}{' (clustered)' * ('mde' in row)}"
        for row in rows
        if row.get("is_beyond_range")
    ]
    equal = [
        str(row["benchmark"])
        for row in rows
        if row["pairs"] and not row.keys() & {"mde", "is_beyond_range"}
    ]
    metrics = {b: panel.metric for b, panel in study.panels.items()}
    shifted = [b for b, m in metrics.items() if m.minimum > 0 and not _is_papers(study)]
    said = MDE.say(
        without=", ".join(without),
        equal=", ".join(equal),
        beyond=", ".join(beyond),
        paper=_is_papers(study) and stats.PAPER_MDE_FACTOR,
        shifted=", ".join(shifted),
        power=True,
    )
    title = f"Minimum detectable effect (two-sided alpha {stats.ALPHA}, power {1 - stats.BETA:.2f})"
    title = f"{title}, as the paper's authors computed it" if _is_papers(study) else title
    return study_table(study, MDE, rows, said, title=title, is_ranking=True)


def _is_papers(study: Study) -> bool:
    return study.settings.mde == "paper"


def _divisor(study: Study, metric: MetricRef) -> float:
    """Return what a score is divided by for differences on the table's scale."""
    is_papers = _is_papers(study) and metric.maximum > 0
    return metric.maximum if is_papers else metric.maximum - metric.minimum


def _mde_row(study: Study, benchmark: str) -> Row:
    panel = study.panels[benchmark]
    models = [m for m in study.contenders if m not in panel.unfit]
    found = study.estimates(benchmark)
    is_mean = panel.metric.aggregation == "mean"
    codes = np.unique(panel.clusters, return_inverse=True)[1].astype(np.int64)
    is_clustered = bool(len(codes)) and codes.max() + 1 < len(codes)
    whole = _divisor(study, panel.metric)
    rows = [_values(panel, m) if is_mean else found[m].draws for m in models]
    plain, clustered = _errors(study, panel, rows, codes if is_clustered else None)
    effects = _effects(plain, study)
    effects = effects[~np.isnan(effects)]
    row: Row = {
        "benchmark": benchmark,
        "metric": panel.metric.name,
        "n": len(panel.ids),
        "clusters": int(codes.max()) + 1 if len(codes) else 0,
        "pairs": len(effects),
        "method": "paired sd" if is_mean else "bootstrap",
    }
    scores = np.array([found[m].score for m in models])
    gaps = np.concatenate([[], *(np.abs(scores[m] - scores[m + 1 :]) for m in range(len(models)))])
    gaps /= whole
    gaps = gaps[~np.isnan(gaps)]
    if len(gaps):
        row |= {"observed_median": np.median(gaps), "observed_largest": gaps.max()}
    if effects.max(initial=0.0) > TIE:  # without any spread power is unknown
        largest = (panel.metric.maximum - panel.metric.minimum) / whole
        ddof = stats.MDE_SD_DDOF[study.settings.mde]
        row["pairs_above"] = int((gaps >= effects.mean() - TIE).sum())
        row |= _within(
            largest,
            mde=effects.mean(),
            mde_sd=float(np.std(effects, ddof=ddof)) if len(effects) > 1 else np.nan,
            mde_median=np.median(effects),
        )
        if is_mean and is_clustered:
            row |= _within(largest, mde_clustered=_effects(clustered, study).mean())
    return row


def _within(largest: float, **found: float) -> Row:
    """Return detectable effects, or that the first is larger than any difference can be."""
    if next(iter(found.values())) > largest + TIE:
        return {"is_beyond_range": True}
    return {name: value for name, value in found.items() if not value > largest + TIE}


def _values(panel: Panel, model: str) -> Floats:
    scores = panel.scores(model)
    return np.asarray(scores.values[scores.among(panel.ids)])


def _errors(
    study: Study, panel: Panel, rows: list[Floats], codes: Ints | None
) -> tuple[Floats, Floats]:
    """Return the standard error of every pair's difference, and of a mean in clusters the
    clustered one; empty where the models share no instance.

    `rows`: of each model its values if the metric is a mean, else its draws.
    """
    if len(rows) < 2 or not len(panel.ids):
        return np.empty(0), np.empty(0)
    is_mean = panel.metric.aggregation == "mean"
    whole, joined = _divisor(study, panel.metric), np.stack(rows)

    def block(pair: tuple[Ints, Ints]) -> tuple[Floats, Floats]:
        gaps = (joined[pair[0]] - joined[pair[1]]) / whole
        if not is_mean:
            return stats.sample_sds(gaps, ddof=1), np.empty(0)
        in_clusters = np.empty(0) if codes is None else stats.clustered_errors(gaps, codes)
        return _mean_errors(gaps, _is_papers(study)), in_clusters

    parts = stats.on_all_cores(block, stats.pair_blocks(len(joined), joined.shape[1]))
    return np.concatenate([p for p, _ in parts]), np.concatenate([c for _, c in parts])


def _mean_errors(gaps: Floats, is_papers: bool) -> Floats:
    """Return the standard errors of means. The paper's divides the SD's sum by n, not n - 1."""
    if is_papers and gaps.shape[1] > 1:
        return np.asarray(gaps.std(axis=1) / np.sqrt(gaps.shape[1]))
    return stats.standard_errors(gaps)


def _effects(errors: Floats, study: Study) -> Floats:
    return stats.PAPER_MDE_FACTOR * errors if _is_papers(study) else stats.mde(errors)
