"""The MDE table: what difference between two models a benchmark can detect."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from medhelm import stats
from medhelm.schema import MetricRef
from medhelm.stats import TIE, Floats
from medhelm.tables import notes
from medhelm.tables.columns import MDE
from medhelm.tables.study import Panel, Study
from medhelm.tables.table import Row, Table, make_table


def mde(study: Study) -> Table:
    """Return one row per benchmark: what difference of two ranked models it can detect."""
    rows = [_mde_row(study, benchmark) for benchmark in study.panels]
    without = [str(row["benchmark"]) for row in rows if not row["pairs"]]
    why = f"No MDE on {', '.join(without)}: it needs two ranked models and two instances in common."
    equal = [str(row["benchmark"]) for row in rows if row["pairs"] and "mde" not in row]
    flat = (
        f"No MDE on {', '.join(equal)}: the ranked models differ by the same on every instance, "
        "which says nothing of a difference that could be seen."
    )
    title = f"Minimum detectable effect (two-sided alpha {stats.ALPHA}, power {1 - stats.BETA:.2f})"
    return make_table(
        "mde",
        f"{title}, as the paper's authors computed it" if _is_papers(study) else title,
        MDE,
        rows,
        [
            *notes.common(study),
            *notes.ranking(study),
            *([why] if without else []),
            *([flat] if equal else []),
            *_scale(study),
            "A power figure, not a test: `medhelm compare A B` tests a difference.",
        ],
        notes.settings(study),
    )


def _is_papers(study: Study) -> bool:
    return study.settings.mde == "paper"


def _scale(study: Study) -> list[str]:
    """Return the note on the scale of the differences where the paper's is another one."""
    if _is_papers(study):
        return [
            "The paper's scale: score / maximum (a jury's mean / 5), SD divided by n, factor "
            f"{stats.PAPER_MDE_FACTOR:.2f}; a jury's differences are 0.8 times those of --mde range."
        ]
    metrics = {b: panel.metric for b, panel in study.panels.items()}
    if shifted := [b for b, m in metrics.items() if m.minimum > 0]:
        return [
            "Differences are of (score - minimum) / (maximum - minimum). The paper's are of score / "
            f"maximum, for a jury from 1 to 5 0.8 times as large: --mde paper ({', '.join(shifted)})."
        ]
    return []


def _divisor(study: Study, metric: MetricRef) -> float:
    """Return what a score is divided by for differences on the table's scale."""
    is_papers = _is_papers(study) and metric.maximum > 0
    return metric.maximum if is_papers else metric.maximum - metric.minimum


def _mde_row(study: Study, benchmark: str) -> Row:
    panel = study.panels[benchmark]
    models = [m for m in study.contenders if m not in panel.unfit]
    found = study.estimates(benchmark)
    is_mean = panel.metric.aggregation == "mean"
    plain, clustered = [], []
    codes = np.unique(panel.clusters, return_inverse=True)[1].astype(np.int64)
    is_clustered = bool(len(codes)) and codes.max() + 1 < len(codes)
    values = {m: _values(panel, m) for m in models if len(panel.ids)}
    whole = _divisor(study, panel.metric)
    for a, b in combinations(values, 2):
        if is_mean:
            gap = (values[a] - values[b]) / whole
            plain.append(_error(gap, _is_papers(study)))
            clustered.append(stats.clustered_error(gap, codes))
        else:
            drawn = (found[a].draws - found[b].draws) / whole
            plain.append(stats.sample_sd(drawn[~np.isnan(drawn)], ddof=1))
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
    gaps = np.abs([found[a].score - found[b].score for a, b in combinations(models, 2)]) / whole
    gaps = gaps[~np.isnan(gaps)]
    if len(gaps):
        row |= {"observed_median": np.median(gaps), "observed_largest": gaps.max()}
    if effects.max(initial=0.0) > TIE:  # without any spread nothing tells of power
        row |= {
            "mde": effects.mean(),
            "mde_sd": stats.sample_sd(effects, stats.MDE_SD_DDOF),
            "mde_median": np.median(effects),
            "pairs_above": int((gaps >= effects.mean() - TIE).sum()),
        }
        if is_mean and is_clustered:
            row["mde_clustered"] = _effects(clustered, study).mean()
    return row


def _values(panel: Panel, model: str) -> Floats:
    """Return a ranked model's values on the compared instances."""
    scores = panel.scores(model)
    return np.asarray(scores.values[scores.among(panel.ids)])


def _error(gap: Floats, is_papers: bool) -> float:
    """Return the standard error of a mean; the paper's divides the SD's sum by n, not n - 1."""
    if is_papers and len(gap) > 1:
        return float(gap.std() / np.sqrt(len(gap)))
    return stats.standard_error(gap)


def _effects(errors: list[float], study: Study) -> Floats:
    if _is_papers(study):
        return stats.PAPER_MDE_FACTOR * np.array(errors)
    return stats.mde(np.array(errors))
