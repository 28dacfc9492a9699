"""One case from its brief to three sheets of ratings, and a whole series of cases.

Every stage is asked, read and checked; what is wrong goes back to its author at most twice, then
the case is discarded with the reason. A failed request leaves the case to the next start.
"""

from __future__ import annotations

import asyncio
import re
import traceback
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from medhelm.errors import DataError
from medhelm.extract.json_reply import BadReply
from medhelm.extract.reply_form import schema_of
from medhelm.schema.episode import Message, Request, Response
from medhelm.schema.model import ModelSpec
from medhelm.store.records import bare_name
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
from medhelm_benchmarks.noharm.generation.calls import Caller, Stopped
from medhelm_benchmarks.noharm.generation.guideline import Guideline
from medhelm_benchmarks.noharm.generation.patients import Patients
from medhelm_benchmarks.noharm.generation.replies import (
    GroupsReply,
    OptionsReply,
    QuotesReply,
    RatingsReply,
    SceneReply,
    TrapsReply,
    read_reply,
)
from medhelm_benchmarks.noharm.generation.settings import draw_setting
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

REPAIRS = 2
"""Limits how often an author is asked again."""
BUDGETS = {
    "scene": 2_048,
    "options": 6_144,
    "traps": 6_144,
    "groups": 4_096,
    "rating": 8_192,
    "quotes": 4_096,
}
"""Output tokens of one reply, by stage."""
REASONING_BUDGET = 24_576
"""Of models that think before they answer."""
_ACTIVE = 24
"""Cases at work at a time, so that the first are done long before the last."""
_NOTHING = "(no text)"
_QUOTED = re.compile(r"""["'`].*["'`]""", re.DOTALL)

_R = TypeVar("_R", bound=msgspec.Struct)
Status = Literal["made", "discarded", "failed", "not finished"]


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
    seed: int = 0

    def code(self, number: int) -> str:
        """Return the code of a case, numbered from 1."""
        return f"{self.prefix}-{number:03}"

    def setting(self, number: int) -> Setting:
        """Return what makes the patient of a case another than those of all other numbers."""
        return draw_setting(self.seed, self.prefix, number, self.guideline.passages)

    @property
    def made_by(self) -> tuple[str, ...]:
        """Return the models that write or rate, by name, and by their endpoint's where another."""
        found: list[str] = []
        for model in (self.generator, *self.raters):
            found.append(model.name)
            if model.model and bare_name(model.model) != bare_name(model.name):
                found.append(model.model)
        return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class CaseEnd:
    """Reports how one case ended."""

    code: str
    status: Status
    case: Case | None = None
    provenance: Provenance | None = None
    stage: str = ""
    """Names the stage at which a case was discarded or failed."""
    reasons: tuple[str, ...] = ()

    @property
    def shown_reasons(self) -> tuple[str, ...]:
        """Return the reasons without words of a model, which may be words of the guideline."""
        return tuple(_QUOTED.sub("'...'", reason) for reason in self.reasons)


class Discarded(Exception):
    """An author could not write what its stage needs."""

    def __init__(self, stage: str, reasons: Sequence[str]) -> None:
        super().__init__(stage)
        self.stage, self.reasons = stage, tuple(reasons)


class Failed(Exception):
    """A request had no answer. The next start asks again."""

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(stage)
        self.stage, self.reason = stage, reason


async def make_series(
    series: Series, count: int, caller: Caller, done: Callable[[CaseEnd], None], stored: int = 0
) -> list[CaseEnd]:
    """Return how each of `count` cases ended, in the order of their codes.

    Cases after these, up to number `stored`, are among them where the log holds all of them.
    """
    places, patients = asyncio.Semaphore(_ACTIVE), Patients()

    async def one(number: int) -> CaseEnd:
        async with places:
            try:
                author = _Author(series, number, caller, patients, is_stored=number > count)
                end = await _end_of(author)
            finally:
                patients.settle(number, "")  # nothing, where it has a vignette
        if number <= count:
            done(end)
        return end

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(number)) for number in range(1, max(count, stored) + 1)]
    ends = [task.result() for task in tasks]
    return ends[:count] + [end for end in ends[count:] if end.status != "not finished"]


