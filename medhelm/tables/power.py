"""The MDE table: what difference between two models a benchmark can detect."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from medhelm import stats
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
    return make_table(
        "mde",
        f"Minimum detectable effect (two-sided alpha {stats.ALPHA}, power {1 - stats.BETA:.2f})",
        MDE,
        rows,
        [
            *notes.common(study),
            *notes.ranking(study),
            *([why] if without else []),
            *([flat] if equal else []),
            "A power figure, not a test: `medhelm compare A B` tests a difference.",
        ],
        notes.settings(study),
    )


def _mde_row(study: Study, benchmark: str) -> Row:
    panel = study.panels[benchmark]
    models = [m for m in study.ranked if m not in panel.unfit]
    found = study.estimates(benchmark)
    is_mean = panel.metric.aggregation == "mean"
    plain, clustered = [], []
    codes = np.unique(panel.clusters, return_inverse=True)[1].astype(np.int64)
    is_clustered = bool(len(codes)) and codes.max() + 1 < len(codes)
    values = {m: _values(panel, m) for m in models if len(panel.ids)}
    for a, b in combinations(values, 2):
        if is_mean:
            gap = values[a] - values[b]
            plain.append(stats.standard_error(gap))
            clustered.append(stats.clustered_error(gap, codes))
        else:
            drawn = panel.normalise(found[a].draws) - panel.normalise(found[b].draws)
            plain.append(stats.sample_sd(drawn[~np.isnan(drawn)], ddof=1))
    effects = stats.mde(np.array(plain))
    effects = effects[~np.isnan(effects)]
    row: Row = {
        "benchmark": benchmark,
        "metric": panel.metric.name,
        "n": len(panel.ids),
        "clusters": int(codes.max()) + 1 if len(codes) else 0,
        "pairs": len(effects),
        "method": "paired sd" if is_mean else "bootstrap",
    }
    gaps = np.abs([found[a].normalised - found[b].normalised for a, b in combinations(models, 2)])
    gaps = gaps[~np.isnan(gaps)]
    if len(gaps):
        row |= {"observed_median": np.median(gaps), "observed_largest": gaps.max()}
    if effects.max(initial=0.0) > TIE:  # without any spread nothing tells of power
        row |= {
            "mde": effects.mean(),
            "mde_sd": stats.sample_sd(effects, stats.MDE_SD_DDOF),
            "mde_median": np.median(effects),
            "pairs_above": int((gaps >= effects.mean()).sum()),
        }
        if is_mean and is_clustered:
            row["mde_clustered"] = stats.mde(np.array(clustered)).mean()
    return row


def _values(panel: Panel, model: str) -> Floats:
    """Return a ranked model's normalised values on the compared instances."""
    scores = panel.scores(model)
    return panel.normalise(scores.values[scores.among(panel.ids)])
