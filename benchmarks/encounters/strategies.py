"""Strategies of a clinician: more calls for one turn, or more encounters for one case.

Drafts never enter the history: what other roles and later turns see is the reply that was chosen. A
strategy sees what the clinician sees and nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from medhelm import (
    Benchmark,
    FinalAnswer,
    Instance,
    Message,
    Request,
    Response,
    Send,
    SendToRole,
    Strategy,
    Terms,
    visible_text,
)
from medhelm.plugin import reply_form, together
from medhelm_benchmarks.encounters.matches import words
from medhelm_benchmarks.encounters.prompts import is_in_markers, prompt_text, to_json
from medhelm_benchmarks.encounters.record import CAPPED, COMPLETED, Encounter
from medhelm_benchmarks.encounters.replies import ClinicianReply, read_markers

CANDIDATES = 5
TEMPERATURE = 0.8
"""Of candidates; choosing, advising and voting go at the model's own."""
SEEDS_APART = 1000


def _text(name: str) -> str:
    return prompt_text(f"strategy_{name}")


def _warm(request: Request, n: int) -> Request:
    """Return a request for the n-th candidate."""
    seed = None if request.seed is None else request.seed + n * SEEDS_APART
    sampling = msgspec.structs.replace(request.sampling, temperature=TEMPERATURE)
    return msgspec.structs.replace(request, sampling=sampling, seed=seed)


def _then(request: Request, *texts: str) -> Request:
    """Return a request with one more message."""
    said = Message("user", "\n\n".join(texts))
    return msgspec.structs.replace(request, messages=(*request.messages, said))


async def _candidates(
    send: SendToRole, request: Request, step: str, attempt: int
) -> list[Response]:
    """Return the candidates that hold a text; the first one where none does."""
    candidates = await together(
        send(_warm(request, n), step=f"{step}/candidate/{n}", attempt=attempt)
        for n in range(CANDIDATES)
    )
    usable = [c for c in candidates if c.finish in ("stop", "length") and c.text.strip()]
    return usable or candidates[:1]


async def best_of(send: SendToRole, request: Request, step: str, attempt: int) -> Response:
    """Return the candidate that the model itself finds best; the first one where it names none."""
    usable = await _candidates(send, request, step, attempt)
    if len(usable) < 2:
        return usable[0]
    listed = "\n\n".join(f"{n}.\n{visible_text(c.text)}" for n, c in enumerate(usable, start=1))
    asked = _then(request, _text("critic").format(count=len(usable)), listed)
    said = await send(asked, step=f"{step}/critic", attempt=attempt)
    number = {"type": "integer", "enum": [*range(1, len(usable) + 1)]}
    try:
        best: int = reply_form.read_object(said.text, reply_form.closed({"best": number}))["best"]
    except reply_form.BadReply:
        best = 1
    return usable[best - 1]


async def by_vote(send: SendToRole, request: Request, step: str, attempt: int) -> Response:
    """Return the candidate most agreed with in what it orders and whether it ends the state.

    One that cannot be read has no vote, and is taken only where none can.
    """
    usable, found = await _candidates(send, request, step, attempt), []
    is_plain = is_in_markers(request.messages)
    for candidate in usable:
        with suppress(reply_form.BadReply):
            said = candidate.text
            read = read_markers(said) if is_plain else reply_form.read_form(said, ClinicianReply)
            ends = {frozenset({"eos"})} if read[0].eos else set()
            found.append((candidate, {words(action) for action in read[0].actions} | ends))
    return found[_most_agreed([own for _, own in found])][0] if found else usable[0]


def _most_agreed(decisions: Sequence[set[frozenset[str]]]) -> int:
    """Return the place of the set that has the most as more than half of them have it, the first of equals."""
    counts = Counter(one for own in decisions for one in own)
    agreed = [
        sum((one in own) == (2 * n > len(decisions)) for one, n in counts.items())
        for own in decisions
    ]
    return agreed.index(max(agreed))


SPECIALISTS = (
    "an emergency physician",
    "a general internist",
    "a surgeon",
    "a clinical pharmacologist",
    "a psychiatrist with experience in talking to patients and families",
)


class Vote(msgspec.Struct, frozen=True):
    """A specialist's vote. One that cannot be read is an abstention."""

    agree: bool
    finished: bool
    change: str = ""


