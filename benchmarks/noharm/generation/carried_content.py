"""Find text of the guideline that a patient may not repeat: advice, limits, doses, word runs.

Stage 2 sees the patient and not the guideline. A vignette that says what should be done carries the
guideline past that barrier, in whatever words; one that gives facts does not, even where it has
most words of a recommendation ("no blood cultures were taken before the antibiotics"). So shared
words alone are not a fault, but a sentence that advises and shares its subject with
one of the guideline, a limit as the guideline has it ("below 30") in place of a value, and words in
a row.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache

from medhelm_benchmarks.noharm.generation.guideline import Guideline, words

COPIED_RUN = 7
"""Words in a row that a patient may not share with the guideline."""
LEAST_SHARED = 3
"""Content words that an advising sentence shares with one of the guideline, at least."""
LEAST_PART = 0.4
"""Those words as a share of the shorter sentence's content words, at least."""
_STEM = 6

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_ADVICE = re.compile(
    r"\b(should|must|ought|need(s|ed)? to|ha(s|ve) to|recommend\w*|advis\w*|advice|indicated|"
    r"contraindicated|contraindication|first[- ](choice|line)|of choice|prefer\w*|avoid\w*|"
    r"(is|are|be) (not |only |never )?(given|used|taken|checked|measured|started|stopped|held|"
    r"halved|repeated|offered|added|reduced|preferred|withheld)|always|halve\w*|"
    r"rather than|instead of|in place of|only (if|when|after|with)|requires?|protocol|pathway|"
    r"evidence|standard of care|safe (to|in|at)|unsafe|not suitable|unsuitable)\b",
    re.IGNORECASE,
)
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
    text: str, guideline: Guideline, own: Collection[str] = (), *, is_flag: bool = False
) -> Iterator[str]:
    """Yield what a text of a patient takes over from a guideline, each as a fault.

    `own`: words that the text was asked to hold, in which nothing is a fault. `is_flag`: the text
    names a red flag, which may be defined by a limit.
    """
    known = _known(guideline)
    allowed = " ".join(" ".join(words(part)) for part in own)
    if guideline.shares_run(_without(text, own), COPIED_RUN):
        yield f"it copies {COPIED_RUN} or more words in a row from the guideline"
    for limit, phrase in () if is_flag else _limits(text):
        if limit in known.limits and " ".join(words(phrase)) not in allowed:
            yield (
                f"{phrase!r} is a limit of the guideline: give the patient's own value, without a "
                "comparison"
            )
    for sentence in _sentences(text):
        found = _ADVICE.search(sentence)
        if found is None:
            continue
        is_asked = sentence.rstrip().endswith("?")
        if known.doses & set(_doses(sentence)) or (
            not is_asked and known.shares_subject(_stems(sentence))
        ):
            yield (
                f"the sentence with {found[0]!r} says what should be done, as the guideline does: "
                "give facts of the patient alone"
            )


class _Known:
    """Holds the parts of a guideline that a patient may not repeat."""

    def __init__(self, text: str) -> None:
        sentences = [_stems(sentence) for sentence in _sentences(" ".join(text.split("\n")))]
        self.sentences = [stems for stems in sentences if len(stems) >= LEAST_SHARED]
        self.limits = {limit for limit, _ in _limits(text)}
        self.doses = set(_doses(text))

    def shares_subject(self, stems: frozenset[str]) -> bool:
        """Return whether a sentence has much of what one of the guideline is about."""
        for own in self.sentences:
            shared = len(own & stems)
            if shared >= LEAST_SHARED and shared >= LEAST_PART * min(len(own), len(stems)):
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


def _limits(text: str) -> Iterator[tuple[tuple[str, str, str], str]]:
    """Yield each limit of a text as direction, number and unit, with its words."""
    for found in _LIMIT.finditer(text):
        kind = str(found.lastgroup and next(k for k in ("below", "above", "within") if found[k]))
        number = _DIGITS.get(found["number"].lower(), found["number"].replace(",", "."))
        unit = (found["unit"] or "").lower()
        yield (kind, number, unit.removesuffix("s") if unit in _UNITS else ""), found[0].strip()


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
        number = found["number"].replace(",", ".")
        for word in words(text[: found.start()])[-_BEFORE_DOSE:]:
            if len(word) > 4 and word not in _EMPTY:
                yield word[:_STEM], number, found["unit"].lower().removesuffix("s")


def _without(text: str, own: Collection[str]) -> str:
    for part in own:
        text = text.replace(part, "\n")
    return text
