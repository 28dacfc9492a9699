"""Calls, tokens and USD of the judges of a run, before any is asked.

A judge reads each answer that it has not judged: the text where it is stored, else one of the
expected length, and at most of the whole output budget. Its own output is expected to be the mean
of its stored replies, else one JSON object with 40 tokens for each reason; at most every reply uses the judge's budget and has
to be asked for again as often as the jury allows.
A grader foretells its own calls.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from medhelm.data.rubrics import criteria_of
from medhelm.grading.graders.grader import Grader, shown_of, shown_text
from medhelm.grading.graders.panel import MISSING, end_of, read_gradings
from medhelm.grading.graders.terms import graders_of
from medhelm.grading.jury.gradelog import judgement_key, read_judgements
from medhelm.grading.jury.judging import held_schema, is_judged
from medhelm.grading.jury.panel import judge_folder
from medhelm.grading.jury.prompt import judge_messages, repair_message
from medhelm.models.costs import upper_bound, usd
from medhelm.models.tokens import estimate_tokens
from medhelm.protocols.protocol import Forecast
from medhelm.runs.planning import Run
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import GraderTerms, JuryTerms
from medhelm.store.records import grader_folder, judge_budget

THINKING = 1000
"""Output tokens of a model that thinks before it answers, where nothing is stored of it."""
_REASON = 40
"""Tokens of a judge's reason for one score."""
_REPAIR = repair_message("there are other keys than those of the rubric, or a score is missing")


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


class _Judge:
    """Sums what one judge is sent and says over the answers of a run."""

    def __init__(self, run: Run, terms: JuryTerms, place: int, reply: float | None) -> None:
        self._judge, self._terms = terms.jury.judges[place], terms
        self._reply = reply
        self._limit = judge_budget(self._judge, terms.jury)
        judged = read_judgements(judge_folder(run.path, terms, place))
        self._judged = {j.key for j in judged if j.is_final}
        self._tokens: Counter[str] = Counter()

    def is_judged(self, episode: Episode) -> bool:
        """Return whether the judge's verdict on a stored answer is kept."""
        return judgement_key(episode) in self._judged

    def add(self, instance: Instance, times: int, prompt: float, prompt_limit: float) -> None:
        """Count so many answers to an instance, given the tokens of the judge's prompt."""
        repairs, again = self._terms.jury.repairs, self._limit + estimate_tokens([_REPAIR])
        if (schema := held_schema(self._judge, self._terms, instance)) is not None:
            held = estimate_tokens(json.dumps(schema))
            prompt, prompt_limit = prompt + held, prompt_limit + held
        self._tokens["calls"] += times
        self._tokens["in"] += round(times * prompt)
        self._tokens["in_limit"] += round(
            times * ((1 + repairs) * prompt_limit + repairs * (repairs + 1) / 2 * again)
        )
        self._tokens["out"] += round(times * min(self._limit, self._expected(instance)))

    def _expected(self, instance: Instance) -> float:
        if self._reply is not None:
            return self._reply
        scores = {c.name: 0 for c in criteria_of(self._terms.rubric, instance)}
        reasons = _REASON * len(scores) * self._terms.jury.reasons
        return estimate_tokens(json.dumps(scores)) + reasons + THINKING * self._judge.reasoning

    def estimate(self) -> JudgeEstimate:
        """Return the sums."""
        calls, tokens, price = self._tokens["calls"], self._tokens, self._judge.price
        calls_limit = calls * (1 + self._terms.jury.repairs)
        limit = calls_limit * self._limit
        return JudgeEstimate(
            judge=self._judge.name,
            calls=calls,
            calls_limit=calls_limit,
            input_tokens_expected=tokens["in"],
            input_tokens_limit=tokens["in_limit"],
            output_tokens_expected=tokens["out"],
            output_tokens_limit=limit,
            usd_expected=upper_bound(tokens["in"], tokens["out"], price),
            usd_limit=upper_bound(tokens["in_limit"], limit, price),
            usd_expected_cached=upper_bound(tokens["in"], tokens["out"], price),
        )


