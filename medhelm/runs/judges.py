"""The judges of a sweep: every stored answer of a run is shown to every judge, all at once.

What it is asked about one answer is an episode of its own log. Judges share the sweep's connections, limits and
budget with the models that are asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from itertools import chain, islice
from pathlib import Path

from medhelm.errors import ModelError
from medhelm.grading.answer_form import stated_episodes
from medhelm.grading.graders.controls import Sample, brief, is_control
from medhelm.grading.graders.grader import JUDGE, Shown, judgement_key, shown_of
from medhelm.grading.panels import (
    MISSING,
    Judging,
    end_of,
    has_no_verdict,
    is_missing,
    is_silent,
)
from medhelm.models import is_instance_model
from medhelm.runs.conduct import answer_of, keep_ended
from medhelm.runs.run import Run
from medhelm.runs.sending import Desk, Live, Sender, Start, start_all
from medhelm.runs.served import ServedCheck
from medhelm.runs.sweep import ActiveRun, JudgeTroubles
from medhelm.schema.episode import Episode
from medhelm.schema.model import Model, ModelSpec
from medhelm.schema.run import READER, RunRecord
from medhelm.store.calls import OpenEpisode
from medhelm.store.loglines import is_answered
from medhelm.store.records import judge_folders, order_key
from medhelm.store.runlog import RunFolder, read_keyed
from medhelm.store.shards import logs_of

_BATCH = 32
"""Answers that are read from the run's log at a time."""
_AHEAD = 64
"""Answers that may wait for one judge while another is at work on earlier ones."""


_ENDS = {"unparsed": ("unreadable", "partly invalid")}
"""Outcome of a reply -> how a judgement ended, where it has another name."""


