"""Find text of the guideline that a patient may not repeat: advice, limits, doses, word runs.

Stage 2 sees the patient and not the guideline. A vignette that says what should be done carries the
guideline past that barrier, in whatever words; one that gives facts does not, even where it has
most words of a recommendation ("no blood cultures were taken before the antibiotics"). So shared
words alone are not a fault, but a sentence that advises, judges or looks ahead and shares its
subject with one of the guideline, a limit as the guideline has it ("below 30") in place of a value, a
dose of a drug that the patient does not take, and words in a row.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from medhelm_benchmarks.noharm.generation.advice_words import (
    ADVICE,
    COMMON,
    EXPECTED,
    JUDGED,
    measures,
)
from medhelm_benchmarks.noharm.generation.guideline import Guideline, words

COPIED_RUN = 7
"""Words in a row that a patient may not share with the guideline."""
LEAST_SHARED = 3
"""Content words that an advising sentence shares with one of the guideline, at least."""
LEAST_PART = 0.4
"""Those words as a share of the shorter sentence's content words, at least."""
LEAST_EXPECTED = 0.25
"""As LEAST_PART, for a sentence that looks ahead or states a rule."""
_NEAR = 70
"""Characters on either side of a judging word, or before a dose, that hold its measure or drug."""
_STEM = 6

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_BELOW = r"below|under|less than|fewer than|lower than|at most|no more than|up to|not above|<|≤|<="
_ABOVE = r"above|over|more than|greater than|higher than|at least|exceed\w*|>|≥|>="
_LIMIT = re.compile(
    rf"(?:\b|(?=[<>≤≥]))(?:(?P<below>{_BELOW})|(?P<above>{_ABOVE})|(?P<within>within))\s*"
    r"(?P<number>\d+(?:[.,]\d+)?|one|two|three|four|five|six|seven|ten|twelve)\s*"
    r"(?P<unit>%|[^\W\d_]+)?",
    re.IGNORECASE,
)
_DOSE = re.compile(
    r"(?P<number>\d+(?:[.,]\d+)?)\s?(?P<unit>mg|g|mcg|micrograms?|µg|units?|IU|ml|mmol)\b",
    re.IGNORECASE,
)
_TAKEN = re.compile(
    r"\b(takes?|taking|took|taken|(?<!go )on|uses?|using|used|medicines?|medications?|drugs|tablets|prescri\w+|"
    r"receiv\w+|was|were|been|had|got|given|started|begun|began|since|injects?|inhales?|continues|"
    r"treated|last dose|at home|home|changed|regular\w*|current(?:ly)?|usual|"
    r"so far|hitherto|(?:his|her|their) (?:only|own|daily|long)|list)\b|"
    r"(?:treatment|therapy):|\([^)]*$",
    re.IGNORECASE,
)
"""Says beside a dose that the patient has the drug; so do brackets, behind the disease it is for."""
_PROPOSED = re.compile(
    r"\b(will|would|shall|should|plans?|planned|whether|to (?:start|switch|swap|give|add|begin|use|have)|"
    r"(?:while|by) (?:starting|giving|adding)|the dose (?:is|for)|can be|could|is (?:to|due|next|right|"
    r"needed|called|the|what|how)|are (?:to|due|next|right|needed)|next|comes?|gives?|goes|follows?|"
    r"for (?:everyone|all|such|those|people|patients))\b",
    re.IGNORECASE,
)
"""Says beside a dose that the patient does not have the drug so far."""
_CONCENTRATION = re.compile(r"\s*/\s*(?:d?l|litre)\b", re.IGNORECASE)
"""Makes a laboratory value of what is otherwise a dose."""
_NEXT = re.compile(
    r"\W*(?:(?:once|twice|three times|four times) )?(?:daily |a day )?(?:is (?:to|due|next|right|needed|"
    r"called|the|what|how)|will|would|shall|comes?|follows?|from (?:now|today|tonight|tomorrow))\b",
    re.IGNORECASE,
)
_HAD = re.compile(
    r"\b(takes?|taken|was|were|been|had|given|started|begun|since|prescribed|changed|so far|at home|"
    r"(?:his|her|their) (?:only|own|usual|regular|long|current))\b",
    re.IGNORECASE,
)
"""Say behind a dose that the drug is proposed, or that the patient has it."""
_FINITE = re.compile(
    r"\b(is|are|be|ha(?:s|ve)|may|might|do(?:es)?|makes?|works?|suits?|helps?|needs?)\b",
    re.IGNORECASE,
)
"""Makes a sentence of what is otherwise an entry of a list of medicines."""
_BEFORE_DOSE = 3
"""Words before a dose among which its drug is."""
_DIGITS = {
    "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
    "ten": "10", "twelve": "12",
}  # fmt: skip
_EMPTY = frozenset(
    [
        "a",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "been",
        "before",
        "after",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "he",
        "her",
        "him",
        "his",
        "how",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "may",
        "more",
        "most",
        "must",
        "my",
        "no",
        "nor",
        "not",
        "of",
        "on",
        "once",
        "only",
        "or",
        "our",
        "ought",
        "out",
        "over",
        "per",
        "she",
        "should",
        "so",
        "some",
        "such",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "through",
        "to",
        "under",
        "until",
        "up",
        "us",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "whether",
        "which",
        "while",
        "who",
        "will",
        "with",
        "would",
        "you",
        "your",
        "patient",
        "patients",
        "woman",
        "man",
        "year",
        "years",
        "old",
        "day",
        "days",
        "week",
        "weeks",
        "month",
        "months",
        "also",
        "other",
        "used",
        "use",
        "given",
        "give",
        "taken",
        "take",
        "recommended",
        "recommend",
        "first",
        "choice",
        "within",
    ]
)