async def _end_of(author: _Author) -> CaseEnd:
    try:
        case, provenance = await author.write()
    except Stopped:
        return CaseEnd(author.code, "not finished")
    except Failed as e:
        return CaseEnd(author.code, "failed", stage=e.stage, reasons=(e.reason,))
    except Discarded as e:
        return CaseEnd(author.code, "discarded", stage=e.stage, reasons=e.reasons)
    except Exception as e:  # the boundary of a case: the others go on, and no text is shown
        frame = traceback.extract_tb(e.__traceback__)[-1]
        place = f"{Path(frame.filename).name} line {frame.lineno}"
        return CaseEnd(
            author.code, "failed", stage="defect", reasons=(f"{type(e).__name__} at {place}",)
        )
    return CaseEnd(author.code, "made", case, provenance)


@dataclass
class _Author:
    """Writes one case."""

    series: Series
    number: int
    caller: Caller
    patients: Patients
    is_stored: bool
    """True if the log holds every call that is asked for."""
    repairs: dict[str, int] = field(default_factory=dict)
    """Counts the repairs of each stage."""

    @property
    def code(self) -> str:
        """Return the code of the case."""
        return self.series.code(self.number)

    async def write(self) -> tuple[Case, Provenance]:
        """Return the case and where it comes from; raises Discarded, Failed, Stopped."""
        series = self.series
        setting = series.setting(self.number)
        scene = await self._scene(Brief(series.specialty, series.guideline, setting))
        menu = await self._menu(scene)
        groups = await self._groups(MenuView(scene, menu.items))
        sheets = await self._refer(scene, menu, await self._rate(scene, menu))
        try:
            case, unfounded = make_case(
                self.code, scene, menu, groups, sheets, series.guideline, series.made_by
            )
        except DataError as e:
            raise Discarded("assembly", [str(e)]) from None
        return case, Provenance(
            code=self.code,
            guideline=series.guideline.name,
            guideline_sha256=series.guideline.sha256,
            setting=asdict(setting),
            tags=menu.tags,
            generator=series.generator.name,
            raters={p: m.name for p, m in zip(PERSPECTIVES, series.raters, strict=True)},
            repairs=dict(sorted(self.repairs.items())),
            unfounded_quotes=unfounded,
            not_covered=not_covered(menu, sheets),
            prompt_version=prompts.PROMPT_VERSION,
        )

    async def _scene(self, view: Brief) -> Scene:
        asked = (view.setting.place, view.setting.complication, view.setting.gap)

        def faults(reply: SceneReply) -> list[str]:
            own = checks.scene_faults(reply, view.guideline, asked)
            return [*own, *self.patients.copies(self.number, reply.vignette)]

        reply = await self._ask(
            "scene",
            prompts.scene_messages(view),
            SceneReply,
            faults,
            before=lambda: self.patients.wait_for_lower(self.number),
        )
        self.patients.settle(self.number, reply.vignette)
        return Scene(
            specialty=view.specialty,
            vignette=reply.vignette,
            question=reply.question,
            knowns=reply.knowns,
            unknowns=reply.unknowns,
            red_flags=reply.red_flags,
        )

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
        return make_menu(self.code, blind, TrapsReply(options=new))

    async def _groups(self, view: MenuView) -> GroupsReply:
        return await self._ask(
            "groups",
            prompts.group_messages(view),
            GroupsReply,
            lambda r: checks.group_faults(r, view.items),
        )

    async def _rate(self, scene: Scene, menu: Menu) -> dict[Perspective, RatingsReply]:
        """Return three sheets, asked for at once and without knowledge of each other."""

        async def rate(perspective: Perspective, rater: ModelSpec) -> RatingsReply:
            items = shuffled(menu.items, f"{self.code}/{perspective}")
            view = RatingView(scene, self.series.guideline, perspective, items)
            return await self._ask(
                f"rating/{perspective}",
                prompts.rating_messages(view),
                RatingsReply,
                lambda r: checks.rating_faults(r, items),
                lambda r: checks.quote_doubts(r, self.series.guideline),
                model=rater,
            )

        return await self._of_raters(rate)

    async def _refer(
        self, scene: Scene, menu: Menu, sheets: dict[Perspective, RatingsReply]
    ) -> dict[Perspective, RatingsReply]:
        """Return the sheets after one more look for references of strong actions without one.

        A look that cannot be read or finds nothing leaves its sheet as it is.
        """
        guideline = self.series.guideline
        bare = without_reference(menu, sheets, guideline)

        async def look(perspective: Perspective, rater: ModelSpec) -> RatingsReply:
            sheet, items = sheets[perspective], bare[perspective]
            if not items:
                return sheet
            try:
                found = await self._ask(
                    f"quotes/{perspective}",
                    prompts.quote_messages(RatingView(scene, guideline, perspective, items)),
                    QuotesReply,
                    lambda r: checks.id_faults(items, [q.id for q in r.quotes], "quote"),
                    model=rater,
                    repairs=0,
                )
            except Discarded:
                return sheet
            return with_quotes(sheet, found, guideline)

        return await self._of_raters(look)

    async def _of_raters(
        self, ask: Callable[[Perspective, ModelSpec], Awaitable[RatingsReply]]
    ) -> dict[Perspective, RatingsReply]:
        raters = zip(PERSPECTIVES, self.series.raters, strict=True)
        sheets = await asyncio.gather(*(ask(p, m) for p, m in raters), return_exceptions=True)
        errors = [s for s in sheets if isinstance(s, BaseException)]
        if errors:  # all have ended: none writes to the log behind our back
            raise min(errors, key=_gravity)
        rated = [s for s in sheets if not isinstance(s, BaseException)]
        return dict(zip(PERSPECTIVES, rated, strict=True))

    async def _ask(
        self,
        stage: str,
        messages: tuple[Message, ...],
        form: type[_R],
        find_faults: Callable[[_R], list[str]],
        find_doubts: Callable[[_R], list[str]] = lambda _: [],
        *,
        model: ModelSpec | None = None,
        repairs: int = REPAIRS,
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> _R:
        """Return a stage's reply without faults; raises Discarded, Failed, Stopped.

        Doubts go back to the author as faults do; what is left of them at the end discards nothing,
        and of the replies with doubts alone the last counts. `before` is awaited before a reply is
        checked.
        """
        model = model or self.series.generator
        faults: list[str] = []
        usable: _R | None = None
        for attempt in range(1 + repairs):
            if attempt:
                self.repairs[stage] = attempt
            request = make_request(model, stage, messages, form, self.code, self.series.seed)
            response = await self.caller.ask(
                model,
                request,
                case=self.code,
                stage=stage,
                attempt=attempt,
                is_stored=self.is_stored,
            )
            if before is not None:
                await before()
            reply, faults = _read(stage, response, form, find_faults)
            if reply is not None:
                faults = find_doubts(reply)
                if not faults:
                    return reply
                usable = reply
            said = Message("assistant", response.text if response.text.strip() else _NOTHING)
            messages = (*messages, said, prompts.repair_message(faults))
        if usable is not None:
            return usable
        raise Discarded(stage, faults)


def _gravity(error: BaseException) -> int:
    """Return which of several errors counts: a defect first, a discarded case last."""
    kinds = (Stopped, Failed, Discarded)
    return kinds.index(type(error)) + 1 if type(error) in kinds else 0


def _read(
    stage: str, response: Response, form: type[_R], find_faults: Callable[[_R], list[str]]
) -> tuple[_R | None, list[str]]:
    """Return a reply without faults, or its faults; raises Failed, Discarded."""
    if response.finish in ("error", "oversize"):
        raise Failed(stage, response.error or response.finish)
    if response.finish == "refusal":
        raise Discarded(stage, ["the model refused"])
    try:
        reply = read_reply(response.text, form)
    except BadReply as e:
        cut = ["it was cut at the limit of its tokens: write less"]
        return None, cut if response.finish == "length" else [str(e)]
    faults = find_faults(reply)
    return (None, faults) if faults else (reply, [])


def make_request(
    model: ModelSpec,
    stage: str,
    messages: tuple[Message, ...],
    form: type[msgspec.Struct],
    code: str,
    seed: int,
) -> Request:
    """Return what is sent; with the form's JSON Schema where the endpoint holds replies to one."""
    return Request(
        instance_id=f"{code}/{stage}",
        messages=messages,
        max_output_tokens=stage_budget(model, stage),
        sampling=model.sampling,
        seed=seed,
        json_schema=schema_of(form) if model.json_schema else None,
    )


def stage_budget(model: ModelSpec, stage: str) -> int:
    """Return the output tokens that a model may use for one reply of a stage."""
    if model.max_output_tokens is not None:
        return model.max_output_tokens
    return REASONING_BUDGET if model.reasoning else BUDGETS[stage.partition("/")[0]]
