"""Logs of shards that overlap, end at any call and are gathered at any moment: nothing is lost, and nothing paid twice."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medhelm.protocols.protocol import FinalAnswer
from medhelm.runs.conduct import answer_of, keep_ended
from medhelm.runs.sending import Sender
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode, Message, Request, Response
from medhelm.store.calls import OpenEpisode
from medhelm.store.loglines import Scan, episode_keys
from medhelm.store.runlog import RunFolder, read_episodes
from medhelm.store.shards import Shard

INSTANCES = [Instance(id=f"q{i}", context="c", question="Q?") for i in range(2)]
STEPS = 4


class Killed(BaseException): ...


class Endpoint:
    """Counts the answers it gave, each at a time of its own, until its asker is killed."""

    def __init__(self) -> None:
        self.asked = 0
        self.given: dict[float, tuple[str, tuple[Message, ...]]] = {}
        self.left, self.is_failing = 0, False

    async def send(self, model: object, request: Request, *_: object, **__: object) -> Response:
        if self.left == 0:
            raise Killed
        self.left -= 1
        self.asked += 1
        if self.is_failing and self.left % 2:
            return request.reply(finish="error", error="http 400")
        moment = float(self.asked)
        self.given[moment] = (request.instance_id, request.messages)
        answer = request.reply(text=f"Answer {moment} " + "w" * 300)
        return msgspec.structs.replace(answer, finished_at=moment)


def ask_one(endpoint: Endpoint, folder: RunFolder, scan: Scan, instance: Instance) -> None:
    sent = Request(instance_id=instance.id, messages=(Message("user", "0"),), max_output_tokens=5)
    answer = asyncio.run(endpoint.send(None, sent))
    folder.append(Episode(instance=instance, messages=sent.messages, response=answer))


def ask_many(endpoint: Any, folder: RunFolder, scan: Scan, instance: Instance) -> None:
    (key,) = episode_keys(instance, 1)
    episode = scan.begun.get(key) or OpenEpisode(f"{key:016x}")
    models: Any = {"model": None}  # the endpoint asks none
    sender = Sender(endpoint, models, episode.of(instance, 0), None, folder)

    async def conduct() -> FinalAnswer:
        past: tuple[Message, ...] = ()
        for step in map(str, range(STEPS)):
            past = (*past, Message("user", step))
            sent = Request(instance_id=instance.id, messages=past, max_output_tokens=5)
            reply = await sender("model", sent, step=step)
            if reply.finish == "error":
                return FinalAnswer(finish="error", error=reply.error)
            past = (*past, Message("assistant", reply.text))
        return FinalAnswer(text=past[-1].content, finish="stop")

    ended = asyncio.run(answer_of(conduct(), sender, "toy"))
    keep_ended(folder, episode, sender, ended, "model")


ASKERS = {"one call": ask_one, "many calls": ask_many}
SHARDS = {"whole": None, "0/2": Shard(0, 2), "1/3": Shard(1, 3), "0/4": Shard(0, 4)}


class World:
    """A run, and what has happened to it."""

    def __init__(self, run: Path, kind: str) -> None:
        self.run, self.ask, self.endpoint = run, ASKERS[kind], Endpoint()

    def session(self, writers: list[tuple[str, int, bool]], *, is_torn: bool = False) -> int:
        """Let writers ask that have opened the run at the same time; returns how many calls were sent."""
        before = self.endpoint.asked
        writers = sorted(writers, key=lambda w: w[0] != "whole")  # the whole opens beside no shard
        opened = [(RunFolder(self.run, SHARDS[name]), left, fails) for name, left, fails in writers]
        for (folder, left, fails), scan in zip(opened, [f.open() for f, *_ in opened], strict=True):
            self.endpoint.left, self.endpoint.is_failing = left, fails
            with suppress(Killed):
                for instance in INSTANCES:
                    if scan.answered.isdisjoint(episode_keys(instance, 1)):
                        self.ask(self.endpoint, folder, scan, instance)
            folder.close()
            if is_torn and folder.log_path.exists():
                with open(folder.log_path, "ab") as log:
                    log.write(b'{"schema":1,"epi')
        return self.endpoint.asked - before

    def paid(self) -> Counter[float]:
        """Return how often each answer is in the cost."""
        found = Counter[float]()

        def count(episode: Episode) -> None:
            calls = [c.response for c in (*episode.calls, *episode.stale)] or [episode.response]
            found.update(r.finished_at for r in calls if r.finish == "stop")

        for episode in read_episodes(self.run, None, count):
            count(episode)
        return found


WRITER = st.tuples(st.sampled_from([*SHARDS]), st.integers(0, 9), st.booleans())
ROUND = st.tuples(st.lists(WRITER, min_size=1, max_size=3, unique_by=lambda w: w[0]), st.booleans())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ASKERS)
@settings(max_examples=60, deadline=None)
@given(rounds=st.lists(ROUND, max_size=5), is_alone=st.booleans())
def test_whatever_overlaps_each_answer_is_kept_and_paid(
    kind: str, rounds: list[Any], is_alone: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = World(tmp_path_factory.mktemp("gathered") / "run", kind)
    for writers, is_torn in rounds:
        world.session(writers[: 1 if is_alone else None], is_torn=is_torn)
    at_end = world.session([("whole", -1, False)])
    assert at_end <= len(INSTANCES) * (STEPS if kind == "many calls" else 1)
    assert world.session([("whole", -1, False)]) == 0, "nothing is left to ask"
    episodes = [*read_episodes(world.run)]
    assert sorted(e.instance.id for e in episodes) == [i.id for i in INSTANCES]
    assert {e.response.finish for e in episodes} == {"stop"}
    paid = world.paid()
    assert paid.keys() == world.endpoint.given.keys(), "no answer is lost"
    if is_alone or kind == "one call":
        assert set(paid.values()) == {1}
    if is_alone:
        asked = [*world.endpoint.given.values()]
        assert len(asked) == len(set(asked)), "what was answered is not asked again"


@pytest.mark.parametrize("moment", ["replace", "rmtree"])
def test_a_kill_while_it_is_gathered_leaves_all_or_nothing(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path / "run", "one call")
    world.session([("0/2", 1, False)])
    world.session([("1/3", 1, False)])

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(*{"replace": (os, "replace"), "rmtree": (shutil, "rmtree")}[moment], killed)
        whole = RunFolder(world.run)
        with pytest.raises(Killed):
            whole.open()
        whole.close()
    world.session([("0/2", -1, False)])  # goes on before anybody gathers
    assert world.session([("whole", -1, False)]) == 0
    assert sorted(world.paid().values()) == [1, 1]
