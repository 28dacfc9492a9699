"""Stored judgements -> the panel that a grading asks, and what the judges used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from medhelm.grading.jury.gradelog import judgement_key, read_judgements
from medhelm.grading.jury.verdicts import Verdict
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode
from medhelm.schema.run import JUDGE, JuryTerms, Party
from medhelm.store.records import judge_budget, stored_judge
from medhelm.store.usage import UsageTally

NOT_ASKED = "not asked"
MISSING = frozenset({NOT_ASKED, "error"})
"""Ends of a verdict that the next run asks for."""
_INVALID = MISSING | {"unreadable", "refused", "truncated", "oversize"}
"""Ends without any valid verdict."""

_Said = tuple[tuple[int, ...] | None, str]


def judge_folder(run: Path, terms: JuryTerms, place: int) -> Path:
    """Return the folder of a jury's judge (by its place) in a run folder."""
    return stored_judge(run, terms.jury.judges[place], terms)


def has_no_verdict(ends: Mapping[str, int]) -> bool:
    """Return whether a judge was to judge answers, and has no valid verdict on any."""
    return bool(ends) and set(ends) <= _INVALID


def is_silent(ends: Mapping[str, int]) -> bool:
    """Return whether a judge has replied, and no reply has a valid verdict."""
    return has_no_verdict(ends) and not set(ends) <= MISSING


def is_missing(ends: Mapping[str, int]) -> bool:
    """Return whether a judge lacks verdicts that it could still give, or has none at all."""
    return any(ends.get(end) for end in (*MISSING, "oversize")) or is_silent(ends)


class StoredPanel:
    """Judges whose verdicts are in the logs of a run. Of several the last one counts.

    Holds some 200 bytes for each judgement.
    """

    def __init__(self, run: Path, terms: JuryTerms) -> None:
        self.judges = tuple(judge.name for judge in terms.jury.judges)
        self._run, self._terms = run, terms
        self._said: list[dict[int, _Said]] = []
        self._asked: set[int] = set()
        for place in range(len(self.judges)):
            said: dict[int, _Said] = {}
            for judgement in read_judgements(judge_folder(run, terms, place)):
                reason = judgement.calls[-1].parsed if judgement.is_final else "error"
                said[judgement.key] = (judgement.scores, reason)
            self._said.append(said)
        self.not_judged = 0
        """Verdicts that are still missing: judges that were not asked or could not be reached."""
        self.below_quorum = 0
        """Answers that lack verdicts for a score while some of theirs are still missing."""
        self._last: tuple[Episode, tuple[Verdict, ...]] | None = None

    def verdicts(self, instance: Instance, episode: Episode) -> tuple[Verdict, ...]:
        """Return one verdict of each judge; one that was not asked yet abstains as 'not asked'."""
        if self._last and self._last[0] is episode:
            return self._last[1]
        key = judgement_key(episode)
        self._asked.add(key)
        found = []
        missing = 0
        for judge, said in zip(self.judges, self._said, strict=True):
            scores, reason = said.get(key, (None, NOT_ASKED))
            missing += reason in MISSING
            found.append(Verdict(judge=judge, scores=scores, reason=reason))
        given = sum(verdict.scores is not None for verdict in found)
        self.not_judged += missing
        self.below_quorum += bool(missing) and given < self._terms.jury.quorum
        self._last = (episode, tuple(found))
        return self._last[1]

    def parties(self) -> tuple[Party, ...]:
        """Return what each judge used for the answers that `verdicts` was asked for.

        Repairs and repeated tries are part of it. The outcomes are those of the last ones.
        """
        found = []
        for place in range(len(self.judges)):
            judge = self._terms.jury.judges[place]
            tally = UsageTally(judge_budget(judge, self._terms.jury))
            for judgement in read_judgements(judge_folder(self._run, self._terms, place)):
                if judgement.key in self._asked:
                    for call in judgement.calls:
                        tally.add(call)
            said = self._said[place]
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
