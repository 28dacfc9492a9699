"""Stored gradings -> the panel that graded metrics ask, and what the judges used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from medhelm.grading.graders.grader import NOT_ASKED, Grader, GraderVerdict, shown_of
from medhelm.grading.jury.gradelog import judgement_key
from medhelm.protocols.protocol import Protocol
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode
from medhelm.schema.run import JUDGE, GraderTerms, Party
from medhelm.store.records import grader_folder, judge_budget
from medhelm.store.replaced_tries import replaced_tries
from medhelm.store.runlog import is_answered, read_keyed
from medhelm.store.usage import UsageTally

MISSING = frozenset({NOT_ASKED, "error"})
"""Ends of a grading that the next run asks for."""
SCORED = "scored"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


def read_gradings(folder: Path) -> Iterator[tuple[int, Episode]]:
    """Yield what one judge was asked and said of each answer, with the answer's `judgement_key`.

    The verdicts are the episode's `state`, the judge's replies its `calls`. Of several tries of one
    answer it is the last one, which has what the others brought.
    """
    return read_keyed(folder)


def end_of(grading: Episode) -> str:
    """Return how a grading ended, as records count it."""
    if grading.finish == "oversize":  # also one that the server has cut, and answered
        return "oversize"
    if not is_answered(grading.response):
        return "error"
    return grading.ending or SCORED


def read_states(folder: Path) -> dict[int, dict[str, Any]]:
    """Return what one judge decided, by the answers' `judgement_key`; abstentions are left out."""
    return {key: grading.state for key, grading in read_gradings(folder) if has_verdict(grading)}


def has_verdict(grading: Episode) -> bool:
    """Return whether a grading holds what its judge decided."""
    return bool(grading.state) and end_of(grading) not in MISSING


class StoredVerdicts:
    """Judges whose gradings are in the logs of a run. Holds some 300 bytes for each grading."""

    def __init__(self, run: Path, terms: GraderTerms, grader: Grader, protocol: Protocol) -> None:
        self.judges = tuple(judge.name for judge in terms.jury.judges)
        self._folders = [grader_folder(run, judge, terms) for judge in terms.jury.judges]
        self._terms, self._grader, self._protocol = terms, grader, protocol
        self._said: list[dict[int, tuple[bytes, str]]] = []
        self._asked: set[int] = set()
        for folder in self._folders:
            said: dict[int, tuple[bytes, str]] = {}
            for key, grading in read_gradings(folder):
                state = _encode(grading.state) if has_verdict(grading) else b""
                said[key] = (state, end_of(grading))
            self._said.append(said)
        self.not_judged = 0
        """Gradings that are still missing: judges that were not asked or could not be reached."""
        self.below_quorum = 0
        """Answers that lack verdicts for a score while some of theirs are still missing."""
        self._last: tuple[Episode, tuple[GraderVerdict, ...]] | None = None

    def verdicts(self, instance: Instance, episode: Episode) -> tuple[GraderVerdict, ...]:
        """Return the verdicts of each judge; one that was not asked yet abstains as 'not asked'."""
        if self._last and self._last[0] is episode:
            return self._last[1]
        shown = shown_of(self._protocol, episode)
        if shown is None or not self._grader.is_graded(shown):
            return tuple(
                GraderVerdict(judge=j, state=None, reason="no answer") for j in self.judges
            )
        key = judgement_key(episode)
        self._asked.add(key)
        found = []
        for judge, said in zip(self.judges, self._said, strict=True):
            state, end = said.get(key, (b"", NOT_ASKED))
            verdict = _decode(state) if state else None
            found.append(GraderVerdict(judge=judge, state=verdict, reason=end))
        missing = sum(v.reason in MISSING for v in found)
        given = sum(v.state is not None for v in found)
        self.not_judged += missing
        self.below_quorum += bool(missing) and given < self._terms.jury.quorum
        self._last = (episode, tuple(found))
        return self._last[1]

    def parties(self) -> tuple[Party, ...]:
        """Return what each judge used for the answers that `verdicts` was asked for."""
        found = []
        for judge, folder, said in zip(
            self._terms.jury.judges, self._folders, self._said, strict=True
        ):
            tally = UsageTally(judge_budget(judge, self._terms.jury))
            for key, grading in read_gradings(folder):
                if key in self._asked:
                    for call in (*grading.calls, *grading.stale):
                        tally.add(call.response)
            for replaced in replaced_tries(folder / "responses.jsonl"):
                if int(replaced.episode, 16) in self._asked:
                    tally.add_lost(replaced.lost)
            ended = Counter(said[key][1] if key in said else NOT_ASKED for key in self._asked)
            found.append(
                Party(
                    role=JUDGE,
                    model=judge,
                    usage=tally.totals(),
                    served_models=tally.served_models(),
                    is_grader=True,
                    ends=dict(sorted(ended.items())),
                )
            )
        return tuple(found)


class StandIn:
    """A grader's rule in place of judges: no model, no network. It ranks nothing."""

    not_judged = below_quorum = 0

    def __init__(self, grader: Grader, terms: GraderTerms, protocol: Protocol) -> None:
        self.judges: tuple[str, ...] = (f"offline/{grader.name}",)
        self._grader, self._protocol = grader, protocol
        self._settings = {**grader.settings, **terms.settings}

    def verdicts(self, instance: Instance, episode: Episode) -> tuple[GraderVerdict, ...]:
        """Return the verdicts of the rule."""
        shown = shown_of(self._protocol, episode)
        if shown is None or not self._grader.is_graded(shown):
            return ()
        state = self._grader.stand_in(shown, self._settings)
        return (GraderVerdict(judge=self.judges[0], state=state),)

    def parties(self) -> tuple[Party, ...]:
        """Return nothing: a rule costs nothing."""
        return ()
