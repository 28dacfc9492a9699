"""What stops a series, what it keeps, and what the next command asks for."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import Any

import pytest

from medhelm.errors import ModelError, UsageError
from medhelm.models.costs import Ledger
from medhelm.models.scripted import ScriptedModel
from medhelm.schema.episode import Message, Request, Response, Usage
from medhelm_benchmarks.noharm.generation.calls import CALLS, Caller, CallLog, Stopped
from medhelm_benchmarks.noharm.generation.folder import stage_uses
from medhelm_benchmarks.noharm.generation.guideline import Guideline
from medhelm_benchmarks.noharm.rules.casefile import read_cases
from tests.benchmarks.noharm.generation.author import GUIDELINE
from tests.benchmarks.noharm.generation.conftest import NAME, Pool, Studio, spec


class Stuck(ScriptedModel):
    """Never answers what is asked for the third case."""

    async def respond(self, request: Request) -> Response:
        """Return the scripted response, or none."""
        if request.instance_id.startswith("NOHARM-INFE-FEVER-003"):
            await asyncio.sleep(60)
        return await super().respond(request)


class CtrlCTwice(list[str]):
    """Interrupts this process twice when two cases have ended."""

    def append(self, code: str) -> None:
        """Note the end of a case."""
        super().append(code)
        if len(self) == 2:
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGINT)


def numbers(studio: Studio) -> list[str]:
    return [case.code[-3:] for case in read_cases(studio.folder / "cases.jsonl")]


def test_ctrl_c_twice_cancels_and_gives_all_back(studio: Studio) -> None:
    studio.specs["test/writer"] = spec()
    model = studio.models["test/writer"] = Stuck(spec(), studio.author)
    studio.ends = CtrlCTwice()
    ledger = Ledger(cap_tokens=10_000_000)
    end = studio.run(3, ledger)
    assert [e.status for e in end.ends] == ["made", "made", "not finished"]
    assert end.stopped is not None and end.stopped.exit_code == 130
    assert [code[-3:] for code in studio.ends] == ["001", "002", "003"]  # each is said once
    assert (ledger.open, ledger.reserved_tokens, model.in_flight) == (0, 0, 0)
    assert numbers(studio) == ["001", "002"]
    again = Studio(studio.folder)
    assert [e.status for e in again.run(3).ends] == ["made"] * 3
    assert again.asked == 7


def test_who_waits_for_a_place_is_let_go_when_the_work_stops(studio: Studio) -> None:
    class Paused(ScriptedModel):
        async def acquire(self, place: int = 0) -> None:
            await asyncio.sleep(300)  # as an endpoint may ask with Retry-After

    ledger, log = Ledger(cap_tokens=10_000), CallLog(studio.folder)
    request = Request(
        instance_id="x", messages=(Message("user", "Hello"),), max_output_tokens=9_000
    )

    async def work() -> list[Any]:
        pool = Pool({"test/writer": Paused(spec())})
        caller = Caller(log, pool, ledger, Guideline(NAME, GUIDELINE))
        asked = (caller.ask(spec(), request, case="x", stage=s, attempt=0) for s in "ab")
        tasks = [asyncio.create_task(ask) for ask in asked]
        await asyncio.sleep(0.1)  # one waits for a place, the other one for the budget
        assert ledger.open == 1
        caller.stop(ModelError("no server"))
        async with asyncio.timeout(5):
            return await asyncio.gather(*tasks, return_exceptions=True)

    log.open()
    try:
        assert [type(e) for e in asyncio.run(work())] == [Stopped] * 2
    finally:
        log.close()
    assert (ledger.open, ledger.reserved_tokens, ledger.spent_tokens) == (0, 0, 0)


@pytest.mark.slow
def test_a_smaller_number_asks_for_no_more_and_keeps_what_is_there(studio: Studio) -> None:
    studio.run(1)
    whole = (studio.folder / CALLS).read_bytes()
    studio.run(4)
    lines = (studio.folder / CALLS).read_bytes().splitlines(keepends=True)
    second = [line for line in lines if json.loads(line)["case"].endswith(("2", "3"))][:-1]
    (studio.folder / CALLS).write_bytes(whole + b"".join(second))  # of the third a sheet lacks
    again = Studio(studio.folder)
    end = again.run(1)
    assert again.asked == 0
    assert len(end.ends) in (2, 3) and numbers(studio)[0] == "001"
    assert again.ends == ["NOHARM-INFE-FEVER-001"]
    assert len(numbers(studio)) == 2  # the other one that was whole
    last = Studio(studio.folder)
    last.run(3)
    assert last.asked == 1 and numbers(studio) == ["001", "002", "003"]


@pytest.mark.parametrize("more", [{"json_schema": True}, {"max_output_tokens": 999}])
def test_what_would_ask_for_all_again_is_another_series(
    studio: Studio, more: dict[str, Any]
) -> None:
    studio.run(1)
    with pytest.raises(UsageError, match="another model; name another folder"):
        studio.run(1, generator=spec(**more))
    assert studio.asked == 7


def test_a_defect_ends_its_case_alone_and_shows_no_text(studio: Studio) -> None:
    def reply(request: Request) -> str:
        if request.instance_id.endswith("002/groups"):
            raise ZeroDivisionError("the patient has fever")
        return studio.author(request)

    studio.specs["test/writer"] = spec()
    studio.models["test/writer"] = ScriptedModel(spec(), reply)
    ledger = Ledger(cap_tokens=10_000_000)
    end = studio.run(3, ledger)
    assert [e.status for e in end.ends] == ["made", "failed", "made"]
    assert end.ends[1].stage == "defect"
    assert end.ends[1].reasons[0].startswith("ZeroDivisionError at test_resume.py line ")
    assert ledger.open == 0


def test_answers_that_were_lost_are_counted_beside_the_sums(studio: Studio) -> None:
    usage = Usage(input_tokens=100, output_tokens=10)

    def reply(request: Request) -> Response:
        return Response(
            instance_id=request.instance_id, text=studio.author(request), usage=usage, lost=2
        )

    studio.specs["test/writer"] = spec()
    studio.models["test/writer"] = ScriptedModel(spec(), reply)
    studio.run(2)
    uses = stage_uses(studio.folder, [spec()])
    assert {(u.requests, u.lost, u.input_tokens) for u in uses} == {(2, 4, 200)}
    assert {u.failed for u in uses} == {0}


def test_a_log_that_cannot_be_written_ends_it_and_loses_no_case(
    studio: Studio, monkeypatch: pytest.MonkeyPatch
) -> None:
    studio.run(1)
    write, left = os.write, [10]

    def full(fd: int, data: bytes) -> int:
        left[0] -= 1
        if left[0] < 0 and b"medhelm_benchmarks.noharm.generation" in data:
            raise OSError(28, "No space left on device")
        return write(fd, data)

    with monkeypatch.context() as patch:
        patch.setattr("medhelm.store.runlog.os.write", full)
        end = studio.run(4)
    assert end.stopped is not None and "the disk is full" in str(end.stopped)
    assert numbers(studio)[0] == "001"
    asked = len((studio.folder / CALLS).read_bytes().splitlines())
    again = Studio(studio.folder)
    assert [e.status for e in again.run(4).ends] == ["made"] * 4
    assert again.asked == 28 - asked
