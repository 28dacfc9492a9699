"""Rewrite who the patient of an English vignette is, by rule: sex, name, pronouns, ethnicity.

The medicine stays, and so do the id, the options' order and the gold. Where a rewriting might change what is
right, or would have to guess whom a word is about, it is refused with a reason. Its words are in `patients.yaml`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from medhelm.schema.data import Instance, Variant

Sex = Literal["male", "female"]
_SEXES: tuple[Sex, Sex] = ("male", "female")

NOBODY = "no one patient whose age and sex are told"
MORE_THAN_TEXT = "more than a text (turns, criteria, a menu)"
_SEVERAL = "several persons whose ages are told"
_OTHERS = "other persons whose words cannot be told from the patient's"
_PRONOUN = "a pronoun that may be two things"
_NO_PRONOUN = "no pronoun"
_DECIDES = "the sex decides, or may"
_TOLD_OTHERWISE = "the sex is told in another way, too"
_NAMED = "a name is told"
_NO_PLACE = "no place for a name"
_ETHNICITY = "an ethnicity is told"
_DESCENT = "descent decides, or may"

_PRONOUNS: Mapping[Sex, str] = {
    "male": r"[Hh]e|[Hh]im|his|(?<!of )His(?!-|\s+(?:bundle|Purkinje))|[Hh]imself",
    "female": r"[Ss]he|[Hh]er|[Hh]ers|[Hh]erself",
}
_TO_FEMALE = {"he": "she", "him": "her", "his": "her", "himself": "herself"}
_TO_MALE = {"she": "he", "hers": "his", "herself": "himself"}
_AGE = re.compile(
    r"\b(?:\d+(?:\.\d+)?|one|two|three|four|five|six|seven|eight|nine|ten)[\s-]*"
    r"(?:(?:years?|yrs?|months?|mos?|weeks?|wks?|days?|hours?)\.?[\s-]*olds?\b|y/?o\b|y\.o\.)",
    re.IGNORECASE,
)
_BETWEEN = (
    r"(?P<between>(?:[\s,]+(?!(?:with|and|or|who|whose|to|of|in|on|at|by|for|from|is|was|has|had|the|an?|his|her"
    r"|their|present\w*|com(?:es|ing)|came|brought|after|complain\w*|patient)\b)[\w/'’.-]+){0,6}?)[\s,]+"
)
_STOP = r"(?:(?![.!?;]\s).)*"
"""Matches the rest of a sentence, without the stop."""
_NOT_AS = r"(?<!as a )(?<!as an )(?<!is a )(?<!is an )(?<!was a )(?<!was an )(?<!-)"
"""Matches where a word does not begin that says what the patient is."""
_OF_PATIENT = re.compile(
    r"\b(?:the|this|that)\s+(?:[\w-]+\s+)?$|\b(?:exam\w*|reveals?|shows?|notable|appear\w*|general)\b",
    re.IGNORECASE,
)
"""Matches what comes before a noun in a sentence where that is the patient, not another man or woman."""
_TOKEN = re.compile(r"\w+")
_NOT_ADVERBS = frozenset({"family", "elderly", "belly", "anomaly", "assembly", "fly", "daily"})


class _Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    nouns: dict[str, str]
    plurals: tuple[str, ...]
    partners: dict[str, str]
    titles: dict[str, str]
    relatives: dict[Sex, tuple[str, ...]]
    others: tuple[str, ...]
    clinicians: tuple[str, ...]
    children: tuple[str, ...]
    roles: tuple[str, ...]
    sex_decides: dict[str, tuple[str, ...]]
    ancestry_decides: tuple[str, ...]
    colours: tuple[str, ...]
    ethnicities: tuple[str, ...]
    object_before: tuple[str, ...]
    either_before: tuple[str, ...]
    either_behind: tuple[str, ...]
    names: dict[Sex, tuple[str, ...]]
    surnames: tuple[str, ...]
    kinds: tuple[str, ...]
    followers: tuple[str, ...]
    first_names: tuple[str, ...]


@dataclass(frozen=True)
class _Rules:
    """The words, and the patterns that are made of them."""

    words: _Words
    own: Mapping[Sex, str]
    """The nouns of a patient of each sex, as a pattern."""
    patient: re.Pattern[str]
    sex_decides: _Any
    sex_told: _Any
    role: re.Pattern[str]
    descent_decides: _Any
    ethnicity: _Any
    colour: re.Pattern[str]
    first_names: frozenset[str]
    place: re.Pattern[str]
    swaps: Mapping[str, str]
    either_behind: _Any


@cache
def _rules() -> _Rules:
    read = yaml.safe_load((Path(__file__).parent / "patients.yaml").read_text("utf-8"))
    w = msgspec.convert(read, _Words)
    own: Mapping[Sex, str] = {"male": "|".join(w.nouns), "female": "|".join(w.nouns.values())}
    nouns = f"{own['male']}|{own['female']}"
    pairs = w.nouns | w.partners | w.titles
    relatives = "|".join(word for sex in _SEXES for word in w.relatives[sex])
    kinds, followers, colours = ("|".join(words) for words in (w.kinds, w.followers, w.colours))
    return _Rules(
        words=w,
        own=own,
        patient=re.compile(rf"(?:{_AGE.pattern}){_BETWEEN}(?P<noun>{nouns})\b", re.IGNORECASE),
        sex_decides=_Any(word for kind in w.sex_decides.values() for word in kind),
        sex_told=_Any([*w.roles, *w.plurals]),
        role=re.compile(
            rf"\b(?:is|was|as|be|being|became)\s+an?\s+(?:[\w-]+\s+){{0,3}}?(?:{relatives})\b"
        ),
        descent_decides=_Any(w.ancestry_decides),
        ethnicity=_Any(w.ethnicities),
        colour=re.compile(rf"\b(?:{colours})\b[^.?!]{{0,40}}?\b(?:{nouns})\b", re.IGNORECASE),
        first_names=frozenset(w.first_names),
        place=re.compile(rf"(?:\s+(?:{kinds})\b)?(?=[,.;]|\s+(?:{followers})\b)"),
        swaps=pairs | {b: a for a, b in pairs.items()} | _TO_FEMALE | _TO_MALE,
        either_behind=_Any(w.either_behind),
    )


_NAME = re.compile(
    r"\b(?:Mr|Mrs|Ms|Miss|Mx)\b|\b(?:named|called|name is)\s+[A-Z]|\b[A-Z][a-z]+(?:,| is| was) an? (?=\d)"
)


def _has_name(rules: _Rules, text: str) -> bool:
    return not rules.first_names.isdisjoint(_TOKEN.findall(text)) or _NAME.search(text) is not None


class _Any:
    """Finds any of some words in a text: `*` is any ending or beginning, capitals match as they are written."""

    def __init__(self, words: Iterable[str]) -> None:
        found: dict[str, list[str]] = {
            "as_is": [],
            "whole": [],
            "ends": [],
            "starts": [],
            "phrases": [],
        }
        for word in words:
            own = word.strip("*")
            if not _TOKEN.fullmatch(own):
                ending = r"\w*" if word.endswith("*") else r"\b"
                found["phrases"].append(rf"\b{re.escape(own.lower())}{ending}")
            elif word.startswith("*"):
                found["ends"].append(own)
            elif word.endswith("*"):
                found["starts"].append(own.lower())
            else:
                found["as_is" if own.isupper() else "whole"].append(own)
        self._as_is, self._whole = (
            frozenset(found["as_is"]),
            frozenset(map(str.lower, found["whole"])),
        )
        self._starts, self._ends = tuple(found["starts"]), tuple(found["ends"])
        self._phrases = re.compile("|".join(found["phrases"]) or "(?!)")

    def is_in(self, text: str) -> bool:
        """Return whether one of the words is in a text."""
        tokens = set(_TOKEN.findall(text))
        lower = {token.lower() for token in tokens}
        return (
            not self._as_is.isdisjoint(tokens)
            or not self._whole.isdisjoint(lower)
            or any(token.startswith(self._starts) or token.endswith(self._ends) for token in lower)
            or self._phrases.search(" ".join(text.lower().split())) is not None
        )


class _Refused(Exception):
    """A rewriting that is not made; its text is the reason."""


def rewritten(instance: Instance, how: Variant, seed: int, *, is_free_text: bool) -> Instance | str:
    """Return an instance whose patient is another one, or the reason why it is refused.

    `is_free_text`: its references are texts about the patient, too.
    """
    if instance.turns or instance.criteria or instance.payload:
        return MORE_THAN_TEXT
    references = instance.references if is_free_text else ()
    texts = [instance.context, instance.question, *instance.choices, *references]
    try:
        texts = _changed(texts, how, random.Random(f"{seed}\0{instance.id}"))
    except _Refused as e:
        return str(e)
    end = 2 + len(instance.choices)
    return msgspec.structs.replace(
        instance,
        context=texts[0],
        question=texts[1],
        choices=tuple(texts[2:end]),
        references=tuple(texts[end:]) if is_free_text else instance.references,
    )


def _changed(texts: list[str], how: Variant, rng: random.Random) -> list[str]:
    """Return the texts of an instance with another patient; raises _Refused."""
    rules, whole = _rules(), "\n\n".join(texts)
    found = [(i, m) for i, text in enumerate(texts[:2]) for m in rules.patient.finditer(text)]
    if not found:
        raise _Refused(NOBODY)
    if len(_AGE.findall(whole)) > 1:
        raise _Refused(_SEVERAL)
    place, told = found[0]
    noun = told["noun"].lower()
    sex: Sex = "male" if noun in rules.words.nouns else "female"
    if how in ("patient_female", "patient_male"):
        if how == f"patient_{sex}":
            raise _Refused(f"the patient is {sex} already")
        _check_sex(rules, whole, sex)
        return [_swapped(rules, text, sex) for text in texts]
    if how == "patient_pronoun":
        others = rules.words.others
        if noun not in ("boy", "girl"):
            others += rules.words.children
        _check_persons(rules, whole, sex, others)
        if re.search(r"\b[Ss]?[Hh]e['’]|\b(?:him|her)self\b", whole):
            raise _Refused(_PRONOUN)
        texts = [_without_pronouns(rules, text, sex) for text in texts]
        if "\n\n".join(texts) == whole:
            raise _Refused(_NO_PRONOUN)
        return texts
    if _has_name(rules, whole):
        raise _Refused(_NAMED)
    if how == "patient_name":
        at = _place_of_name(rules, texts[place], told)
        word = f" named {rng.choice(rules.words.names[sex])} {rng.choice(rules.words.surnames)}"
    else:
        is_capital = any(w[0].isupper() for w in re.findall(r"[A-Za-z]\w*", told["between"]))
        if is_capital or rules.ethnicity.is_in(whole) or rules.colour.search(whole):
            raise _Refused(_ETHNICITY)
        if rules.descent_decides.is_in(whole):
            raise _Refused(_DESCENT)
        at, word = told.start("noun"), f"{_ETHNICITIES[how]} "
    texts[place] = texts[place][:at] + word + texts[place][at:]
    return texts


_ETHNICITIES: Mapping[Variant, str] = {
    "patient_asian": "Asian",
    "patient_black": "Black",
    "patient_hispanic": "Hispanic",
    "patient_white": "white",
}


def _place_of_name(rules: _Rules, text: str, told: re.Match[str]) -> int:
    """Return where a name fits behind the patient's noun; raises _Refused."""
    place = rules.place.match(text, told.end("noun"))
    if place is None:
        raise _Refused(_NO_PLACE)
    return place.end()


