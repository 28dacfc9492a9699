"""Results that a text itself calls wrong, takes back, or gives as one of two."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from itertools import chain, islice
from typing import TypeVar

from medhelm.extract.late import late
from medhelm.extract.numbers.notation import plain
from medhelm.extract.numbers.value_settling import agreed, settle
from medhelm.extract.numbers.value_statements import find_statements
from medhelm.extract.numbers.value_types import Kind, Statement
from medhelm.extract.numbers.value_words import GENERAL_NAMES
from medhelm.extract.reading import Reading
from medhelm.extract.sentences import split_sentences

T = TypeVar("T")

_LONGEST = 2_000
"""Characters of a text, and five times as many at its end, of which values are compared."""
_LINE = 1_500
_RETRACTED = late(
    r"(?:(?<=[.!?]\s)|(?<=[.!?]\n)|(?<=\n\n))(?:correction|edit|update|erratum)\s?[:!]|\b(?:wait|actually(?!\s(?:no|not|quite|very|in|has|have|weighs|normal|low|high)\b)|oops|scratch that|on (?:second thought|reflection)|my mistake|"
    r"let me (?:re\w+|double.?check|correct)|i (?:made|was) (?:an? )?(?:mistake|error|wrong)|"
    r"apolog\w+|sorry|(?:could|might|may) (?:also|instead|(?:well |even )?be (?=[^.\n]{0,20}\d))|alternatively)\b"
    r"|(?:^|(?<=[.!?,;\u2026] )|(?<=\n))(?:oh,?\s)?no,\s",
    re.IGNORECASE,
)


_UNDER_IF = late(r"(?:^|[.!?\n]\s{0,3})if\b[^.!?\n]*$", re.IGNORECASE)
"""The beginning of a sentence with a condition, up to the words that it is the condition of."""
_BOTH = late(
    r"(?<![\w.])(\d[\d.]{0,9})\s\([^\W\d][^()\d\n]{2,40}\)\s?(?:/|or|and|versus|vs\.?)\s"
    r"(\d[\d.]{0,9})\s\([^\W\d]"
)
"""Two results that each have their condition in brackets."""
_OF_EACH_SEX = late(
    r"(?<![\w.])(\d[\d.]{0,9})\s[^\d\n]{0,24}?(?:/\d[\d.]*\s?m\S{0,3}\s)?(?:for|in)\s(?:males?|m[ae]n)\b(?=.{1,60}[x\u00d7*]\s?[01]\.\d).{1,60}?"
    r"(?<![\w.])(\d[\d.]{0,9})\s[^\d\n]{0,24}?(?:/\d[\d.]*\s?m\S{0,3}\s)?(?:for|in)\s(?:females?|wom[ae]n)\b",
    re.IGNORECASE,
)
"""A result for men, a factor, and the result for women."""
_CORRECTED = late(
    r"\b(?:my|the) (?:first|initial|earlier|opening|previous) (?:line|answer|value|figure|result|number|estimate|score|total) "
    r"(?:is|was) (?:wrong|incorrect|mistaken|off)\b|\bwait,? (?:that's|that is|that makes|it's)\b"
    r"|\blet me (?:re-?\w+|double.?check)\b|(?=\b(?:corrected|revised) (?:total|sum|score|count|result|answer)\s?(?:is\b|[:=]))"
    r"|\b(?:\d[\d.]{0,9}),? (?:and )?not \d[\d.]{0,9}(?=[.,;!])",
    re.IGNORECASE,
)
"""Words by which a text says that an earlier result is wrong, and goes on with the right one."""
_REMARK = late(r"[\d.,-]{1,12}[^.,;()]{0,30}[.,;(]\s*[^\d\s]\S*\s.{10}", re.DOTALL)
"""A whole value with the beginning of a remark behind it."""
_WORKS_ON = late(
    r"[=\u2248\u2192*\u00d7]|\b(?:step|next|now|use|using|calculat\w+|formula|equation|substitut\w+|thus|hence|therefore"
    r"|correct\w*|adjust\w*|round\w*|multipl\w+|divid\w+|add|subtract)\b",
    re.IGNORECASE,
)
"""Words by which a text goes on to another result."""
_CLASSED = late(
    r"\u2192\s?(?=(?:class|grade|stage|category|risk|low|high|moderate|intermediate)\b)",
    re.IGNORECASE,
)
"""An arrow from a result to what it means."""
_NOT_GIVEN = late(
    r"\b(?:total|score|sum|index|gcs|result|value)\b[^.\n]{0,30}\b(?:should|can|could|must)(?:\s?not|n't)\sbe\s(?:reported|calculated|computed"
    r"|determined|given|assigned|stated|derived)\b",
    re.IGNORECASE,
)
"""Words by which a text refuses a result."""
_TO_DO = late(
    r"\b(?:still|yet|now|next|then)\b[^.\n]{0,30}\bto\s(?:be\s)?(?:(?:multipl\w+|divided?)\s(?:\w+\s){0,2}by|subtract)\b"
    r"[^=\u2248\u2192\n]{0,100}$",
    re.IGNORECASE,
)
"""A step at the end of a text that is not carried out."""
_WRONG = late(
    r"\b(?:wrong|incorrect|mistake|error|(?:not|isn't) (?:right|correct)|miscalculated)\b",
    re.IGNORECASE,
)


_ENDS_WRONG = late(
    r"\bscratch that\b[^.?\n]{0,40}[.!\s]*$|\bi (?:made|have made) an? (?:mistake|error)\b[^.?\d\n]{0,30}[.!\s]*$"
    r"|\b(?:wait|actually|no|hmm+|oops|sorry)\b[^.?\d\n]{0,40}\b(?:wrong|incorrect|mistaken|not (?:right|correct))[.!\s]*$",
    re.IGNORECASE,
)
"""The end of a text that takes its result back and gives none in its place."""


def corrected(text: str, kind: Kind[T]) -> T | None:
    """Return what a text calls by the asked name once it has said that an earlier result is wrong."""
    ends = deque((match.end() for match in _CORRECTED.finditer(text)), maxlen=1)
    found = find_statements(text[ends[0] :], kind) if ends else []
    named = [s for s in found if (s.is_asked or s.level == 3) and not s.is_secondary]
    named += [
        s for s in found if s.level == 2 and (s.fits or kind.is_score) and GENERAL_NAMES & {*s.key}
    ]
    if not named or any(s.is_supposed or s.is_running for s in named):
        return None
    others = [s for s in found if (s.level >= 2 or s.fits) and not s.is_secondary]
    return agreed([(s.value, s.reason) for s in (*named, *others)], kind).value


def repeated(text: str, kind: Kind[T]) -> T | None:
    """Return what the whole lines of a cut text call by the asked name again and again."""
    found = find_statements(plain(text.rpartition("\n")[0]), kind)
    named = [s for s in found if s.is_asked and not (s.is_secondary or s.is_supposed)]
    named = [s for s in named if s.value is not None or not s.is_computed]
    is_enough = len(named) > 2 or (len(named) == 2 and named[0].is_opening)
    if not is_enough or not any(s.fits for s in named) or any(s.is_running for s in named):
        return None
    return agreed([(s.value, s.reason) for s in named], kind).value


def named_before_cut(text: str, kind: Kind[T]) -> T | None:
    """Return what a cut text calls by the asked name once it has worked it out, before remarks.

    What is behind it must neither work on nor take it back, and no other result may differ.
    """
    body = plain(text)
    found = find_statements(body, kind)
    named = [s for s in found if s.is_asked and not s.is_secondary]
    if not named or named[-1].is_opening or any(s.is_supposed for s in found):
        return None
    last = named[-1]
    if any(s.is_running and (s.value is None or s.at >= last.at) for s in found):
        return None
    if any(s.at > last.at and s.level and not s.is_secondary for s in found):
        return None
    sentences = [sentence for sentence, _ in split_sentences(body)]
    rest = " ".join([sentences[last.at[0]][last.at[1] :], *sentences[last.at[0] + 1 :]])
    is_before_section = rest.endswith(".") and not body.rstrip().endswith(rest[-12:])
    if not (_REMARK.match(rest) or is_before_section):
        return None
    if _WORKS_ON.search(_CLASSED.sub("", rest)) or _RETRACTED.search(rest):
        return None
    value = agreed([(s.value, s.reason) for s in named], kind).value
    before = [s for s in found if s.at < last.at and s.value is not None]
    is_led_to = last.level >= 2 or any(s.is_computed for s in named)
    items = [s.value for s in before if s.value is not None]
    is_led_to |= value is not None and len(items) > 2 and kind.is_sum(items, value)
    for s in before:
        is_led_to |= (
            value is not None and s.value is not None and kind.same(s.value) == kind.same(value)
        )
    return value if is_led_to and (last.fits or kind.is_score) else None


def takes_back(value: str, kind: Kind[T]) -> bool:
    """Return whether a marked text names a value, takes it back and names another one."""
    back = _RETRACTED.search(value[:_LINE])
    if back is None:
        return False
    before, after = values_of(value[: back.start()], kind), values_of(value[back.end() :], kind)
    return bool(before and after) and all(kind.merge(before[-1], v) is None for v in after)


def unless_taken_back(reading: Reading[T], text: str, kind: Kind[T]) -> Reading[T]:
    """Return the reading, unless the text takes it back or concludes it after another one."""
    ends = deque(_retractions(text), maxlen=1)
    value = reading.value
    if value is not None and _ENDS_WRONG.search(text[-160:]):
        return Reading(None, "a result is stated and then taken back")
    if value is not None and _TO_DO.search(text[-300:]):
        return Reading(None, "a step is announced whose result is not stated")
    if value is not None and _is_refused(text, kind):
        return Reading(None, "the text says that no result is to be given")
    if value is not None and _is_one_of_two(value, text, kind):
        return Reading(None, "two results are stated, each under its own condition")
    if value is None or not ends:
        return reading
    after = values_of(text[ends[0] :], kind)
    is_kept = not after or any(kind.merge(value, v) is not None for v in after)
    earlier = find_statements(text[: ends[0]], kind)
    before = settle(earlier, kind).value
    is_new = before is not None and kind.merge(value, before) is None
    later = find_statements(text[ends[0] :], kind)
    is_named = any(s.is_asked and s.level and not s.is_secondary for s in later)
    was_concluded = any(
        s.level >= 2
        and s.value == before
        and (s.is_asked or not is_named or not s.key or bool(GENERAL_NAMES & {*s.key}))
        for s in earlier
    )
    is_concluded = is_named or any(s.level >= 2 for s in later)
    is_final = any(s.level == 3 and s.is_asked and s.value is not None for s in later)
    is_final |= _is_worked_out_anew(value, earlier, later, kind)
    is_final |= _is_kept(value, earlier, later, kind)
    is_wrong = _WRONG.search(text, ends[0], ends[0] + 60) is not None
    if is_kept and (is_final or not (is_new and (was_concluded or is_wrong or not is_concluded))):
        return reading
    return Reading(None, "a result is stated and then taken back")


def _is_kept(
    value: T, earlier: list[Statement[T]], later: list[Statement[T]], kind: Kind[T]
) -> bool:
    """Return whether a text comes to a value, has second thoughts, and names the same value then."""
    before = [s.value for s in earlier if s.value is not None]
    own = [s for s in later if s.value is not None and kind.merge(s.value, value) is not None]
    is_before = any(kind.merge(v, value) is not None for v in before)
    return is_before and any(s.is_asked and s.level for s in own)


def _is_worked_out_anew(
    value: T, earlier: list[Statement[T]], later: list[Statement[T]], kind: Kind[T]
) -> bool:
    """Return whether a text names and works out a value after a step, no result, was taken back."""
    if any(s.is_asked and s.level or s.level >= 2 and GENERAL_NAMES & {*s.key} for s in earlier):
        return False
    own = [s for s in later if s.value is not None and kind.merge(s.value, value) is not None]
    return any(s.is_asked and s.level for s in own) and any(s.is_computed for s in own)


def _retractions(text: str) -> Iterator[int]:
    """Return where words that take a result back end; what could be under an `if` takes nothing back."""
    for match in _RETRACTED.finditer(text):
        is_possible = match[0][:5].lower().startswith(("could", "might", "may"))
        if not (is_possible and _UNDER_IF.search(text, max(0, match.start() - 200), match.start())):
            yield match.end()


def _sentence_at(match: re.Match[str]) -> str:
    """Return the sentence in which a match is, up to its end."""
    return re.split(r"[.!?]\s|\n", match.string[max(0, match.start() - 60) : match.end()])[-1]


def _is_refused(text: str, kind: Kind[T]) -> bool:
    """Return whether a text says that its result cannot or should not be given, and gives none later."""
    found = (m for m in _NOT_GIVEN.finditer(text) if kind.is_asked(_sentence_at(m)) is not False)
    ends = deque((match.end() for match in found), maxlen=1)
    later = find_statements(text[ends[0] :], kind) if ends else []
    return bool(ends) and not any((s.is_asked or s.level == 3) and s.level for s in later)


def _is_one_of_two(value: T, text: str, kind: Kind[T]) -> bool:
    """Return whether a text ends by giving a value and another one, each under its condition."""
    start = max(0, len(text) - _LONGEST)
    for pair in islice(chain(_BOTH.finditer(text, start), _OF_EACH_SEX.finditer(text, start)), 40):
        both = [v.value for part in pair.groups() for v in kind.find(part) if v.value is not None]
        is_named = [kind.merge(value, v) is not None for v in both]
        if any(is_named) and not all(is_named):
            return True
    return False


def values_of(text: str, kind: Kind[T]) -> list[T]:
    """Return the values at both ends of a text, line by line."""
    text = text[:_LONGEST] + "\n" + text[max(_LONGEST, len(text) - 5 * _LONGEST) :]
    found = (v.value for line in text.split("\n") for v in kind.find(line[:_LINE]))
    return [value for value in found if value is not None]
