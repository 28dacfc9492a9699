"""All judges whose verdicts a grading reads, a jury's and graders': what is stored of them, and what they used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from medhelm.grading.graders.controls import (
    Controlled,
    controlled,
    count_controls,
    is_control,
    make_controls,
    together,
)
from medhelm.grading.graders.grader import (
    NOT_ASKED,
    Grader,
    GraderVerdict,
    bind,
    grader_terms,
    graders_of,
    judgement_key,
    shown_of,
)
from medhelm.grading.jury.grader import jury_grader
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.grading.jury.metric import Jury
from medhelm.models.identity import is_rankable
from medhelm.protocols.protocol import Protocol
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import Call, Episode
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import (
    JUDGE,
    READER,
    ControlCount,
    GraderTerms,
    GradingSpec,
    JurySpec,
    JuryTerms,
    Party,
    UsageTotals,
)
from medhelm.schema.score import Metric
from medhelm.store.loglines import is_answered
from medhelm.store.records import (
    CONTROLS,
    DAMAGED,
    VERDICT_BYTES,
    VERDICTS_AGAIN,
    judge_budget,
    judge_folders,
)
from medhelm.store.runlog import log_bytes, read_keyed
from medhelm.store.usage import UsageTally

MISSING = frozenset({NOT_ASKED, "error"})
"""Ends of a grading that the next run asks for."""
_INVALID = MISSING | {"unreadable", "refused", "truncated", "oversize"}
"""Ends without any valid verdict."""
SCORED = "scored"
REASONS = "reasons"
"""Key of a verdict's words, on which no score rests."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def end_of(grading: Episode) -> str:
    """Return how a grading ended, as records count it."""
    if grading.finish == "oversize":  # also one that the server has cut, and answered
        return "oversize"
    if not is_answered(grading.response):
        return "error"
    return grading.ending or SCORED


def read_states(folder: Path) -> dict[int, dict[str, Any]]:
    """Return what one judge decided, by the answers' `judgement_key`; abstentions are left out."""
    states = {
        k: g.state if has_verdict(g) else None
        for k, g in read_keyed(folder)
        if not is_control(g.instance)
    }
    return {key: state for key, state in states.items() if state is not None}


def has_no_verdict(ends: Mapping[str, int]) -> bool:
    """Return whether a judge was to judge answers, and has no valid verdict on any."""
    return bool(ends) and set(ends) <= _INVALID


def is_silent(ends: Mapping[str, int]) -> bool:
    """Return whether a judge has replied, and no reply has a valid verdict."""
    return has_no_verdict(ends) and not set(ends) <= MISSING


def is_missing(ends: Mapping[str, int]) -> bool:
    """Return whether a judge lacks verdicts that it could still give, or has none at all."""
    return any(ends.get(end) for end in (*MISSING, "oversize")) or is_silent(ends)


def has_verdict(grading: Episode) -> bool:
    """Return whether a grading holds what its judge decided."""
    return bool(grading.state) and end_of(grading) not in MISSING


@dataclass(frozen=True)
class Judging:
    """A grader of a run, who judges for it, and where their verdicts lie."""

    grader: Grader
    terms: GraderTerms
    folders: tuple[Path, ...]
    """One for each judge."""

    @property
    def judges(self) -> tuple[ModelSpec, ...]:
        """Return the models that judge."""
        return self.terms.jury.judges

    def sample_size(self, judge: ModelSpec, share: float, cases: int) -> int:
        """Return of how many cases of a run a judge is asked about controls; people are asked about none."""
        own = self.grader.controls
        return own.size(share, cases) if own is not None and is_rankable(judge) else 0

    def controls(
        self, sample: Sequence[Episode], text_of: Callable[[Episode], str]
    ) -> Iterator[Episode]:
        """Yield the controls of a sample of episodes (`make_controls`)."""
        if (own := self.grader.controls) is not None:
            settings = {**self.grader.settings, **self.terms.settings}
            yield from make_controls(own, settings, sample, text_of)


