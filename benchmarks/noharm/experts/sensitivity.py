"""Measure how far scores and ranks of models depend on the ratings of actions.

Each rater alone has what that rater does throughout; ratings that are drawn again have what raters
do here and there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medhelm.stats.aggregation import Floats
from medhelm.stats.intervals import seed_of
from medhelm.tables.format.table import Layout, Part, Row, Settings, Table, make_table
from medhelm_benchmarks.noharm.experts.columns import SENSITIVITY
from medhelm_benchmarks.noharm.experts.rubrics import (
    PANELS,
    Rated,
    Rubrics,
    rank_rows,
    rubric_notes,
    rubric_settings,
    scores_of,
)


@dataclass(frozen=True)
class _Field:
    """The ranked models under one rubric."""

    n: int
    overall: Mapping[str, float]
    severe: Mapping[str, float]
    ranks: Mapping[str, int]


def _field(own: Rubrics, rated: Rated) -> _Field:
    codes = [code for code in own.codes if code in rated]
    scores = {
        m.model: scores_of(own.sums(m, rated, codes).sum(0)) for m in own.ranked if len(codes)
    }
    rows: list[Row] = [{"model": m, "ranked": True, **s} for m, s in scores.items()]
    rank_rows(rows, "overall", "rank")
    return _Field(
        n=len(codes),
        overall={m: s["overall"] for m, s in scores.items()},
        severe={m: s["severe_rate"] for m, s in scores.items()},
        ranks={str(r["model"]): int(str(r["rank"])) for r in rows if r["rank"] is not None},
    )


def sensitivity_table(own: Rubrics, settings: Settings | None = None) -> Table:
    """Return the models' ranks under each rater alone and under ratings that are drawn again."""
    chosen = settings or Settings()
    single = {
        f"rater {n} of the file": _field(own, own.of_place(n - 1))
        for n in range(1, 1 + max(len(a.ratings) for c in own.cases for a in c.actions))
    }
    single |= {
        f"expert {n}": _field(own, own.of_expert(expert)) for n, expert in enumerate(own.experts, 1)
    }
    medians = {
        "median of the file": _field(own, own.by_file),
        "experts' median": _field(own, own.by_experts),
    }
    seed = seed_of(chosen.bootstrap_seed, "sensitivity")
    drawn = [_field(own, rated) for rated in own.draw(seed)]
    experts = [field for name, field in single.items() if name.startswith("expert")]
    order = sorted(
        (m.model for m in own.ranked),
        key=lambda m: (medians["experts' median"].ranks.get(m, len(own.ranked) + 1), m),
    )
    rows = [_model_row(m, medians, experts, drawn, chosen.confidence) for m in order]
    for name, field in (medians | single).items():
        rows += [_rater_row(name, field, m) for m in order if field.n]
    return make_table(
        "sensitivity",
        "How far scores and ranks hang on the ratings",
        SENSITIVITY,
        rows,
        [
            "Each rater alone is scored as if nobody else had rated; an expert on the cases whose "
            "whole menu that expert rated.",
            f"Drawn again: {PANELS} times as many ratings of each action as it has, from the "
            "experts' own, with replacement, each action by itself. What raters share (one is "
            "milder throughout) is in the rows of each alone and not in these draws. "
            f"Ranges hold {chosen.confidence:.0%} of the draws and say nothing of other cases.",
            *rubric_notes(own),
        ],
        rubric_settings(own, chosen) | {"panels": PANELS},
        parts=(
            Part(level="model", title="Ranks of the models", columns=_OF_MODELS),
            Part(
                level="rater",
                title="Under each rater alone",
                group=("rater",),
                columns=("model", "overall", "severe_rate", "rank", "n"),
            ),
        ),
        layout=Layout(main=("overall", "severe_rate")),
    )


_OF_MODELS = ("model", "rank_file", "rank", "rank_single", "rank_drawn", "overall", "severe_rate")


def _model_row(
    model: str,
    medians: Mapping[str, _Field],
    experts: Sequence[_Field],
    drawn: Sequence[_Field],
    confidence: float,
) -> Row:
    file, whole = medians["median of the file"], medians["experts' median"]
    row: Row = {
        "level": "model",
        "model": model,
        "n": whole.n,
        "rank_file": file.ranks.get(model),
        "rank": whole.ranks.get(model),
        "overall": whole.overall.get(model),
        "severe_rate": whole.severe.get(model),
    }
    alone = [f.ranks[model] for f in experts if model in f.ranks]
    if alone:
        row |= {"rank_single_low": min(alone), "rank_single_high": max(alone)}
    ranks = np.asarray([f.ranks.get(model, np.nan) for f in drawn], dtype=np.float64)
    for name, values in (
        ("rank_drawn", ranks),
        ("overall", np.asarray([f.overall.get(model, np.nan) for f in drawn])),
        ("severe_rate", np.asarray([f.severe.get(model, np.nan) for f in drawn])),
    ):
        low, high = _range(values, confidence)
        row |= {f"{name}_low": low, f"{name}_high": high}
    row["rank_single"] = _span(row, "rank_single")
    row["rank_drawn"] = _span(row, "rank_drawn")
    known = ranks[~np.isnan(ranks)]
    row["same_rank"] = float((known == whole.ranks.get(model)).mean()) if len(known) else None
    return row


def _range(values: Floats, confidence: float) -> tuple[float | None, float | None]:
    """Return the ends that hold so much of the draws, each a value that was drawn."""
    known = values[~np.isnan(values)]
    if not len(known):
        return None, None
    tail = (1 - confidence) / 2
    low = np.quantile(known, tail, method="lower")
    return float(low), float(np.quantile(known, 1 - tail, method="higher"))


def _span(row: Row, name: str) -> str | None:
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    if low is None or high is None:
        return None
    first, last = (int(float(str(end))) for end in (low, high))
    return str(first) if first == last else f"{first} to {last}"


def _rater_row(rater: str, field: _Field, model: str) -> Row:
    return {
        "level": "rater",
        "rater": rater,
        "model": model,
        "n": field.n,
        "overall": field.overall.get(model),
        "severe_rate": field.severe.get(model),
        "rank": field.ranks.get(model),
    }