def carried(
    text: str,
    guideline: Guideline,
    own: Collection[str] = (),
    *,
    is_flag: bool = False,
    letter: str = "",
) -> Iterator[str]:
    """Yield what a text of a patient takes over from a guideline, each as a fault.

    `own`: words that the text was asked to hold, in which nothing is a fault. `is_flag`: the text
    names a red flag, which may be defined by a limit. `letter`: the vignette that the text belongs
    to, whose medicines are the patient's own (default: the text).
    """
    known = _known(guideline)
    allowed = " ".join(" ".join(words(part)) for part in own)
    if guideline.shares_run(_without(text, own), COPIED_RUN):
        yield f"it copies {COPIED_RUN} or more words in a row from the guideline"
    for sentence in () if is_flag else _sentences(text):
        for limit, phrase in _limits(sentence):
            if known.has_limit(limit, sentence) and " ".join(words(phrase)) not in allowed:
                yield (
                    f"{phrase!r} is a limit of the guideline: give the patient's own value, without "
                    "a comparison"
                )
    taken = {dose for dose, is_own in _own_doses(letter or text) if is_own}
    for sentence in _sentences(text):
        if said := _advising(sentence, known):
            yield (
                f"the sentence with {said!r} says what should be done, as the guideline does: "
                "give facts of the patient alone"
            )
        elif known.doses & (_not_taken(_without(sentence, own)) - taken):
            yield (
                f"{sentence.strip()[:60]!r} gives a dose of the guideline for a drug that the patient "
                "does not take: leave it out"
            )


def _advising(sentence: str, known: _Known) -> str:
    """Return the words by which a sentence advises what the guideline does; empty for none."""
    is_asked = sentence.rstrip().endswith("?")
    stems = _stems(sentence)
    if found := ADVICE.search(sentence):
        if known.doses & set(_doses(sentence)):
            return found[0]
        if not is_asked and known.shares_subject(stems):
            return found[0]
    if is_asked:
        return ""
    for found in JUDGED.finditer(sentence):
        near = sentence[max(0, found.start() - _NEAR) : found.end() + _NEAR]
        if known.measures & _stems(near):
            return found[0]
    found = EXPECTED.search(sentence)
    return found[0] if found and known.shares_measure(sentence) else ""


class _Known:
    """Holds the parts of a guideline that a patient may not repeat."""

    def __init__(self, text: str) -> None:
        sentences = [_stems(sentence) for sentence in _sentences(" ".join(text.split("\n")))]
        self.sentences = [stems for stems in sentences if len(stems) >= LEAST_SHARED]
        self.limits = {_plain_unit(limit) for limit, _ in _limits(text)}
        self.doses = set(_doses(text))
        body = text.partition("\n")[2] or text  # the first line is the guideline's title
        named = {stem for part in measures(body) for stem in _stems(part)} - _COMMON
        self.measures = {stem for stem in named if not stem.isdigit()}
        whole = _sentences(" ".join(body.split("\n")))
        rules = [_content(sentence) for sentence in whole]
        limits = [{limit for limit, _ in _limits(sentence)} for sentence in whole]
        self._limited = [pair for pair in zip(rules, limits, strict=True) if pair[1]]
        self._rules = [content for content in rules if content & self.measures]

    def has_limit(self, limit: tuple[str, str, str], around: str) -> bool:
        """Return whether a limit is one of the guideline.

        Without a unit it is one beside a word of the guideline's sentence (`around`) alone.
        """
        if _plain_unit(limit) in self.limits:
            return True
        content = _content(around)
        return limit[2] == _NO_UNIT and any(
            limit[:2] == known[:2] and content & own
            for own, limits in self._limited
            for known in limits
        )

    def shares_subject(self, stems: frozenset[str]) -> bool:
        """Return whether a sentence has much of what one of the guideline is about."""
        for own in self.sentences:
            shared = len(own & stems)
            if shared >= LEAST_SHARED and shared >= LEAST_PART * min(len(own), len(stems)):
                return True
        return False

    def shares_measure(self, sentence: str) -> bool:
        """Return whether a sentence has a measure of one of the guideline, and more of it."""
        stems = _content(sentence)
        for own in self._rules:
            shared = own & stems
            if (
                len(shared) >= LEAST_SHARED - 1
                and shared & self.measures
                and len(shared) >= LEAST_EXPECTED * min(len(own), len(stems))
            ):
                return True
        return False


