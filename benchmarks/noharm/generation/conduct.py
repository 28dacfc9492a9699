"""One case from its brief to three sheets of ratings: the protocol of a writer and three raters.

Every stage is asked, read and checked; what is wrong goes back to its author at most twice, then
the case is discarded with the reason. A failed request leaves the case to the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, TypeVar

import msgspec

from medhelm import (
    Benchmark,
    DataError,
    FinalAnswer,
    Forecast,
    Instance,
    Message,
    ModelSpec,
    Protocol,
    Response,
    Send,
    Terms,
)
from medhelm.plugin import reply_form, runlog, together, tokens
from medhelm_benchmarks.noharm.generation import checks, prompts
from medhelm_benchmarks.noharm.generation.assembly import (
    PERSPECTIVES,
    Menu,
    Provenance,
    make_case,
    make_menu,
    not_covered,
    shuffled,
    with_quotes,
    without_reference,
)
from medhelm_benchmarks.noharm.generation.guideline import Guideline
from medhelm_benchmarks.noharm.generation.replies import (
    AdviceReply,
    GroupsReply,
    OptionsReply,
    QuotesReply,
    RatingsReply,
    SceneReply,
    TrapsReply,
    read_reply,
)
from medhelm_benchmarks.noharm.generation.views import (
    Brief,
    MenuView,
    Perspective,
    RatingView,
    Scene,
    Setting,
    TrapView,
)
from medhelm_benchmarks.noharm.rules.cases import Case

WRITER, JUDGE = "writer", "judge"
REPAIRS = 2
"""Limits how often an author is asked again."""
BUDGETS = {
    "scene": 2_048,
    "advice": 1_024,
    "options": 6_144,
    "traps": 6_144,
    "groups": 4_096,
    "rating": 8_192,
    "quotes": 4_096,
}
"""Output tokens of one reply, by stage."""
REASONING_BUDGET = 24_576
"""Of models that think before they answer."""
_NOTHING = "(no text)"

_R = TypeVar("_R", bound=msgspec.Struct)


@dataclass(frozen=True)
class Series:
    """All that decides a series of cases but their number."""

    prefix: str
    """`NOHARM-CARD-ACS`."""
    specialty: str
    guideline: Guideline
    generator: ModelSpec
    raters: tuple[ModelSpec, ModelSpec, ModelSpec]
    """In the order of `PERSPECTIVES`."""
    judge: ModelSpec | None = None
    """Asked whether a patient's text advises; None: nobody is."""
    seed: int = 0

    @property
    def players(self) -> dict[str, ModelSpec]:
        """Return the models by role."""
        found = {WRITER: self.generator}
        found.update(zip(PERSPECTIVES, self.raters, strict=True))
        return found if self.judge is None else {**found, JUDGE: self.judge}

    @property
    def made_by(self) -> tuple[str, ...]:
        """Return the models that write or rate, by name, and by their endpoint's where another."""
        found: list[str] = []
        for model in (self.generator, *self.raters):
            found.append(model.name)
            if model.model and runlog.bare_name(model.model) != runlog.bare_name(model.name):
                found.append(model.model)
        return tuple(dict.fromkeys(found))


class Discarded(Exception):
    """An author could not write what its stage needs."""

    def __init__(self, stage: str, reasons: Sequence[str]) -> None:
        super().__init__(stage)
        self.stage, self.reasons = stage, tuple(reasons)


class Failed(Exception):
    """A request had no answer. The next start asks again."""


def generation(series: Series) -> Protocol:
    """Return the protocol that writes the cases of a series."""
    return Protocol(
        name="noharm_generation",
        version=prompts.PROMPT_VERSION,
        roles=tuple(series.players),
        budgets={role: BUDGETS["rating"] for role in series.players},
        conduct=partial(_conduct, series),
        forecast=partial(_forecast, series),
        sends_schema=True,
    )


