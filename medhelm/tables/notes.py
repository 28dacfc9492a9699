"""What must be said beside the numbers: notes of tables, flags of cells, settings printed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from medhelm.jury.metric import NAME as JURY
from medhelm.jury.terms import OFFLINE
from medhelm.stats import ALPHA, BETA, MACRO_SD_DDOF, MDE_SD_DDOF, TIE, WIN_SD_DDOF
from medhelm.tables.cells import MIN_COVERAGE, Cell
from medhelm.tables.study import Panel, Study
from medhelm.tables.table import Value

_MANY = 10

NOT_GRADED = "not graded"
"""Why a model is not ranked on a benchmark where its run is stored but has no grading."""

FLAGS = {
    "coverage": ("C", f"less than {MIN_COVERAGE:.0%} of the instances have a value"),
    "partial": ("P", "the run was stopped before its end"),
    "parts": (
        "M",
        "some parts of the benchmark have no instance with a value; the mean is over the rest",
    ),
    "budget": ("B", "the model's own output budget replaced the benchmark's"),
    "drift": ("D", "an endpoint served more than one model id or fingerprint"),
    "usage": ("U", "usage of some requests is unknown and not in the cost"),
    "self": ("S", "one of the judges is the model itself; `medhelm tables --table jury`"),
}
"""Flag -> the mark in text formats, and what it means."""


def flags(cell: Cell, metric: str) -> list[str]:
    """Return the flags of a run on one metric."""
    record = cell.record
    served = [record.served_models, *(j.served_models for j in record.judges * is_jury(metric))]
    unknown = [record.usage.unknown, *(j.usage.unknown for j in record.judges)]
    found = {
        "coverage": cell.coverage(metric) < MIN_COVERAGE,
        "partial": record.state == "partial",
        "parts": cell.lacks_parts(metric),
        "budget": record.spec.model.max_output_tokens is not None,
        "drift": any(len(names) > 1 for names in served),
        "usage": any(unknown),
        "self": is_jury(metric) and bool(cell.own_judges),
    }
    return [flag for flag, is_raised in found.items() if is_raised]


def is_jury(metric: str) -> bool:
    """Return whether a metric is a jury's score, or that of one judge or criterion."""
    return metric == JURY or metric.startswith((f"{JURY}[", f"{JURY}."))


def jury_name(panel: Panel) -> str | None:
    """Return the name of the jury that rated the answers of a panel; `OFFLINE` without a model."""
    terms = [c.record.grading.jury for c in panel.cells.values()]
    juries = [t.jury for t in terms if t is not None]
    return next((j.name if j.judges else OFFLINE.name for j in juries), None)


def _stand_ins(study: Study) -> list[str]:
    """Return the note on the benchmarks that no model has judged; none where there is none."""
    found = [
        benchmark
        for benchmark, cells in study.cells.items()
        if any(
            (terms := c.record.grading.jury) is not None and not terms.jury.judges
            for c in cells.values()
        )
    ]
    if not found:
        return []
    return [
        "Rated by the offline jury: three graders by rule, which see shared words, their order and "
        "length. It stands in for judges where none is asked, and its scores say nothing about "
        f"quality: {_several(found)}."
    ]


