"""The words by which completions state an answer, in each language, as `languages.yaml` lists them.

A language is added by one entry there. English sentence forms that need grammar are patterns in
`marks` and `statements`; whatever can be said by a word for "answer", "option" or "correct" is there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from importlib import resources
from string import ascii_uppercase

import msgspec
import yaml

from medhelm.extract.late import late


class Words(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One language's words for an answer, and the little words around it."""

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


def _read_languages() -> Mapping[str, Words]:
    text = resources.files("medhelm.extract").joinpath("languages.yaml").read_bytes()
    return msgspec.convert(yaml.load(text, _Loader), dict[str, Words])


_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where it is built
LANGUAGES = _read_languages()

_ETHIOPIC = dict(zip("\u1200\u1208\u1210\u1218\u1220", "ABCDE", strict=True))
_ETHIOPIC_LETTER = late(rf"(?<!\w)[{''.join(_ETHIOPIC)}](?!\w)")
"""Matches the letters by which options are numbered in Amharic, where one is a word of its own."""


def with_latin_letters(text: str) -> str:
    """Return a text in which a letter that numbers options in another script is the Latin one."""
    if text.isascii():
        return text
    return _ETHIOPIC_LETTER.sub(lambda match: _ETHIOPIC[match[0]], text)


_UNSPACED = late("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Scripts without spaces around words, or with endings joined to them."""
_PART = late(r"[^\W\d_]+[^\W_]*")


def _longest(word: str) -> str:
    """Return the longest part of a word of several: short ones are words of other languages as well."""
    parts: list[str] = _PART.findall(word)
    return max(parts, key=len)


_TELLING = {
    name: frozenset((*spoken.answer, *spoken.choose, *spoken.option, *spoken.right))
    for name, spoken in LANGUAGES.items()
}
_ENGLISH = frozenset(("option", "correct", "final", "finale", "item", "proposition", "son", "bon"))
"""Telling words of other languages that are English ones as well, and tell nothing."""
_BY_WORD: dict[str, set[str]] = {}
"""The languages by the longest part of a telling word, in alphabets with spaces."""
_BY_PART: dict[str, set[str]] = {}
"""The same by a telling word of a script without spaces."""
for _name, _words in _TELLING.items():
    for _word in _words - _ENGLISH:
        _of = _BY_PART if _UNSPACED.search(_word) else _BY_WORD
        _of.setdefault(_word if _of is _BY_PART else _longest(_word), set()).add(_name)


@lru_cache(maxsize=8)
def _words_in(text: str) -> frozenset[str]:
    return frozenset(_PART.findall(text.lower()))


@lru_cache(maxsize=4)
def languages_of(text: str) -> tuple[str, ...]:
    """Return the languages of which a text holds a word that can state an answer."""
    found = {name for word in _BY_WORD.keys() & _words_in(text) for name in _BY_WORD[word]}
    if not text.isascii():
        lower = text.lower()
        found |= {name for part, names in _BY_PART.items() if part in lower for name in names}
    return tuple(name for name in LANGUAGES if name in found)


@cache
def _by_longest(kind: str) -> tuple[dict[str, set[str]], frozenset[str]]:
    """Return the words of one kind by their longest parts, and those of scripts without spaces, each under itself."""
    found = {word for language in LANGUAGES.values() for word in getattr(language, kind)}
    parts = frozenset(word for word in found if _UNSPACED.search(word))
    longest = {part: {part} for part in parts}
    for word in found - parts:
        longest.setdefault(_longest(word), set()).add(word)
    return longest, parts


@lru_cache(maxsize=256)
def _words_of(kind: str, there: frozenset[str]) -> re.Pattern[str]:
    found = (word for part in there for word in _by_longest(kind)[0][part])
    return re.compile(any_of(found), re.IGNORECASE)


def find_word(kind: str, text: str) -> re.Match[str] | None:
    """Return the first place of a word of one kind, in any language but English.

    Only words whose longest part is there are looked for: a list of all takes twenty times as long. Capitals that
    `lower` writes otherwise (the Turkish dotted I) are not found.
    """
    longest, parts = _by_longest(kind)
    there = longest.keys() & _words_in(text)
    if not text.isascii():
        lower = text.lower()
        there |= {part for part in parts if part in lower}
    return _words_of(kind, frozenset(there)).search(text) if there else None


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


_NEVER = r"(?!)"
_SO = r"(?:quindi|dunque|pertanto|donc|por\stanto|por\slo\stanto|entonces|portanto|ent\u00e3o|also|somit|daher|dus|wi\u0119c|\u043f\u043e\u044d\u0442\u043e\u043c\u0443)(?!\w)"
"""Words for `so` behind a verb."""


@cache
def answer_is(language: str) -> re.Pattern[str]:
    """Return the pattern of `the answer is` and `I choose` in one language."""
    spoken = LANGUAGES[language]
    sides = any_of({*spoken.right, *spoken.article, *spoken.option, *spoken.answer})
    names = any_of(
        {*spoken.answer}
        | {f"{o} {r}" for o in spoken.option for r in spoken.right}
        | {f"{r} {o}" for o in spoken.option for r in spoken.right}
    )
    is_ = any_of(spoken.copula) if spoken.copula else _NEVER
    tail = any_of(spoken.tail) if spoken.tail else _NEVER
    right = any_of(spoken.right) if spoken.right else _NEVER
    choose = rf"{any_of(spoken.choose)}(?:[ \t]{_SO})?" if spoken.choose else _NEVER
    return late(
        rf"(?:{names}(?:[ \t]{{0,3}}{sides}){{0,3}}(?:\s(?:\u00e0|a\s?la|\u00e0\sla|alla|auf\sdie)\s(?:pergunta|pregunta|question|domanda|frage))?[ \t]{{0,3}}"
        rf"(?:(?:[^\W\d_]{{2,}}[ \t]+){{0,4}}?{is_}[ \t]{{0,3}}:?|[:\uff1a]"
        rf"|(?=[^\w\n]{{0,4}}[A-Z][^\w\n]{{0,4}}\s?{tail})|(?=[ \t]\(?(?-i:[A-Z])\)?[.!]{{0,1}}\s{{0,9}}$))"
        rf"|{right}[ \t]{{0,3}}{is_}[ \t]{{0,3}}:?|{choose})[ \t*_`:]{{0,9}}",
        re.IGNORECASE,
    )


@cache
def is_right(language: str) -> re.Pattern[str]:
    """Return the pattern of what says in one language that the option before it is right."""
    spoken = LANGUAGES[language]
    answer, right = any_of(spoken.answer), any_of(spoken.right) if spoken.right else _NEVER
    is_ = any_of(spoken.copula) if spoken.copula else _NEVER
    article = any_of(spoken.article) if spoken.article else _NEVER
    tail = any_of(spoken.tail) if spoken.tail else _NEVER
    articles = {word.upper() for word in spoken.article if len(word) == 1}
    letters = "".join(letter for letter in ascii_uppercase if letter not in articles)
    return late(
        rf"(?:{is_}[ \t]{{0,3}})(?:{article}[ \t]{{0,3}})?"
        rf"(?:{right}[ \t]{{0,3}}{answer}|{answer}[ \t]{{0,3}}{right}|{right}|{answer})"
        rf"|{right}[ \t]{{0,3}}{tail}|(?<=(?-i:[{letters}])|\))[ \t]?{right}(?!\s[a-z])",
        re.IGNORECASE,
    )


_YES = ("ja", "oui", "s\u00ed", "s\u00ec", "sim", "tak", "affirmative", "yes")
_NO = ("nein", "non", "nee", "n\u00e3o", "nie", "negative", "no")
_SIGNS = " \t\n\"'*_#>-("
_SAID = late(
    rf"(?P<lead>^\W{{0,6}}|\banswer\s(?:must|is|should|would)\s(?:therefore\s|then\s)?(?:be\s)?|:\s(?=(?i:affirmative|negative)\.(?:\s[A-Z]|\s*$))"
    r"|(?:(?<=[.!?]\s)|^)(?:so|thus|hence|therefore|overall),?\s)"
    rf"(?:(?P<yes>{'|'.join(_YES)})|(?:{'|'.join(_NO)}))(?=[,.;:!]|\s*$)",
    re.IGNORECASE,
)


def with_english_yes(text: str) -> str:
    """Return a text in which a yes or no that leads it, or is the answer, is the English one."""
    return _SAID.sub(lambda match: _english(match), text)


def _english(match: re.Match[str]) -> str:
    lead = match["lead"] if not match["lead"].strip(_SIGNS) else " answer is "
    return lead + ("yes" if match["yes"] else "no")