async def _conduct(
    series: Series, benchmark: Benchmark, instance: Instance, terms: Terms, send: Send
) -> FinalAnswer:
    """Return the case of a brief with where it comes from, or why it was discarded."""
    try:
        case, provenance = await _Author(series, instance, terms, send).write()
    except Failed as e:
        return FinalAnswer(finish="error", error=str(e))
    except Discarded as e:
        return FinalAnswer(ending="discarded", state={"stage": e.stage, "reasons": list(e.reasons)})
    made = {"case": case, "provenance": provenance}
    return FinalAnswer(ending="made", state=msgspec.to_builtins(made))


@dataclass
class _Author:
    """Writes one case."""

    series: Series
    instance: Instance
    terms: Terms
    ask: Send
    repairs: dict[str, int] = field(default_factory=dict)
    """Counts the repairs of each stage."""
    judge: str = ""
    """The judge, once it has given a verdict on the last scene."""

    async def write(self) -> tuple[Case, Provenance]:
        """Return the case and where it comes from; raises Discarded and Failed."""
        series, code = self.series, self.instance.id
        setting = msgspec.convert(self.instance.payload, Setting)
        scene = await self._scene(Brief(series.specialty, series.guideline, setting))
        menu = await self._menu(scene)
        groups = await self._groups(MenuView(scene, menu.items))
        sheets = await self._refer(scene, menu, await self._rate(scene, menu))
        try:
            case, unfounded = make_case(
                code, scene, menu, groups, sheets, series.guideline, series.made_by
            )
        except DataError as e:
            raise Discarded("assembly", [str(e)]) from None
        return case, Provenance(
            code=code,
            guideline=series.guideline.name,
            guideline_sha256=series.guideline.sha256,
            setting=asdict(setting),
            tags=menu.tags,
            generator=series.generator.name,
            raters={p: m.name for p, m in zip(PERSPECTIVES, series.raters, strict=True)},
            judge=self.judge,
            repairs=dict(sorted(self.repairs.items())),
            unfounded_quotes=unfounded,
            not_covered=not_covered(menu, sheets),
            prompt_version=prompts.PROMPT_VERSION,
        )

    async def _scene(self, view: Brief) -> Scene:
        asked = (view.setting.place, view.setting.complication, view.setting.gap)
        reply = await self._ask(
            "scene",
            prompts.scene_messages(view),
            SceneReply,
            lambda r: checks.scene_faults(r, view.guideline, asked),
            judged=lambda r, attempt: self._advice(_scene_of(view, r), attempt),
        )
        return _scene_of(view, reply)

    async def _advice(self, scene: Scene, attempt: int) -> list[str]:
        """Return as a fault that a patient's text advises, where a judge says so.

        A reply that cannot be read is no verdict.
        """
        if self.series.judge is None:
            return []
        messages = prompts.advice_messages(scene, self.series.guideline)
        response = await self._send(JUDGE, "advice", messages, AdviceReply, attempt)
        try:
            found = read_reply(response.text, AdviceReply)
        except reply_form.BadReply:  # it would be read again from the log for ever
            self.judge = ""
            return []
        self.judge = self.series.judge.name
        return [f"{found.words[:80]!r} says what should be done: give facts alone"] * found.advises

    async def _menu(self, scene: Scene) -> Menu:
        blind = await self._ask(
            "options", prompts.option_messages(scene), OptionsReply, checks.option_faults
        )
        there = tuple(o.text for o in blind.options)
        view = TrapView(scene, self.series.guideline, there)
        traps = await self._ask(
            "traps", prompts.trap_messages(view), TrapsReply, lambda r: checks.trap_faults(r, view)
        )
        again = checks.repeated(traps, view)
        new = tuple(o for n, o in enumerate(traps.options, 1) if n not in again)
        return make_menu(self.instance.id, blind, TrapsReply(options=new))

    async def _groups(self, view: MenuView) -> GroupsReply:
        return await self._ask(
            "groups",
            prompts.group_messages(view),
            GroupsReply,
            lambda r: checks.group_faults(r, view.items),
        )

    async def _rate(self, scene: Scene, menu: Menu) -> dict[Perspective, RatingsReply]:
        """Return three sheets, asked for at once and without knowledge of each other."""

        async def rate(perspective: Perspective) -> RatingsReply:
            items = shuffled(menu.items, f"{self.instance.id}/{perspective}")
            view = RatingView(scene, self.series.guideline, perspective, items)
            return await self._ask(
                "rating",
                prompts.rating_messages(view),
                RatingsReply,
                lambda r: checks.rating_faults(r, items),
                lambda r: checks.quote_doubts(r, self.series.guideline),
                role=perspective,
            )

        return await _of_raters(rate)

    async def _refer(
        self, scene: Scene, menu: Menu, sheets: dict[Perspective, RatingsReply]
    ) -> dict[Perspective, RatingsReply]:
        """Return the sheets after one more look for references of strong actions without one.

        A look that cannot be read or finds nothing leaves its sheet as it is.
        """
        guideline = self.series.guideline
        bare = without_reference(menu, sheets, guideline)

        async def look(perspective: Perspective) -> RatingsReply:
            sheet, items = sheets[perspective], bare[perspective]
            if not items:
                return sheet
            try:
                found = await self._ask(
                    "quotes",
                    prompts.quote_messages(RatingView(scene, guideline, perspective, items)),
                    QuotesReply,
                    lambda r: checks.id_faults(items, [q.id for q in r.quotes], "quote"),
                    role=perspective,
                    repairs=0,
                )
            except Discarded:
                return sheet
            return with_quotes(sheet, found, guideline)

        return await _of_raters(look)

    async def _ask(
        self,
        stage: str,
        messages: tuple[Message, ...],
        form: type[_R],
        find_faults: Callable[[_R], list[str]],
        find_doubts: Callable[[_R], list[str]] = lambda _: [],
        *,
        judged: Callable[[_R, int], Coroutine[Any, Any, list[str]]] | None = None,
        role: str = WRITER,
        repairs: int = REPAIRS,
    ) -> _R:
        """Return a stage's reply without faults; raises Discarded and Failed.

        Doubts go back to the author as faults do; what is left of them at the end discards nothing,
        and of the replies with doubts alone the last counts. `judged` is asked about a reply without
        faults.
        """
        name = stage if role == WRITER else f"{stage}/{role}"
        faults: list[str] = []
        usable: _R | None = None
        for attempt in range(1 + repairs):
            if attempt:
                self.repairs[name] = attempt
            response = await self._send(role, stage, messages, form, attempt)
            reply, faults = _read(name, response, form, find_faults)
            if reply is not None and judged is not None:
                faults = await judged(reply, attempt)
                reply = None if faults else reply
            if reply is not None:
                faults = find_doubts(reply)
                if not faults:
                    return reply
                usable = reply
            said = Message("assistant", response.text if response.text.strip() else _NOTHING)
            messages = (*messages, said, prompts.repair_message(faults))
        if usable is not None:
            return usable
        raise Discarded(name, faults)

    async def _send(
        self,
        role: str,
        stage: str,
        messages: tuple[Message, ...],
        form: type[msgspec.Struct],
        attempt: int,
    ) -> Response:
        """Return the response to one request; raises Failed where there is none."""
        request = self.terms.request(self.instance, role, messages, reply_form.schema_of(form))
        budget = stage_budget(self.series.players[role], stage)
        request = msgspec.structs.replace(request, max_output_tokens=budget)
        response = await self.ask(role, request, step=stage, attempt=attempt)
        if response.finish in ("error", "oversize"):
            raise Failed(response.error or response.finish)
        return response


