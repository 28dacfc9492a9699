"""One instance with a cast: terms and an asker for its protocol, and the episode that it becomes."""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import msgspec

from medhelm.data.variants import as_shown
from medhelm.errors import MedhelmError
from medhelm.models import is_instance_model
from medhelm.models.costs import price_of, upper_bound
from medhelm.protocols.protocol import FinalAnswer, Send, Terms, terms_of
from medhelm.runs.run import Run
from medhelm.runs.sending import Desk, Live, Sender, Stopped
from medhelm.schema.data import Instance
from medhelm.schema.episode import Call, Episode, Request, Response, Usage
from medhelm.schema.model import InstanceModel, Model
from medhelm.store.calls import OpenEpisode
from medhelm.store.loglines import episode_keys
from medhelm.store.runlog import RunFolder


@dataclass(frozen=True)
class Stage:
    """The things that all episodes of a run share."""

    run: Run
    models: Mapping[str, Model | InstanceModel]
    """The model of each role."""
    desk: Desk
    log: RunFolder
    stale: Counter[str] = field(default_factory=Counter)
    """Roles and steps of stored calls in whose place another request was sent, or none."""

    @cached_property
    def is_one_call(self) -> bool:
        """Return whether one line of the log is a whole episode."""
        return self.run.protocol.is_one_call and not self.run.strategies

    @cached_property
    def embedded(self) -> dict[str, InstanceModel]:
        """Return the roles that are played by rule."""
        return {role: model for role, model in self.models.items() if is_instance_model(model)}

    @cached_property
    def asked(self) -> dict[str, Model]:
        """Return the roles that are played by models that are asked."""
        return {role: model for role, model in self.models.items() if not is_instance_model(model)}

    @cached_property
    def is_embedded(self) -> bool:
        """Return whether all roles are played by rule, at once and for nothing."""
        return not self.asked

    @cached_property
    def is_foretold(self) -> bool:
        """Return whether an episode begins only once the budget has room for all of it.

        One of one call waits for the room of that call.
        """
        return not self.is_one_call and not self.is_embedded and self.desk.ledger.is_capped

    @cached_property
    def terms(self) -> tuple[Terms, ...]:
        """Return the terms of each repeat."""
        run = self.run
        return tuple(terms_of(run.protocol, run.spec, n) for n in range(run.spec.repeats))


async def conduct(
    stage: Stage, instance: Instance, repeat: int, live: Live | None, begun: OpenEpisode | None
) -> Episode | None:
    """Return the episode of an instance, appended to the log; None where the work was stopped.

    `begun`: the part of it that the log holds. A defect of a protocol is an error of this instance
    alone. A key that is refused or a dead server stops the stage's desk.
    """
    episode: Episode | None = None
    try:
        with stage.desk.border():
            if stage.is_foretold:
                async with stage.desk.room(*_forecast(stage, instance, repeat, begun)):
                    episode = await _conduct(stage, instance, repeat, live, begun)
            else:
                episode = await _conduct(stage, instance, repeat, live, begun)
    finally:
        if live is not None:
            live.end()
    return episode


def _forecast(
    stage: Stage, instance: Instance, repeat: int, begun: OpenEpisode | None
) -> tuple[float, int]:
    """Return the USD and tokens that an episode is expected to need; 0 for one that has begun."""
    usd, tokens = 0.0, 0
    run, terms = stage.run, stage.terms[repeat]
    for part in run.protocol.forecast(run.benchmark, instance, terms) if begun is None else ():
        if part.role in stage.embedded:
            continue
        strategy, price = run.strategies.get(part.role), price_of(stage.asked[part.role].spec)
        times = strategy.calls if strategy else 1
        said = part.output_tokens
        if said is None:
            said = part.calls * terms.roles[part.role].max_output_tokens
        input_tokens, output_tokens = round(times * part.input_tokens), round(times * said)
        usd += upper_bound(input_tokens, output_tokens, price) or 0.0
        tokens += input_tokens + output_tokens
    return usd, tokens


async def _conduct(
    stage: Stage, instance: Instance, repeat: int, live: Live | None, begun: OpenEpisode | None
) -> Episode:
    key = "" if stage.is_one_call else f"{episode_keys(instance, repeat + 1)[-1]:016x}"
    episode = (begun or OpenEpisode(key)).of(instance, repeat)
    log = None if stage.is_one_call else stage.log
    rules = {role: _Embedded(model, stage, instance) for role, model in stage.embedded.items()}
    asker = Sender(stage.desk, stage.asked | rules, episode, live, log, rules=rules.keys())
    answer, first = await _answer(stage, instance, repeat, asker), stage.run.protocol.roles[0]
    if log is None:
        calls = [*episode.calls.values()]
        if len(calls) == 1:
            messages, response = () if stage.is_embedded else calls[0].messages, calls[0].response
        else:
            messages, response = (), response_of(instance, repeat, answer, calls, first)
        whole = Episode(instance=instance, messages=messages, response=response)
        stage.log.append(whole)
        return whole
    whole = keep_ended(log, episode, asker, answer, first)
    stage.stale.update(f"{call.role} {call.step}" for call in whole.stale)
    return whole


