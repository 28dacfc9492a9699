"""A series of cases: the protocol of a writer and three raters, its run, and the files that are made of that.

Every stage is asked, read and checked; what is wrong goes back to its author at most twice, then
the case is discarded with the reason. A failed request leaves the case to the next start.

cases.jsonl        the cases that were made; `medhelm run benchmark=noharm` reads such a file
provenance.jsonl   where each of their actions comes from; shown to no model
discarded.jsonl    cases that could not be made, and why

Beside them lie the files of the run: every request and reply is in `responses.jsonl`.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from medhelm import (
    Benchmark,
    DataError,
    Episode,
    FinalAnswer,
    Forecast,
    Instance,
    Message,
    ModelSpec,
    Protocol,
    Request,
    Response,
    Send,
    Terms,
)
from medhelm.plugin import (
    RecordError,
    durable,
    estimate_tokens,
    own_runs,
    questions,
    reply_form,
    runlog,
    together,
)
from medhelm_benchmarks.noharm.generation import assembly, checks, stages
from medhelm_benchmarks.noharm.generation.guideline import Guideline, Setting, draw_setting
from medhelm_benchmarks.noharm.rules.cases import Case, write_cases
from medhelm_benchmarks.noharm.rules.quality import MOST_ALIKE, likeness

_WORDS_OF_A_REPAIR = 150


@dataclass(frozen=True)
class Series:
    """All that decides a series of cases but their number."""

    prefix: str
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
        found = {stages.WRITER: self.generator}
        found.update(zip(stages.PERSPECTIVES, self.raters, strict=True))
        return found if self.judge is None else {**found, stages.JUDGE: self.judge}

    @property
    def made_by(self) -> tuple[str, ...]:
        """Return the models that write or rate, by name, and by their endpoint's where another."""
        found: list[str] = []
        for model in (self.generator, *self.raters):
            found.append(model.name)
            if model.model and runlog.bare_name(model.model) != runlog.bare_name(model.name):
                found.append(model.model)
        return tuple(dict.fromkeys(found))

    def messages(
        self, stage: str, role: str, setting: Setting, parts: Mapping[str, str]
    ) -> tuple[Message, ...]:
        """Return what a role is sent at a stage, of the parts of the case those that it may see."""
        words = {"specialty": self.specialty, **asdict(setting)}
        words["who"] = stages.WHO.get(role, "").format(specialty=self.specialty)
        return stages.messages(stage, parts, words)


def generation(series: Series) -> Protocol:
    """Return the protocol that writes the cases of a series."""
    return Protocol(
        name="noharm_generation",
        version=stages.PROMPT_VERSION,
        roles=tuple(series.players),
        budgets=dict.fromkeys(series.players, stages.STAGES["rating"].budget),
        conduct=partial(_conduct, series),
        forecast=partial(_forecast, series),
        sends_schema=True,
    )


async def _conduct(
    series: Series, benchmark: Benchmark, instance: Instance, terms: Terms, send: Send
) -> FinalAnswer:
    """Return the case of a brief with where it comes from, or why it was discarded."""
    setting = msgspec.convert(instance.payload, Setting)
    try:
        case, provenance = await _Author(series, setting, instance, terms, send).write()
    except questions.Unwritten as e:
        if e.has_failed:
            return FinalAnswer(finish="error", error=str(e))
        return FinalAnswer(ending="discarded", state={"stage": e.stage, "reasons": list(e.reasons)})
    made = {"case": case, "provenance": provenance}
    return FinalAnswer(ending="made", state=msgspec.to_builtins(made))