class Judge:
    """One judge of a run: its model, its log, the answers that wait for it, and those that it has graded."""

    def __init__(self, run: Run, judging: Judging, log: RunFolder, model: Model, desk: Desk):
        self.model, self.desk, self.log = model, desk, log
        self._run, self._judging = run, judging
        self._final: set[int] = set()
        self._begun: dict[int, OpenEpisode] = {}
        self._coming: asyncio.Queue[Episode | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(_AHEAD)
        self._is_gone = False

    def open(self) -> None:
        """Lock and mend the log; raises RunLocked and RecordError."""
        scan = self.log.open()
        self._final, self._begun = scan.answered, dict(scan.begun)

    def forget(self, outcomes: Collection[str]) -> None:
        """Ask once more for the gradings that ended so."""
        wanted = {end for outcome in outcomes for end in _ENDS.get(outcome, (outcome,))}
        ends = {key: end_of(grading) for key, grading in read_keyed(self.log.path)}
        self._final.difference_update(key for key, end in ends.items() if end in wanted)

    async def offer(self, episode: Episode) -> None:
        """Hand over an answer that the judge has not graded, once there is room."""
        if self._is_gone or self._shown(episode) is None or judgement_key(episode) in self._final:
            return
        await self._room.acquire()
        self._coming.put_nowait(episode)

    def end(self) -> None:
        """Say that there are no more answers."""
        self._coming.put_nowait(None)

    def leave(self) -> None:
        """Take no more answers, and hold nobody up who has one."""
        self._is_gone = True
        self._room.release()

    async def gradings(self) -> AsyncIterator[Start]:
        """Yield the gradings that are still to be made."""
        while (episode := await self._coming.get()) is not None:
            self._room.release()
            yield partial(self._grade, episode)

    def _shown(self, episode: Episode) -> Shown | None:
        shown = shown_of(self._run.protocol, episode)
        if shown is None or is_control(episode.instance) or self._judging.grader.is_graded(shown):
            return shown
        return None

    def sample_size(self, cases: int) -> int:
        """Return of how many cases of a run the judge is asked about controls."""
        return self._judging.sample_size(self.model.spec, self._run.controls, cases)

    def controls(self, sample: Sample, cases: int) -> Iterator[Episode]:
        """Return the controls that the judge is asked about, of a run of so many cases."""

        def text_of(episode: Episode) -> str:
            shown = self._shown(episode)
            return shown.text if shown is not None else ""

        return self._judging.controls(sample.episodes(self.sample_size(cases)), text_of)

    async def _grade(self, episode: Episode, live: Live) -> None:
        """Ask for the verdicts on an answer, as far as the log lacks them, and append them to it."""
        try:
            with self.desk.border():
                await self._ask(episode, live)
        finally:
            live.end()

    async def _ask(self, episode: Episode, live: Live) -> None:
        judging, key, shown = self._judging, judgement_key(episode), self._shown(episode)
        assert shown is not None  # it was offered
        begun = self._begun.pop(key, None)
        is_brief = judging.grader.is_brief
        kept = brief(shown.instance) if is_brief else shown.instance
        grading = (begun or OpenEpisode(f"{key:016x}")).of(kept, shown.repeat)
        models = {JUDGE: self.model}
        asker = Sender(self.desk, models, grading, live, self.log, is_brief=is_brief)
        terms = judging.grader.terms(self.model.spec, judging.terms, shown.repeat)
        work = judging.grader.grade(self._run.benchmark, shown, terms, asker)
        keep_ended(self.log, grading, asker, await answer_of(work, asker, "grader"), JUDGE)


async def judge_answers(active: ActiveRun, served: ServedCheck) -> None:
    """Ask every judge for every answer of a run that it has not judged yet; of a shard, of its share.

    A judge that cannot be asked (a wrong key, a dead server) is noted as broken and stops no other.
    """
    run, desk = active.run, active.sweep.desk
    if desk.stopped:
        return
    with ExitStack() as logs:
        judges = []
        for judging in run.judgings:
            for folder, spec in zip(judging.folders, judging.judges, strict=True):
                try:
                    model = served.open(spec, folder)
                except ModelError as e:
                    active.judges[spec.name].broken = e
                    continue
                assert not is_instance_model(model)  # choose_jury refuses baselines
                judge = Judge(run, judging, RunFolder(folder, run.shard), model, desk.part())
                await active.open_log(judge.log, judge.open)
                logs.callback(judge.log.close)
                logs.callback(active.sweep.logs.pop, judge.log)
                judges.append(judge)
        if desk.stopped or not judges:
            return
        for judge in judges if run.judge_again else ():
            await asyncio.to_thread(judge.forget, run.judge_again)
        async with asyncio.TaskGroup() as group:
            group.create_task(_share_out(active, judges))
            for judge in judges:
                group.create_task(_judge(active, judge, served))


def _first_answers(episodes: Iterable[Episode]) -> Iterator[Episode]:
    """Yield of each instance and repeat the answer that will count once all logs are gathered."""
    seen = set[tuple[str, int]]()
    for episode in episodes:
        if (key := (episode.instance_id, episode.repeat)) not in seen:
            yield episode
        if is_answered(episode.response):
            seen.add(key)


async def _share_out(active: ActiveRun, judges: Collection[Judge]) -> None:
    """Read the answers once, in a thread, and hand each to the judges that lack it, then the controls, which
    need answers of all cases."""
    run, plan, share = active.run, active.plan, active.share
    sample = Sample(max(judge.sample_size(plan.instances) for judge in judges))
    desk = active.sweep.desk
    try:
        with desk.border(), desk.stoppable():
            metric = run.metrics[0] if run.metrics else None
            folders = [log.parent for log in logs_of(run.path)]
            of_all: Iterable[Episode] = chain.from_iterable(
                stated_episodes(f, plan, metric) for f in folders
            )
            if len(folders) > 1:
                of_all = _first_answers(of_all)
            seed = plan.spec.seed
            episodes = (
                e for e in of_all if share is None or order_key(seed, e.instance.id) in share
            )
            while batch := await asyncio.to_thread(lambda: list(islice(episodes, _BATCH))):
                for episode in batch:
                    sample.add(episode)
                    for judge in judges:
                        await judge.offer(episode)
            for judge in judges if share is None else ():
                for control in judge.controls(sample, plan.instances):
                    await judge.offer(control)
    finally:
        for judge in judges:
            judge.end()


async def _judge(active: ActiveRun, judge: Judge, served: ServedCheck) -> None:
    desk = judge.desk
    if desk.stopped:  # before its first step, and so perhaps before that of who hands out answers
        return
    try:
        async with asyncio.TaskGroup() as group:
            work = served.started(judge.gradings(), judge.model.spec)
            group.create_task(start_all(desk, work, group))
    finally:
        judge.leave()
    troubles = active.judges[judge.model.spec.name]
    troubles.errors.update(desk.errors)
    troubles.window = desk.window or troubles.window
    if isinstance(desk.failed, ModelError):
        troubles.broken = desk.failed
    elif desk.failed:
        raise desk.failed


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