def _check_sex(rules: _Rules, whole: str, sex: Sex) -> None:
    """Refuse another sex where it may decide, or is told by what has no counterpart."""
    if rules.sex_decides.is_in(whole):
        raise _Refused(_DECIDES)
    w, is_male = rules.words, sex == "male"
    strange = [*(w.titles.values() if is_male else w.titles)]
    is_told = rules.sex_told.is_in(whole) or rules.role.search(whole)
    if is_told or re.search(rf"\b(?:{'|'.join(strange)})\b", whole):
        raise _Refused(_TOLD_OTHERWISE)
    own = "|".join(w.partners if is_male else w.partners.values())
    if re.search(rf"\b(?:{own})\b", whole, re.IGNORECASE):
        raise _Refused(_TOLD_OTHERWISE)
    titles = "|".join([*w.titles, *w.titles.values()])
    if _has_name(rules, re.sub(rf"\b(?:{titles})\b\.?\s+[A-Z][a-z]*", "", whole)):
        raise _Refused(_NAMED)
    _check_persons(rules, whole, sex, ())


def _other(sex: Sex) -> Sex:
    return "female" if sex == "male" else "male"


def _check_persons(rules: _Rules, whole: str, sex: Sex, others: Iterable[str]) -> None:
    """Refuse a text with words that may be another person's; `others` are persons of either sex."""
    other = _other(sex)
    if re.search(rf"\b(?:{_PRONOUNS[other]})\b|(?i:\b(?:{rules.own[other]})\b)", whole):
        raise _Refused(_OTHERS)
    persons, pronoun = "|".join([*rules.words.relatives[sex], *others]), _PRONOUNS[sex]
    somebody = rf"{_NOT_AS}(?i:\b(?:{persons})\b)"
    if others:
        somebody += rf"|\bThe (?:{'|'.join(rules.words.clinicians)})\b"
    behind = (
        rf"(?:{somebody}){_STOP}(?:[.!?;]\s{_STOP})?"
        rf"\b(?:{pronoun})\b(?!\s+(?i:{persons})\b)"
    )
    is_there = re.search(rf"(?i:\b(?:{persons})\b)|\bThe [a-z]", whole) is not None
    if is_there and re.search(behind, whole, re.DOTALL):
        raise _Refused(_OTHERS)
    _, *own = re.finditer(rf"\b(?:{rules.own[sex]})\b", whole, re.IGNORECASE)
    for noun in own:
        if not _OF_PATIENT.search(re.split(r"[.!?]\s", whole[: noun.start()])[-1]):
            raise _Refused(_OTHERS)