@dataclass
class _Author:
    """Writes one case."""

    series: Series
    setting: Setting
    instance: Instance
    terms: Terms
    send: Send
    parts: dict[str, str] = field(default_factory=dict)
    """All that is written of the case so far; each stage is shown its own of it."""
    repairs: dict[str, int] = field(default_factory=dict)
    judge: str = ""
    """The judge, once it has given a verdict on the last scene."""

    async def write(self) -> tuple[Case, assembly.Provenance]:
        """Return the case and where it comes from; raises Unwritten."""
        series, setting, code = self.series, self.setting, self.instance.id
        guideline = series.guideline
        self.parts = {"guideline": guideline.text, "passage": setting.passage}
        asked = (setting.place, setting.complication, setting.gap)
        scene = await self._ask(
            "scene", lambda r: checks.scene_faults(r, guideline, asked), check=self._judge
        )
        self.parts["letter"] = stages.letter(scene)
        menu = await self._menu()
        self.parts["menu"] = stages.listed(menu.items)
        groups = await self._ask("groups", lambda r: checks.group_faults(r, menu.items))
        sheets = await self._refer(menu, await self._of_raters(partial(self._rate, menu)))
        try:
            case, unfounded = assembly.make_case(
                code, series.specialty, scene, menu, groups, sheets, guideline, series.made_by
            )
        except DataError as e:
            raise questions.Unwritten("assembly", [str(e)]) from None
        return case, assembly.Provenance(
            code=code,
            guideline=guideline.name,
            guideline_sha256=guideline.sha256,
            setting=asdict(setting),
            tags=menu.tags,
            generator=series.generator.name,
            raters={p: m.name for p, m in zip(stages.PERSPECTIVES, series.raters, strict=True)},
            judge=self.judge,
            repairs=dict(sorted(self.repairs.items())),
            unfounded_quotes=unfounded,
            not_covered=assembly.not_covered(menu, sheets),
            prompt_version=stages.PROMPT_VERSION,
        )

    async def _judge(self, scene: stages.SceneReply, attempt: int) -> None:
        """Raise BadReply where a judge says that a patient's text advises.

        A reply that cannot be read is no verdict.
        """
        if self.series.judge is None:
            return
        parts = self.parts | {"letter": stages.letter(scene)}
        messages = self.series.messages("advice", stages.JUDGE, self.setting, parts)
        request = self._request(stages.JUDGE, "advice", messages)
        response = await self.send(stages.JUDGE, request, step="advice", attempt=attempt)
        if response.finish in ("error", "oversize"):
            raise questions.Unwritten(
                "advice", [response.error or response.finish], has_failed=True
            )
        try:
            found = read_reply(response.text, stages.AdviceReply)
        except reply_form.BadReply:  # it would be read again from the log for ever
            self.judge = ""
            return
        self.judge = self.series.judge.name
        if found.advises:
            raise reply_form.BadReply(
                f"{found.words[:80]!r} says what should be done: give facts alone"
            )

    async def _menu(self) -> assembly.Menu:
        blind = await self._ask("options", checks.option_faults)
        there = tuple(o.text for o in blind.options)
        self.parts["menu"] = "\n".join(f"- {text}" for text in there)
        traps = await self._ask("traps", lambda r: checks.trap_faults(r, there))
        again = checks.repeated(traps, there)
        new = [o for n, o in enumerate(traps.options, 1) if n not in again]
        return assembly.make_menu(self.instance.id, blind.options, new)

    async def _of_raters(
        self, ask: Callable[[stages.Perspective], Coroutine[Any, Any, stages.RatingsReply]]
    ) -> stages.Sheets:
        """Return three sheets, asked for at once and without knowledge of each other."""
        sheets = await together(ask(perspective) for perspective in stages.PERSPECTIVES)
        return dict(zip(stages.PERSPECTIVES, sheets, strict=True))

    async def _rate(
        self, menu: assembly.Menu, perspective: stages.Perspective
    ) -> stages.RatingsReply:
        items = assembly.shuffled(menu.items, f"{self.instance.id}/{perspective}")
        sheet: stages.RatingsReply = await self._ask(
            "rating",
            lambda r: checks.rating_faults(r, items),
            lambda r: checks.quote_doubts(r, self.series.guideline),
            role=perspective,
            menu=items,
        )
        return sheet

    async def _refer(self, menu: assembly.Menu, sheets: stages.Sheets) -> stages.Sheets:
        """Return the sheets after one more look for references of strong actions without one.

        A look that cannot be read or finds nothing leaves its sheet as it is.
        """
        guideline = self.series.guideline
        bare = assembly.without_reference(menu, sheets, guideline)

        async def look(perspective: stages.Perspective) -> stages.RatingsReply:
            sheet, items = sheets[perspective], bare[perspective]
            if not items:
                return sheet
            try:
                found = await self._ask(
                    "quotes",
                    lambda r: checks.id_faults(items, [q.id for q in r.quotes], "quote"),
                    role=perspective,
                    menu=items,
                )
            except questions.Unwritten as e:
                if e.has_failed:
                    raise
                return sheet
            return assembly.with_quotes(sheet, found, guideline)

        return await self._of_raters(look)

    async def _ask(
        self,
        stage: str,
        find_faults: Callable[[Any], list[str]],
        find_doubts: Callable[[Any], list[str]] = lambda _: [],
        *,
        check: Callable[[Any, int], Awaitable[None]] | None = None,
        role: str = stages.WRITER,
        menu: Mapping[str, str] | None = None,
    ) -> Any:
        """Return a stage's reply without faults, in its form; raises Unwritten.

        `check` looks at a reply without faults. `menu`: a rater's own, in place of that of the case.
        """
        name = stage if role == stages.WRITER else f"{stage}/{role}"
        parts = self.parts if menu is None else self.parts | {"menu": stages.listed(menu)}
        repairs = stages.STAGES[stage].repairs

        async def send(request: Request, attempt: int) -> Response:
            if attempt:
                self.repairs[name] = attempt
            return await self.send(role, request, step=stage, attempt=attempt)

        return await questions.send_until_written(
            send,
            partial(self._request, role, stage),
            self.series.messages(stage, role, self.setting, parts),
            partial(read_reply, form=stages.STAGES[stage].form),
            questions.followed_by(stages.repair_message),
            repairs,
            stage=name,
            find_faults=find_faults,
            find_doubts=find_doubts,
            most_doubts=repairs,
            check=check,
        )

    def _request(self, role: str, stage: str, messages: tuple[Message, ...]) -> Request:
        return self.terms.request(
            self.instance,
            role,
            messages,
            stages.STAGES[stage].form,
            max_output_tokens=stages.STAGES[stage].budget_of(self.series.players[role]),
        )


