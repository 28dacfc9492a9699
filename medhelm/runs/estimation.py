"""Tokens and USD of runs before they are started: nothing is sent, locked or written.

Input tokens follow the rule of `tokens.estimate_tokens`. What of the output is expected, and at most, is
in docs/commands.md; 500 tokens where criteria and no gold say what is right, and never above the budget.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from medhelm.config import Job
from medhelm.errors import RecordError
from medhelm.grading.answer_form import stated_episodes
from medhelm.grading.graders.controls import Sample, answer, is_control
from medhelm.grading.graders.grader import judgement_key, shown_of
from medhelm.grading.panels import MISSING, Judging, end_of
from medhelm.models.access import secret_variables
from medhelm.models.costs import batch_part, upper_bound, usd
from medhelm.models.identity import reads_prompt
from medhelm.models.tokens import estimate_tokens
from medhelm.plugins.registry import Registry
from medhelm.protocols.protocol import Forecast, terms_of
from medhelm.runs.casting import choose_cast, named_model
from medhelm.runs.estimates import JudgeEstimate, RoleEstimate, RunEstimate
from medhelm.runs.run import Run
from medhelm.runs.selection import Selection, find_unread, plan_of, select, selection_key
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode
from medhelm.schema.model import ModelSpec, Price
from medhelm.schema.run import READER, RunSpec
from medhelm.store.calls import OpenEpisode
from medhelm.store.loglines import episode_keys, is_answered
from medhelm.store.records import find_gradings, judge_budget, order_key, read_record
from medhelm.store.runlog import read_begun, read_keyed

THINKING = 1000
"""Output tokens of a model that thinks before it answers, where nothing is stored of it."""
_REASON = 40
"""Tokens of a judge's reply, where its grader does not say."""
_GOLD_FACTOR = 3
_OPEN_ANSWER = 500
"""Tokens of an answer in free text that has no gold to go by: a page, which judges are then shown."""
_OVERHEAD = 5
_REASONS = 300
"""Tokens of reasons before an answer, where an asking wants them."""


def without_keys(
    environ: Mapping[str, str],
    jobs: Iterable[Job],
    registry: Registry,
) -> dict[str, str]:
    """Return an environment in which no model, and no judge that is asked for, lacks its key.

    Nothing is sent, so that none is needed.
    """
    asked: list[ModelSpec] = []
    for job in jobs:
        asked += [job.model, *(job.jury.judges if job.jury else ())]
        for choice in job.benchmarks:
            asked += choose_cast(job, registry.benchmark(choice.name), registry).values()
        asked += [named_model(READER, job.reader, registry)] if job.reader else []
    names = [name for model in asked for name in secret_variables(model)]
    return {**environ, **dict.fromkeys(names, "not-needed")}


def estimate_runs(runs: Sequence[Run], results: Path) -> list[RunEstimate]:
    """Return the estimate of each run; reads the data, the logs and the summaries."""
    observed = _Observed(results)
    selections: dict[object, Selection] = {}
    sums: dict[int, list[_Sums]] = defaultdict(list)
    for run in runs:
        if (key := selection_key(run)) not in selections:
            selections[key] = select(run.dataset, run.spec)
        sums[id(run.dataset)].append(_Sums(run, selections[key], observed))
    for own in sums.values():  # the data are read once for all models
        for instance in own[0].run.dataset.instances():
            for one in own:
                one.add(instance)
    made = {id(one.run): one for own in sums.values() for one in own}
    return [made[id(run)].estimate() for run in runs]


class _Length(NamedTuple):
    """Output tokens of an answer: all of them, and those of its text."""

    tokens: float
    text: float


