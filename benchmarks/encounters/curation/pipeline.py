"""One article from its documents to scenarios with packets and rubrics, asked for through an Asker.

What is wrong with a reply goes back to its writer at most twice. A failed request leaves the article
to the next start. What a check still finds in a finished scenario is a flag for a person.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import msgspec

from medhelm import Ask, Message, ModelSpec, Request
from medhelm.extract import visible_text
from medhelm.extract.json_reply import BadReply
from medhelm.extract.reply_form import read_form
from medhelm_benchmarks.encounters.curation import prompts
from medhelm_benchmarks.encounters.curation.copies import (
    audited,
    copy_of,
    draft_of,
    places,
    range_faults,
    rewrite_faults,
    shared_with_evaluator,
    strange_lines,
    text_of,
)
from medhelm_benchmarks.encounters.curation.forms import (
    Audit,
    Draft,
    Extraction,
    LeakReport,
    Partition,
    ScenarioMeta,
    Triage,
)
from medhelm_benchmarks.encounters.curation.sources import Article
from medhelm_benchmarks.encounters.data.checks import (
    Flag,
    item_flags,
    leak_flags,
    length_flags,
)
from medhelm_benchmarks.encounters.data.layout import META_FIELDS, PACKET_ROLES
from medhelm_benchmarks.encounters.matches import folded
from medhelm_benchmarks.encounters.packets import RubricItem

CURATOR, JUDGE = "curator", "judge"
REPAIRS = 2
BUDGETS = {"triage": 4_096, "partition": 4_096, "audit": 4_096, "rubric": 16_384, "leaks": 4_096}
"""Output tokens of one reply, by phase."""
REASONING_BUDGET = 24_576
MOST_SCENARIOS = 40
"""Of one article; more is a fault of its triage."""

Status = Literal["made", "not simulatable", "discarded", "failed", "not finished"]
_R = TypeVar("_R", bound=msgspec.Struct)


class Discarded(Exception):
    """No usable reply came; the reasons hold no text of the source."""

    def __init__(self, phase: str, reasons: Sequence[str]) -> None:
        super().__init__(phase)
        self.phase, self.reasons = phase, tuple(reasons)


class Failed(Exception):
    """A request had no answer."""

    def __init__(self, phase: str, reason: str) -> None:
        super().__init__(phase)
        self.phase, self.reason = phase, reason


@dataclass(frozen=True)
class Curated:
    """A finished scenario."""

    draft: Draft
    items: tuple[RubricItem, ...]
    flags: tuple[Flag, ...]


@dataclass(frozen=True)
class ScenarioEnd:
    """Holds the end of one scenario."""

    name: str
    status: Literal["made", "not ready", "discarded"]
    reasons: tuple[str, ...] = ()
    curated: Curated | None = None


@dataclass(frozen=True)
class ArticleEnd:
    """Holds the end of an article."""

    case: str
    status: Status
    reasons: tuple[str, ...] = ()
    triage: Triage | None = None
    scenarios: tuple[ScenarioEnd, ...] = ()


@dataclass(frozen=True)
class Curation:
    """All that decides the requests but the source."""

    curator: ModelSpec
    judge: ModelSpec
    seed: int = 0

    def model(self, role: str) -> ModelSpec:
        """Return the model of a role."""
        return self.judge if role == JUDGE else self.curator


async def curate_article(article: Article, curation: Curation, ask: Ask) -> ArticleEnd:
    """Return how an article ended; raises what stops the work."""
    writer = _Writer(article, curation, ask)
    try:
        triage = await writer.reply(
            "triage",
            prompts.triage_messages(article),
            Triage,
            lambda reply: triage_faults(article, reply),
        )
        if not triage.is_simulatable:
            missing = tuple(name for name, c in triage.criteria.items() if not c.is_met)
            return ArticleEnd(article.case, "not simulatable", missing, triage)
        ends = [await _scenario(writer, meta) for meta in triage.scenarios]
    except Failed as e:
        return ArticleEnd(article.case, "failed", (f"{e.phase}: {e.reason}",))
    except Discarded as e:
        return ArticleEnd(article.case, "discarded", tuple(f"{e.phase}: {r}" for r in e.reasons))
    is_made = any(end.status == "made" for end in ends)
    return ArticleEnd(
        article.case, "made" if is_made else "discarded", (), triage, scenarios=tuple(ends)
    )


async def _scenario(writer: _Writer, meta: ScenarioMeta) -> ScenarioEnd:
    name = meta.scenario_id
    try:
        partition = await writer.reply(
            f"partition/{name}",
            prompts.partition_messages(writer.article, meta),
            Partition,
            lambda reply: partition_faults(writer.article, meta, reply),
            lambda reply: partition_doubts(writer.article, meta, reply),
        )
        if not partition.is_ready:
            return ScenarioEnd(name, "not ready")
        draft = draft_of(meta, partition)
        audit = await writer.reply(
            f"audit/{name}",
            prompts.audit_messages(writer.article, draft),
            Audit,
            lambda reply: audit_faults(writer.article, draft, reply),
        )
        draft = audited(draft, audit)
        evaluator = text_of(writer.article, draft.packets["evaluator"])
        extraction = await writer.reply(
            f"rubric/{name}",
            prompts.rubric_messages(writer.article, draft),
            Extraction,
            lambda reply: extraction_faults(writer.article, draft, reply),
        )
        items = tuple(RubricItem(competency=i.competency, text=i.text) for i in extraction.items)
        report = await writer.reply(
            f"leaks/{name}",
            prompts.leak_messages(writer.article, draft, items),
            LeakReport,
            lambda reply: leak_faults(writer.article, draft, items, reply),
            role=JUDGE,
        )
    except Discarded as e:
        return ScenarioEnd(name, "discarded", tuple(f"{e.phase}: {r}" for r in e.reasons))
    flags = list(check_scenario(writer.article, draft, items, evaluator))
    place = f"{writer.article.case}/{name}"
    flags += [
        Flag(scenario=place, kind="leak_by_judge", where=f"item {number}")
        for number in sorted({leak.item for leak in report.leaks})
    ]
    return ScenarioEnd(name, "made", curated=Curated(draft, items, tuple(flags)))


def check_scenario(
    article: Article, draft: Draft, items: Sequence[RubricItem], evaluator: str
) -> list[Flag]:
    """Return what the checks by rule find in a finished scenario."""
    name = f"{article.case}/{draft.meta.scenario_id}"
    texts = {role: text_of(article, draft.packets[role]) for role in PACKET_ROLES}
    flags = [
        Flag(scenario=name, kind="line_not_in_source", where=f"{role}, {document.name}, line {n}")
        for role in PACKET_ROLES
        for document in article.documents
        for n in strange_lines(
            document, draft.packets[role], copy_of(document, draft.packets[role])
        )
    ]
    flags += length_flags(name, texts)
    flags += leak_flags(name, texts["clinician"], items)
    return [*flags, *item_flags(name, items, evaluator)]


def triage_faults(article: Article, reply: Triage) -> list[str]:
    """Return what is wrong with phase 1: evidence, scenarios, metadata that the source does not state."""
    faults: list[str] = []
    for name, criterion in reply.criteria.items():
        faults += range_faults(article, criterion.lines)
        if criterion.is_met and not criterion.lines:
            faults.append(f"{name} is met and no line shows it")
    faults += [
        f"documents: nothing of {d.name!r}"
        for d in article.documents
        if d.name not in reply.documents
    ]
    names = [meta.scenario_id for meta in reply.scenarios]
    if reply.is_simulatable and not names:
        faults.append("all criteria are met and there is no scenario")
    if not reply.is_simulatable and names:
        faults.append("a criterion is not met and there are scenarios")
    if names != [f"scenario{n}" for n in range(1, len(names) + 1)]:
        faults.append("the scenarios are not scenario1, scenario2, ... in this order")
    if len(names) > MOST_SCENARIOS:
        faults.append(f"there are {len(names)} scenarios; {MOST_SCENARIOS} is the most")
    source = " ".join(f" {folded(line)} " for d in article.documents for line in d.lines)
    for meta in reply.scenarios:
        for field in META_FIELDS[1:]:
            value = getattr(meta, field)
            if value is not None and f" {folded(value)} " not in source:
                faults.append(f"{meta.scenario_id}: the source does not state its {field}")
    return faults


def partition_faults(article: Article, meta: ScenarioMeta, reply: Partition) -> list[str]:
    """Return what is wrong with phase 2: lines, empty packets, rewrites."""
    ranges = [r for role in PACKET_ROLES for r in getattr(reply, role)]
    if not reply.is_ready:
        return ["it is not ready and keeps lines"] if ranges else []
    if faults := range_faults(article, ranges):
        return faults
    draft = draft_of(meta, reply)
    empty = [r for role in PACKET_ROLES if not text_of(article, draft.packets[r := role]).strip()]
    return [f"the {role} keeps nothing" for role in empty] + rewrite_faults(article, draft)


def partition_doubts(article: Article, meta: ScenarioMeta, reply: Partition) -> list[str]:
    """Return what to look at once more: lines that clinician and evaluator keep."""
    if not reply.is_ready:
        return []
    shared = shared_with_evaluator(article, draft_of(meta, reply))
    return [
        f"clinician and evaluator both keep line {n} of {name!r}: is it nothing that is rated?"
        for name, n in shared
    ]


def audit_faults(article: Article, draft: Draft, reply: Audit) -> list[str]:
    """Return what is wrong with phase 3: lines, packets that it empties, rewrites."""
    named = [*(cut.lines for cut in reply.remove), *reply.restore_for_patient]
    if faults := range_faults(article, named):
        return faults
    faults = [
        f"the {cut.role} does not keep lines {cut.lines.first} to {cut.lines.last} of "
        f"{cut.lines.document!r}"
        for cut in reply.remove
        if not places([cut.lines]) & draft.packets[cut.role].kept
    ]
    after = audited(draft, reply)
    empty = [role for role in PACKET_ROLES if not text_of(article, after.packets[role]).strip()]
    faults += [f"nothing is left for the {role}" for role in empty]
    return faults + rewrite_faults(article, after)


def extraction_faults(article: Article, draft: Draft, reply: Extraction) -> list[str]:
    """Return items that do not stand in their lines letter by letter, and those that repeat."""
    faults = range_faults(article, (item.lines for item in reply.items))
    if faults:
        return faults
    packet = draft.packets["evaluator"]
    seen: dict[str, int] = {}
    for number, item in enumerate(reply.items, 1):
        document = article.document(item.lines.document)
        assert document is not None
        own = range(item.lines.first, item.lines.last + 1)
        lines = [document.lines[n - 1] for n in own if (document.name, n) in packet.kept]
        if _spaced(item.text) not in _spaced("\n".join(lines)):
            faults.append(f"item {number} is not in its lines letter by letter")
        if (first := seen.setdefault(folded(item.text), number)) != number:
            faults.append(f"item {number} repeats item {first}")
    return faults


def _spaced(text: str) -> str:
    """Return a text with single spaces: converted tables and broken lines space words at will."""
    return " ".join(text.split())


def leak_faults(
    article: Article, draft: Draft, items: Sequence[RubricItem], reply: LeakReport
) -> list[str]:
    """Return leaks of items that do not exist, or with words that the briefing does not hold."""
    briefing = folded(text_of(article, draft.packets["clinician"]))
    faults = [
        f"there is no item {leak.item}" for leak in reply.leaks if not 1 <= leak.item <= len(items)
    ]
    return faults + [
        f"the quote for item {leak.item} is not in the briefing"
        for leak in reply.leaks
        if not folded(leak.quote) or folded(leak.quote) not in briefing
    ]


@dataclass(frozen=True)
class _Writer:
    """Asks for the replies of one article."""

    article: Article
    curation: Curation
    ask: Ask

    async def reply(
        self,
        phase: str,
        messages: tuple[Message, ...],
        form: type[_R],
        find_faults: Callable[[_R], list[str]],
        find_doubts: Callable[[_R], list[str]] = lambda _: [],
        *,
        role: str = CURATOR,
    ) -> _R:
        """Return a phase's reply without faults; raises Discarded, Failed.

        Doubts go back once, and discard nothing.
        """
        usable: _R | None = None
        faults: list[str] = []
        for attempt in range(1 + REPAIRS):
            request = request_of(self.curation, role, phase, messages, self.article.case)
            response = await self.ask(role, request, step=phase, attempt=attempt)
            if response.finish in ("error", "oversize"):
                raise Failed(phase, response.error or response.finish)
            if response.finish == "refusal":
                raise Discarded(phase, ["the model refused"])
            try:
                reply, _ = read_form(response.text, form)
                faults = find_faults(reply)
            except BadReply as e:
                cut = response.finish == "length"
                faults = ["it was cut at the limit of its tokens: write less"] if cut else [str(e)]
            else:
                if not faults:
                    doubts = find_doubts(reply)
                    if not doubts or usable is not None:
                        return reply
                    usable, faults = reply, doubts
            if attempt < REPAIRS:
                said = visible_text(response.text) or "(no text)"
                messages = (*messages, Message("assistant", said), prompts.correction(faults))
        if usable is not None:
            return usable
        raise Discarded(phase, faults)


def request_of(
    curation: Curation, role: str, phase: str, messages: tuple[Message, ...], case: str
) -> Request:
    """Return what is sent."""
    model = curation.model(role)
    return Request(
        instance_id=f"{case}/{phase}",
        messages=messages,
        max_output_tokens=budget_of(model, phase),
        sampling=model.sampling,
        seed=curation.seed,
    )


def budget_of(model: ModelSpec, phase: str) -> int:
    """Return the output tokens of one reply of a phase."""
    if model.max_output_tokens is not None:
        return model.max_output_tokens
    return REASONING_BUDGET if model.reasoning else BUDGETS[phase.partition("/")[0]]
