"""The table `modes`: one criterion a call against all criteria of a case in one, of the same judge.

Both graded the same stored answers, so nothing is matched by text. The strict mode is the reference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from medhelm.errors import UsageError
from medhelm.grading.graders.grader import judgement_key
from medhelm.grading.panels import read_states
from medhelm.grading.rubric.grader import BATCHED, MODE, STRICT
from medhelm.grading.rubric.verdicts import Verdicts, read_verdicts
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import GraderTerms, RunRecord
from medhelm.store.records import grader_folder, grader_hash
from medhelm.tables.clinicians.decisions import Compared
from medhelm.tables.clinicians.fidelity import figures
from medhelm.tables.clinicians.rated_answers import RunChoice, graded_runs
from medhelm.tables.clinicians.stored_decisions import rubric_terms, stored_episodes
from medhelm.tables.format.column_kinds import count, measured, number, share, text
from medhelm.tables.format.table import Layout, Row, Settings, Table, make_table
from medhelm.tables.study.selection import is_ranked, of_names

MODES = (
    text("judge", "who decided in both modes", "judge"),
    text("model", "whose answers were graded; empty: all models", "model"),
    count("answers", "answers that were graded in both modes", "answers"),
    count("unpaired", "answers that were graded in one mode alone", "unpaired"),
    count("cases", "their cases: the clusters of the intervals"),
    count("decisions", "their criteria", "decisions"),
    count("same", "decisions that are the same, invalid ones as unmet", "same", of="decisions"),
    *measured("kappa", "Cohen's kappa", "", "kappa", prefix="kappa"),
    *measured(
        "mf1", "macro F1 of batched, invalid replies as unmet", "share", "MF1", 3, prefix="mf1"
    ),
    number("mf1_wrong", "macro F1 with what is invalid in either mode wrong", "share", digits=3),
    count("strict_only", "criteria that the strict mode alone finds met", "strict only"),
    count("batched_only", "criteria that the batched mode alone finds met", "batched only"),
    share("met_strict", "share met by the strict mode", "strict", 1),
    share("met_batched", "share met by the batched mode", "batched", 1),
    count("invalid_strict", "decisions without a valid reply, strict mode"),
    count("invalid_batched", "decisions without a valid reply, batched mode"),
)


class _Graded(NamedTuple):
    """The decisions of one judge on one answer in both modes; None where it has none in one of them."""

    model: str
    case: str
    strict: Verdicts | None
    batched: Verdicts | None


def modes_table(choice: RunChoice, benchmark: str, settings: Settings) -> Table:
    """Return how the two modes of each judge agree; raises UsageError where none has both."""
    judged = _read_judged(choice, benchmark)
    if not any(a.strict and a.batched for answers in judged.values() for a in answers):
        raise UsageError(
            f"no answer to {benchmark} below {choice.results_dir} was graded by one judge in both "
            f"modes: run it with grader.{MODE}={BATCHED} and without, everything else the same"
        )
    rows = [row for judge, own in judged.items() for row in _rows(judge, own, settings)]
    return make_table(
        "modes",
        "Criteria decided on one by one, and all in one call",
        MODES,
        rows,
        [
            "Both modes of a judge on the same stored answers; strict, one criterion a call, is the "
            "reference. Intervals: bootstrap over whole cases.",
            "Where the modes differ this does not say which of them is right.",
        ],
        settings.of_draws,
        layout=Layout(main=("kappa", "mf1")),
    )


def _read_judged(choice: RunChoice, benchmark: str) -> dict[str, list[_Graded]]:
    runs = of_names(graded_runs(choice.results_dir)[0], (benchmark,), choice.models)
    if not choice.models:
        runs = [r for r in runs if is_ranked(r.record.spec.model)] or runs
    is_full = any(r.record.spec.data == "full" for r in runs)
    kind = choice.data or ("full" if is_full else "sample")
    asked: dict[tuple[Path, str, str], dict[str, tuple[ModelSpec, GraderTerms]]] = defaultdict(dict)
    records: dict[Path, RunRecord] = {}
    for run in runs:
        terms = rubric_terms(run.record)
        if terms is None or run.record.spec.data != kind:
            continue
        path = run.path.parents[1]
        records[path] = run.record
        own = {name: value for name, value in terms.settings.items() if name != MODE}
        alike = msgspec.structs.replace(terms, settings=own)
        for judge in terms.jury.judges:
            place = path, judge.name, grader_hash(judge, alike)
            asked[place][terms.settings.get(MODE, STRICT)] = judge, terms
    found: dict[str, list[_Graded]] = defaultdict(list)
    for (path, judge_name, _), modes in sorted(asked.items()):
        if modes.keys() >= {STRICT, BATCHED}:
            found[judge_name] += _read_run(path, records[path], modes)
    return found


def _read_run(
    run: Path, record: RunRecord, modes: Mapping[str, tuple[ModelSpec, GraderTerms]]
) -> Iterator[_Graded]:
    """Yield the answers of one run that a judge has graded in any mode."""
    strict, batched = (read_states(grader_folder(run, *modes[mode])) for mode in (STRICT, BATCHED))
    model = record.spec.model.name
    for episode in stored_episodes(run, record):
        key, case = judgement_key(episode), episode.instance
        one, other = (
            read_verdicts(said[key], case.criteria, f"{model}, {case.id}") if key in said else None
            for said in (strict, batched)
        )
        if one or other:
            yield _Graded(model, case.id, one, other)


def _rows(judge: str, answers: Sequence[_Graded], settings: Settings) -> Iterator[Row]:
    """Yield the row of all models, then one of each."""
    for model in (None, *sorted({a.model for a in answers if a.strict and a.batched})):
        own = [a for a in answers if model in (None, a.model)]
        pairs = [(a.case, a.strict.met, a.batched.met) for a in own if a.strict and a.batched]
        names = ("modes", judge, *([model] if model else []))
        row: Row = {"judge": judge, "model": model, "unpaired": len(own) - len(pairs)}
        yield row | (_compared(pairs, settings, names) if pairs else {"answers": 0})


def _compared(
    pairs: Sequence[tuple[str, Sequence[bool | None], Sequence[bool | None]]],
    settings: Settings,
    names: Sequence[str],
) -> Row:
    cases, *each = zip(*pairs, strict=True)
    strict, batched = (np.asarray([*chain(*met)], dtype=np.float64) for met in each)  # NaN: invalid
    one, other = strict == 1, batched == 1
    both = Compared(
        cases=cases,
        sizes=[*map(len, each[0])],
        expected=one,
        found=other,
        invalid=np.isnan(strict + batched),
        absent=np.zeros(len(one), dtype=np.bool_),
    )
    row = figures(both, settings, names)
    kept = {c.name for c in MODES}
    return {name: value for name, value in row.items() if name in kept} | {
        "same": int((one == other).sum()),
        "strict_only": int((one & ~other).sum()),
        "batched_only": int((other & ~one).sum()),
        "met_strict": row["positive_reference"],
        "met_batched": row["positive"],
        "invalid_strict": int(np.isnan(strict).sum()),
        "invalid_batched": int(np.isnan(batched).sum()),
    }