class _Observed:
    """Mean output tokens of stored responses, by benchmark and model or kind of model."""

    def __init__(self, results: Path) -> None:
        self._sums: dict[tuple[str, str | tuple[bool, bool]], list[int]] = defaultdict(
            lambda: [0, 0, 0]
        )
        self._judges: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        seen: set[Path] = set()
        for grading in find_gradings(results):
            run = grading.parent.parent
            if run in seen:
                continue
            try:
                record = read_record(grading)
            except RecordError:
                continue  # an estimate can do without it; `medhelm tables` names it
            seen.add(run)
            spec, own = record.spec, record.own.usage
            for kind in (spec.model.name, _kind(spec)):
                sums = self._sums[spec.benchmark, kind]
                sums[0] += own.output_tokens
                sums[1] += own.requests - own.unknown
                sums[2] += own.reasoning_tokens
            for grader in record.graders:
                replies = self._judges[grader.model.name]
                replies[0] += grader.usage.output_tokens
                replies[1] += grader.usage.requests - grader.usage.unknown

    def reply(self, judge: str) -> float | None:
        tokens, replies = self._judges.get(judge, (0, 0))
        return tokens / replies if replies > 0 else None

    def mean(self, spec: RunSpec) -> tuple[_Length, str] | None:
        kinds = (
            (spec.model.name, "of this model"),
            (_kind(spec), "of other models of its kind"),
        )
        for kind, of in kinds:
            tokens, requests, hidden = self._sums.get((spec.benchmark, kind), (0, 0, 0))
            if requests > 0:
                length = _Length(tokens / requests, max(0, tokens - hidden) / requests)
                return length, f"mean of {requests} stored responses {of}"
        return None


def _kind(spec: RunSpec) -> tuple[bool, bool]:
    """Return whether a model thinks before it answers, and whether it is asked for reasons."""
    return spec.model.reasoning, spec.asking is not None and spec.asking.reasons


def _held(episode: OpenEpisode, role: str) -> tuple[int, int]:
    """Return the calls of one role in an episode that has begun, and about how many tokens they were sent."""
    sent = [
        estimate_tokens(call.messages)
        for call in episode.calls.values()
        if call.role == role and is_answered(call.response)
    ]
    return len(sent), sum(sent)


class _Role:
    """Sums what the episodes that are left are foretold to need of one role."""

    def __init__(self, run: Run, role: str, seen: _Length | None) -> None:
        self._role, self._spec = role, run.players[role]
        self._seen = seen
        self.is_embedded = not reads_prompt(self._spec)
        own = run.strategies.get(role)
        whole = [s.calls for s in run.strategies.values() if s.around is not None]
        self._times = math.prod(whole) * (own.calls if own and own.around is None else 1)
        self._budget = terms_of(run.protocol, run.spec, 0).roles[role].max_output_tokens
        self.calls = self.tokens_in = self.tokens_out = 0.0
        self.calls_limit = self.tokens_in_limit = self.limit = 0

    def add(
        self, forecast: Forecast, times: int, rule: float, held: tuple[int, int] = (0, 0)
    ) -> None:
        """Count so many episodes; `rule`: output tokens of an answer of which nothing is stored.

        `held`: the part of one that is stored; the calls that are left are foretold to need the rest.
        """
        times *= self._times
        made, sent = held
        calls = max(0.0, times * forecast.calls - made)
        calls_limit = max(0, times * forecast.calls_limit - made)
        self.calls += calls
        self.calls_limit += calls_limit
        if self.is_embedded:
            return
        self.tokens_in += max(0.0, times * forecast.input_tokens - sent)
        self.tokens_in_limit += max(0, times * forecast.input_tokens_limit - sent)
        one = rule
        if self._seen:
            one = self._seen.tokens
        elif forecast.output_tokens is not None:
            one = forecast.output_tokens / forecast.calls if forecast.calls else 0.0
            one += THINKING if self._spec.reasoning else 0
        limit = calls_limit * self._budget
        if (own := forecast.output_tokens_limit) is not None and forecast.calls_limit:
            limit = min(limit, round(own * calls_limit / forecast.calls_limit))
        self.tokens_out += min(calls * one, limit)
        self.limit += limit

    def fields(self) -> dict[str, Any]:
        expected = min(round(self.tokens_out), self.limit)
        return _party(self._spec, round(self.tokens_in), self.tokens_in_limit, expected, self.limit)

    def estimate(self) -> RoleEstimate:
        return RoleEstimate(
            role=self._role,
            model=self._spec.name,
            calls_expected=round(self.calls),
            calls_limit=self.calls_limit,
            **self.fields(),
        )


