"""Rewrite who the patient of an English vignette is, by rule: sex, name, pronouns, ethnicity.

The medicine stays, and so do the id, the options' order and the gold. Where a rewriting might change what is
right, or would have to guess whom a word is about, it is refused with a reason. Its words are in `patients.yaml`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from medhelm.schema.data import Instance, Variant

Sex = Literal["male", "female"]

_OTHERS = "other persons whose words cannot be told from the patient's"
_PRONOUN = "a pronoun that may be two things"
_NAMED = "a name is told"

_OTHER: Mapping[Sex, Sex] = {"male": "female", "female": "male"}
_PRONOUNS: Mapping[Sex, str] = {
    "male": r"[Hh]e|[Hh]im|his|(?<!of )His(?!-|\s+(?:bundle|Purkinje))|[Hh]imself",
    "female": r"[Ss]he|[Hh]er|[Hh]ers|[Hh]erself",
}
_SWAPS = {"he": "she", "him": "her", "his": "her", "himself": "herself"}
_SWAPS |= {"she": "he", "hers": "his", "herself": "himself"}
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
_NAME = re.compile(
    r"\b(?:Mr|Mrs|Ms|Miss|Mx)\b|\b(?:named|called|name is)\s+[A-Z]|\b[A-Z][a-z]+(?:,| is| was) an? (?=\d)"
)
_TOKEN = re.compile(r"\w+")
_NOT_ADVERBS = frozenset({"family", "elderly", "belly", "anomaly", "assembly", "fly", "daily"})


class _Words(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    nouns: dict[str, str]
    partners: dict[str, str]
    relatives: dict[Sex, tuple[str, ...]]
    names: dict[Sex, tuple[str, ...]]
    sex_decides: dict[str, tuple[str, ...]]
    lists: dict[str, tuple[str, ...]]


class _Any:
    """Finds any of some words in a text, in any case: `*` is any ending or beginning."""

    def __init__(self, words: Iterable[str]) -> None:
        lower = [word.lower() for word in words]
        phrases = [w for w in lower if not _TOKEN.fullmatch(w.strip("*"))]
        tokens = [w for w in lower if w not in phrases]
        self._whole = frozenset(tokens)
        self._starts = tuple(w[:-1] for w in tokens if w.endswith("*"))
        self._ends = tuple(w[1:] for w in tokens if w.startswith("*"))
        joined = "|".join(re.escape(w).replace(r"\*", r"\w*") for w in phrases)
        self._phrases = re.compile(rf"\b(?:{joined})\b" if joined else "(?!)")

    def is_in(self, text: str) -> bool:
        lower = " ".join(text.lower().split())
        tokens = set(_TOKEN.findall(lower))
        return (
            not self._whole.isdisjoint(tokens)
            or any(token.startswith(self._starts) or token.endswith(self._ends) for token in tokens)
            or self._phrases.search(lower) is not None
        )


class _Rules:
    """The words, and the patterns that are made of them."""

    def __init__(self) -> None:
        read = yaml.safe_load((Path(__file__).parent / "patients.yaml").read_text("utf-8"))
        self.words = w = msgspec.convert(read, _Words)
        self.lists, own, pairs = w.lists, w.nouns, w.nouns | w.partners
        self.own: Mapping[Sex, str] = {"male": "|".join(own), "female": "|".join(own.values())}
        self.swaps = pairs | {b: a for a, b in pairs.items()} | _SWAPS
        males, females = [*own, *w.partners.values()], [*own.values(), *w.partners]
        self.swapped: Mapping[Sex, str] = {"male": "|".join(males), "female": "|".join(females)}
        nouns = "|".join(self.own.values())
        self.person = re.compile(rf"\b(?:{nouns})\b", re.IGNORECASE)
        self.patient = re.compile(rf"{_AGE.pattern}{_BETWEEN}(?P<noun>{nouns})\b", re.IGNORECASE)
        as_role = (
            r"\b(?:(?:is|was|as|be|being|became)\s+an?|their|the|our|my|your)\s+(?:[\w-]+\s+){0,3}?"
        )
        self.role = {
            s: re.compile(rf"{as_role}(?:{'|'.join(r)})\b") for s, r in w.relatives.items()
        }
        kinds, followers, colours = (
            "|".join(w.lists[n]) for n in ("kinds", "followers", "colours")
        )
        beside = rf"\b(?:{colours})\b[^.?!]{{0,40}}?\b(?:{nouns})\b"
        self.colour = re.compile(beside, re.IGNORECASE)
        self.place = re.compile(rf"(?:\s+(?:{kinds})\b)?(?=[,.;]|\s+(?:{followers})\b)")
        self.any = {name: _Any(words) for name, words in w.lists.items()}
        self.sex_decides = _Any(sum(w.sex_decides.values(), ()))


_rules = cache(_Rules)


class _Refused(Exception):
    """A rewriting that is not made; its text is the reason."""


def rewritten(instance: Instance, how: Variant, seed: int) -> Instance | str:
    """Return an instance whose patient is another one, or the reason why it is refused.

    Its references are changed with it, but for letters of options.
    """
    if instance.turns or instance.criteria or instance.payload:
        return "more than a text (turns, criteria, payload)"
    end, own = 2 + len(instance.choices), instance.references
    texts = [instance.context, instance.question, *instance.choices, *(own if end == 2 else ())]
    try:
        texts = _changed(texts, how, random.Random(f"{seed}\0{instance.id}"))
    except _Refused as e:
        return str(e)
    return msgspec.structs.replace(
        instance,
        context=texts[0],
        question=texts[1],
        choices=tuple(texts[2:end]),
        references=tuple(texts[end:]) if end == 2 else own,
    )


def _changed(texts: list[str], how: Variant, rng: random.Random) -> list[str]:
    rules, whole = _rules(), "\n\n".join(texts)
    found = [(i, m) for i, text in enumerate(texts[:2]) for m in rules.patient.finditer(text)]
    if not found:
        raise _Refused("no one patient whose age and sex are told")
    if len(_AGE.findall(whole)) > 1:
        raise _Refused("several persons whose ages are told")
    place, told = found[0]
    noun = told["noun"].lower()
    sex: Sex = "male" if noun in rules.words.nouns else "female"
    before = " ".join([*texts[:place], texts[place][: told.start()]])
    is_grown = noun in ("man", "woman", "gentleman", "lady")
    if rules.any["newborns"].is_in(whole if is_grown else before) or rules.person.search(before):
        raise _Refused("several persons")
    has_name = {*rules.lists["first_names"]} & {*_TOKEN.findall(whole)} or _NAME.search(whole)
    if how == "patient_pronoun":
        children = rules.lists["children"] if noun not in ("boy", "girl") else ()
        _check_persons(rules, whole, sex, rules.lists["others"] + children)
        return _without_pronouns(rules, texts, sex)
    if how == f"patient_{sex}":
        raise _Refused(f"the patient is {sex} already")
    if has_name:
        raise _Refused(_NAMED)
    if how in ("patient_female", "patient_male"):
        if rules.sex_decides.is_in(whole):
            raise _Refused("the sex decides, or may")
        if any(rules.any[name].is_in(whole) for name in ("roles", "plurals")) or rules.role[
            sex
        ].search(whole):
            raise _Refused("the sex is told in another way, too")
        _check_persons(rules, whole, sex, ())
        return _swapped(rules, texts, sex)
    if how == "patient_name":
        fits = rules.place.match(texts[place], told.end("noun"))
        if fits is None:
            raise _Refused("no place for a name")
        names, surnames = rules.words.names[sex], rules.lists["surnames"]
        at, word = fits.end(), f" named {rng.choice(names)} {rng.choice(surnames)}"
    else:
        is_capital = re.search(r"\b[A-Z]", told["between"])
        if is_capital or rules.any["ethnicities"].is_in(whole) or rules.colour.search(whole):
            raise _Refused("an ethnicity is told")
        if rules.any["ancestry_decides"].is_in(whole):
            raise _Refused("descent decides, or may")
        at, word = told.start("noun"), f"{how.removeprefix('patient_').capitalize()} "
    texts[place] = texts[place][:at] + word + texts[place][at:]
    return texts


def _check_persons(rules: _Rules, whole: str, sex: Sex, others: tuple[str, ...]) -> None:
    """Refuse a text with words that may be another person's; `others` are persons of either sex."""
    other, pronoun = _OTHER[sex], _PRONOUNS[sex]
    if re.search(rf"\b(?:{_PRONOUNS[other]})\b|(?i:\b(?:{rules.own[other]})\b)", whole):
        raise _Refused(_OTHERS)
    persons, clinicians = "|".join(rules.words.relatives[sex] + others), rules.lists["clinicians"]
    somebody = rf"{_NOT_AS}(?i:\b(?:{persons})\b)"
    if others:
        somebody += rf"|\bThe (?:{'|'.join(clinicians)})\b"
    next_one = rf"{_STOP}(?:[.!?;]\s{_STOP})?\b(?:{pronoun})\b(?!\s+(?i:{persons})\b)"
    if any(
        re.compile(next_one, re.DOTALL).match(whole, m.end()) for m in re.finditer(somebody, whole)
    ):
        raise _Refused(_OTHERS)
    _, *own = re.finditer(rf"\b(?:{rules.own[sex]})\b", whole, re.IGNORECASE)
    for noun in own:
        if not _OF_PATIENT.search(re.split(r"[.!?]\s", whole[: noun.start()])[-1]):
            raise _Refused(_OTHERS)


