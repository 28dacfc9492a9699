"""Write the text beside the numbers: notes of tables, flags of cells, settings printed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from medhelm.grading.grade import AS_FIXED
from medhelm.grading.jury.choice import OFFLINE
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.grading.panels import SCORED, is_missing
from medhelm.models.identity import reads_gold, reads_prompt
from medhelm.schema.run import READER, RunRecord
from medhelm.schema.score import HIGHEST, LOWEST
from medhelm.stats.aggregation import ALPHA, BETA, MACRO_SD_DDOF, MDE_SD_DDOF, TIE, WIN_SD_DDOF
from medhelm.stats.reductions import read_reduction
from medhelm.store.records import ANSWERS_AGAIN, VERDICTS_AGAIN
from medhelm.tables.format.column_kinds import text
from medhelm.tables.format.table import Column, Part, Row, Table, Value, make_table, several
from medhelm.tables.study.cells import MIN_COVERAGE, MIN_READ, Cell
from medhelm.tables.study.cells import made_itself as made_itself
from medhelm.tables.study.judge_errors import control_notes, failure, grader_of, is_jury
from medhelm.tables.study.study import Panel, Study

_MANY = 10

NOT_GRADED = "not graded"
"""Reason for no rank on a benchmark whose run is stored but has no grading."""
NOT_SCORED = "Not scored"
"""Beginning of the note on the outcomes of runs."""

FLAGS = {
    "coverage": ("C", f"less than {MIN_COVERAGE:.0%} of the instances have a value"),
    "unread": (
        "R",
        f"less than {MIN_READ:.0%} of the replies could be read, and the others are in no mean",
    ),
    "cut": ("T", "answers ended at the output budget"),
    "partial": ("P", "the run was stopped before its end"),
    "parts": (
        "M",
        "some parts of the benchmark have no instance with a value; the mean is over the rest",
    ),
    "budget": ("B", "the model's own output budget replaced the benchmark's"),
    "drift": ("D", "an endpoint served more than one model id or fingerprint"),
    "usage": ("U", "usage of some requests is unknown and not in the cost"),
    "judges": (
        "J",
        "a judge is missing on some answers, or has no valid verdict; `medhelm tables --table jury` names it",
    ),
    "controls": (
        "E",
        "its judges err too often, and rank nobody; `medhelm tables --table controls`",
    ),
    "self": ("S", "one of the judges is the model itself; `medhelm tables --table jury`"),
    "family": ("F", "one of the judges is of the model's family; `medhelm tables --table jury`"),
    "again": ("A", "answers or verdicts were asked for once more, as the user wanted"),
}
"""Flag -> the mark in text formats, and what it means."""
FLAGS_COLUMN = replace(
    text("flags", "what a reader must know of the runs (legend in the notes)", "flag", absent=""),
    marks={flag: mark for flag, (mark, _) in FLAGS.items()},
)


def flags(cell: Cell, metric: str) -> list[str]:
    """Return the flags of a run on one metric."""
    record = cell.record
    is_judged = bool(grader_of(record, metric))
    there, declared = cell.parts(metric)
    served = [record.own.served_models]
    served += [j.served_models for j in record.graders if is_judged]
    unknown = [record.own.usage.unknown, *(j.usage.unknown for j in record.graders)]
    found = {
        "coverage": cell.shortfall(metric).startswith("coverage"),
        "unread": cell.shortfall(metric).startswith("read"),
        "cut": cell.ended_at_budget(metric) > 0,
        "partial": record.state == "partial",
        "parts": there < declared,
        "budget": record.spec.model.max_output_tokens is not None,
        "drift": any(len(names) > 1 for names in served),
        "usage": any(unknown),
        "judges": is_judged and any(is_missing(grader.ends) for grader in record.graders),
        "controls": bool(failure([record], metric)),
        "self": is_judged and bool(cell.own_judges),
        "family": is_judged and len(cell.family_judges) > len(cell.own_judges),
        "again": any(asked_again(record, metric)),
    }
    return [flag for flag, is_raised in found.items() if is_raised]


def asked_again(record: RunRecord, metric: str) -> tuple[int, int]:
    """Return how many answers and how many verdicts count in place of earlier ones."""
    answers, verdicts = (
        int(record.provenance.get(key, "0")) for key in (ANSWERS_AGAIN, VERDICTS_AGAIN)
    )
    return answers, verdicts if grader_of(record, metric) else 0


def read_by_model(record: RunRecord, metric: str) -> int | None:
    """Return how many answers the reader found that the rules could not; None where none was asked.

    Of a metric that is not the main one it is not known.
    """
    if record.grading.reader is None or metric != record.grading.metrics[0].name:
        return None
    return sum(party.ends.get(SCORED, 0) for party in record.graders if party.role == READER)


def jury_name(panel: Panel) -> str | None:
    """Return the name of the jury that rated the answers of a panel; `OFFLINE` without a model."""
    juries = [c.record.grading.raters for c in panel.cells.values()]
    return next((j.name if j.judges else OFFLINE.name for j in juries if j is not None), None)


def _stand_ins(study: Study) -> list[str]:
    """Return the notes on the benchmarks that no model has judged; none where there is none."""
    juries, graders = set[str](), set[str]()
    for benchmark, cells in study.cells.items():
        for grading in (c.record.grading for c in cells.values()):
            if (raters := grading.raters) is not None and not raters.judges:
                (juries if grading.jury is not None else graders).add(benchmark)
    said = []
    if juries:
        said.append(
            "Rated by the offline jury: three graders by rule, which see shared words, their order "
            "and length. It stands in for judges where none is asked, and its scores say nothing "
            f"about quality: {_several(sorted(juries))}."
        )
    if graders:
        said.append(
            "Graded by a rule that sees shared words alone. It stands in for judges where none is "
            f"asked, and its scores say nothing about quality: {_several(sorted(graders))}."
        )
    return said


def _as_fixed(study: Study) -> str:
    """Return the words on the metrics without a published form, and on which benchmarks lead by one."""
    records = [c.record for own in study.cells.values() for c in own.values()]
    names = {m.name for r in records for m in r.grading.metrics if m.scoring == "fixed"}
    shown = sorted(n for n in names if n == JURY or not is_jury(n))
    if not shown:
        return ""
    mains = {r.spec.column for r in records if r.grading.metrics[0].scoring == "fixed"}
    led = f" One of them is the main metric of {_several(sorted(mains))}." if mains else ""
    return f" {AS_FIXED.capitalize()}: {_several(shown)}.{led}"


_several = partial(several, most=_MANY)


def study_table(
    study: Study,
    name: str,
    title: str,
    columns: Sequence[Column],
    rows: Iterable[Row],
    said: Iterable[str] = (),
    *,
    is_ranking: bool = False,
    more: Mapping[str, Value] | None = None,
    group: tuple[str, ...] = (),
    parts: tuple[Part, ...] = (),
) -> Table:
    """Return a table of a study's runs with the notes that all of them carry.

    `said`: the table's own notes. `is_ranking`: whether a reader must know who is ranked, and on
    what. `more`: settings besides those of the study.
    """
    reduction = read_reduction(study.settings.reduce)
    table = make_table(
        name,
        title if reduction.is_mean else f"{title}; of repeats: {reduction.name}",
        columns,
        rows,
        [*common(study), *(ranking(study) if is_ranking else []), *said],
        settings(study) | dict(more or {}),
        group=group,
        parts=parts,
    )
    known = {c.name for c in columns}
    last = few_clusters(table.rows) if {"clusters", "interval_method"} <= known else []
    if "flags" in known:
        last += flag_legend(str(row["flags"] or "") for row in table.rows)
    return replace(table, notes=(*table.notes, *last))


def flag_legend(used: Iterable[str]) -> list[str]:
    """Return the note that explains the marks in use; none where none is."""
    words = {flag for text in used for flag in text.split()}
    marks = [f"{mark} {flag}: {why}" for flag, (mark, why) in FLAGS.items() if flag in words]
    return [f"Flags. {'; '.join(marks)}."] if marks else []


def of_runs(rows: Sequence[Row], study: Study) -> list[str]:
    """Return the notes on what a reader must know of single runs, each with the runs it is on."""
    main = [row for row in rows if row["is_main"]]
    few = [row for row in rows if {"coverage", "unread"} & {*str(row.get("flags", "")).split()}]
    again = [row for row in main if row.get("asked_again") or row.get("verdicts_asked_again")]
    by_cuts = sorted(main, key=lambda row: (-_number(row.get("ended_at_budget")), _run(row)))
    return [
        *_note(
            NOT_SCORED,
            ((r, f"{r['not_scored']} of {r['planned']:,}") for r in main if r.get("not_scored")),
        ),
        *_note("Too few with a value", ((r, _covered(r)) for r in few)),
        *_note(
            "Criteria without a valid verdict, decided all against and all for the answers of all "
            "cases",
            ((row, ends) for row in main if (ends := _undecided(row, study))),
            "As scored, what was not judged counts against the answer; where that would be a gain "
            "(criteria that name faults), the case is in no mean.",
        ),
        *_note(
            "Ended at the output budget",
            (
                (r, f"{r['ended_at_budget']:,} of {r['planned']:,}, {r['cut']:,} of them scored")
                for r in by_cuts
                if r.get("ended_at_budget")
            ),
        ),
        *_note(
            "Unparsed, and by their words refusals to answer",
            (
                (r, f"{r['refused_in_words']:,} of {r['planned']:,}")
                for r in main
                if r.get("refused_in_words")
            ),
        ),
        *_note(
            "Read by a model, since the rules could read no answer",
            (
                (r, f"{r['read_by_model']:,} of {r['planned']:,} by {_reader(r, study)}")
                for r in main
                if r.get("read_by_model") is not None
            ),
            "The model was not shown the gold, and its words count only where the reply holds them.",
        ),
        *_note(
            "Asked for once more, as the user wanted",
            ((r, _second_askings(r)) for r in again),
            "The earlier replies are in the log and the cost.",
        ),
    ]


def _note(what: str, found: Iterable[tuple[Row, str]], more: str = "") -> list[str]:
    """Return one note with what is so of some runs, of the first of many; none where there is none."""
    parts = [f"{_run(row)} {said}" for row, said in found]
    others = f"; and {len(parts) - _MANY} more" if len(parts) > _MANY else ""
    said = f"{what}: {'; '.join(parts[:_MANY])}{others}. {more}".rstrip()
    return [said] if parts else []


def _run(row: Row) -> str:
    return f"{row['benchmark']} x {row['model']}"


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _covered(row: Row) -> str:
    worst = row["worst_case"]
    at_worst = f", at worst {worst:.3f}" if isinstance(worst, float) else ""
    metric = "" if row["is_main"] else f"on {row['metric']} "
    return f"{metric}({row['coverage']:.1%}{at_worst})"


def _undecided(row: Row, study: Study) -> str:
    """Return the bounds of a score that what no judge decided could move; empty where it could not."""
    cell = study.panels[str(row["benchmark"])].cells.get(str(row["model"]))
    found = {r.metric: r.value for r in cell.record.results} if cell is not None else {}
    name = str(row["metric"])
    low, high = (found.get(name + end, found.get(name)) for end in (LOWEST, HIGHEST))
    return f"{low:.3f} to {high:.3f}" if None not in (low, high) and low != high else ""


def _reader(row: Row, study: Study) -> str:
    cell = study.panels[str(row["benchmark"])].cells[str(row["model"])]
    return ", ".join(judge.name for judge in cell.record.grading.judges[-1:])


def _second_askings(row: Row) -> str:
    counts = {"answers": row["asked_again"], "verdicts": row["verdicts_asked_again"]}
    return " and ".join(f"{n:,} {what}" for what, n in counts.items() if n)


def settings(study: Study) -> dict[str, Value]:
    """Return what the numbers depend on besides the runs."""
    some = study.any_record
    return {
        "bootstrap_seed": study.settings.bootstrap_seed,
        "draws": study.settings.draws,
        "confidence": study.settings.confidence,
        "rank_by": study.settings.rank_by,
        "win_definition": "win_rate: a tie counts one half; win_rate_literal: a tie wins for both",
        "rank_sets": "simultaneous over all pairs (Mogstad et al. 2024)",
        "tie_tolerance": TIE,
        "win_sd_ddof": WIN_SD_DDOF,
        "macro_sd_ddof": MACRO_SD_DDOF,
        "mde_sd_ddof": MDE_SD_DDOF[study.settings.mde],
        "mde_scale": study.settings.mde,
        "mde_alpha": ALPHA,
        "mde_beta": BETA,
        "min_coverage": MIN_COVERAGE,
        "reduce": study.settings.reduce,
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
        notes.append(f"scoring=helm: the published scorers, faults included.{_as_fixed(study)}")
    specs = {m: c.record.spec.model for b in study.cells.values() for m, c in b.items()}
    for rules in sorted({s.provider for s in specs.values() if not reads_prompt(s)}):
        notes.append(f"{rules}/* are rules, not language models.")
    notes += _stand_ins(study)
    if own := sorted(m for m, s in specs.items() if s.system_prompt is not None):
        notes.append(f"With a system prompt of their own: {', '.join(own)}.")
    notes += _askings(study)
    of = [(b, p.metric.name, [c.record for c in p.cells.values()]) for b, p in study.panels.items()]
    notes += control_notes(of, study.settings.confidence)
    return notes + _repeats(study) + _casts(study) + list(study.notes)


def _repeats(study: Study) -> list[str]:
    """Return how often questions were asked, and what their repeats became; none where each was
    asked once."""
    reduction = read_reduction(study.settings.reduce)
    found: dict[int, list[str]] = defaultdict(list)
    for benchmark, cells in study.cells.items():
        asked = {model: cell.record.spec.repeats for model, cell in cells.items()}
        for times in sorted({*asked.values()} - {1}):
            own = [f"{benchmark} x {m}" for m, n in asked.items() if n == times]
            found[times] += [benchmark] if len(own) == len(asked) else own
    parts = [f"{times} times each: {_several(names)}" for times, names in sorted(found.items())]
    notes = [
        f"Asked {'; '.join(parts)}. The value of a question is {reduction.described}, intervals are "
        "over questions."
    ] * bool(parts)
    if not reduction.is_mean:
        notes.append(
            f"reduce={reduction.name}: a question has a value only if each of its repeats has one; "
            "the others lower the coverage."
        )
    lacking = {
        f"{benchmark} {metric} ({why})": None
        for benchmark, cells in study.cells.items()
        for cell in cells.values()
        for metric, scores in cell.scores.items()
        if (why := scores.without)
    }
    return [
        *notes,
        *[f"Without a value under {reduction.name}: {_several([*lacking])}."] * bool(lacking),
    ]


def _askings(study: Study) -> list[str]:
    """Return how models are asked where that is not as the benchmarks declare: they stand in rows of their own."""
    cells = (cell for own in study.cells.values() for cell in own.values())
    found = {a.name: a for cell in cells if (a := cell.record.spec.asking) is not None}
    if not found:
        return []
    said = "; ".join(f"{name} ({asking.in_words()})" for name, asking in sorted(found.items()))
    return [
        "MODEL+NAME is a model that was asked otherwise than the benchmark declares, so that ranks and "
        f"win rates compare ways of asking, too: {said}."
    ]


def _casts(study: Study) -> list[str]:
    """Return who plays the roles beside the model under test: one cast in all runs of a benchmark."""
    found: dict[str, list[str]] = {}
    for benchmark, cells in study.cells.items():
        cast = next(iter(cells.values())).record.spec.cast
        if cast:
            said = ", ".join(f"{role} {spec.name}" for role, spec in cast.items())
            found.setdefault(said, []).append(benchmark)
    return [f"Other roles of {', '.join(names)}: {said}." for said, names in found.items()]


WIN_RATES = (
    "Win rate: a tie counts one half, which gives the paper's table 1. By the paper's text a tie "
    "wins for both: win_rate_literal, --rank-by literal."
)


def rank_sets(study: Study) -> str:
    """Return the note on what the interval of a rank and a tie group say."""
    what = "macro-average" if study.settings.rank_by == "macro" else "win rate and macro-average"
    return (
        f"Rank sets at {study.settings.confidence:.0%}, over all pairs at once: two models are told "
        f"apart where their paired difference in {what} is clear. Within a tie group the first "
        "is not clearly better than the rest."
    )


def few_clusters(rows: Iterable[Mapping[str, object]]) -> list[str]:
    """Return one note on the intervals that may be too short for want of clusters."""
    found = {
        str(row["benchmark"]): row["clusters"]
        for row in rows
        if "benchmark" in row and str(row.get("interval_method", "")).endswith("few clusters")
    }
    if not found:
        return []
    named = _several([f"{name} ({count})" for name, count in found.items()])
    return [
        f"Few clusters, so that an interval covers less than it says where values are skewed: {named}."
    ]


def pooled_intervals(study: Study) -> str:
    """Return the note on the intervals of figures that are over benchmarks."""
    return (
        f"Intervals at {study.settings.confidence:.0%}: over one benchmark its own; over several "
        "percentiles of the draws, instances resampled within each."
    )


def ranking(study: Study) -> list[str]:
    """Return the notes on who is ranked, on what, and what was left out and why."""
    notes = []
    apart = [m for m in study.models if m not in study.rankable]
    if gold := [m for m in apart if reads_gold(study.spec(m))]:
        notes.append(f"Shown, not ranked, since they read the gold: {', '.join(gold)}.")
    if others := [m for m in apart if m not in gold]:
        notes.append(f"Shown beside the models, not ranked: {', '.join(others)}.")
    for model in study.rankable:
        if model in study.lacking:
            lacked, has = study.lacking[model], len(study.shared)
            notes.append(
                f"{model} is not ranked: it lacks {len(lacked)} of the {has} benchmarks that most "
                f"models have ({_several(lacked)}), more than half."
            )
        elif model not in study.ranked:
            why = sorted({p.unfit[model] for p in study.panels.values()})
            notes.append(f"{model} is not ranked: it fits no benchmark ({'; '.join(why)}).")
    notes += _left_out(study)
    benchmarks, total = study.ranking.benchmarks, len(study.panels)
    if not study.contenders:
        notes.append("No model is ranked, so there is no win rate and no macro-average.")
        return notes + fewer_instances(study)
    if not benchmarks:
        notes.append(
            "No benchmark is common to all ranked models, so that nothing is ranked and there is "
            "no win rate and no macro-average; choose models with --model."
        )
    elif len(study.contenders) < 2:
        notes.append("One model is ranked: there is no rival, so no win rate.")
    if benchmarks and len(benchmarks) < total:
        notes.append(f"Ranked on {len(benchmarks)} of {total} benchmarks.")
    return notes + fewer_instances(study)


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


def fewer_instances(study: Study) -> list[str]:
    """Return one note on the benchmarks whose runs do not cover the same instances."""
    parts = []
    for benchmark, panel in study.panels.items():
        fit = [m for m in panel.cells if m in study.contenders and m not in panel.unfit]
        sizes = [n for m in fit or panel.cells if (n := len(panel.scores(m).ids))]
        if sizes and (n := len(panel.ids)) < max(sizes):
            shared = f"{n:,} of up to {max(sizes):,}" if n else "none, each its own"
            parts.append(f"{benchmark} {shared}")
    head = "Compared on the instances that all runs share, of ranked models where there are any"
    return [f"{head}: {', '.join(parts)}."] if parts else []
