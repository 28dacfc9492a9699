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
from medhelm.store.records import ANSWERS_AGAIN, DAMAGED, VERDICTS_AGAIN
from medhelm.tables.format.column_kinds import read_tables
from medhelm.tables.format.table import Column, Form, Row, Table, Value, filled, several
from medhelm.tables.study.cells import MIN_COVERAGE, MIN_READ, Cell
from medhelm.tables.study.judge_errors import control_notes, failure, grader_of, is_jury
from medhelm.tables.study.study import Panel, Study

_MANY = 10

NOT_GRADED = "not graded"
"""Reason for no rank on a benchmark whose run is stored but has no grading."""
_say = partial(filled, read_tables(__file__)["notes"])

_LEAST = {"coverage": MIN_COVERAGE, "read": MIN_READ}
FLAGS: Mapping[str, tuple[str, str]] = {
    flag: (mark, meaning.format(**_LEAST))
    for flag, (mark, meaning) in read_tables(__file__)["flags"].items()
}
"""Flag -> the mark in text formats, and what it means."""
FLAGS_COLUMN = Column(
    name="flags",
    type="string",
    description="what a reader must know of the runs (legend in the notes)",
    heading="flag",
    absent="",
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
    return _say(offline_jury=_several(sorted(juries)), offline_grader=_several(sorted(graders)))


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
    form: Form,
    rows: Iterable[Row],
    own_notes: Iterable[str] = (),
    *,
    title: str = "",
    is_ranking: bool = False,
    more: Mapping[str, Value] | None = None,
    under: tuple[str, ...] = (),
) -> Table:
    """Return a table of a study's runs with the notes that all of them carry.

    `own_notes`: the table's own notes, besides those of its form. `is_ranking`: whether a reader must
    know who is ranked, and on what. `more`: settings besides those of the study. `under`: see `Form.table`.
    """
    reduction, title = read_reduction(study.settings.reduce), title or form.title
    own = (*common(study), *(ranking(study) if is_ranking else ()), *form.notes)
    table = replace(form, notes=own).table(
        rows,
        own_notes,
        settings(study) | dict(more or {}),
        title=title if reduction.is_mean else f"{title}; of repeats: {reduction.name}",
        under=under,
    )
    known = {c.name for c in form.columns}
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
    by_cuts = sorted(main, key=lambda row: (-_number(row.get("ended_at_budget")), _run(row)))
    return _say(
        not_scored=_on_runs(
            (r, f"{r['not_scored']} of {r['planned']:,}") for r in main if r.get("not_scored")
        ),
        few=_on_runs((row, _covered(row)) for row in few),
        undecided=_on_runs((row, _undecided(row, study)) for row in main),
        ended_at_budget=_on_runs(
            (row, f"{_counted(row, 'ended_at_budget')}, {row['cut']:,} of them scored")
            for row in by_cuts
            if row.get("ended_at_budget")
        ),
        refused_in_words=_on_runs(
            (row, _counted(row, "refused_in_words")) for row in main if row.get("refused_in_words")
        ),
        read_by_model=_on_runs(
            (row, f"{_counted(row, 'read_by_model')} by {_reader(row, study)}")
            for row in main
            if row.get("read_by_model") is not None
        ),
        asked_again=_on_runs((row, _second_askings(row)) for row in main),
    )


def _on_runs(found: Iterable[tuple[Row, str]]) -> str:
    """Return what is so of some runs, of the first of many; empty where there is none."""
    return _several([f"{_run(row)} {said}" for row, said in found if said], sep="; ")


def _counted(row: Row, name: str) -> str:
    return f"{row[name]:,} of {row['planned']:,}"


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
    counts = {"answers": row.get("asked_again"), "verdicts": row.get("verdicts_asked_again")}
    return " and ".join(f"{n:,} {what}" for what, n in counts.items() if n)


def _damaged(study: Study) -> list[str]:
    records = [cell.record for own in study.cells.values() for cell in own.values()]
    return [
        f"{r.spec.column} x {r.spec.model.name} ({r.provenance[DAMAGED]})"
        for r in records
        if DAMAGED in r.provenance
    ]


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
    specs = {m: c.record.spec.model for b in study.cells.values() for m, c in b.items()}
    rules = sorted({s.provider for s in specs.values() if not reads_prompt(s)})
    own = sorted(m for m, s in specs.items() if s.system_prompt is not None)
    of = [(b, p.metric.name, [c.record for c in p.cells.values()]) for b, p in study.panels.items()]
    return [
        *_say(
            sample=some.spec.data == "sample",
            helm=some.grading.scoring == "helm" and f"faults included.{_as_fixed(study)}",
            rules=rules,
        ),
        *_stand_ins(study),
        *_say(system_prompt=", ".join(own), askings=_askings(study)),
        *_say(damaged=_several(_damaged(study), sep="; ")),
        *control_notes(of, study.settings.confidence),
        *_repeats(study),
        *_casts(study),
        *study.notes,
    ]