def _scene_of(view: Brief, reply: SceneReply) -> Scene:
    return Scene(specialty=view.specialty, **msgspec.structs.asdict(reply))


async def _of_raters(
    ask: Callable[[Perspective], Coroutine[Any, Any, RatingsReply]],
) -> dict[Perspective, RatingsReply]:
    sheets = await together(ask(perspective) for perspective in PERSPECTIVES)
    return dict(zip(PERSPECTIVES, sheets, strict=True))


def _read(
    stage: str, response: Response, form: type[_R], find_faults: Callable[[_R], list[str]]
) -> tuple[_R | None, list[str]]:
    """Return a reply without faults, or its faults; raises Discarded."""
    if response.finish == "refusal":
        raise Discarded(stage, ["the model refused"])
    try:
        reply = read_reply(response.text, form)
    except reply_form.BadReply as e:
        cut = ["it was cut at the limit of its tokens: write less"]
        return None, cut if response.finish == "length" else [str(e)]
    faults = find_faults(reply)
    return (None, faults) if faults else (reply, [])


def stage_budget(model: ModelSpec, stage: str) -> int:
    """Return the output tokens that a model may use for one reply of a stage."""
    if model.max_output_tokens is not None:
        return model.max_output_tokens
    return REASONING_BUDGET if model.reasoning else BUDGETS[stage]


