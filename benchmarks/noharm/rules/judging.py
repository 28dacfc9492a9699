"""Ask a judge about menus: which wordings give an action away, and which actions say the same.

The judge is shown the actions and nothing else of a case. Among the cases is one control, a menu of
which the answers are known, so that what a judge misses is known beside what it finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

import msgspec

from medhelm import (
    Benchmark,
    Episode,
    FinalAnswer,
    Instance,
    Message,
)
from medhelm.plugin import questions, reply_form, runlog
from medhelm_benchmarks.noharm.rules.cases import Case

JUDGE, CONTROL = "judge", "control"
BUDGET = 4_096


class Telling(msgspec.Struct, frozen=True, kw_only=True):
    """An action whose wording gives its class away, by the words that do."""

    id: str
    words: str


@runlog.of_threads
class MenuReply(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's reply on a menu."""

    telling: tuple[Telling, ...]
    same: tuple[tuple[str, str], ...]


class Control(msgspec.Struct, frozen=True):
    """A menu of which the answers are known."""

    telling: tuple[str, ...]
    neutral: tuple[str, ...]
    same: tuple[tuple[str, str], ...]
    apart: tuple[tuple[str, str], ...]

    def menu(self) -> dict[str, str]:
        """Return the texts by id, mixed."""
        pairs = [text for pair in (*self.same, *self.apart) for text in pair]
        return {f"a{n}": t for n, t in enumerate(sorted((*self.telling, *self.neutral, *pairs)), 1)}


@cache
def control() -> Control:
    """Return the control that every set of cases has."""
    return msgspec.json.decode(_text("control_menu.json"), type=Control)


def _text(name: str) -> str:
    return (resources.files("medhelm_benchmarks.noharm") / "texts" / name).read_text("utf-8")


@dataclass(frozen=True)
class Judged:
    """Holds the findings of a judge in a set of cases, and in the control."""

    judge: str
    menus: Mapping[str, MenuReply] = field(default_factory=dict)
    """By code of the case; the cases on which the judge gave no verdict are absent."""
    control: MenuReply | None = None

    def error(self) -> str:
        """Return what the judge found of the control, in words."""
        if self.control is None:
            return "the control has no verdict"
        known, menu = control(), control().menu()
        told = {menu[one.id] for one in self.control.telling}
        pairs = {frozenset(menu[i] for i in pair) for pair in self.control.same}
        same = sum(frozenset(pair) in pairs for pair in known.same)
        found = len(told & {*known.telling})
        return (
            f"of a control it found {found} of {len(known.telling)} wordings that give a class away "
            f"and {same} of {len(known.same)} pairs that say the same, and wrongly "
            f"{len(told) - found} of {len(menu) - len(known.telling)} other wordings and "
            f"{len(pairs) - same} other pairs"
        )


def menus(cases: Sequence[Case]) -> Iterator[Instance]:
    """Yield the menu of each case, and the control."""
    for case in cases:
        yield _instance(case.code, {a.id: a.text for a in case.actions})
    yield _instance(CONTROL, control().menu())


def _instance(name: str, menu: dict[str, str]) -> Instance:
    return Instance(
        id=name, context="\n".join(f"{i}. {text}" for i, text in menu.items()), payload=menu
    )


def _messages(instance: Instance) -> tuple[Message, ...]:
    rules = _text("menu_rules.md").rstrip("\n")
    return (Message("system", rules), Message("user", instance.context))


def _questions(benchmark: Benchmark, instance: Instance) -> Iterator[questions.Question[MenuReply]]:
    def read(text: str) -> MenuReply:
        reply = reply_form.read_form(text, MenuReply)[0]
        ids = {*(one.id for one in reply.telling), *(i for pair in reply.same for i in pair)}
        if unknown := ids - {*(instance.payload or {})}:
            raise reply_form.BadReply(f"{len(unknown)} ids are not on the menu")
        return reply

    yield questions.Question(
        step="menu",
        messages=_messages(instance),
        schema=MenuReply,
        read=read,
        repair=questions.followed_by(_asked_again),
        expected=300,
        again=100,
    )


def _asked_again(fault: str) -> Message:
    return Message("user", f"Your reply cannot be used: {fault}. Reply with the JSON object.")


def _answer(instance: Instance, found: questions.Readout[MenuReply]) -> FinalAnswer:
    """Return what the judge finds in a menu; no verdict where no reply of three can be read."""
    return found.answer(msgspec.to_builtins(found.value), "judged")


JUDGING = questions.asking("noharm_qc", JUDGE, _questions, _answer)


def read_judged(judge: str, episodes: Sequence[Episode]) -> Judged:
    """Return what a judge found, from the episodes of its run."""
    found = {
        e.instance_id: msgspec.convert(e.state, MenuReply) for e in episodes if e.ending == "judged"
    }
    return Judged(judge, found, found.pop(CONTROL, None))