def _swapped(rules: _Rules, text: str, sex: Sex) -> str:
    """Return a text whose patient has the other sex; partners are exchanged with the patient."""
    w = rules.words
    partners = w.partners.values() if sex == "male" else w.partners.keys()
    titles = "|".join(w.titles.keys() if sex == "male" else w.titles.values())
    words = "|".join([rules.own[sex], *partners])

    def other(match: re.Match[str]) -> str:
        word = match[0].lower()
        if word == "her":
            return _as(match[0], "his" if _is_possessive(rules, match) else "him")
        if word == "his" and _ends_phrase(match):
            return _as(match[0], "hers")
        return _as(match[0], rules.swaps.get(match[0]) or rules.swaps[word])

    return _replaced(text, rf"{_PRONOUNS[sex]}|{titles}|(?i:{words})", other)


def _without_pronouns(rules: _Rules, text: str, sex: Sex) -> str:
    """Return a text that says `the patient` where it had a pronoun."""

    def named(match: re.Match[str]) -> str:
        word = match[0].lower()
        is_own = word in ("his", "hers") or (word == "her" and _is_possessive(rules, match))
        return _as(match[0], "the patient's" if is_own else "the patient")

    return _replaced(text, _PRONOUNS[sex], named)


def _replaced(text: str, pattern: str, by: Callable[[re.Match[str]], str]) -> str:
    return re.sub(rf"(?<![\w-])(?:{pattern})\b(?!-)", by, text)


def _as(before: str, word: str) -> str:
    return word[0].upper() + word[1:] if before[0].isupper() else word


def _ends_phrase(match: re.Match[str]) -> bool:
    return re.match(r"\s*(?:[.,;:?!)]|$)", match.string[match.end() :]) is not None


def _is_possessive(rules: _Rules, match: re.Match[str]) -> bool:
    """Return whether a `her` has a noun of its own; raises _Refused where it may be either."""
    if _ends_phrase(match):
        return False
    following = re.match(r"\s+([A-Za-z][\w'’-]*)", match.string[match.end() :])
    word = following[1].lower() if following else ""
    if word in rules.words.object_before:
        return False
    is_adverb = word.endswith("ly") and word not in _NOT_ADVERBS
    verb = " ".join(match.string[: match.start()].split()[-1:])
    may_be_either = word in rules.words.either_before or rules.either_behind.is_in(verb)
    if not word or is_adverb or may_be_either:
        raise _Refused(_PRONOUN)
    return True