def _swapped(rules: _Rules, texts: list[str], sex: Sex) -> list[str]:
    """Return texts whose patient has the other sex; partners are exchanged with the patient."""

    def other(match: re.Match[str]) -> str:
        word = match[0].lower()
        if word == "her":
            return "his" if _is_possessive(rules, match) else "him"
        return "hers" if word == "his" and _ends_phrase(match) else rules.swaps[word]

    return [
        _replaced(text, rf"{_PRONOUNS[sex]}|(?i:{rules.swapped[sex]})", other) for text in texts
    ]


def _without_pronouns(rules: _Rules, texts: list[str], sex: Sex) -> list[str]:
    """Return texts that say `the patient` where they had a pronoun; raises _Refused."""

    def named(match: re.Match[str]) -> str:
        word = match[0].lower()
        if word.endswith("self") or re.match("['’]", match.string[match.end() :]):
            raise _Refused(_PRONOUN)
        is_own = word in ("his", "hers") or (word == "her" and _is_possessive(rules, match))
        return "the patient's" if is_own else "the patient"

    found = [_replaced(text, _PRONOUNS[sex], named) for text in texts]
    if found == texts:
        raise _Refused("no pronoun")
    return found


def _replaced(text: str, pattern: str, by: Callable[[re.Match[str]], str]) -> str:
    """Return a text with other words in the place of those that match, capitals kept."""

    def word(match: re.Match[str]) -> str:
        new = by(match)
        return new[0].upper() + new[1:] if match[0][0].isupper() else new

    return re.sub(rf"(?<![\w-])(?:{pattern})\b(?!-)", word, text)


def _ends_phrase(match: re.Match[str]) -> bool:
    return re.match(r"\s*(?:[.,;:?!)]|$)", match.string[match.end() :]) is not None


def _is_possessive(rules: _Rules, match: re.Match[str]) -> bool:
    """Return whether a `her` has a noun of its own; raises _Refused where it may be either."""
    if _ends_phrase(match):
        return False
    following = re.match(r"\s+([A-Za-z][\w'’-]*)", match.string[match.end() :])
    word = following[1].lower() if following else ""
    if word in rules.lists["object_before"]:
        return False
    is_adverb = word.endswith("ly") and word not in _NOT_ADVERBS
    verb = " ".join(match.string[: match.start()].split()[-1:])
    may_be_either = word in rules.lists["either_before"] or rules.any["either_behind"].is_in(verb)
    if not word or is_adverb or may_be_either:
        raise _Refused(_PRONOUN)
    return True
