"""The words by which completions state an answer, in each language, as `languages.yaml` lists them.

A language is added by one entry there. English sentence forms that need grammar are patterns in
`marks` and `statements`; whatever can be said by a word for "answer", "option" or "correct" is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import resources

import msgspec
import yaml

from medhelm.extract.late import late


class Words(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Holds one language's words for an answer, and the little words around it."""

    answer: tuple[str, ...]
    """An answer, alone or with the words that make it correct or final in front."""
    option: tuple[str, ...] = ()
    """An option, a choice, a letter."""
    right: tuple[str, ...] = ()
    """Correct, best, final; they appear beside the answer or call an option right."""
    copula: tuple[str, ...] = ()
    """Is. A hyphen at the end joins it to the letter."""
    tail: tuple[str, ...] = ()
    """Is, in languages where it follows the letter."""
    article: tuple[str, ...] = ()
    choose: tuple[str, ...] = ()
    """I choose, as one form."""
    negation: tuple[str, ...] = ()
    """Words with which a sentence states no answer."""
    condition: tuple[str, ...] = ()
    """If: what such a sentence states holds for another case."""
    others: tuple[str, ...] = ()
    """Words before what others say, or what only seems so."""
    because: tuple[str, ...] = ()
    retraction: tuple[str, ...] = ()
    """Words by which a completion takes back what it has said."""


def _read() -> Mapping[str, Words]:
    text = resources.files("medhelm.extract").joinpath("languages.yaml").read_bytes()
    return msgspec.convert(yaml.load(text, _Loader), dict[str, Words])


_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where it is built
LANGUAGES = _read()

_ETHIOPIC = dict(zip("\u1200\u1208\u1210\u1218\u1220", "ABCDE", strict=True))
_ETHIOPIC_LETTER = late(rf"(?<!\w)[{''.join(_ETHIOPIC)}](?!\w)")
"""Matches the letters by which options are numbered in Amharic, where one is a word of its own."""


def with_latin_letters(text: str) -> str:
    """Return a text in which a letter that numbers options in another script is the Latin one."""
    return _ETHIOPIC_LETTER.sub(lambda match: _ETHIOPIC[match[0]], text)


_UNSPACED = late("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Scripts without spaces around words, or with endings joined to them."""


_TELLING = {
    name: frozenset((*spoken.answer, *spoken.choose, *spoken.option, *spoken.right))
    for name, spoken in LANGUAGES.items()
}
_TOLD = tuple(frozenset().union(*_TELLING.values()))


@lru_cache(maxsize=4)
def languages_of(text: str) -> tuple[str, ...]:
    """Return the languages of which a text holds a word that can state an answer."""
    lower = text.lower()
    found = [word for word in _TOLD if word in lower]
    return tuple(name for name, telling in _TELLING.items() if not telling.isdisjoint(found))


def words(kind: str) -> str:
    """Return a pattern of all words of one kind, the longest first, without a group."""
    found = {word for language in LANGUAGES.values() for word in getattr(language, kind)}
    return any_of(found)


def any_of(found: Iterable[str]) -> str:
    """Return a pattern of words; `a b` allows several spaces, an edge letter ends the word."""
    patterns = map(_pattern, sorted(found, key=lambda word: (-len(word), word)))
    return f"(?:{'|'.join(patterns)})"


def _pattern(word: str) -> str:
    escaped = r"[ \t]{1,3}".join(map(re.escape, word.split(" ")))
    if _UNSPACED.search(word):
        return escaped
    before = r"(?<!\w)" if word[0].isalpha() else ""
    after = r"(?!\w|['\u2019]\w)" if word[-1].isalpha() else ""
    return before + escaped + after
