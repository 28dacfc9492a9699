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
from medhelm.tables.clinicians.rated_answers import graded_runs
from medhelm.tables.clinicians.stored_decisions import rubric_terms, stored_episodes
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Row, Settings, Table
from medhelm.tables.study.selection import RunChoice, of_names

MODES = form(__file__, "modes")


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
    return MODES.table(rows, settings=settings.of_draws)


def _read_judged(choice: RunChoice, benchmark: str) -> dict[str, list[_Graded]]:
    runs = of_names(graded_runs(choice.results_dir)[0], (benchmark,), choice.models)
    runs = [*choice.ranked(runs)] or runs
    is_full = any(r.record.spec.data == "full" for r in runs)
    kind = choice.data or ("full" if is_full else "sample")
    asked: dict[tuple[Path, str, str], dict[str, tuple[ModelSpec, GraderTerms]]] = defaultdict(dict)
    records: dict[Path, RunRecord] = {}
    for run in runs:
        terms = rubric_terms(run.record)
        if terms is None or run.record.spec.data != kind:
            continue
        path = run.run_folder
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
    kept = {c.name for c in MODES.columns}
    return {name: value for name, value in row.items() if name in kept} | {
        "same": int((one == other).sum()),
        "strict_only": int((one & ~other).sum()),
        "batched_only": int((other & ~one).sum()),
        "met_strict": row["positive_reference"],
        "met_batched": row["positive"],
        "invalid_strict": int(np.isnan(strict).sum()),
        "invalid_batched": int(np.isnan(batched).sum()),
    }
