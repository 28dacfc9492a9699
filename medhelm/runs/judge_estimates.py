"""Calls, tokens and USD of the judges of a run, before any is asked.

A grader foretells its calls for each answer that a judge has not graded, as docs/commands.md says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import msgspec

from medhelm.grading.graders.controls import Sample, is_control
from medhelm.grading.graders.grader import judgement_key, shown_of
from medhelm.grading.graders.panel import MISSING, Judging, end_of
from medhelm.grading.panels import judgings
from medhelm.models.costs import batch_part, upper_bound, usd
from medhelm.models.tokens import estimate_tokens
from medhelm.protocols.protocol import Forecast
from medhelm.runs.planning import Run
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode
from medhelm.store.records import judge_budget
from medhelm.store.runlog import read_keyed

THINKING = 1000
"""Output tokens of a model that thinks before it answers, where nothing is stored of it."""
_REASON = 40
"""Tokens of a judge's reply, where its grader does not say."""


class JudgeEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """One judge on the answers of one run."""

    judge: str
    calls: int
    """Calls that are still to be made: one an answer for a jury, as many as a grader needs."""
    calls_limit: int
    """Calls if each of them needed every repair."""
    input_tokens_expected: int
    input_tokens_limit: int
    output_tokens_expected: int
    output_tokens_limit: int
    usd_expected: float | None
    """None where the price is unknown."""
    usd_limit: float | None
    cached_tokens_expected: int = 0
    """Part of the expected input that began an earlier call, too."""
    usd_expected_cached: float | None = None
    """If the provider caches that part."""
    batch_part: float = 1.0
    """The part of the USD that is paid in batches; 1: the service takes none."""


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
        price, limit = self._judge.price, self._calls_limit * self._limit
        tokens_in, cached, out = round(self._in), round(self._cached), round(self._out)
        return JudgeEstimate(
            judge=self._judge.name,
            calls=round(self._calls),
            calls_limit=self._calls_limit,
            input_tokens_expected=tokens_in,
            input_tokens_limit=self._in_limit,
            output_tokens_expected=out,
            output_tokens_limit=limit,
            usd_expected=upper_bound(tokens_in, out, price),
            usd_limit=upper_bound(self._in_limit, limit, price),
            cached_tokens_expected=cached,
            usd_expected_cached=None if price is None else usd(price, tokens_in, cached, out),
            batch_part=batch_part(self._judge),
        )


def judges_of(run: Run, reply: Callable[[str], float | None]) -> list[JudgeSum]:
    """Return the judges of a run, of a jury's first; none where no model judges. `reply`: as `JudgeSum`."""
    return [
        JudgeSum(run, judging, place, reply(judge.name))
        for judging in judgings(run.path, run.grading, run.metrics)
        for place, judge in enumerate(judging.judges)
    ]
