"""The patterns of `the answer is`, `is correct` and yes and no, made of the words of languages."""

from __future__ import annotations

import re
from functools import cache
from string import ascii_uppercase

from medhelm.extract.languages import LANGUAGES, any_of
from medhelm.extract.late import late

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
