"""The tables overall and categories: what is over several benchmarks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from medhelm.stats import aggregation as stats
from medhelm.stats.aggregation import Floats, WinDefinition
from medhelm.stats.intervals import Interval, holding, percentile
from medhelm.tables import notes
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Column, RankBy, Row, Table
from medhelm.tables.notes import FLAGS_COLUMN, study_table
from medhelm.tables.spending import COSTS, cost_columns, without_headings
from medhelm.tables.study.study import Study

_BY: Mapping[RankBy, str] = {
    "half": "win rate (a tie counts half)",
    "literal": "win rate (a tie wins for both)",
    "macro": "macro-average",
}


OVERALL = form(
    __file__,
    "overall",
    costs=without_headings(COSTS[:-2]),
    total=(replace(COSTS[-2], heading="USD"),),
    total_upper=(replace(COSTS[-1], heading="USD at most", is_default=False),),
    flags=(FLAGS_COLUMN,),
)

_WIN_RATES: tuple[tuple[str, str, WinDefinition], ...] = (
    ("win_rate", "win", "half"),
    ("win_rate_literal", "win_literal", "literal"),
)
"""Column of each win rate, prefix of the columns that belong to it, definition."""

CATEGORIES = form(__file__, "categories")


def overall(study: Study) -> Table:
    """Return one row per model: rank, win rates, macro-average, coverage, cost."""
    rows = {m: _overall_row(study, m) for m in study.models}
    ranking = study.ranking
    if ranking.benchmarks:
        macro = ranking.scores.mean(axis=1)
        drawn = ranking.draws.mean(axis=2)
        for m, model in enumerate(ranking.models):
            ends = _pooled(study, ranking.benchmarks, model, drawn[:, m])
            rows[model] |= {
                "macro_average": macro[m],
                **ends.ends("macro"),
                "macro_sd": stats.sample_sd(ranking.scores[m], stats.MACRO_SD_DDOF),
                "benchmarks": len(ranking.benchmarks),
            }
        for model in set(study.models) - set(ranking.models):
            rows[model] |= _unranked_macro(study, model)
    if ranking.is_defined:
        _add_ranks(study, rows)
    ordered = sorted(study.models, key=lambda m: (_place(rows[m]), m))
    count = len(ranking.benchmarks)
    by = study.settings.rank_by
    return study_table(
        study,
        replace(OVERALL, columns=_by_literal(OVERALL.columns)) if by == "literal" else OVERALL,
        [rows[m] for m in ordered],
        (notes.ranks(study) if ranking.is_defined else [])
        + (notes.pooled_intervals(study) if ranking.benchmarks else []),
        title=f"Models over {count} common benchmark{'s' * (count != 1)}, by {_BY[by]}",
        is_ranking=True,
    )


def _by_literal(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns with the literal win rate shown in place of the other."""
    is_default = dict.fromkeys(("win_rate", "win_sd"), False)
    is_default |= dict.fromkeys(("win_rate_literal", "win_literal_sd"), True)
    return tuple(replace(c, is_default=is_default.get(c.name, c.is_default)) for c in columns)


def _place(row: Row) -> tuple[float, float]:
    rank, macro = row.get("rank"), row.get("macro_average")
    ranked = float(rank) if isinstance(rank, int) else 1e9 - bool(row["ranked"])
    return ranked, -float(macro) if isinstance(macro, float) else 1.0


def _overall_row(study: Study, model: str) -> Row:
    cells = {b: c[model] for b, c in study.cells.items() if model in c}
    main = {b: study.panels[b].metric.name for b in cells}
    planned = sum(c.planned(main[b]) for b, c in cells.items())
    counted = sum(c.scores[main[b]].counted for b, c in cells.items())
    raised = {b: notes.flags(c, main[b]) for b, c in cells.items()}
    ended = [c.ended_at_budget(main[b]) for b, c in cells.items()]
    flags = [f for f in notes.FLAGS if any(f in found for found in raised.values())]
    return {
        "model": model,
        "ranked": model in study.contenders,
        "coverage": counted / planned if planned else None,
        "cut_share": sum(ended) / planned if planned else None,
        "benchmarks_run": len(cells),
        "benchmarks_missing": ", ".join(b for b in study.cells if b not in cells) or None,
        "benchmarks_flagged": ", ".join(b for b in raised if {"coverage", "unread"} & {*raised[b]})
        or None,
        "flags": " ".join(flags),
        **cost_columns([c.record for c in cells.values()]),
    }