async def panel(send: SendToRole, request: Request, step: str, attempt: int) -> Response:
    """Return what a panel of specialists makes of a turn: advice, synthesis, one round of votes.

    Where more valid votes are against a reply than for it, it is written once more. The state is ended
    only where the reply ends it and more than half of the valid votes find it finished; a diagnosis in marker lines,
    which is all of its reply, ends it.
    """

    async def ask_all(phase: str, *shown: str) -> list[Response]:
        asked = [_then(request, _text(phase).format(who=who), *shown) for who in SPECIALISTS]
        return await together(
            send(one, step=f"{step}/{phase}/{n}", attempt=attempt) for n, one in enumerate(asked)
        )

    advice = await ask_all("advice")
    given = [
        f"{who[0].upper()}{who[1:]}: {visible_text(a.text)}"
        for who, a in zip(SPECIALISTS, advice, strict=True)
        if a.finish in ("stop", "length") and a.text.strip()
    ]
    asked = _then(request, _text("synthesis"), *given)
    reply = await send(asked, step=f"{step}/synthesis", attempt=attempt)
    if reply.finish not in ("stop", "length"):
        return reply
    shown = visible_text(reply.text)
    votes: list[Vote] = []
    for response in await ask_all("vote", shown):
        with suppress(reply_form.BadReply):
            votes.append(reply_form.read_form(response.text, Vote)[0])
    if sum(not v.agree for v in votes) > sum(v.agree for v in votes):
        remarks = [f"- {v.change}" for v in votes if v.change]
        asked = _then(request, _text("revision"), shown, *remarks)
        again = await send(asked, step=f"{step}/revision", attempt=attempt)
        reply = again if again.finish in ("stop", "length") else reply
    is_finished = 2 * sum(v.finished for v in votes) > len(votes)
    return reply if is_finished else without_end(reply)


def without_end(reply: Response) -> Response:
    """Return a reply that does not end the state; one that cannot be read as it is."""
    try:
        read, _ = reply_form.read_form(reply.text, ClinicianReply)
    except reply_form.BadReply:
        return reply
    if not read.eos:
        return reply
    text = to_json({"speak": read.speak, "actions": read.actions, "eos": False})
    return msgspec.structs.replace(reply, text=text)


Conduct = Callable[[Benchmark, Instance, Terms, Send], Awaitable[FinalAnswer]]


def by_trajectory(conduct: Conduct, own: str) -> Conduct:
    """Return a conduct that plays a case several times and keeps the course that most agree with.

    Decision points are the actions that more than half of the courses order. No course is stitched together
    of pieces that never met.
    """

    async def several(
        benchmark: Benchmark, instance: Instance, terms: Terms, send: Send
    ) -> FinalAnswer:
        async def course(n: int) -> FinalAnswer:
            async def apart(
                role: str, request: Request, *, step: str, attempt: int = 0
            ) -> Response:
                sent = _warm(request, n) if role == own else request
                return await send(role, sent, step=f"course/{n}/{step}", attempt=attempt)

            return await conduct(benchmark, instance, terms, apart)

        courses = await together(map(course, range(CANDIDATES)))
        whole = [course for course in courses if course.ending in (COMPLETED, CAPPED)]
        return most_agreed(whole) if whole else courses[0]

    return several


def most_agreed(courses: Sequence[FinalAnswer]) -> FinalAnswer:
    """Return the course with the most decisions as the majority has them, the first of equals."""
    ordered = [
        {words(a) for turn in msgspec.convert(c.state, Encounter).turns for a in turn.actions}
        for c in courses
    ]
    return courses[_most_agreed(ordered)]


STRATEGIES = (
    Strategy(
        name="best_of_5",
        version="2",
        calls=CANDIDATES + 1,
        answer=best_of,
        help="five candidates a turn at temperature 0.8, of which the model chooses",
    ),
    Strategy(
        name="best_of_5_courses",
        calls=CANDIDATES,
        around=by_trajectory,
        help="five encounters at temperature 0.8, of which the one most agreed with is kept",
    ),
    Strategy(
        name="best_of_5_decisions",
        calls=CANDIDATES,
        answer=by_vote,
        help="five candidates a turn at temperature 0.8, of which the one most agreed with is taken",
    ),
    Strategy(
        name="specialist_panel",
        version="2",
        calls=2 * len(SPECIALISTS) + 2,
        answer=panel,
        help="five specialists: advice, synthesis, one round of votes",
    ),
)