def _repeats(study: Study) -> list[str]:
    """Return how often questions were asked, and what their repeats became."""
    reduction = read_reduction(study.settings.reduce)
    found: dict[int, list[str]] = defaultdict(list)
    for benchmark, cells in study.cells.items():
        asked = {model: cell.record.spec.repeats for model, cell in cells.items()}
        for times in sorted({*asked.values()} - {1}):
            own = [f"{benchmark} x {m}" for m, n in asked.items() if n == times]
            found[times] += [benchmark] if len(own) == len(asked) else own
    parts = [f"{times} times each: {_several(names)}" for times, names in sorted(found.items())]
    lacking = {
        f"{benchmark} {metric} ({why})": None
        for benchmark, cells in study.cells.items()
        for cell in cells.values()
        for metric, scores in cell.scores.items()
        if (why := scores.without)
    }
    return _say(
        repeats=("; ".join(parts), reduction.described) if parts else None,
        reduce=not reduction.is_mean and reduction.name,
        without=(reduction.name, _several([*lacking])) if lacking else None,
    )


def _askings(study: Study) -> str:
    """Return how models are asked where that is not as the benchmarks declare: they stand in rows of their own."""
    cells = (cell for own in study.cells.values() for cell in own.values())
    found = {a.name: a for cell in cells if (a := cell.record.spec.asking) is not None}
    return "; ".join(f"{name} ({asking.in_words()})" for name, asking in sorted(found.items()))


def _casts(study: Study) -> list[str]:
    """Return who plays the roles beside the model under test: one cast in all runs of a benchmark."""
    found: dict[str, list[str]] = {}
    for benchmark, cells in study.cells.items():
        cast = next(iter(cells.values())).record.spec.cast
        if cast:
            said = ", ".join(f"{role} {spec.name}" for role, spec in cast.items())
            found.setdefault(said, []).append(benchmark)
    return [f"Other roles of {', '.join(names)}: {said}." for said, names in found.items()]


def ranks(study: Study) -> list[str]:
    """Return the notes on win rates, on what the interval of a rank and a tie group say."""
    what = "macro-average" if study.settings.rank_by == "macro" else "win rate and macro-average"
    return _say(win_rates=True, rank_sets=(study.settings.confidence, what))


def few_clusters(rows: Iterable[Mapping[str, object]]) -> list[str]:
    """Return one note on the intervals that may be too short for want of clusters."""
    found = {
        str(row["benchmark"]): row["clusters"]
        for row in rows
        if "benchmark" in row and str(row.get("interval_method", "")).endswith("few clusters")
    }
    return _say(few_clusters=_several([f"{name} ({count})" for name, count in found.items()]))


def pooled_intervals(study: Study) -> list[str]:
    """Return the note on the intervals of figures that are over benchmarks."""
    return _say(pooled_intervals=study.settings.confidence)


def ranking(study: Study) -> list[str]:
    """Return the notes on who is ranked, on what, and what was left out and why."""
    apart = [m for m in study.models if m not in study.rankable]
    gold = [m for m in apart if reads_gold(study.spec(m))]
    others = [m for m in apart if m not in gold]
    found = _say(reads_gold=", ".join(gold), beside=", ".join(others))
    for model in study.rankable:
        if model in study.lacking:
            lacked, has = study.lacking[model], len(study.shared)
            found += _say(lacking=(model, len(lacked), has, _several(lacked)))
        elif model not in study.ranked:
            why = sorted({p.unfit[model] for p in study.panels.values()})
            found += _say(fits_none=(model, "; ".join(why)))
    benchmarks, total, some = study.ranking.benchmarks, len(study.panels), bool(study.contenders)
    found += _say(
        left_out=_left_out(study),
        no_model=not some,
        no_common=some and not benchmarks,
        no_rival=len(study.contenders) == 1 and bool(benchmarks),
        ranked_on=(len(benchmarks), total) if some and 0 < len(benchmarks) < total else None,
    )
    return found + fewer_instances(study)


def _left_out(study: Study) -> str:
    """Return the names of the benchmarks left out of the ranking, each with the models it fails."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for benchmark in study.panels:
        found = study.reasons(benchmark)
        why = "; ".join(f"{model}: {reason}" for model, reason in found.items())
        if why:
            by_reason[why].append(benchmark)
    return ", ".join(f"{', '.join(names)} ({why})" for why, names in by_reason.items())


def fewer_instances(study: Study) -> list[str]:
    """Return one note on the benchmarks whose runs do not cover the same instances."""
    parts = []
    for benchmark, panel in study.panels.items():
        fit = [m for m in panel.cells if m in study.contenders and m not in panel.unfit]
        sizes = [n for m in fit or panel.cells if (n := len(panel.scores(m).ids))]
        if sizes and (n := len(panel.ids)) < max(sizes):
            shared = f"{n:,} of up to {max(sizes):,}" if n else "none, each its own"
            parts.append(f"{benchmark} {shared}")
    return _say(fewer_instances=", ".join(parts))