def read_reply(text: str, form: type[Any]) -> Any:
    """Return a reply of a form; raises BadReply. What makes a case may hold no half of a character."""
    reply, written = reply_form.read_form(text, form)
    if reply_form.without_halves(written) != written:
        raise reply_form.BadReply("it holds half a character, a \\u escape without its other half")
    return reply


def _forecast(
    series: Series, benchmark: Benchmark, instance: Instance, terms: Terms
) -> Iterator[Forecast]:
    """Yield what each role will use: as asked for, and where every reply fills its budget and is
    asked for again as often as its stage allows."""
    setting = msgspec.convert(instance.payload, Setting)
    nothing = stages.letter(
        stages.SceneReply(vignette="", question="", knowns=(), unknowns=(), red_flags=())
    )
    parts = {
        "guideline": series.guideline.text,
        "passage": setting.passage,
        "letter": nothing,
        "menu": "",
    }
    written = {name: stage.budget_of(series.generator) for name, stage in stages.STAGES.items()}
    more = stages.LETTER_TOKENS
    letter = (more, written["scene"])
    blind = (more + stages.BLIND * stages.ACTION_TOKENS, letter[1] + written["options"])
    # the menu at most: what two authors can write within their budgets
    menu = (more + stages.ACTIONS * (stages.ACTION_TOKENS + 4), blind[1] + written["traps"])
    strong = (more + stages.STRONG * (stages.ACTION_TOKENS + 4), menu[1])
    grown = {"scene": (0, 0), "options": letter, "advice": letter, "traps": blind}
    grown |= {"groups": menu, "rating": menu, "quotes": strong}
    asked = {stages.WRITER: ("scene", "options", "traps", "groups"), stages.JUDGE: ("advice",)}
    for role, model in series.players.items():
        calls = []
        for name in asked.get(role, ("rating", "quotes")):
            stage, (more, most) = stages.STAGES[name], grown[name]
            budget = stage.budget_of(model)
            words = estimate_tokens(series.messages(name, role, setting, parts))
            call = questions.one_call(
                terms,
                role,
                words + more,
                min(stage.expected, budget),
                _WORDS_OF_A_REPAIR,
                stage.repairs,
                most=words + most,
                budget=budget,
            )
            calls.append(call)
        yield Forecast.total(calls)


# The files of a series ------------------------------------------------------------------------

_QUOTED = re.compile(r"""["'`].*["'`]""", re.DOTALL)