@lru_cache(maxsize=4)
def _known(guideline: Guideline) -> _Known:
    return _Known(guideline.text)


def _sentences(text: str) -> list[str]:
    return [part for part in _SENTENCE.split(text) if part.strip()]


def _stems(sentence: str) -> frozenset[str]:
    """Return the content words of a sentence, each by its beginning."""
    return frozenset(w[:_STEM] for w in words(sentence) if len(w) > 2 and w not in _EMPTY)


def _content(sentence: str) -> frozenset[str]:
    """Return what a sentence is about: its content words without common ones, and spans of time."""
    spans = {
        f"{_DIGITS.get(m['number'].lower(), m['number'])} {m['unit'].lower()}"
        for m in _SPAN.finditer(sentence)
    }
    return (_stems(sentence) - _COMMON) | spans


_SPAN = re.compile(
    rf"\b(?P<number>\d+|{'|'.join(_DIGITS)}) (?P<unit>minute|hour|day|week|month|year)s?\b",
    re.IGNORECASE,
)
_COMMON = frozenset(word[:_STEM] for word in COMMON)


def _limits(text: str) -> Iterator[tuple[tuple[str, str, str], str]]:
    """Yield each limit of a text as direction, number and unit, with its words."""
    for found in _LIMIT.finditer(text):
        kind = str(found.lastgroup and next(k for k in ("below", "above", "within") if found[k]))
        number = _DIGITS.get(found["number"].lower(), found["number"].replace(",", "."))
        unit = (found["unit"] or "").lower()
        if unit not in _UNITS:
            unit = _NO_UNIT if not unit or unit in _EMPTY else ""
        yield (kind, number, unit.removesuffix("s")), found[0].strip()


def _plain_unit(limit: tuple[str, str, str]) -> tuple[str, str, str]:
    return limit[0], limit[1], "" if limit[2] == _NO_UNIT else limit[2]


_NO_UNIT = "?"
"""Of a limit behind which no word is that could be a unit."""
_UNITS = frozenset(
    [
        "%",
        "kg",
        "g",
        "mg",
        "ml",
        "mmol",
        "minute",
        "minutes",
        "hour",
        "hours",
        "day",
        "days",
        "week",
        "weeks",
        "month",
        "months",
        "year",
        "years",
    ]
)


def _doses(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield each dose of a text behind the words that may name its drug."""
    for found in _DOSE.finditer(text):
        yield from _dose_of(text, found)


def _dose_of(text: str, found: re.Match[str]) -> Iterator[tuple[str, str, str]]:
    number = found["number"].replace(",", ".")
    before = text[
        max(0, found.start() - _NEAR) : found.start()
    ]  # all of it would be read once for each dose
    for word in words(before)[-_BEFORE_DOSE:]:
        if len(word) > 4 and word not in _EMPTY:
            yield word[:_STEM], number, found["unit"].lower().removesuffix("s")


def _own_doses(text: str) -> Iterator[tuple[tuple[str, str, str], bool]]:
    """Yield each dose of a text, and whether it is one that the patient has or had."""
    for clause in (part for sentence in _sentences(text) for part in sentence.split(";")):
        places = [m for m in _DOSE.finditer(clause) if not _CONCENTRATION.match(clause, m.end())]
        for found in places:
            is_own = _is_own(clause[: found.start()], clause[found.end() :], len(places))
            for dose in _dose_of(clause, found):
                yield dose, is_own


def _not_taken(sentence: str) -> set[tuple[str, str, str]]:
    return {dose for dose, is_own in _own_doses(sentence) if not is_own}


def _is_own(before: str, after: str, doses: int) -> bool:
    """Return whether the words on both sides of a dose say that the patient has the drug."""
    if _NEXT.match(after):
        return False
    taken = max((m.start() for m in _TAKEN.finditer(before)), default=-1)
    proposed = max((m.start() for m in _PROPOSED.finditer(before)), default=-1)
    if taken != proposed:
        return taken > proposed
    if _HAD.search(after):
        return True
    is_entry = doses > 1 or not _FINITE.search(before + after)  # of a list of medicines
    return is_entry and not _PROPOSED.search(after)


def _without(text: str, own: Collection[str]) -> str:
    for part in own:
        text = text.replace(part, "\n")
    return text
