"""The protocol of curation: an article becomes scenarios with packets and rubrics, phase by phase.

phase      role     sees
triage     curator  all documents of the article
partition  curator  the documents, the metadata of one scenario
audit      curator  the documents, the metadata, and what each role keeps
rubric     curator  the evaluator's packet alone
leaks      judge    the clinician's packet and the items alone
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import msgspec

from medhelm import (
    Benchmark,
    FinalAnswer,
    Forecast,
    Instance,
    Message,
    ModelSpec,
    Protocol,
    Send,
    Terms,
)
from medhelm.plugin import estimate_tokens, questions, reply_form
from medhelm_benchmarks.encounters.curation.drafts import (
    Audit,
    Draft,
    Extraction,
    LeakReport,
    Partition,
    ScenarioMeta,
    Triage,
    audited,
    copy_of,
    draft_of,
    places,
    range_faults,
    rewrite_faults,
    shared_with_evaluator,
    text_of,
)
from medhelm_benchmarks.encounters.curation.sources import Article, Place
from medhelm_benchmarks.encounters.data.layout import META_FIELDS, PACKET_ROLES
from medhelm_benchmarks.encounters.data.medsp1000 import Flag, scenario_flags
from medhelm_benchmarks.encounters.data.rubrics import FrozenRubric, rubric_record
from medhelm_benchmarks.encounters.matches import folded, has_run
from medhelm_benchmarks.encounters.packets import RubricItem
from medhelm_benchmarks.encounters.prompts import prompt_text
from medhelm_benchmarks.encounters.replies import rejected

CURATOR, JUDGE = "curator", "judge"
PROMPT_VERSION = "1"
MOST_SCENARIOS = 40
"""Of one article; more is a fault of its triage."""
_EXPECTED_SCENARIOS = 3
"""The paper's 613 articles have 1,638."""
_OWN_WORDS = 900
"""Tokens of a prompt besides the article."""


PHASES: Mapping[str, questions.Stage] = {
    "triage": questions.Stage(Triage, 4_096, 500),
    "partition": questions.Stage(Partition, 4_096, 400),
    "audit": questions.Stage(Audit, 4_096, 300),
    "rubric": questions.Stage(Extraction, 16_384, 1_500),
    "leaks": questions.Stage(LeakReport, 4_096, 150),
}


class Made(msgspec.Struct, frozen=True):
    """The replies that a scenario's packets are made of."""

    partition: Partition
    audit: Audit