class StoredVerdicts:
    """Judges whose gradings are in the logs of a run. Holds some 300 bytes for each grading."""

    def __init__(self, judging: Judging, protocol: Protocol) -> None:
        self.judges = tuple(judge.name for judge in judging.judges)
        self._judging, self._protocol = judging, protocol
        self._gradings: list[dict[int, tuple[bytes, str, bool]]] = []
        self.damaged = 0
        """Lines of the logs that cannot be read: nobody knows which answer or control they were on."""
        self._asked: set[int] = set()
        self._controls: list[dict[int, Controlled]] = []
        self.replaced: set[int] = set()
        """Keys of controls, and of answers that others have replaced. What judges used for them was paid for."""
        for folder in judging.folders:
            gradings: dict[int, tuple[bytes, str, bool]] = {}
            controls: dict[int, Controlled] = {}
            for key, grading in read_keyed(folder, damaged=self._note_damaged):
                if is_control(grading.instance):
                    if (found := self._controlled(grading)) is not None:
                        controls[key] = found
                    self.replaced.add(key)
                    continue
                _, before, again = gradings.get(key, (b"", NOT_ASKED, False))
                state = {k: v for k, v in grading.state.items() if k != REASONS}
                said = _encode(state) if has_verdict(grading) else b""
                gradings[key] = (said, end_of(grading), again or before not in MISSING)
            self._gradings.append(gradings)
            self._controls.append(controls)
        self.not_judged = 0
        """Gradings that are still missing: judges that were not asked or could not be reached."""
        self.below_quorum = 0
        """Answers that lack verdicts for a score while some of theirs are still missing."""
        self.asked_again = 0
        """Verdicts of judges that had been asked, and answered, before."""
        self._last: tuple[Episode, tuple[GraderVerdict, ...]] | None = None

    def verdicts(self, instance: Instance, episode: Episode) -> tuple[GraderVerdict, ...]:
        """Return the verdicts of each judge; one that was not asked yet abstains as 'not asked'."""
        if self._last and self._last[0] is episode:
            return self._last[1]
        shown = shown_of(self._protocol, episode)
        if shown is None or not self._judging.grader.is_graded(shown):
            return tuple(
                GraderVerdict(judge=j, state=None, reason="no answer") for j in self.judges
            )
        key = judgement_key(episode)
        self._asked.add(key)
        found = []
        for judge, gradings in zip(self.judges, self._gradings, strict=True):
            state, end, again = gradings.get(key, (b"", NOT_ASKED, False))
            self.asked_again += again and end not in MISSING
            verdict = _decode(state) if state else None
            found.append(GraderVerdict(judge=judge, state=verdict, reason=end))
        missing = sum(v.reason in MISSING for v in found)
        given = sum(v.state is not None for v in found)
        self.not_judged += missing
        self.below_quorum += bool(missing) and given < self._judging.terms.jury.quorum
        self._last = (episode, tuple(found))
        return self._last[1]

    def _note_damaged(self) -> None:
        self.damaged += 1

    def _controlled(self, grading: Episode) -> Controlled | None:
        """Return what a judge decided on a control; None where it could not be reached."""
        if end_of(grading) in MISSING or (own := self._judging.grader.controls) is None:
            return None
        given = own.decide(grading.state) if has_verdict(grading) else ()
        return controlled(grading.instance, given)

    def controls(self) -> tuple[ControlCount, ...]:
        """Return how each judge decided on its controls, then what several decide together."""
        name = self._judging.grader.name
        counts = [
            one
            for judge, found in zip(self.judges, self._controls, strict=True)
            for one in count_controls(name, judge, found.values())
        ]
        asked = [own for own in self._controls if own]  # people are asked about none
        if len(asked) > 1:
            keys = sorted(set[int]().union(*asked))
            judged = ([own[key] for own in asked if key in own] for key in keys)
            quorum = min(self._judging.terms.jury.quorum, len(asked))
            counts += count_controls(name, "", (together(own, quorum) for own in judged))
        return tuple(counts)

    def parties(self) -> tuple[Party, ...]:
        """Return what each judge used for the answers that `verdicts` was asked for."""
        found, paid = [], self._asked | self.replaced
        judging = self._judging
        for judge, folder, gradings in zip(
            judging.judges, judging.folders, self._gradings, strict=True
        ):
            tally = UsageTally(judge_budget(judge, judging.terms.jury))

            def note(key: int, call: Call, tally: UsageTally = tally) -> None:
                if key in paid:
                    tally.add_lost(call.response.lost)

            for key, grading in read_keyed(folder, note):
                for call in (*grading.calls, *grading.stale) if key in paid else ():
                    tally.add(call.response)
            ended = Counter(
                gradings[key][1] if key in gradings else NOT_ASKED for key in self._asked
            )
            found.append(
                Party(
                    role=READER if judging.grader.name == READER else JUDGE,
                    model=judge,
                    usage=tally.totals(),
                    served_models=tally.served_models(),
                    served_at=dict(tally.served_at),
                    is_grader=True,
                    ends=dict(sorted(ended.items())),
                )
            )
        return tuple(found)


class StandIn:
    """A grader's rule in place of judges: no model, no network. It ranks nothing."""

    not_judged = below_quorum = asked_again = damaged = 0

    def __init__(self, grader: Grader, terms: GraderTerms, protocol: Protocol) -> None:
        self.judges: tuple[str, ...] = (f"offline/{grader.name}",)
        self._grader, self._protocol = grader, protocol
        self._settings = {**grader.settings, **terms.settings}
        self.replaced: set[int] = set()

    def verdicts(self, instance: Instance, episode: Episode) -> tuple[GraderVerdict, ...]:
        """Return the verdicts of the rule."""
        shown = shown_of(self._protocol, episode)
        if shown is None or not self._grader.is_graded(shown):
            return ()
        state = self._grader.stand_in(shown, self._settings)
        return (GraderVerdict(judge=self.judges[0], state=state),)

    def parties(self) -> tuple[Party, ...]:
        """Return nothing: a rule costs nothing, and is not measured."""
        return ()

    def controls(self) -> tuple[ControlCount, ...]:
        """Return nothing."""
        return ()


