"""Lines that a run ends with: judges without verdicts, each with the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from medhelm.grading.graders.panel import (
    MISSING,
    has_no_verdict,
    is_missing,
    is_silent,
)
from medhelm.runs.sweep import JudgeTroubles
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import READER, RunRecord
from medhelm.store.records import judge_folders
from medhelm.store.runlog import read_keyed

_REASONS = 2
"""The most reasons that are given for a judge's failed requests."""


@dataclass(frozen=True)
class MissingJudge:
    """A judge without a verdict on some answers of a run."""

    line: str
    """A line with the number of answers, the reason, and whether the quorum is met without it."""
    is_asked_again: bool
    """True if the same command asks it again. False if it has replied, and nothing is valid."""


def missing_judges(
    run: Path, record: RunRecord, troubles: Mapping[str, JudgeTroubles]
) -> tuple[MissingJudge, ...]:
    """Return the judges of a graded run that lack verdicts to be asked for, or have no valid one, and why."""
    lacking = [party for party in record.graders if is_missing(party.ends)]
    raters = record.grading.raters
    without = {party.model.name for party in lacking if has_no_verdict(party.ends)}
    judges = {party.model.name for party in record.graders if party.role != READER}
    present = len(judges - without)
    is_met = present >= (raters.quorum if raters is not None else 1)
    is_short = any(result.outcomes.get("unscored") for result in record.results[:1])
    if record.state == "partial" and is_short:
        is_met = False
    tail = f"the quorum is {'met' if is_met else 'not met'} without it"
    found = []
    for party in lacking:
        name, ends = party.model.name, party.ends
        own = troubles.get(name, JudgeTroubles())
        total, missing = sum(ends.values()), sum(ends.get(end, 0) for end in MISSING)
        if is_silent(ends):
            kinds = ", ".join(f"{n:,} {end}" for end, n in sorted(ends.items()))
            line = f"{party.role} {name} has no valid verdict on {total:,} of {total:,} answers ({kinds})"
            line += _replies(run, record, party.model)
        elif missing:
            line = f"{party.role} {name} is missing on {missing:,} of {total:,} answers"
        else:
            line = f"{party.role} {name} has no verdict on {ends['oversize']:,} of {total:,} answers (oversize)"
        why = own.broken or _reasons(own.errors)
        line += f": {why}" if missing and why else ""
        if ends.get("oversize"):
            needed = f", which would have to hold {own.window:,} tokens" if own.window else ""
            line += f": {ends['oversize']:,} do not fit its window{needed}"
        line += f"; {tail}" if party.role != READER else ""
        found.append(MissingJudge(line, bool(missing)))
    return tuple(found)


def _replies(run: Path, record: RunRecord, judge: ModelSpec) -> str:
    """Return the first fault of a judge's replies, and which log holds them."""
    terms = next(own for own in record.grading.judged_by if judge in own.jury.judges)
    folder = judge_folders(run, terms)[terms.jury.judges.index(judge)]
    first = next((g.error for _, g in read_keyed(folder) if g.error), "")
    fault = f", the first: {first}" if first else ""
    return f"{fault}; its replies are in {folder / 'responses.jsonl'}"


def _reasons(errors: Counter[str]) -> str:
    """Return why requests failed; of a bare HTTP status its standard words too."""
    said = []
    for error, n in errors.most_common(_REASONS):
        status = error.removeprefix("http ")
        is_known = status != error and status.isdigit() and int(status) in set(HTTPStatus)
        words = f" ({HTTPStatus(int(status)).phrase})" if is_known else ""
        said.append(f"{n:,} {error}{words}")
    return f"requests failed, {', '.join(said)}" if said else ""