def _party(
    spec: ModelSpec, tokens_in: int, in_limit: int, tokens_out: int, limit: int
) -> dict[str, Any]:
    """Return the fields of `PartyEstimate`; a rule costs nothing."""
    price = spec.price if reads_prompt(spec) else Price(input=0.0, output=0.0, date="")
    return {
        "input_tokens_expected": tokens_in,
        "input_tokens_limit": in_limit,
        "output_tokens_expected": tokens_out,
        "output_tokens_limit": limit,
        "usd_expected": upper_bound(tokens_in, tokens_out, price),
        "usd_limit": upper_bound(in_limit, limit, price),
        "batch_part": batch_part(spec),
    }


class _Sums:
    def __init__(self, run: Run, selection: Selection, observed: _Observed) -> None:
        self.run, self._selection = run, selection
        self._judges = [
            JudgeSum(run, judging, place, observed.reply(judge.name))
            for judging in run.judgings
            for place, judge in enumerate(judging.judges)
        ]
        self._answered = _answered(run, selection, self._judges)
        has_parts = not run.protocol.is_one_call or run.strategies
        self._begun = read_begun(run.path) if has_parts else {}
        spec = run.spec
        self._seen = observed.mean(spec) if reads_prompt(spec.model) else None
        first, *others = run.players
        self._first = first
        self._roles = {first: _Role(run, first, self._seen[0] if self._seen else None)}
        self._roles |= {role: _Role(run, role, None) for role in others}
        self._terms = terms_of(run.protocol, spec, 0)
        self._to_ask = 0
        sizes = (judge.sample_size(selection.instances) for judge in self._judges)
        self._sample = Sample(max(sizes, default=0))

    def add(self, instance: Instance) -> None:
        spec, cut = self.run.spec, self._selection.cut
        if cut is not None and order_key(spec.seed, instance.id) > cut:
            return
        self._sample.add(answer(instance, ""))
        left, begun = spec.repeats, []
        if self._answered or self._begun:
            keys = [k for k in episode_keys(instance, spec.repeats) if k not in self._answered]
            left, begun = len(keys), [self._begun[k] for k in keys if k in self._begun]
        self._to_ask += left
        if not left:
            return
        rule = _expected(instance, spec)
        length = self._seen[0] if self._seen else rule
        for judge in self._judges:
            judge.coming(instance, left, length.text, spec.max_output_tokens)
        for forecast in self.run.protocol.forecast(self.run.benchmark, instance, self._terms):
            role = self._roles[forecast.role]
            for episode in begun:
                role.add(forecast, 1, rule.tokens, _held(episode, forecast.role))
            if left > len(begun):
                role.add(forecast, left - len(begun), rule.tokens)

    def estimate(self) -> RunEstimate:
        run, spec, seen = self.run, self.run.spec, self._seen
        for judge in self._judges:
            for instance in judge.controls(self._sample, self._selection.instances):
                length = seen[0] if seen else _expected(instance, spec)
                judge.coming(instance, 1, length.text, spec.max_output_tokens)
        roles = dict(self._roles)
        own = roles.pop(self._first)
        needs = own.fields()
        return RunEstimate(
            model=spec.model.name,
            benchmark=spec.column,
            data=spec.data,
            split=spec.split,
            instances=self._selection.instances,
            repeats=spec.repeats,
            answered=self._selection.instances * spec.repeats - self._to_ask,
            to_ask=self._to_ask,
            input_tokens=needs["input_tokens_expected"],
            output_tokens_limit=needs["output_tokens_limit"],
            output_tokens_expected=needs["output_tokens_expected"],
            basis="embedded" if own.is_embedded else seen[1] if seen else "rule",
            usd_limit=needs["usd_limit"],
            usd_expected=needs["usd_expected"],
            cast=tuple(role.estimate() for role in roles.values()),
            jury=run.grading.raters.name if run.grading.raters else None,
            judges=tuple(judge.estimate() for judge in self._judges),
            variant=spec.variant,
            batch_part=needs["batch_part"],
        )