def with_stand_ins(
    benchmark: Benchmark, metrics: Sequence[Metric], protocol: Protocol
) -> list[Metric]:
    """Return metrics whose verdicts come by their graders' rules: nothing is stored, no model judges."""
    nobody = JurySpec(name="offline", judges=())
    graders, terms = graders_of(metrics), grader_terms(benchmark, metrics, nobody, {})
    panels = {own.grader: StandIn(graders[own.grader], own, protocol) for own in terms}
    return bind(metrics, panels, quorum=1)


def judgings(run: Path, grading: GradingSpec, metrics: Iterable[Metric]) -> list[Judging]:
    """Return all that judges are asked for on the answers of a run: a jury's ratings, then the graders'.

    Those without a judge are left out.
    """
    graders, found = graders_of(metrics), []
    for terms in grading.judged_by:
        if isinstance(terms, JuryTerms):
            grader = jury_grader(terms)
            own = GraderTerms(grader=grader.name, version=terms.version, jury=terms.jury)
        else:
            grader, own = graders[terms.grader], terms
        if terms.jury.judges:
            found.append(Judging(grader, own, judge_folders(run, terms)))
    return found


def verdict_bytes(run: Path, grading: GradingSpec) -> int:
    """Return the size of the logs of all judges of a grading; 0 where there is none."""
    folders = (folder for terms in grading.judged_by for folder in judge_folders(run, terms))
    return sum(map(log_bytes, folders))


class StoredPanels:
    """The verdicts that lie in a run folder, and the rules that stand in where no model judges."""

    def __init__(
        self, run: Path, grading: GradingSpec, metrics: Sequence[Metric], protocol: Protocol
    ) -> None:
        graders = graders_of(metrics)
        self._panels: dict[str, StoredVerdicts | StandIn] = {
            own.grader.name: StoredVerdicts(own, protocol)
            for own in judgings(run, grading, metrics)
        }
        for own in grading.graders:
            if not own.jury.judges:
                self._panels[own.grader] = StandIn(graders[own.grader], own, protocol)
        raters = grading.raters
        self._quorum = raters.quorum if raters is not None and raters.judges else 1
        self._has_judges = bool(grading.judges)
        self._bytes = verdict_bytes(run, grading)

    def bind(self, metrics: Iterable[Metric]) -> list[Metric]:
        """Return the metrics with these verdicts."""
        jury = self._panels.get(JURY)
        rated = (
            replace(m, panel=jury) if jury is not None and isinstance(m, Jury) else m
            for m in metrics
        )
        return bind(rated, self._panels, self._quorum)

    @property
    def below_quorum(self) -> int:
        """Return how many answers lack verdicts for a score while some are still missing."""
        return sum(panel.below_quorum for panel in self._panels.values())

    def note_replaced(self, episode: Episode) -> None:
        """Count what judges used for an answer that another has replaced."""
        for panel in self._panels.values():
            panel.replaced.add(judgement_key(episode))

    def provenance(self, controls: float) -> dict[str, str]:
        """Return how many verdicts are missing, how many were asked for again, and how many lines of logs
        cannot be read; nothing where no model judges. `controls`: share of the cases of which judges were asked about controls."""
        if not self._has_judges:
            return {}
        again = sum(panel.asked_again for panel in self._panels.values())
        damaged = sum(panel.damaged for panel in self._panels.values())
        return {
            "not_judged": str(sum(panel.not_judged for panel in self._panels.values())),
            VERDICT_BYTES: str(self._bytes),
            **({VERDICTS_AGAIN: str(again)} if again else {}),
            **({DAMAGED: str(damaged)} if damaged else {}),
            **({CONTROLS: f"{controls:g}"} if controls else {}),
        }

    def controls(self) -> tuple[ControlCount, ...]:
        """Return how the judges decided on their controls."""
        return tuple(one for panel in self._panels.values() for one in panel.controls())

    def parties(self) -> tuple[Party, ...]:
        """Return what each judge used, for the jury and all graders together."""
        found: dict[tuple[str, str], Party] = {}
        for party in (own for panel in self._panels.values() for own in panel.parties()):
            name = (party.role, party.model.name)
            found[name] = _added(found[name], party) if name in found else party
        return tuple(found.values())


def _added(one: Party, other: Party) -> Party:
    names = UsageTotals.__struct_fields__
    usage = {name: getattr(one.usage, name) + getattr(other.usage, name) for name in names}
    return msgspec.structs.replace(
        one,
        usage=UsageTotals(**usage),
        served_models=dict(Counter(one.served_models) + Counter(other.served_models)),
        served_at=dict(Counter(one.served_at) + Counter(other.served_at)),
        ends=dict(Counter(one.ends) + Counter(other.ends)),
    )