def _unranked_macro(study: Study, model: str) -> Row:
    """Return the macro-average of a model that is not ranked, where it has every common benchmark."""
    found = [study.estimates(b).get(model) for b in study.ranking.benchmarks]
    values = np.array([np.nan if e is None else e.normalised for e in found])
    if np.isnan(values).any():
        return {}
    return {
        "macro_average": float(values.mean()),
        "macro_sd": stats.sample_sd(values, stats.MACRO_SD_DDOF),
    }


def _add_ranks(study: Study, rows: dict[str, Row]) -> None:
    ranking = study.ranking
    suite = ranking.suite_intervals()
    rank, low, high = ranking.ranks()
    groups = ranking.groups()
    for m, model in enumerate(ranking.models):
        rows[model] |= {
            "rank": int(rank[m]),
            "rank_low": low[m],
            "rank_high": high[m],
            "tie_group": groups[m],
            **suite[m].ends("win_suite"),
        }
    for column, prefix, definition in _WIN_RATES:
        rates = stats.win_rates(ranking.scores, definition)
        spread = stats.win_sd(ranking.scores, definition)
        draws = ranking.rate_draws[definition]
        for m, model in enumerate(ranking.models):
            ends = holding(percentile(draws[:, m], study.settings.confidence), rates[m])
            rows[model] |= {column: rates[m], **ends.ends(prefix), f"{prefix}_sd": spread[m]}


def categories(study: Study) -> Table:
    """Return one row per category, and per subcategory, and model, over the common benchmarks."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for benchmark in study.ranking.benchmarks:
        card = study.panels[benchmark].card
        groups[card.category, ""].append(benchmark)
        groups[card.category, card.subcategory].append(benchmark)
    rows = []
    for (category, subcategory), members in sorted(groups.items()):
        for model in study.models:
            rows.append(
                {
                    "level": "subcategory" if subcategory else "category",
                    "category": category,
                    "subcategory": subcategory or None,
                    "model": model,
                    "ranked": model in study.contenders,
                    **_mean_over(study, members, model),
                }
            )
    said = notes.pooled_intervals(study) if rows else CATEGORIES.say(none=True)
    return study_table(study, CATEGORIES, rows, said, is_ranking=True)


def _mean_over(study: Study, members: list[str], model: str) -> Row:
    found = [study.estimates(b).get(model) for b in members]
    own = [e for e in found if e is not None and not np.isnan(e.normalised)]
    if len(own) < len(members):
        return {"benchmarks": len(own)}
    values = np.array([e.normalised for e in own])
    drawn = np.mean(
        [study.panels[b].normalise(e.draws) for b, e in zip(members, own, strict=True)], axis=0
    )
    ends = _pooled(study, members, model, drawn)
    return {
        "mean": values.mean(),
        **ends.ends(),
        "sd": stats.sample_sd(values, stats.MACRO_SD_DDOF),
        "benchmarks": len(own),
    }


def _pooled(study: Study, members: Sequence[str], model: str, draws: Floats) -> Interval:
    """Return the interval of a mean over benchmarks; over one it is the benchmark's own.

    So the same number has the same interval in every table.
    """
    if len(members) > 1:
        return percentile(draws, study.settings.confidence)
    own = study.estimates(members[0])[model].interval
    if own.low is None or own.high is None:
        return own
    low, high = sorted(study.panels[members[0]].normalise(np.array([own.low, own.high])).tolist())
    return Interval(low, high, own.method)