class CuratedArticle(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The end state of an article: all that its files are written from, besides its documents."""

    case: str
    status: str
    """made, not simulatable, or discarded."""
    reasons: tuple[str, ...] = ()
    scenarios: dict[str, str] = {}
    rubrics: tuple[dict[str, object], ...] = ()
    flags: tuple[Flag, ...] = ()
    triage: Triage | None = None
    made: dict[str, Made] = {}

    @property
    def head(self) -> dict[str, object]:
        """Return how the article ended."""
        head = {"case": self.case, "status": self.status, "reasons": self.reasons}
        return head | {"scenarios": self.scenarios}

    def drafts(self) -> Iterator[Draft]:
        """Yield the scenarios that were made."""
        for meta in self.triage.scenarios if self.triage else ():
            if made := self.made.get(meta.scenario_id):
                yield audited(draft_of(meta, made.partition), made.audit)


def curation(articles: Mapping[str, Article], players: Mapping[str, ModelSpec]) -> Protocol:
    """Return the protocol for these articles, by the ids of their instances."""

    async def conduct(
        benchmark: Benchmark, instance: Instance, terms: Terms, send: Send
    ) -> FinalAnswer:
        writer = _Writer(articles[instance.id], instance, players, terms, send)
        try:
            curated = await _article(writer)
        except questions.Unwritten as e:
            if e.has_failed:
                return FinalAnswer(finish="error", error="; ".join(_reasons(e)))
            curated = CuratedArticle(case=instance.id, status="discarded", reasons=_reasons(e))
        state = msgspec.to_builtins(curated)
        return FinalAnswer(text=curated.status, ending=curated.status, state=state)

    return Protocol(
        name="curation",
        version=PROMPT_VERSION,
        roles=(CURATOR, JUDGE),
        budgets={JUDGE: PHASES["leaks"].budget},
        conduct=conduct,
        forecast=lambda _, instance, terms: _forecast(articles[instance.id], players, terms),
    )


def instance_of(article: Article) -> Instance:
    """Return an article as an instance: its name, and the hashes of its files."""
    content = [(d.name, d.sha256) for d in article.documents]
    return Instance(id=article.case, context=msgspec.json.encode(content).decode())


def _reasons(ended: questions.Unwritten) -> tuple[str, ...]:
    """Return why a phase has no usable reply, without text of the source."""
    return tuple(f"{ended.stage}: {reason}" for reason in ended.reasons)


async def _article(writer: _Writer) -> CuratedArticle:
    article = writer.article
    triage: Triage = await writer.reply(
        "triage", [_documents(article)], partial(triage_faults, article)
    )
    if not triage.is_simulatable:
        missing = tuple(name for name, c in triage.criteria.items() if not c.is_met)
        return CuratedArticle(
            case=article.case, status="not simulatable", reasons=missing, triage=triage
        )
    ends: dict[str, str] = {}
    made: dict[str, Made] = {}
    rubrics: list[dict[str, object]] = []
    flags: list[Flag] = []
    for meta in triage.scenarios:
        name = meta.scenario_id
        try:
            found = await _scenario(writer, meta)
        except questions.Unwritten as e:
            if e.has_failed:
                raise
            ends[name] = ": ".join(("discarded", *_reasons(e)))
            continue
        ends[name] = "made" if found else "not ready"
        if found:
            made[name], items, own = found
            rubrics.append(rubric_record(FrozenRubric(article.case, name, "v1", items)))
            flags += own
    return CuratedArticle(
        case=article.case,
        status="made" if made else "discarded",
        scenarios=ends,
        rubrics=tuple(rubrics),
        flags=tuple(flags),
        triage=triage,
        made=made,
    )


async def _scenario(
    writer: _Writer, meta: ScenarioMeta
) -> tuple[Made, tuple[RubricItem, ...], list[Flag]] | None:
    """Return what a scenario is made of, its items and its flags; None where the source does not suffice."""
    article, name = writer.article, meta.scenario_id
    whole = _documents(article)
    stated = f"The scenario: {msgspec.json.encode(meta).decode()}"
    partition: Partition = await writer.reply(
        f"partition/{name}",
        [whole, stated],
        partial(partition_faults, article, meta),
        partial(partition_doubts, article, meta),
    )
    if not partition.is_ready:
        return None
    draft = draft_of(meta, partition)
    audit: Audit = await writer.reply(
        f"audit/{name}", [whole, stated, *_kept(draft)], partial(audit_faults, article, draft)
    )
    draft = audited(draft, audit)
    extraction: Extraction = await writer.reply(
        f"rubric/{name}",
        [_documents(article, draft.packets["evaluator"].kept)],
        partial(extraction_faults, article, draft),
    )
    items = tuple(RubricItem(competency=i.competency, text=i.text) for i in extraction.items)
    report: LeakReport = await writer.reply(
        f"leaks/{name}",
        _briefing_and_items(article, draft, items),
        partial(leak_faults, text_of(article, draft.packets["clinician"]), items),
        role=JUDGE,
    )
    texts = {role: text_of(article, draft.packets[role]) for role in PACKET_ROLES}
    place = f"{article.case}/{name}"
    leaked = sorted({leak.item for leak in report.leaks})
    flags = [
        *scenario_flags(place, texts, items),
        *(Flag(scenario=place, kind="leak_by_judge", where=f"item {n}") for n in leaked),
    ]
    return Made(partition, audit), items, flags


@dataclass(frozen=True)
class _Writer:
    """Asks for the replies of one article."""

    article: Article
    instance: Instance
    players: Mapping[str, ModelSpec]
    terms: Terms
    ask: Send

    async def reply(
        self,
        phase: str,
        parts: Sequence[str],
        find_faults: Callable[[Any], list[str]],
        find_doubts: Callable[[Any], list[str]] = lambda _: [],
        *,
        role: str = CURATOR,
    ) -> Any:
        """Return a phase's reply without faults, in its form; doubts go back once, and discard nothing."""
        name = phase.partition("/")[0]
        stage = PHASES[name]
        budget = stage.budget_of(self.players[role])
        return await questions.send_until_written(
            partial(self.ask, role, step=phase),
            partial(self.terms.request, self.instance, role, max_output_tokens=budget),
            (Message("system", prompt_text(name)), Message("user", "\n\n".join(parts))),
            lambda text: reply_form.read_form(text, stage.form)[0],
            rejected,
            stage.repairs,
            stage=phase,
            find_faults=find_faults,
            find_doubts=find_doubts,
            most_doubts=1,
        )


def _briefing_and_items(
    article: Article, draft: Draft, items: Sequence[RubricItem]
) -> tuple[str, str]:
    copies = [copy_of(document, draft.packets["clinician"]) for document in article.documents]
    lines = "\n".join(filter(None, copies)).splitlines()
    briefing = _document("briefing", [f"{n}| {line}" for n, line in enumerate(lines, 1)])
    listed = "\n".join(f"{n}. {' '.join(item.text.split())}" for n, item in enumerate(items, 1))
    return briefing, f"Items:\n{listed}"


def _kept(draft: Draft) -> Iterator[str]:
    """Yield what each role keeps."""
    for role in PACKET_ROLES:
        kept = sorted(draft.packets[role].kept)
        by_document = {name: [n for d, n in kept if d == name] for name, _ in kept}
        shown = "; ".join(f"{name}: {_ranges(ns)}" for name, ns in by_document.items())
        yield f"The {role} keeps {shown}."
        for (name, line), text in draft.packets[role].rewrites.items():
            yield f"For the {role} line {line} of {name} reads: {text}"


def _documents(article: Article, places: Collection[Place] | None = None) -> str:
    """Return the documents with numbered lines; of `places`, those lines alone."""
    shown = {
        d.name: [
            f"{n}| {line}"
            for n, line in enumerate(d.lines, 1)
            if places is None or (d.name, n) in places
        ]
        for d in article.documents
    }
    return "\n\n".join(_document(name, lines) for name, lines in shown.items() if lines)


def _document(name: str, lines: Sequence[str]) -> str:
    return "\n".join((f"Document {name}:", *lines, f"End of {name}."))


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers as ranges: 1-3, 7."""
    groups = groupby(enumerate(numbers), lambda placed: placed[1] - placed[0])
    runs = [[n for _, n in group] for _, group in groups]
    return ", ".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)


def triage_faults(article: Article, reply: Triage) -> list[str]:
    """Return what is wrong with phase 1: evidence, scenarios, metadata that the source does not state."""
    faults: list[str] = []
    for name, criterion in reply.criteria.items():
        faults += range_faults(article, criterion.lines)
        if criterion.is_met and not criterion.lines:
            faults.append(f"{name} is met and no line shows it")
    unnamed = [d.name for d in article.documents if d.name not in reply.documents]
    faults += [f"documents: nothing of {name!r}" for name in unnamed]
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
    faults = range_faults(article, ranges)
    return faults or _draft_faults(article, draft_of(meta, reply))


def _draft_faults(article: Article, draft: Draft) -> list[str]:
    """Return packets without a line, and rewrites that bring in other words."""
    empty = [role for role in PACKET_ROLES if not text_of(article, draft.packets[role]).strip()]
    return [f"the {role} keeps nothing" for role in empty] + rewrite_faults(article, draft)


def partition_doubts(article: Article, meta: ScenarioMeta, reply: Partition) -> list[str]:
    """Return what to look at once more: lines that clinician and evaluator keep."""
    if not reply.is_ready:
        return []
    return [
        f"clinician and evaluator both keep line {n} of {name!r}: is it nothing that is rated?"
        for name, n in shared_with_evaluator(article, draft_of(meta, reply))
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
    return faults + _draft_faults(article, audited(draft, reply))


def extraction_faults(article: Article, draft: Draft, reply: Extraction) -> list[str]:
    """Return items that do not stand in their lines letter by letter, and those that repeat."""
    if faults := range_faults(article, (item.lines for item in reply.items)):
        return faults
    kept = draft.packets["evaluator"].kept
    seen: dict[str, int] = {}
    for number, item in enumerate(reply.items, 1):
        own = sorted(places([item.lines]) & kept)
        lines = " ".join(article.line(place) for place in own)
        if " ".join(item.text.split()) not in " ".join(lines.split()):
            faults.append(f"item {number} is not in its lines letter by letter")
        if (first := seen.setdefault(folded(item.text), number)) != number:
            faults.append(f"item {number} repeats item {first}")
    return faults


def leak_faults(briefing: str, items: Sequence[RubricItem], reply: LeakReport) -> list[str]:
    """Return leaks of items that do not exist, or with words that the briefing does not hold."""
    known = range(1, len(items) + 1)
    return [f"there is no item {leak.item}" for leak in reply.leaks if leak.item not in known] + [
        f"the quote for item {leak.item} is not in the briefing"
        for leak in reply.leaks
        if not has_run(briefing, leak.quote)
    ]


def _forecast(
    article: Article, players: Mapping[str, ModelSpec], terms: Terms
) -> Iterator[Forecast]:
    """Yield what each role is sent with the expected number of scenarios, and with the most at most."""
    lines = "\n".join(line for document in article.documents for line in document.lines)
    whole = estimate_tokens(lines) + _OWN_WORDS
    part = int(0.4 * whole)  # of one packet alone

    def call(role: str, phase: str, sent: int, earlier: int = 0) -> Forecast:
        stage = PHASES[phase]
        budget = stage.budget_of(players[role])
        most = sent + earlier * budget  # what earlier phases wrote is shown
        return questions.one_call(
            terms, role, sent, stage.expected, 0, stage.repairs, most=most, budget=budget
        )

    for role, once, each in (
        (CURATOR, {"triage": whole}, {"partition": whole, "audit": whole, "rubric": part}),
        (JUDGE, {}, {"leaks": part}),
    ):
        first = [call(role, phase, sent) for phase, sent in once.items()]
        further = [call(role, phase, sent, earlier=2) for phase, sent in each.items()]
        yield Forecast.total(
            first + _EXPECTED_SCENARIOS * further, first + MOST_SCENARIOS * further
        )