_LETTER, _ACTION = 500, 16
"""Tokens of a scene and of an action: means of the bundled cases."""
_ACTIONS = prompts.BLIND + prompts.FIRST_LINE + prompts.CONDITIONAL + 5 * prompts.PER_TRAP
_STRONG = _ACTIONS // 2
"""Strong actions without a reference that raters are asked about again: more than most cases have."""
_REPLIES = {
    "scene": _LETTER + 60,
    "advice": 60,
    "options": prompts.BLIND * (_ACTION + 12),
    "traps": (_ACTIONS - prompts.BLIND) * (_ACTION + 20),
    "groups": 250,
    "rating": _ACTIONS * 49,
    "quotes": _STRONG * 40,
}
"""Tokens of a reply as asked for, with the signs of its JSON."""
_WORDS_OF_A_REPAIR = 150


def _forecast(
    series: Series, benchmark: Benchmark, instance: Instance, terms: Terms
) -> Iterator[Forecast]:
    """Yield what each role will use: as asked for, and where every reply fills its budget and is
    asked for `REPAIRS` times again, quotes never."""
    nothing = Scene(series.specialty, "", "", (), (), ())
    setting = msgspec.convert(instance.payload, Setting)
    guideline, budgets = series.guideline, {s: stage_budget(series.generator, s) for s in BUDGETS}
    letter = (_LETTER, budgets["scene"])
    blind = (_LETTER + prompts.BLIND * _ACTION, letter[1] + budgets["options"])
    # the menu at most: what two authors can write within their budgets
    menu = (_LETTER + _ACTIONS * (_ACTION + 4), blind[1] + budgets["traps"])
    strong = (_LETTER + _STRONG * (_ACTION + 4), menu[1])
    brief = prompts.scene_messages(Brief(series.specialty, guideline, setting))
    trap = prompts.trap_messages(TrapView(nothing, guideline, ()))
    stages: list[tuple[str, str, Sequence[Message], tuple[int, int]]] = [
        (WRITER, "scene", brief, (0, 0)),
        (WRITER, "options", prompts.option_messages(nothing), letter),
        (WRITER, "traps", trap, blind),
        (WRITER, "groups", prompts.group_messages(MenuView(nothing, ())), menu),
    ]
    for perspective in PERSPECTIVES:
        view = RatingView(nothing, guideline, perspective, ())
        stages.append((perspective, "rating", prompts.rating_messages(view), menu))
        stages.append((perspective, "quotes", prompts.quote_messages(view), strong))
    if series.judge is not None:
        stages.append((JUDGE, "advice", prompts.advice_messages(nothing, guideline), letter))
    for role, model in series.players.items():
        own = [
            _of_stage(model, stage, fixed, grown)
            for who, stage, fixed, grown in stages
            if who == role
        ]
        yield Forecast(role=role, **{name: sum(f[name] for f in own) for name in own[0]})


def _of_stage(
    model: ModelSpec, stage: str, fixed: Sequence[Message], grown: tuple[int, int]
) -> dict[str, int]:
    """Return the fields of a stage's forecast, given the tokens that are not in its words: as expected,
    and at most."""
    budget, tries = stage_budget(model, stage), 1 if stage == "quotes" else 1 + REPAIRS
    words, (more, most) = tokens.estimate_tokens(fixed), grown
    earlier = sum(range(tries)) * (budget + _WORDS_OF_A_REPAIR)  # a repair repeats the messages
    return {
        "calls": 1,
        "calls_limit": tries,
        "input_tokens": words + more,
        "input_tokens_limit": tries * (words + most) + earlier,
        "output_tokens": min(_REPLIES[stage], budget),
        "output_tokens_limit": tries * budget,
    }
