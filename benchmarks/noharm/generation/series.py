"""A series of cases in one folder: its run, and the files that are made of what the run holds.

cases.jsonl        the cases that were made; `medhelm run benchmark=noharm` reads such a file
provenance.jsonl   where each of their actions comes from; shown to no model
discarded.jsonl    cases that could not be made, and why

Beside them lie the files of the run: every request and reply is in `responses.jsonl`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from medhelm import Episode, Instance, ModelSpec
from medhelm.plugin import RecordError, durable, own_runs, questions, runlog
from medhelm_benchmarks.noharm.generation.assembly import Provenance
from medhelm_benchmarks.noharm.generation.conduct import Series, generation
from medhelm_benchmarks.noharm.generation.guideline import draw_setting
from medhelm_benchmarks.noharm.generation.stages import STAGES
from medhelm_benchmarks.noharm.rules.cases import Case, write_cases
from medhelm_benchmarks.noharm.rules.quality import MOST_ALIKE, likeness

_QUOTED = re.compile(r"""["'`].*["'`]""", re.DOTALL)


@dataclass(frozen=True)
class CaseEnd:
    """Reports how one case ended."""

    code: str
    status: str
    """made, discarded or failed"""
    case: Case | None = None
    provenance: Provenance | None = None
    stage: str = ""
    reasons: tuple[str, ...] = ()

    @property
    def shown_reasons(self) -> tuple[str, ...]:
        """Return the reasons without words of a model, which may be words of the guideline."""
        return tuple(_QUOTED.sub("'...'", reason) for reason in self.reasons)


def series_run(
    series: Series,
    count: int,
    folder: Path,
    data_class: own_runs.DataClass,
    environ: Mapping[str, str] | None,
) -> own_runs.Run:
    """Return the run that writes the first `count` cases of a series; raises as `own_run` does."""
    decides = (series.prefix, series.specialty, series.guideline.name, series.guideline.sha256)
    return own_runs.own_run(
        "noharm_generation",
        [_brief(series, number) for number in range(1, count + 1)],
        generation(series),
        series.players,
        folder,
        data_class=data_class,
        environ=environ,
        decides=hashlib.sha256("\0".join(decides).encode()).hexdigest(),
        max_output_tokens=STAGES["traps"].budget,
        reasoning_output_tokens=questions.REASONING_BUDGET,
        seed=series.seed,
    )


def _brief(series: Series, number: int) -> Instance:
    """Return the brief of a case, numbered from 1: the setting that makes its patient another one."""
    setting = asdict(draw_setting(series.seed, series.prefix, number, series.guideline.passages))
    context = "; ".join(setting.values())
    return Instance(id=f"{series.prefix}-{number:03}", context=context, payload=setting)


def case_ends(folder: Path) -> list[CaseEnd]:
    """Return how the cases of a folder ended, in the order of their codes; those unfinished are absent.

    A case whose patient is that of a lower number is discarded.
    """
    ends: list[CaseEnd] = []
    for episode in sorted(own_runs.stored_episodes(folder), key=lambda e: e.instance_id):
        end = _end(episode)
        copied = next((e.code for e in ends if _is_same_patient(end, e)), None)
        if copied is not None:
            reason = f"it is the patient of {copied}"
            end = CaseEnd(end.code, "discarded", stage="series", reasons=(reason,))
        ends.append(end)
    return ends


def _end(episode: Episode) -> CaseEnd:
    code, state = episode.instance_id, episode.state
    if episode.ending == "made":
        case = msgspec.convert(state["case"], Case)
        return CaseEnd(code, "made", case, msgspec.convert(state["provenance"], Provenance))
    if episode.ending == "discarded":
        reasons = tuple(state["reasons"])
        return CaseEnd(code, "discarded", stage=state["stage"], reasons=reasons)
    return CaseEnd(code, "failed", reasons=(episode.error or episode.finish,))


def _is_same_patient(one: CaseEnd, other: CaseEnd) -> bool:
    cases = one.case, other.case
    return all(cases) and likeness(*(c.vignette for c in cases if c)) > MOST_ALIKE


def write_products(folder: Path, ends: Sequence[CaseEnd]) -> None:
    """Write the files of a series, each whole or not at all; raises RecordError."""
    if cases := [e.case for e in ends if e.case is not None]:
        write_cases(folder / "cases.jsonl", cases)
    durable.write_lines(folder / "provenance.jsonl", (e.provenance for e in ends if e.provenance))
    gone = (e for e in ends if e.status == "discarded")
    durable.write_lines(
        folder / "discarded.jsonl",
        ({"code": e.code, "stage": e.stage, "reasons": e.reasons} for e in gone),
    )


def counts(ends: Sequence[CaseEnd], asked: int) -> dict[str, int]:
    """Return how many cases ended in each way, of those asked for."""
    found = Counter(e.status for e in ends)
    known = {status: found[status] for status in ("made", "discarded", "failed")}
    return {**known, "not finished": max(0, asked - len(ends))}


def evaluated_here(results: Path, models: Sequence[str]) -> list[str]:
    """Return those of the models of which a results folder holds runs on cases like these."""
    asked: list[ModelSpec] = []
    for run in (results / "runs" / "noharm").glob("*/*"):
        with suppress(RecordError):
            asked.append(runlog.read_plan(run).spec.model)
    return [name for name in models if any(runlog.is_same_model(spec, name) for spec in asked)]
