"""Strategies of the clinician: who chooses, what counts as a vote, and what enters the history."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from medhelm import (
    Benchmark,
    FinalAnswer,
    Instance,
    Message,
    Protocol,
    Request,
    Response,
    Send,
    Terms,
)
from medhelm_benchmarks.encounters.protocol import ENCOUNTERS
from medhelm_benchmarks.encounters.record import Encounter, Turn, as_state, encounter_of
from medhelm_benchmarks.encounters.strategies import (
    STRATEGIES,
    best_of,
    by_vote,
    most_agreed,
    panel,
)
from tests.benchmarks.encounters.stage import CASE, Say, in_turn, play, says

REQUEST = Request(
    instance_id="x", messages=(Message("user", "A case."),), max_output_tokens=100, seed=7
)
Reply = Callable[[str, Request], str | Response]


def asked(strategy: object, say: Reply) -> tuple[Response, dict[str, Request]]:
    """Return what a strategy answers, and its calls by step."""
    sent: dict[str, Request] = {}

    async def ask(request: Request, *, step: str, attempt: int = 0) -> Response:
        assert step not in sent
        sent[step] = request
        said = say(step, request)
        return said if isinstance(said, Response) else Response(instance_id="x", text=said)

    return asyncio.run(strategy(ask, REQUEST, "turn/1", 0)), sent  # type: ignore[operator]


@pytest.mark.parametrize(
    ("critic", "chosen"),
    [('{"best": 4}', 3), ("<think>2</think>{\"best\": 2}", 1), ("the third", 0), ('{"best": 9}', 0)],
)  # fmt: skip
def test_of_five_candidates_the_critic_chooses_and_the_first_counts_where_it_does_not(
    critic: str, chosen: int
) -> None:
    found, sent = asked(best_of, lambda step, r: critic if "critic" in step else f"reply {step}")
    assert found.text == f"reply turn/1/candidate/{chosen}"
    assert [*sent] == [f"turn/1/candidate/{n}" for n in range(5)] + ["turn/1/critic"]
    own = [sent[f"turn/1/candidate/{n}"] for n in range(5)]
    assert {r.sampling.temperature for r in own} == {0.8} and len({r.seed for r in own}) == 5
    assert sent["turn/1/critic"].sampling.temperature == 0.0
    assert all(f"candidate/{n}" in sent["turn/1/critic"].messages[-1].content for n in range(5))


def test_a_candidate_that_failed_is_none() -> None:
    def say(step: str, request: Request) -> str | Response:
        if step.endswith("/2"):
            return "the only one"
        return Response(instance_id="x", finish="error", error="http 500")

    found, sent = asked(best_of, say)
    assert found.text == "the only one" and "turn/1/critic" not in sent


def votes(*said: str) -> Reply:
    left = list(said)

    def say(step: str, request: Request) -> str:
        if "/vote/" in step:
            return left.pop(0)
        if step.endswith("synthesis"):
            return says("First.", eos=True)
        return says("Second.", eos=True) if step.endswith("revision") else "Some advice."

    return say


def vote(agree: bool, finished: bool) -> str:
    return json.dumps({"agree": agree, "finished": finished, "change": "Ask more."})


@pytest.mark.parametrize(
    ("said", "speak", "eos"),
    [
        ([vote(True, True)] * 5, "First.", True),
        ([vote(False, True)] * 3 + [vote(True, True)] * 2, "Second.", True),
        ([vote(False, False)] * 2 + [vote(True, True)] * 3, "First.", True),
        ([vote(True, False)] * 3 + [vote(True, True)] * 2, "First.", False),
        # two valid votes against, none for; the others abstain and end nothing
        ([vote(False, False)] * 2 + ["I agree.", "{}", '{"agree": "yes", "finished": true}'], "Second.", False),
        # one of these is a vote
        ([vote(False, False), "", "[]", '{"agree": true}', '{"agree": 1, "finished": true}'], "Second.", False),
        ([vote(True, True), "", "agree", '{"agree": true}', "[]"], "First.", True),
    ],
)  # fmt: skip
def test_a_panel_advises_writes_votes_and_ends_by_more_than_half_of_the_valid_votes(
    said: list[str], speak: str, eos: bool
) -> None:
    found, sent = asked(panel, votes(*said))
    reply = json.loads(found.text)
    assert (reply["speak"], reply["eos"]) == (speak, eos)
    kinds = Counter(step.split("/")[2] for step in sent)
    assert kinds["advice"] == kinds["vote"] == 5 and kinds["synthesis"] == 1
    assert kinds.get("revision", 0) == (speak == "Second.")
    assert sum(kinds.values()) <= 12


def course(*actions: str) -> FinalAnswer:
    turn = Turn(actions=actions)
    return FinalAnswer(text=" ".join(actions), state=as_state(Encounter(turns=(turn,))))


def test_the_course_that_most_agree_with_is_kept() -> None:
    """ECG 4 of 5, troponin 3 of 5, MRI 1, heparin 2: the majority has ECG and troponin alone."""
    courses = [
        course("MRI"),
        course("ECG", "heparin"),
        course("ecg", "Troponin", "heparin"),
        course("Troponin", "ECG"),
        course("troponin", "ECG"),
    ]
    assert most_agreed(courses) is courses[3]


def test_at_each_decision_point_the_candidate_most_agreed_with_is_taken() -> None:
    """Three of five order an ECG, three end the state, two order troponin: the fourth has it all as they do."""
    replies = [
        says("a", "ECG", "troponin"),
        says("b", "MRI", eos=True),
        "I would order an ECG.",
        says("d", "ecg", eos=True),
        says("e", "ECG", "troponin", eos=True),
    ]
    found, sent = asked(by_vote, lambda step, r: replies[int(step[-1])])
    assert json.loads(found.text)["speak"] == "d"
    assert [*sent] == [f"turn/1/candidate/{n}" for n in range(5)]
    assert {r.sampling.temperature for r in sent.values()} == {0.8}
    prose, _ = asked(by_vote, lambda step, r: f"reply {step[-1]}")
    assert prose.text == "reply 0"  # none can be read: the first goes back to its writer
    said = in_turn(says("Hm.", "vital signs", eos=True))
    episode = play(CASE, said, protocol=over(ENCOUNTERS, "best_of_5_decisions"))
    assert sum(c.role == "clinician" for c in episode.calls) == 10 and episode.ending == "completed"


def test_drafts_never_enter_the_history_of_any_role() -> None:
    assert [s.calls for s in STRATEGIES] == [6, 5, 5, 12]

    def candidates(messages: object) -> str:
        text = str(messages)
        return '{"best": 2}' if "might give now" in text else says("How long? DRAFT", eos=True)

    episode = play(CASE, candidates, protocol=over(ENCOUNTERS, "best_of_5"))
    assert episode.ending == "completed"
    own = [c for c in episode.calls if c.role == "clinician"]
    assert len(own) == 12  # two turns of five candidates and a critic
    assert all(sum(m.role == "assistant" for m in c.messages) == int(c.step[5]) - 1 for c in own)
    whole = play(CASE, warm_courses(), protocol=over(ENCOUNTERS, "best_of_5_courses"))
    steps = Counter(c.step.split("/")[1] for c in whole.calls)
    assert [*steps] == ["0", "1", "2", "3", "4"]
    assert {c.role for c in whole.calls} == {"clinician", "controller"}
    assert encounter_of(whole).turns[0].actions == ("vital signs",)


def warm_courses() -> Say:
    """One course orders the drip, the others vital signs."""
    first = says("", "infusion", eos=True)
    return in_turn(first, first, says("", "vital signs", eos=True))


def over(protocol: Protocol, name: str) -> Protocol:
    """Return a protocol with a strategy before its clinician, as a run puts it there."""
    (strategy,) = (s for s in STRATEGIES if s.name == name)
    conduct = protocol.conduct
    if strategy.around is not None:
        conduct = strategy.around(conduct, "clinician")

    async def by_strategy(
        benchmark: Benchmark, instance: Instance, terms: Terms, send: Send
    ) -> FinalAnswer:
        return await conduct(benchmark, instance, terms, strategy.over("clinician", send))

    return replace(protocol, conduct=by_strategy)
