"""Weigh all that a text says for each of its values, where the question is known.

The kinds of evidence are independent of each other: the name and the unit that were asked for, a
calculation that ends in the value, a conclusion, emphasis, the place in the text, repetition. A
value that much speaks for and that no other one comes near is the answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from medhelm.extract.late import late
from medhelm.extract.numbers.notation import plain
from medhelm.extract.numbers.value_settling import POINTS, leads_to_other
from medhelm.extract.numbers.value_statements import find_statements
from medhelm.extract.numbers.value_types import Kind, Statement, differ
from medhelm.extract.numbers.value_words import GENERAL_NAMES
from medhelm.extract.sentences import split_sentences

T = TypeVar("T")

_BOLD = late(r"\*\*([^*\n]{1,160})\*\*")
_LEVELS = (0.0, 0.5, 1.5, 3.0)
_ENOUGH = 5.0
"""The least evidence for an answer that no rule finds."""
_AHEAD = 1.5
"""Sets how far it has to be ahead of all other values."""


@dataclass
class Candidate(Generic[T]):
    """A value of a text with its statements and what speaks for it."""

    value: T
    statements: list[Statement[T]]
    evidence: float = 0.0


def weigh(visible: str, kind: Kind[T]) -> list[Candidate[T]]:
    """Return the values that a text states, the best supported one first."""
    found = find_statements(plain(visible), kind)
    stated = [s for s in found if s.value is not None]
    items = [s for s in stated if s.key in POINTS]
    if len(items) > 2 and len(items) < len(stated):
        stated = [s for s in stated if s not in items]
    stated = [s for s in stated if not leads_to_other(s, stated, kind)]
    if not stated:
        return []
    bold = _emphasised(visible, kind)
    first = min(s.at[0] for s in stated)
    last = max((s.at[0] for s in stated if not s.is_secondary), default=-1)
    candidates: list[Candidate[T]] = []
    for s in stated:
        assert s.value is not None
        for candidate in candidates:
            merged = kind.merge(candidate.value, s.value)
            if merged is not None:
                candidate.value = merged
                candidate.statements.append(s)
                break
        else:
            candidates.append(Candidate(s.value, [s]))
    for candidate in candidates:
        is_bold = any(kind.merge(value, candidate.value) is not None for value in bold)
        weights = [
            (_weight(s, is_bold, s.at[0] == first, s.at[0] == last, kind), s)
            for s in candidate.statements
        ]
        candidate.evidence = _together([(w, s) for w, s in weights if w > 0])
    return sorted(candidates, key=lambda c: -c.evidence)


def _together(weights: list[tuple[float, Statement[T]]]) -> float:
    """Return what several statements of one value weigh together."""
    if not weights:
        return 0.0
    places = {s.at[0] for _, s in weights}
    is_both = any(s.is_computed for _, s in weights) and any(
        not s.is_computed and (s.is_asked or s.fits or s.level >= 2) for _, s in weights
    )
    return max(w for w, _ in weights) + min(1.5, 0.75 * (len(places) - 1)) + is_both


def _weight(s: Statement[T], is_bold: bool, is_first: bool, is_last: bool, kind: Kind[T]) -> float:
    if s.is_secondary:
        return 0.0
    is_general = kind.is_score and bool(GENERAL_NAMES & {*s.key})
    weight = 3.0 if s.is_asked else 2.0 if is_general else 0.0
    weight += 1.5 * s.fits + 1.5 * s.is_computed + _LEVELS[s.level] + 1.5 * is_bold
    weight += (is_last + is_first) * (s.level > 0)
    return weight - 2.0 * s.is_supposed - 2.0 * s.is_running


def _emphasised(visible: str, kind: Kind[T]) -> list[T]:
    """Return the first value of each bold part of a text."""
    found = []
    for match in _BOLD.finditer(visible[-20_000:]):
        values = (v.value for v in kind.find(plain(match[1])) if not v.is_operand)
        first = next((value for value in values if value is not None), None)
        if first is not None:
            found.append(first)
    return found


def best_supported(visible: str, kind: Kind[T]) -> T | None:
    """Return the value that enough speaks for and that no other one rivals, None without one."""
    candidates = weigh(visible, kind)
    if not candidates or not _is_enough(candidates[0]):
        return None
    best, others = candidates[0], candidates[1:]
    for s in find_statements(plain(visible), kind):
        if s.level == 3 and (s.value is None or kind.merge(s.value, best.value) is None):
            return None
    is_ahead = not others or best.evidence - others[0].evidence >= _AHEAD
    return best.value if is_ahead and not any(_is_rival(c, best) for c in others) else None


def why_weak(value: T, visible: str, kind: Kind[T], *, is_share: bool = False) -> str:
    """Return why a value is not read for which too little speaks, "" where enough does.

    Of a share what is on the way to the percentage is not read. More evidence for another value counts
    only where something is told by the name or the unit that was asked for, and not last of this value.
    """
    candidates = weigh(visible, kind)
    own = next((c for c in candidates if kind.merge(c.value, value) is not None), None)
    if own is None:
        return ""
    if all(s.is_supposed for s in own.statements) and own.evidence < 1:
        return f"no single {kind.noun} is stated"
    is_only = len(candidates) == 1
    if is_share and not any(
        s.fits or s.level == 3 or ((s.is_asked or is_only) and not s.is_computed)
        for s in own.statements
    ):
        return f"no {kind.noun} in percent is stated as the answer"
    is_bare = not any(s.is_asked or s.fits or s.level >= 2 for s in own.statements)
    if is_bare and any(s.fits and not s.is_secondary for c in candidates for s in c.statements):
        return f"no {kind.noun} in the unit that is asked for is stated as the answer"
    if is_bare and _is_followed_in_unit(own, visible, kind):
        return f"no {kind.noun} in the unit that is asked for is stated as the answer"
    best = candidates[0]
    is_behind = best.evidence - own.evidence >= _AHEAD
    is_other = not any(s.is_asked or s.fits or s.is_computed for s in own.statements)
    is_behind = is_behind and (best.evidence >= _ENOUGH or is_other)
    told = [s.at for c in candidates for s in c.statements if s.is_asked or s.fits]
    is_worked_out = any(s.is_computed for s in own.statements)
    is_last = not told or (is_worked_out and max(told) in [s.at for s in own.statements])
    is_behind = is_behind and not is_last
    return differ(best.value, value, kind) if is_behind else ""


def _is_followed_in_unit(own: Candidate[T], visible: str, kind: Kind[T]) -> bool:
    """Return whether sentences behind a value have another one in the unit that was asked for."""
    at = max(s.at[0] for s in own.statements)
    later = [sentence for sentence, _ in split_sentences(plain(visible))][at + 1 :]
    return any(
        v.fits and v.value is not None and kind.merge(v.value, own.value) is None
        for sentence in later
        for v in kind.find(sentence)
    )


def _is_enough(best: Candidate[T]) -> bool:
    """Return whether that much speaks for a value that it is the answer."""
    is_worked_out = any(s.is_computed for s in best.statements) and any(
        s.fits or s.is_asked for s in best.statements
    )
    return best.evidence >= (3.0 if is_worked_out else _ENOUGH)


def _is_rival(other: Candidate[T], best: Candidate[T]) -> bool:
    """Return whether another value is given as the answer as well, and not on the way to the best."""
    end = max(s.at for s in best.statements)
    return any(
        (s.is_asked or s.level >= 2 or bool(GENERAL_NAMES & {*s.key}))
        and not (s.is_secondary or s.is_supposed or s.is_running or s.is_used)
        and (s.at > end or not s.is_computed)
        for s in other.statements
    )