@dataclass(frozen=True)
class CaseEnd:
    """Reports how one case ended."""

    code: str
    status: str
    """made, discarded or failed"""
    case: Case | None = None
    provenance: assembly.Provenance | None = None
    stage: str = ""
    reasons: tuple[str, ...] = ()

    @property
    def shown_reasons(self) -> tuple[str, ...]:
        """Return the reasons without words of a model, which may be words of the guideline."""
        return tuple(_QUOTED.sub("'...'", reason) for reason in self.reasons)


def series_run(
    series: Series,
    count: int,
    folder: Path,
    data_class: own_runs.DataClass,
    environ: Mapping[str, str] | None,
) -> own_runs.Run:
    """Return the run that writes the first `count` cases of a series; raises as `own_run` does."""
    decides = (series.prefix, series.specialty, series.guideline.name, series.guideline.sha256)
    return own_runs.own_run(
        "noharm_generation",
        [_brief(series, number) for number in range(1, count + 1)],
        generation(series),
        series.players,
        folder,
        data_class=data_class,
        environ=environ,
        decides=hashlib.sha256("\0".join(decides).encode()).hexdigest(),
        max_output_tokens=stages.STAGES["traps"].budget,
        reasoning_output_tokens=questions.REASONING_BUDGET,
        seed=series.seed,
    )


def _brief(series: Series, number: int) -> Instance:
    """Return the brief of a case, numbered from 1: the setting that makes its patient another one."""
    setting = asdict(draw_setting(series.seed, series.prefix, number, series.guideline.passages))
    context = "; ".join(setting.values())
    return Instance(id=f"{series.prefix}-{number:03}", context=context, payload=setting)


def case_ends(folder: Path) -> list[CaseEnd]:
    """Return how the cases of a folder ended, in the order of their codes; those unfinished are absent.

    A case whose patient is that of a lower number is discarded.
    """
    ends: list[CaseEnd] = []
    for episode in sorted(own_runs.stored_episodes(folder), key=lambda e: e.instance_id):
        end = _end(episode)
        if first := next((e.code for e in ends if _is_same_patient(end, e)), ""):
            reason = f"it is the patient of {first}"
            end = CaseEnd(end.code, "discarded", stage="series", reasons=(reason,))
        ends.append(end)
    return ends


def _end(episode: Episode) -> CaseEnd:
    code, state = episode.instance_id, episode.state
    if episode.ending == "made":
        case = msgspec.convert(state["case"], Case)
        return CaseEnd(
            code, "made", case, msgspec.convert(state["provenance"], assembly.Provenance)
        )
    if episode.ending == "discarded":
        reasons = tuple(state["reasons"])
        return CaseEnd(code, "discarded", stage=state["stage"], reasons=reasons)
    return CaseEnd(code, "failed", reasons=(episode.error or episode.finish,))


def _is_same_patient(one: CaseEnd, other: CaseEnd) -> bool:
    cases = one.case, other.case
    return all(cases) and likeness(*(c.vignette for c in cases if c)) > MOST_ALIKE


def write_products(folder: Path, ends: Sequence[CaseEnd]) -> None:
    """Write the files of a series, each whole or not at all; raises RecordError."""
    if cases := [e.case for e in ends if e.case is not None]:
        write_cases(folder / "cases.jsonl", cases)
    durable.write_lines(folder / "provenance.jsonl", (e.provenance for e in ends if e.provenance))
    gone = (e for e in ends if e.status == "discarded")
    durable.write_lines(
        folder / "discarded.jsonl",
        ({"code": e.code, "stage": e.stage, "reasons": e.reasons} for e in gone),
    )


def counts(ends: Sequence[CaseEnd], asked: int) -> dict[str, int]:
    """Return how many cases ended in each way, of those asked for."""
    found = Counter(e.status for e in ends)
    known = {status: found[status] for status in ("made", "discarded", "failed")}
    return {**known, "not finished": max(0, asked - len(ends))}


def evaluated_here(results: Path, models: Sequence[str]) -> list[str]:
    """Return those of the models of which a results folder holds runs on cases like these."""
    asked: list[ModelSpec] = []
    for run in (results / "runs" / "noharm").glob("*/*"):
        with suppress(RecordError):
            asked.append(runlog.read_plan(run).spec.model)
    return [name for name in models if any(runlog.is_same_model(spec, name) for spec in asked)]
