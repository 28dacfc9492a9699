"""The diagnosis of a consultation, compared with the gold by a judge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from medhelm import (
    Aggregation,
    Benchmark,
    Episode,
    FinalAnswer,
    Forecast,
    Instance,
    Message,
    Metric,
    Outcome,
    Score,
    Send,
    Terms,
    pooled_share,
)
from medhelm.plugin import fenced, grader, questions, reply_form
from medhelm_benchmarks.encounters.matches import words
from medhelm_benchmarks.encounters.prompts import prompt_text
from medhelm_benchmarks.encounters.record import (
    DESCRIPTIVE,
    UNREADABLE,
    Encounter,
    as_state,
    describe,
    encounter_of,
)

_TAGS = ("gold", "given")
_SCHEMA = reply_form.closed({"reason": str, "same": bool})


def messages(gold: str, given: str) -> tuple[Message, Message]:
    """Return what a judge is sent."""
    body = f"{fenced('gold', gold, _TAGS)}\n\n{fenced('given', given, _TAGS)}"
    return Message("system", prompt_text("diagnosis")), Message("user", body)


def read_same(text: str, given: str = "") -> bool:
    """Return a judge's verdict on the diagnosis that was given; raises BadReply."""
    return bool(reply_form.read_object(text, _SCHEMA, given)["same"])


def _question(instance: Instance, given: str, terms: Terms) -> questions.Question[bool]:
    return questions.Question(
        step="diagnosis",
        messages=messages(instance.references[0], given),
        schema=_SCHEMA,
        read=lambda text: read_same(text, given),
        repair=_again,
        expected=40,
        again=100,
        repairs=terms.repairs,
    )


async def grade(benchmark: Benchmark, shown: grader.Shown, terms: Terms, ask: Send) -> FinalAnswer:
    """Return one judge's verdict on the diagnosis of a consultation."""
    question = _question(shown.instance, _given(shown), terms)
    found = await question.put(shown.instance, grader.JUDGE, terms, ask)
    if found.end in ("error", "oversize"):
        return found.answer({})
    ending = "refused" if found.end == "refused" else "unreadable" if found.end else ""
    return FinalAnswer(state={"same": found.value}, ending=ending)


def _again(sent: tuple[Message, ...], text: str, fault: str) -> tuple[Message, ...]:
    asked = f"Your reply could not be read: {fault}. Reply again with the JSON object alone."
    return (*sent, Message("assistant", text.strip() or "(empty)"), Message("user", asked))


def forecast(
    benchmark: Benchmark, instance: Instance, terms: Terms, answer: int
) -> Iterator[Forecast]:
    """Yield the one call to a judge."""
    yield _question(instance, "x" * 60, terms).forecast(instance, grader.JUDGE, terms)


def stand_in(shown: grader.Shown, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether the diagnosis has all words of the gold: another name counts as wrong."""
    return {"same": words(shown.instance.references[0]) <= words(_given(shown))}


def _given(shown: grader.Shown) -> str:
    return msgspec.convert(dict(shown.state), Encounter).diagnosis or ""


def _right(instance: Instance, settings: Mapping[str, Any]) -> Episode:
    gold = instance.references[0]
    return grader.answer(instance, gold, state=as_state(Encounter(diagnosis=gold)))


DIAGNOSES = grader.Grader(
    name="encounter_diagnosis",
    version="2",
    grade=grade,
    forecast=forecast,
    stand_in=stand_in,
    is_graded=lambda shown: bool(_given(shown)),
    controls=grader.Controls(
        items=lambda instance, settings: [grader.Item(text=instance.references[0])],
        decide=lambda state: [state["same"]],
        right=_right,
        least=40,  # with one verdict a case, fewer could not show that a judge is right
    ),
)
ACCURACY = pooled_share("encounter_accuracy", "right", "cases", *DESCRIPTIVE)


@dataclass(frozen=True, kw_only=True)
class DiagnosisAccuracy(grader.GradedMetric):
    """1 where the judges, by majority, find the diagnosis to be the gold; 0 where none was given."""

    name: str = "diagnosis_accuracy"
    version: str = "2"
    source: str = "Schmidgall et al. 2024, AgentClinic (arXiv 2405.07960)"
    grader: grader.Grader = DIAGNOSES
    aggregation: Aggregation = ACCURACY

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return 0 or 1; `unscored` below the quorum or where the judges are split."""
        if episode.ending == UNREADABLE:
            return Score(value=None, outcome="unparsed", reason=UNREADABLE)
        encounter = encounter_of(episode)
        right, reason = 0.0, f"no diagnosis: {episode.ending}"
        if encounter.diagnosis is not None:
            said = self.verdicts(instance, episode)
            given = [v.state["same"] for v in said if v.state and v.state["same"] is not None]
            if len(given) < self.quorum or 2 * sum(given) == len(given):
                why = "; ".join(f"{v.judge}: {v.reason}" for v in said)
                reason = f"{sum(given)} of {len(given)} verdicts say yes ({why or 'none asked'})"
                return Score(value=None, outcome="unscored", reason=reason)
            right, reason = float(2 * sum(given) > len(given)), episode.ending
        sums = {"right": right, "cases": 1.0}
        sums |= describe(episode.instance.context, encounter, episode.ending)
        return Score(value=right, extracted=encounter.diagnosis or "", reason=reason, sums=sums)

    def floor_score(self, instance: Instance, outcome: Outcome, reason: str = "") -> Score:
        """Return 0 and a case without a diagnosis."""
        sums = dict.fromkeys(self.aggregation.sums, 0.0) | {"cases": 1.0}
        return Score(value=0.0, outcome=outcome, reason=reason, sums=sums)


@dataclass(frozen=True, kw_only=True)
class DiagnosisNamed(Metric):
    """1 where the diagnosis that was given has all words of the gold, else 0.

    A strict stand-in for a grader: another name of the same disease counts as wrong.
    """

    name: str = "diagnosis_named"
    source: str = "AgentClinic (arXiv 2405.07960), by words in place of a judge"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return 0 or 1; an encounter that ended without a diagnosis is 0."""
        if episode.ending == UNREADABLE:
            return Score(value=None, outcome="unparsed", reason=UNREADABLE)
        given = encounter_of(episode).diagnosis
        if given is None:
            return Score(value=0.0, reason=f"no diagnosis: {episode.ending}")
        is_right = words(instance.references[0]) <= words(given)
        return Score(value=float(is_right), extracted=given, reason=episode.ending)