class JudgeSum:
    """Sums what a grader asks one judge. `reply`: mean output tokens of its stored replies, if any."""

    def __init__(self, run: Run, judging: Judging, place: int, reply: float | None) -> None:
        self._run, self._judging, self._grader = run, judging, judging.grader
        self._judge, self._reply = judging.judges[place], reply
        self._limit = judge_budget(self._judge, judging.terms.jury)
        self._terms = judging.grader.terms(self._judge, judging.terms)
        ends, controls = dict[int, str](), set[int]()
        for key, grading in read_keyed(judging.folders[place]):
            ends[key] = end_of(grading)
            if is_control(grading.instance):
                controls.add(key)
        self._graded = {key for key, end in ends.items() if end not in MISSING}
        self._controlled = len(controls & self._graded)
        self._calls = self._in = self._cached = self._out = 0.0
        self._calls_limit = self._in_limit = 0

    def stored(self, episode: Episode) -> None:
        """Count a stored answer that the judge has not graded."""
        shown = shown_of(self._run.protocol, episode)
        if shown is None or not self._grader.is_graded(shown):
            return
        if judgement_key(episode) not in self._graded:
            said = sum(estimate_tokens(text) for _, text in shown.transcript)
            self.coming(episode.instance, 1, said, said)

    def coming(self, instance: Instance, times: int, expected: float, limit: int) -> None:
        """Count so many answers to an instance, by the tokens of their text."""
        answer = min(expected, limit)
        for forecast in self._forecasts(instance, answer):
            self._calls += times * forecast.calls
            self._in += times * forecast.input_tokens
            self._cached += times * forecast.cached_tokens
            self._out += times * min(self._expected(forecast), forecast.calls * self._limit)
        for forecast in self._forecasts(instance, limit):
            self._calls_limit += times * forecast.calls_limit
            self._in_limit += times * forecast.input_tokens_limit

    def sample_size(self, cases: int) -> int:
        """Return of how many cases of a run the judge is asked about controls."""
        return self._judging.sample_size(self._judge, self._run.controls, cases)

    def controls(self, sample: Sample, cases: int) -> Iterator[Instance]:
        """Yield the case of each control that is not stored: the most that can be asked, whatever the answers are."""
        found = self._judging.controls(sample.episodes(self.sample_size(cases)), lambda _: "-")
        yield from (control.instance for control in islice(found, self._controlled, None))

    def _forecasts(self, instance: Instance, answer: float) -> Iterable[Forecast]:
        return self._grader.forecast(self._run.benchmark, instance, self._terms, round(answer))

    def _expected(self, forecast: Forecast) -> float:
        if self._reply is not None:
            return forecast.calls * self._reply
        thinking = forecast.calls * THINKING * self._judge.reasoning
        return (forecast.output_tokens or forecast.calls * _REASON) + thinking

    def estimate(self) -> JudgeEstimate:
        """Return the sums."""
        price, tokens_in, cached = self._judge.price, round(self._in), round(self._cached)
        out, limit = round(self._out), self._calls_limit * self._limit
        return JudgeEstimate(
            judge=self._judge.name,
            calls=round(self._calls),
            calls_limit=self._calls_limit,
            cached_tokens_expected=cached,
            usd_expected_cached=None if price is None else usd(price, tokens_in, cached, out),
            **_party(self._judge, tokens_in, self._in_limit, out, limit),
        )


def _expected(instance: Instance, spec: RunSpec) -> _Length:
    """Return the output tokens of one answer where nothing is stored."""
    text = _OVERHEAD + _GOLD_FACTOR * estimate_tokens(", ".join(instance.references))
    if instance.criteria and not instance.references:
        text = _OPEN_ANSWER
    thinks, has_reasons = _kind(spec)
    text += _REASONS * has_reasons
    tokens = text + THINKING * thinks
    return _Length(min(spec.max_output_tokens, tokens), min(spec.max_output_tokens, text))


def _answered(run: Run, selection: Selection, judges: Sequence[JudgeSum]) -> set[int]:
    """Return the keys of the episodes that are stored, answered, and part of the plan."""
    found, unread = set(), find_unread(run)
    metric = run.metrics[0] if run.metrics else None
    for episode in stated_episodes(run.path, plan_of(run, selection), metric):
        if (episode.instance_id, episode.repeat) in unread:
            continue
        if is_answered(episode.response):
            found.add(episode_keys(episode.instance, episode.response.repeat + 1)[-1])
            for judge in judges:
                judge.stored(episode)
    return found