class _GraderJudge:
    """Sums what a grader asks one judge over the answers of a run, by the grader's own forecast."""

    def __init__(
        self, run: Run, grader: Grader, own: GraderTerms, judge: ModelSpec, reply: float | None
    ) -> None:
        self._run, self._grader, self._judge, self._reply = run, grader, judge, reply
        self._limit = judge_budget(judge, own.jury)
        self._terms = grader.terms(judge, own)
        gradings = read_gradings(grader_folder(run.path, judge, own))
        self._graded = {key for key, grading in gradings if end_of(grading) not in MISSING}
        self._calls = self._in = self._cached = self._out = 0.0
        self._calls_limit = self._in_limit = 0

    def stored(self, episode: Episode) -> None:
        """Count a stored answer that the judge has not graded."""
        shown = shown_of(self._run.protocol, episode)
        if shown is None or not self._grader.is_graded(shown):
            return
        if judgement_key(episode) not in self._graded:
            said = sum(estimate_tokens(text) for _, text in shown.transcript)
            self.add(episode.instance, 1, said, said)

    def add(self, instance: Instance, times: int, answer: float, answer_limit: float) -> None:
        """Count so many answers of this length to an instance."""
        for forecast in self._forecasts(instance, answer):
            self._calls += times * forecast.calls
            self._in += times * forecast.input_tokens
            self._cached += times * forecast.cached_tokens
            self._out += times * min(self._expected(forecast), forecast.calls * self._limit)
        for forecast in self._forecasts(instance, answer_limit):
            self._calls_limit += times * forecast.calls_limit
            self._in_limit += times * forecast.input_tokens_limit

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
        )


class Judges:
    """The judges of a run, each with what it is still to rate; none where no model judges."""

    def __init__(self, run: Run, reply: Callable[[str], float | None]) -> None:
        self._terms, self._protocol = run.grading.jury, run.protocol
        self._judges: list[_Judge] = []
        if self._terms is not None:
            for place, judge in enumerate(self._terms.jury.judges):
                self._judges.append(_Judge(run, self._terms, place, reply(judge.name)))
        graders = graders_of(run.metrics)
        self._graders = [
            _GraderJudge(run, graders[own.grader], own, judge, reply(judge.name))
            for own in run.grading.graders
            for judge in own.jury.judges
        ]

    def stored(self, episode: Episode) -> None:
        """Count a stored answer for the judges that have not rated it."""
        for grader in self._graders:
            grader.stored(episode)
        if self._terms is None or not is_judged(episode.response):
            return
        left = [judge for judge in self._judges if not judge.is_judged(episode)]
        if left:
            instance, text = episode.instance, shown_text(self._protocol, episode)
            prompt = self._prompt(self._terms, instance, text)
            for judge in left:
                judge.add(instance, 1, prompt, prompt)

    def coming(self, instance: Instance, times: int, expected: float, limit: int) -> None:
        """Count answers that are still to come, by the tokens of their text."""
        for grader in self._graders:
            grader.add(instance, times, min(expected, limit), limit)
        if self._terms is not None and self._judges:
            prompt = self._prompt(self._terms, instance, "")
            for judge in self._judges:
                judge.add(instance, times, prompt + min(expected, limit), prompt + limit)

    @staticmethod
    def _prompt(terms: JuryTerms, instance: Instance, text: str) -> int:
        return estimate_tokens(
            judge_messages(
                terms.rubric, instance, text, terms.instruction, reasons=terms.jury.reasons
            )
        )

    def estimates(self) -> tuple[JudgeEstimate, ...]:
        """Return the estimate of each judge, of a jury's first."""
        return (*(j.estimate() for j in self._judges), *(g.estimate() for g in self._graders))