def keep_ended(
    log: RunFolder, episode: OpenEpisode, asker: Sender, answer: FinalAnswer, role: str
) -> Episode:
    """Return an episode that has ended, its last line appended; its answer is one of `role`."""
    unasked = tuple(name for name in episode.calls if name not in asker.asked)
    stale = () if answer.finish == "error" else unasked
    response = response_of(episode.instance, episode.repeat, answer, episode.made_of(stale), role)
    asker.begin(log)
    ended = episode.ended(response, answer.ending, answer.state, stale)
    line = msgspec.json.encode(ended)
    if line != episode.last:  # a failure that came again is in the log
        log.append_part(line)
    return episode.episode(ended)


async def _answer(stage: Stage, instance: Instance, repeat: int, asker: Sender) -> FinalAnswer:
    ask: Send = asker
    run, conduct = stage.run, stage.run.protocol.conduct
    for role, strategy in run.strategies.items():
        ask = strategy.over(role, ask)
        if strategy.around is not None:
            conduct = strategy.around(conduct, role)
    work = conduct(run.benchmark, instance, stage.terms[repeat], ask)
    answer = await answer_of(work, asker, "protocol")
    if run.protocol.is_one_call and (answer.state or answer.ending):  # no line would hold them
        defect = "it has an ending or an end state and says is_one_call"
        return FinalAnswer(finish="error", error=f"a defect of the protocol: {defect}")
    return answer


async def answer_of(work: Awaitable[FinalAnswer], asker: Sender, whose: str) -> FinalAnswer:
    """Return what a protocol or grader makes of its calls; a defect of it is an error of one episode.

    None of its calls is under way any more.
    """
    is_cancelled = False
    try:
        return await work
    except asyncio.CancelledError:
        is_cancelled = True
        raise
    except MedhelmError:
        raise
    except Exception as e:  # the boundary of a plugin: the other instances go on
        return FinalAnswer(finish="error", error=f"a defect of the {whose}: {place_of(e)}")
    finally:
        asker.is_over = True
        if asker.open:
            await asker.end(is_cancelled=is_cancelled)


def response_of(
    instance: Instance, repeat: int, answer: FinalAnswer, calls: Iterable[Call], role: str
) -> Response:
    """Return an episode's answer as a response: with the usage of its first role over all calls."""
    made = tuple(calls)
    own = [call.response for call in made if call.role == role]
    return Response(
        instance_id=instance.id,
        repeat=repeat,
        text=answer.text,
        finish=answer.finish,
        error=answer.error,
        usage=sum_usage(r.usage for r in own),
        attempts=sum(r.attempts for r in own),
        lost=sum(r.lost for r in own),
        latency_s=sum(r.latency_s for r in own),
        served_model=own[-1].served_model if own else "",
        fingerprint=own[-1].fingerprint if own else "",
        price_class=own[-1].price_class if own else msgspec.UNSET,
        finished_at=max((call.response.finished_at for call in made), default=0.0),
    )


def sum_usage(usages: Iterable[Usage]) -> Usage:
    """Return the sum of usages; a number is None where one of them lacks it."""
    found = list(usages)

    def total(numbers: list[int | None]) -> int | None:
        known = [n for n in numbers if n is not None]
        return sum(known) if known and len(known) == len(numbers) else None

    return Usage(
        **{name: total([getattr(u, name) for u in found]) for name in Usage.__struct_fields__}
    )


class _Embedded(Model):
    """A baseline in a role: it answers by rule from the instance, at once and for nothing."""

    def __init__(self, model: InstanceModel, stage: Stage, instance: Instance) -> None:
        self.spec = model.spec
        self._model, self._stage, self._instance = model, stage, instance

    async def respond(self, request: Request) -> Response:
        run = self._stage.run
        seed = run.spec.seed + request.repeat
        try:
            text = self._model.answer(run.benchmark, self._instance, seed, request)
        except MedhelmError as e:  # a case that the rule cannot play
            raise Stopped(e) from None
        except Exception as e:  # a defect of the rule is none of the protocol's
            raise Stopped(MedhelmError(f"a defect stopped this run: {place_of(e)}")) from None
        text = as_shown(self._instance, text)
        return request.reply(text=text, served_model=self.spec.name)


def place_of(error: BaseException) -> str:
    """Return the kind and place of a defect; never its text, which may be the prompt's."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name} line {frame.lineno}"