def _several(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
    return ", ".join(names[:_MANY]) + more


def flag_legend(used: Iterable[str]) -> list[str]:
    """Return the note that explains the marks in use; none where none is."""
    words = {flag for text in used for flag in text.split()}
    marks = [f"{mark} {flag}: {why}" for flag, (mark, why) in FLAGS.items() if flag in words]
    return [f"Flags. {'; '.join(marks)}."] if marks else []


def not_scored(rows: Iterable[Mapping[str, object]]) -> list[str]:
    """Return one note with the outcomes of the runs of which not every answer was scored."""
    parts = [
        f"{row['benchmark']} x {row['model']} {row['not_scored']} of {row['planned']:,}"
        for row in rows
        if row["is_main"] and row["not_scored"]
    ]
    more = f"; and {len(parts) - _MANY} more" if len(parts) > _MANY else ""
    return [f"Not scored: {'; '.join(parts[:_MANY])}{more}."] if parts else []


def worst_cases(rows: Iterable[Mapping[str, object]]) -> list[str]:
    """Return one note with coverage and worst case of the runs that cover too little."""
    parts = []
    for row in rows:
        if "coverage" in str(row.get("flags", "")).split():
            worst = row["worst_case"]
            at_worst = f", at worst {worst:.3f}" if isinstance(worst, float) else ""
            parts.append(f"{row['benchmark']} x {row['model']} ({row['coverage']:.1%}{at_worst})")
    more = f" and {len(parts) - _MANY} more" if len(parts) > _MANY else ""
    return (
        [f"Coverage below {MIN_COVERAGE:.0%}: {', '.join(parts[:_MANY])}{more}."] if parts else []
    )


def settings(study: Study) -> dict[str, Value]:
    """Return what the numbers depend on besides the runs."""
    some = study.any_record
    return {
        "bootstrap_seed": study.settings.bootstrap_seed,
        "draws": study.settings.draws,
        "confidence": study.settings.confidence,
        "rank_by": study.settings.rank_by,
        "win_definition": "win_rate: score >= rival's; win_rate_half: a tie counts one half",
        "tie_tolerance": TIE,
        "win_sd_ddof": WIN_SD_DDOF,
        "macro_sd_ddof": MACRO_SD_DDOF,
        "mde_sd_ddof": MDE_SD_DDOF,
        "mde_alpha": ALPHA,
        "mde_beta": BETA,
        "min_coverage": MIN_COVERAGE,
        "data": some.spec.data,
        "scoring": some.grading.scoring,
    }


def common(study: Study) -> list[str]:
    """Return the notes that every table of a study carries."""
    some = study.any_record
    notes = []
    if some.spec.data == "sample":
        notes.append(
            "Bundled samples are few and synthetic: they show that the set-up works, they say "
            "nothing about models."
        )
    if some.grading.scoring == "helm":
        notes.append("scoring=helm: the published scorers, faults included.")
    specs = {m: c.record.spec.model for b in study.cells.values() for m, c in b.items()}
    if any(s.provider == "baseline" for s in specs.values()):
        notes.append("baseline/* are rules, not language models.")
    notes += _stand_ins(study)
    if own := sorted(m for m, s in specs.items() if s.system_prompt is not None):
        notes.append(f"With a system prompt of their own: {', '.join(own)}.")
    return notes + list(study.notes)


def pooled_intervals(study: Study) -> str:
    """Return the note on the intervals of figures that are over benchmarks."""
    return (
        f"Intervals at {study.settings.confidence:.0%}: over one benchmark its own; over several "
        "percentiles of the draws, instances resampled within each."
    )


def ranking(study: Study) -> list[str]:
    """Return the notes on who is ranked, on what, and what was left out and why."""
    notes = []
    if gold := sorted(m for m in study.models if m not in study.rankable):
        notes.append(f"Shown, not ranked, since they read the gold: {', '.join(gold)}.")
    for model in study.rankable:
        if model not in study.ranked:
            why = sorted({p.unfit[model] for p in study.panels.values()})
            notes.append(f"{model} is not ranked: it fits no benchmark ({'; '.join(why)}).")
    notes += _left_out(study)
    benchmarks, total = study.ranking.benchmarks, len(study.panels)
    if not study.ranked:
        return [*notes, "No model is ranked, so there is no win rate and no macro-average."]
    if not benchmarks:
        notes.append(
            "No benchmark is common to all ranked models, so that nothing is ranked and there is "
            "no win rate and no macro-average; choose models with --model."
        )
    elif len(study.ranked) < 2:
        notes.append("One model is ranked: there is no rival, so no win rate.")
    if benchmarks and len(benchmarks) < total:
        notes.append(f"Ranked on {len(benchmarks)} of {total} benchmarks.")
    return notes + _fewer_instances(study)


def _left_out(study: Study) -> list[str]:
    """Return one note that names each benchmark left out of the ranking, and the models it fails."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for benchmark in study.panels:
        found = study.reasons(benchmark)
        why = "; ".join(f"{model}: {reason}" for model, reason in found.items())
        if why:
            by_reason[why].append(benchmark)
    if not by_reason:
        return []
    parts = [f"{', '.join(names)} ({why})" for why, names in by_reason.items()]
    return [f"Left out of the ranking: {', '.join(parts)}."]


def _fewer_instances(study: Study) -> list[str]:
    """Return one note on the benchmarks whose runs do not cover the same instances."""
    parts = []
    for benchmark, panel in study.panels.items():
        fit = [m for m in panel.cells if m in study.ranked and m not in panel.unfit]
        most = max((len(panel.scores(m).ids) for m in fit), default=0)
        if 0 < len(panel.ids) < most:
            parts.append(f"{benchmark} {len(panel.ids):,} of up to {most:,}")
    return [f"Compared on the instances that all ranked runs share: {', '.join(parts)}."] * bool(
        parts
    )
