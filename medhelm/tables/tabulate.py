"""Runs -> the tables overall, benchmarks and categories.

Every function takes a `Study` and returns a `Table`; `study` describes what is compared on what.
The other tables are in `power` (MDE), `spending` (cost), `slices` and `compare`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from medhelm.errors import UsageError
from medhelm.stats import aggregation as stats
from medhelm.stats.aggregation import Floats, WinDefinition
from medhelm.stats.intervals import Interval, holding, percentile
from medhelm.tables import notes
from medhelm.tables.columns import BENCHMARKS, CATEGORIES, OUTCOMES, OVERALL
from medhelm.tables.format.table import Column, Layout, RankBy, Row, Table, make_table
from medhelm.tables.notes import NOT_GRADED
from medhelm.tables.spending import cost_columns, jury_usage, usage_columns
from medhelm.tables.study.cells import Cell
from medhelm.tables.study.study import Estimate, Panel, Study

_BY: Mapping[RankBy, str] = {
    "half": "win rate (a tie counts half)",
    "literal": "win rate (a tie wins for both)",
    "macro": "macro-average",
}


_WIN_RATES: tuple[tuple[str, str, WinDefinition], ...] = (
    ("win_rate", "win", "half"),
    ("win_rate_literal", "win_literal", "literal"),
)
"""Column of each win rate, prefix of the columns that belong to it, definition."""

_OVERALL = Layout(
    leaving=(
        "benchmarks",
        "cut_share",
        "total_cost_upper_usd",
        "win_rate_literal",
        "total_cost_usd",
        "coverage",
        "macro_sd",
        "win_sd",
    ),
    main=("win_rate", "macro_average"),
    always=("win_rate", "macro_average"),
)
_BENCHMARKS = Layout(
    leaving=(
        "interval_method",
        "normalised",
        "not_scored",
        "worst_case",
        "cut_share",
        "coverage",
    ),
    main=("score",),
)
_CATEGORIES = Layout(main=("mean",), missing={"subcategory": "all"})


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
                **_ends("macro", ends),
                "macro_sd": stats.sample_sd(ranking.scores[m], stats.MACRO_SD_DDOF),
                "benchmarks": len(ranking.benchmarks),
            }
        for model in set(study.models) - set(ranking.models):
            rows[model] |= _unranked_macro(study, model)
    if ranking.is_defined:
        _add_ranks(study, rows)
    ordered = sorted(study.models, key=lambda m: (_place(rows[m]), m))
    used = [str(row["flags"]) for row in rows.values()]
    is_literal = study.settings.rank_by == "literal"
    return make_table(
        "overall",
        f"Models over {_plural(len(ranking.benchmarks), 'common benchmark')}, by "
        f"{_BY[study.settings.rank_by]}",
        OVERALL,
        [rows[m] for m in ordered],
        [
            *notes.common(study),
            *notes.ranking(study),
            *([notes.win_rates(), notes.rank_sets(study)] if ranking.is_defined else []),
            *([notes.pooled_intervals(study)] if ranking.benchmarks else []),
            *notes.flag_legend(used),
        ],
        notes.settings(study),
        layout=_keeping_literal(_OVERALL) if is_literal else _OVERALL,
    )


def _by_literal(columns: Sequence[Column]) -> dict[str, Column]:
    """Return how columns are shown with interval and SD of the literal win rate, not of the other."""
    shown_as = {c.name: c for c in columns}
    return {
        "win_rate": replace(shown_as["win_rate"], interval=None),
        "win_sd": replace(shown_as["win_sd"], heading=""),
        "win_rate_literal": replace(
            shown_as["win_rate_literal"], interval=("win_literal_low", "win_literal_high")
        ),
        "win_literal_sd": replace(shown_as["win_literal_sd"], heading=shown_as["win_sd"].heading),
    }


def _keeping_literal(layout: Layout) -> Layout:
    """Return the layout in which, of two win rates, the literal one stays, since it ranks."""
    swapped = {"win_rate_literal": "win_rate", "win_sd": "win_literal_sd"}
    leaving = tuple(swapped.get(name, name) for name in layout.leaving)
    main = (*layout.main, "win_rate_literal")
    return replace(layout, leaving=leaving, main=main, shown_as=_by_literal(OVERALL))


def _plural(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


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
        "cut_share": sum(n for n, _ in ended) / planned
        if planned and all(is_counted for _, is_counted in ended)
        else None,
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
    suite = ranking.suite_intervals("half")
    rank, low, high = ranking.ranks()
    groups = ranking.groups()
    for m, model in enumerate(ranking.models):
        rows[model] |= {
            "rank": int(rank[m]),
            "rank_low": low[m],
            "rank_high": high[m],
            "tie_group": groups[m],
            **_ends("win_suite", suite[m]),
        }
    for column, prefix, definition in _WIN_RATES:
        rates = stats.win_rates(ranking.scores, definition)
        spread = stats.win_sd(ranking.scores, definition)
        draws = ranking.rate_draws[definition]
        for m, model in enumerate(ranking.models):
            ends = holding(percentile(draws[:, m], study.settings.confidence), rates[m])
            rows[model] |= {column: rates[m], **_ends(prefix, ends), f"{prefix}_sd": spread[m]}


def _ends(prefix: str, interval: Interval) -> Row:
    return {f"{prefix}_low": interval.low, f"{prefix}_high": interval.high}


def benchmarks(study: Study, metrics: str = "main") -> Table:
    """Return one row per benchmark and model, a model without a run included.

    `metrics`: `main`, or `all` for the secondary ones too.
    """
    if metrics not in ("main", "all"):
        raise UsageError(f"metrics must be main or all, not {metrics!r}")
    rows: list[Row] = []
    for benchmark in study.panels:
        names = study.metrics(benchmark)
        for name in names if metrics == "all" else names[:1]:
            rows += _benchmark_rows(study, benchmark, name)
    methods = sorted({str(r["interval_method"]) for r in rows if "interval_method" in r})
    used = [str(row.get("flags", "")) for row in rows]
    return make_table(
        "benchmarks",
        "Scores by benchmark",
        BENCHMARKS,
        rows,
        [
            *notes.common(study),
            *notes.ranking(study),
            *notes.worst_cases(rows),
            *notes.undecided(rows, study),
            *notes.cut_answers(rows),
            *notes.refusals_in_words(rows),
            *notes.second_askings(rows),
            f"Intervals at {study.settings.confidence:.0%}: {'; '.join(methods)}.",
            *notes.few_clusters(rows),
            *notes.flag_legend(used),
        ],
        notes.settings(study),
        group=("benchmark", "metric"),
        layout=replace(_BENCHMARKS, replaced_by={"not_scored": tuple(notes.not_scored(rows))}),
    )


def _benchmark_rows(study: Study, benchmark: str, metric: str) -> list[Row]:
    panel = study.panel(benchmark, metric)
    found = study.estimates(benchmark, metric)
    shared: Row = {
        "benchmark": benchmark,
        "category": panel.card.category,
        "subcategory": panel.card.subcategory,
        "metric": metric,
        "is_main": metric == study.panels[benchmark].metric.name,
        "is_common": benchmark in study.ranking.benchmarks,
    }
    ordered = sorted(found, key=lambda m: (-np.nan_to_num(found[m].normalised, nan=-1.0), m))
    rows = [
        shared
        | _score_columns(found[m], panel)
        | _run_columns(panel.cells[m], panel)
        | {"model": m, "status": _status(study, panel, m)}
        for m in ordered
    ]
    missing = [m for m in study.models if m not in found and m in study.contenders]
    return rows + [
        shared
        | {"model": m, "status": "not graded" if panel.unfit.get(m) == NOT_GRADED else "missing"}
        for m in missing
    ]


def _status(study: Study, panel: Panel, model: str) -> str:
    if model not in study.contenders:
        return "not ranked"
    return "left out" if model in panel.unfit else "ranked"


def _score_columns(own: Estimate, panel: Panel) -> Row:
    return {
        "score": own.score,
        "low": own.interval.low,
        "high": own.interval.high,
        "interval_method": notes.method(own.interval),
        "standard_error": own.error,
        "design_effect": own.effect,
        "normalised": own.normalised,
        "n": own.n,
        "clusters": own.clusters,
    }


def _run_columns(cell: Cell, panel: Panel) -> Row:
    metric, record = panel.metric, cell.record
    scores, planned = cell.scores[metric.name], cell.planned(metric.name)
    is_mean, repeats = metric.aggregation == "mean", record.spec.repeats
    worst = metric.minimum if metric.higher_is_better else metric.maximum
    mute = scores.outcomes.get("uninformative", 0)
    rows = sum(scores.outcomes.values()) - mute
    others = {o: n for o, n in scores.outcomes.items() if o != "scored" and n}
    if planned > rows:
        others["not run"] = planned - rows
    bound = stats.worst_case(scores.total, scores.counted, planned - scores.counted, worst)
    parts, _ = cell.parts(metric.name)
    again, verdicts_again = notes.asked_again(record, metric.name)
    row: Row = {
        "mean_of": _plural(parts, "part") if parts else None,
        "refused_in_words": cell.refused_in_words(metric.name),
        "asked_again": again,
        "verdicts_asked_again": verdicts_again,
        "worst_case": bound if is_mean else None,
        "planned": planned,
        "counted": scores.counted,
        "scored": scores.outcomes.get("scored", 0),
        "coverage": cell.coverage(metric.name),
        "not_scored": ", ".join(f"{n:,} {o}" for o, n in others.items()),
        "repeats": repeats,
        "flags": " ".join(notes.flags(cell, metric.name)),
        "jury": notes.jury_name(panel) if notes.is_rated(record, metric.name) else None,
        **cost_columns([record]),
        "request_hash": record.request_hash,
        "grading_hash": record.grading_hash,
        "run": cell.run.folder,
        **usage_columns(record.own.usage),
        **jury_usage([record]),
    }
    if scores.counted:
        row["score_all"] = float(scores.pooling(scores.sums.sum(0)))
    ended, is_counted = cell.ended_at_budget(metric.name)
    if is_counted:
        row |= {"cut": ended - scores.outcomes.get("truncated", 0), "ended_at_budget": ended}
        row["cut_share"] = ended / planned if planned else None
    if planned:
        row |= {f"share_{o}": scores.outcomes.get(o, 0) / planned for o in OUTCOMES}
        row["share_not_run"] = (planned - rows) / planned
        row["share_uninformative"] = mute / (planned + mute)
    if repeats > 1 and scores.counted:
        lowest = scores.low if metric.higher_is_better else scores.high
        row |= {"worst_of_repeats": lowest.mean(), "repeat_sd": scores.spread.mean()}
    return row


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
    said = [
        notes.pooled_intervals(study) if rows else "No category has a common benchmark: no means."
    ]
    return make_table(
        "categories",
        "Mean normalised scores by category and subcategory",
        CATEGORIES,
        rows,
        [*notes.common(study), *notes.ranking(study), *said],
        notes.settings(study),
        group=("category", "subcategory"),
        layout=_CATEGORIES,
    )


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
        "low": ends.low,
        "high": ends.high,
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
