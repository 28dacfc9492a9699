"""The folder of a series of cases: what decides it, every call, and what came of it.

spec.json          guideline, models, seed, version of the prompts
guideline.txt      the guideline as it was read
calls.jsonl        every request and reply
cases.jsonl        the cases that were made; `medhelm run benchmark=noharm` reads such a file
provenance.jsonl   where each of their actions comes from; shown to no model
discarded.jsonl    cases that could not be made, and why
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from medhelm.errors import MedhelmError, RecordError, UsageError
from medhelm.files.durable import AtomicFile, make_private, why
from medhelm.models import ModelPool
from medhelm.models.costs import Ledger, cost
from medhelm.models.identity import identity
from medhelm.runs.interrupts import Interrupts
from medhelm.runs.logs import synced
from medhelm.schema.model import ModelSpec
from medhelm.store.records import is_same_model, read_plan
from medhelm_benchmarks.noharm.generation.calls import Caller, CallLog, read_calls
from medhelm_benchmarks.noharm.generation.pipeline import CaseEnd, Series, make_series
from medhelm_benchmarks.noharm.generation.prompts import PROMPT_VERSION
from medhelm_benchmarks.noharm.rules.casefile import write_cases

SCHEMA = "medhelm_benchmarks.noharm.generation/1"


class SeriesSpec(msgspec.Struct, frozen=True, kw_only=True):
    """`spec.json`."""

    schema: str = SCHEMA
    prefix: str
    specialty: str
    guideline: str
    guideline_sha256: str
    generator: ModelSpec
    raters: tuple[ModelSpec, ModelSpec, ModelSpec]
    seed: int
    prompt_version: str
    cases: int
    """The most that were ever asked for."""


@dataclass(frozen=True)
class SeriesEnd:
    """Reports how a series ended."""

    folder: Path
    ends: tuple[CaseEnd, ...]
    stopped: MedhelmError | None
    mended: int
    """Torn or damaged lines of the log whose requests were sent again."""

    @property
    def cases_path(self) -> Path:
        """Return the file of the cases."""
        return self.folder / "cases.jsonl"


async def run_series(
    series: Series,
    count: int,
    folder: Path,
    pool: ModelPool,
    ledger: Ledger,
    done: Callable[[CaseEnd], None],
    say: Callable[[str], None],
) -> SeriesEnd:
    """Return how a series ended. All that was made is on disk, whatever stopped it.

    Raises UsageError where the folder holds another series, RecordError where it cannot be used.
    """
    log = CallLog(folder)
    mended = log.open()
    try:
        stored = _begin(series, count, folder)
        caller = Caller(log, pool, ledger, series.guideline)
        said: set[str] = set()

        def say_once(end: CaseEnd) -> None:
            if end.code not in said:
                said.add(end.code)
                done(end)

        work = asyncio.create_task(make_series(series, count, caller, say_once, stored))
        ends: list[CaseEnd] = []
        try:
            async with synced(log, caller.stop):
                with Interrupts(caller.stop, pool, say, [work]):
                    ends = await work
        except asyncio.CancelledError:
            if caller.stopped is None:
                raise
            # what the log holds, without a request
            ends = await make_series(series, count, caller, say_once, stored)
        log.sync()  # else what was made of a log that is gone would be all that is there
        _write(folder, ends)
    finally:
        log.close()
    return SeriesEnd(folder, tuple(ends), caller.stopped, mended)


def _begin(series: Series, count: int, folder: Path) -> int:
    """Write the spec; returns the largest number of cases that was ever asked for."""
    path = folder / "spec.json"
    before = _read_spec(path)
    if before is not None:
        _check_same(series, before, folder)
        count = max(count, before.cases)
    spec = SeriesSpec(
        prefix=series.prefix,
        specialty=series.specialty,
        guideline=series.guideline.name,
        guideline_sha256=series.guideline.sha256,
        generator=series.generator,
        raters=series.raters,
        seed=series.seed,
        prompt_version=PROMPT_VERSION,
        cases=count,
    )
    _write_bytes(folder / "guideline.txt", series.guideline.text.encode())
    _write_bytes(path, msgspec.json.format(msgspec.json.encode(spec), indent=1))
    return count


def _read_spec(path: Path) -> SeriesSpec | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=SeriesSpec)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError, OSError):
        raise RecordError(f"{path} cannot be read; name another folder with --out") from None


def _check_same(series: Series, before: SeriesSpec, folder: Path) -> None:
    models = (series.generator, *series.raters)
    for what, is_same in (
        ("guideline", series.guideline.sha256 == before.guideline_sha256),
        ("name of the guideline", series.guideline.name == before.guideline),
        ("specialty", series.specialty == before.specialty),
        ("topic", series.prefix == before.prefix),
        ("seed", series.seed == before.seed),
        ("version of the prompts", before.prompt_version == PROMPT_VERSION),
        (
            "model",
            list(map(_identity, models))
            == list(map(_identity, (before.generator, *before.raters))),
        ),
    ):
        if not is_same:
            raise UsageError(
                f"{folder} holds cases made with another {what}; name another folder with --out"
            )


def _identity(model: ModelSpec) -> dict[str, Any]:
    """Return all of a model that decides what it is sent: a change would ask for every case again."""
    more = {"json_schema": model.json_schema, "max_output_tokens": model.max_output_tokens}
    return identity(model) | more


def _write(folder: Path, ends: Sequence[CaseEnd]) -> None:
    if cases := [e.case for e in ends if e.case is not None]:
        write_cases(folder / "cases.jsonl", cases)
    _write_lines(folder / "provenance.jsonl", (e.provenance for e in ends if e.provenance))
    gone = (e for e in ends if e.status == "discarded")
    _write_lines(
        folder / "discarded.jsonl",
        ({"code": e.code, "stage": e.stage, "reasons": e.reasons} for e in gone),
    )


def _write_lines(path: Path, values: Iterable[object]) -> None:
    _write_bytes(path, b"".join(msgspec.json.encode(value) + b"\n" for value in values))


def _write_bytes(path: Path, content: bytes) -> None:
    try:
        make_private(path.parent)
        with AtomicFile(path) as file:
            file.write(content)
    except OSError as e:
        raise RecordError(f"cannot write {path}: {why(e)}") from None


@dataclass(frozen=True)
class StageUse:
    """Sums the usage of one stage in all commands on a folder."""

    stage: str
    model: str
    requests: int
    repairs: int
    failed: int
    input_tokens: int
    output_tokens: int
    unknown: int
    """Replies without a count of tokens."""
    lost: int
    """Requests whose answer was lost after sending. They may be billed, and are in no sum."""
    usd: float | None
    """None where a price or a count is not known."""


def stage_uses(folder: Path, models: Iterable[ModelSpec]) -> list[StageUse]:
    """Return what each stage has used, in the order of the stages' first replies."""
    prices = {m.name: m.price for m in models}
    found: dict[tuple[str, str], list[StageUse]] = defaultdict(list)
    for call in read_calls(folder):
        usage, is_error = call.response.usage, call.response.finish in ("error", "oversize")
        is_known = usage.input_tokens is not None and usage.output_tokens is not None
        found[call.stage, call.model].append(
            StageUse(
                stage=call.stage,
                model=call.model,
                requests=1,
                repairs=int(call.attempt > 0),
                failed=int(is_error),
                input_tokens=usage.input_tokens or 0,
                output_tokens=usage.output_tokens or 0,
                unknown=int(not is_known and not is_error),
                lost=call.response.lost,
                usd=0.0 if is_error and not is_known else cost(usage, prices.get(call.model)),
            )
        )
    return [_sum(uses) for uses in found.values()]


def _sum(uses: Sequence[StageUse]) -> StageUse:
    known = [u.usd for u in uses if u.usd is not None]
    return StageUse(
        stage=uses[0].stage,
        model=uses[0].model,
        requests=sum(u.requests for u in uses),
        repairs=sum(u.repairs for u in uses),
        failed=sum(u.failed for u in uses),
        input_tokens=sum(u.input_tokens for u in uses),
        output_tokens=sum(u.output_tokens for u in uses),
        unknown=sum(u.unknown for u in uses),
        lost=sum(u.lost for u in uses),
        usd=sum(known) if len(known) == len(uses) else None,
    )


def evaluated_here(results: Path, models: Sequence[str]) -> list[str]:
    """Return those of the models of which a results folder holds runs on cases like these."""
    asked: list[ModelSpec] = []
    for run in (results / "runs" / "noharm").glob("*/*"):
        with suppress(RecordError):
            asked.append(read_plan(run).spec.model)
    return [name for name in models if any(is_same_model(spec, name) for spec in asked)]
