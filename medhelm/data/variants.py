"""Ask questions in other forms: options in another order, under other labels, or without the right one,
and vignettes of another patient (`patients`).

A form changes one instance by itself, by rule, and keeps its id, so that the answers to both forms are
pairs. An instance that a form cannot be made of without a change of its meaning is left out of it.
"""

from __future__ import annotations

import hashlib
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from string import ascii_uppercase
from typing import get_args

import msgspec

from medhelm.data.dataset import Dataset
from medhelm.data.patients import rewritten
from medhelm.prompts.messages import resolve_prompt
from medhelm.schema.data import Benchmark, Instance, OptionForm, Variant

VARIANTS: tuple[Variant, ...] = get_args(Variant)
OF_OPTIONS: tuple[Variant, ...] = get_args(OptionForm)
OF_PATIENT = VARIANTS[len(OF_OPTIONS) :]
ORDER, RIGHT = "option_order", "right_option"
"""Keys of the metadata of a changed instance: the original letters of its options in the order shown,
and the original letter of the right one."""

_UNITS = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X")
_LABELS: Mapping[str, tuple[str, ...]] = {
    "digits": tuple(str(n) for n in range(1, len(ascii_uppercase) + 1)),
    "roman": (*_UNITS, *(f"X{unit}" for unit in _UNITS)),
}
_NONE: Mapping[str, str] = {
    "de": "Keine davon",
    "en": "None of these",
    "es": "Ninguna de estas",
    "fr": "Aucune de ces réponses",
    "it": "Nessuna di queste",
    "pt": "Nenhuma destas",
    "zh": "以上都不是",
}
"""The option that takes the place of the right one, by language."""
_CLOSED = frozenset(
    ["yes", "no", "true", "false", "sí", "si", "não", "sim", "oui", "non", "ja", "nein", "是", "否"]
)
"""Options of a question that has no other answer."""
_COMMON = 50
"""Instances whose options are compared to see whether a benchmark has classes, not questions."""
_OF_OTHERS = re.compile(
    r"^\W*(?:all|none|both|neither|nil|not any|any two|todas|todos|ninguna|ninguno|ningún|ambas|ambos"
    r"|nenhuma|nenhum|toutes|tous|aucune|aucun|alle|keine|keiner|beide|tutte|tutti|nessuna|nessuno|entrambe)\b"
    r"|\b(?:of|the|as)\s+(?:the\s+)?(?:above|these|those|preceding|previous)\b|\banterior(?:es)?\b|\brespuestas?\b"
    r"|\balternativas?\b|\bci-dessus\b|\bgenannten\b|\bprecedenti\b|以上|上述|都(?:是|不|对|對)",
    re.IGNORECASE,
)
"""Matches an option that speaks of the others, as `all of the above` does."""
_TOKEN = re.compile(r"[^\W_]+")
_LABEL = re.compile(r"[a-h]|[1-9]|i{1,3}|iv|vi{0,3}|ix|x")
_BESIDE_LABELS = re.compile(
    r"and|or|only|both|options?|choices?|are|is|correct|true|wrong|false|all|but|except|not"
    r"|[yeou]|son|es|correctas?|verdaderas?|falsas?|las?|los|respuestas?|apenas|somente|s[oó]lo"
    r"|são|estão|é|corretas|et|ou|und|oder"
)
"""Matches a word that may stand beside the labels of other options."""
_BARE = re.compile(r"\W*(?:\d+(?:[.,]\d+)?|[IVX]+|[A-Z])\W*")


def chosen_variants(asked: str | Sequence[Variant]) -> Sequence[Variant]:
    """Return the forms that `variants` names: one, several, all of the options or all of the patient."""
    if isinstance(asked, str):
        kinds = {"all": OF_OPTIONS, "patient": OF_PATIENT}
        return kinds.get(asked) or tuple(v for v in VARIANTS if v == asked)
    return asked


def can_vary(benchmark: Benchmark, how: Variant = "shuffled") -> bool:
    """Return whether a benchmark asks questions of one request each that may have a form.

    Another order or label needs options. Another sex is not for a number, whose formula may take it, or labels.
    """
    is_sex, answer = how.endswith("male"), benchmark.answer
    is_fit = not (is_sex and answer in ("number", "labels"))
    return benchmark.protocol == "completion" and (
        answer == "choice" or how in OF_PATIENT and is_fit
    )


def vary(dataset: Dataset, how: Variant, seed: int) -> Dataset | None:
    """Return the data in another form; None where it changes no instance."""
    first = list(islice(dataset.instances(), _COMMON))
    options = {frozenset(text.casefold() for text in one.choices) for one in first}
    has_classes = len(options) == 1 < len(first)
    if how == "none_of_these" and has_classes:
        return None
    change = partial(varied, how=how, seed=seed, languages=dataset.benchmark.languages)
    if not any(change(one) for one in dataset.instances()):
        return None
    return replace(dataset, change=change)


def refusals(dataset: Dataset, how: Variant, seed: int) -> Counter[str]:
    """Return how many instances a form of the patient refuses, by reason; "" counts those that it makes."""
    languages = dataset.benchmark.languages
    found = (rewrite(one, how, seed, languages) for one in dataset.instances())
    return Counter(one if isinstance(one, str) else "" for one in found)


def with_labels(benchmark: Benchmark, how: Variant) -> Benchmark:
    """Return a benchmark whose prompt asks for a label where the options have no letters."""
    if how not in _LABELS:
        return benchmark
    prompt = resolve_prompt(benchmark)
    return replace(
        benchmark,
        prompt=replace(prompt, text=_of_labels(prompt.text), closing=_of_labels(prompt.closing)),
        instruction=_of_labels(benchmark.instruction),
    )


def varied(
    instance: Instance, how: Variant, seed: int, languages: Mapping[str, str]
) -> Instance | None:
    """Return an instance in another form; None where it cannot be made.

    That is where there are not two options, where facts beside the options may refer to letters, and where
    docs/statistics.md says.
    """
    if how in OF_PATIENT:
        found = rewrite(instance, how, seed, languages)
        return None if isinstance(found, str) else found
    n = len(instance.choices)
    if n < 2 or instance.answer_key or any(map(_names_labels, instance.choices)):
        return None
    order, choices = list(range(n)), list(instance.choices)
    labels: tuple[str, ...] = ()
    if how == "shuffled":
        order = _other_order(instance, seed)
        choices = [instance.choices[place] for place in order]
    elif how == "none_of_these":
        choices = _without_right(instance, _NONE.get(_language(instance, languages), ""))
    elif n <= len(_LABELS[how]) and not any(map(_BARE.fullmatch, choices)):
        labels = _LABELS[how][:n]
    else:
        return None
    if not order or not choices:
        return None
    places = {ascii_uppercase[old]: ascii_uppercase[new] for new, old in enumerate(order)}
    return msgspec.structs.replace(
        instance,
        choices=tuple(choices),
        references=tuple(places[letter] for letter in instance.references),
        option_labels=labels,
        metadata=instance.metadata
        | {
            ORDER: "".join(ascii_uppercase[place] for place in order),
            RIGHT: "".join(sorted(instance.references)),
        },
    )


def rewrite(
    instance: Instance, how: Variant, seed: int, languages: Mapping[str, str]
) -> Instance | str:
    """Return an instance of another patient, or the reason why it is refused."""
    if _language(instance, languages) != "en":
        return "not in English"
    found = rewritten(instance, how, seed)
    if isinstance(found, str) or not found.choices:
        return found
    marks = {ORDER: ascii_uppercase[: len(found.choices)], RIGHT: "".join(sorted(found.references))}
    return msgspec.structs.replace(found, metadata=found.metadata | marks)


def _language(instance: Instance, languages: Mapping[str, str]) -> str:
    return languages.get(instance.metadata.get("part", ""), languages.get("", "en"))


def as_shown(instance: Instance, letter: str) -> str:
    """Return the label under which the option of a letter is shown; of another text the text."""
    if len(letter) != 1 or letter not in ascii_uppercase[: len(instance.option_labels)]:
        return letter
    return instance.option_labels[ascii_uppercase.index(letter)]


def original_letter(metadata: Mapping[str, str], letter: str) -> str:
    """Return the letter that the option of a letter has in the original form; other answers as they are."""
    if ORDER not in metadata:
        return letter
    return metadata[ORDER][ascii_uppercase.index(letter)]


def _of_labels(text: str) -> str:
    return re.sub(r"(?<!\{)\b([Ll])etter(s?)\b", lambda m: f"{m[1]}abel{m[2]}", text)


def _names_labels(text: str) -> bool:
    """Return whether an option is one of others, named by their letters or numbers: `A and C`."""
    found = _TOKEN.findall(text.casefold())
    named = [token for token in found if _LABEL.fullmatch(token)]
    return (
        len(found) > 1
        and bool(named)
        and all(_BESIDE_LABELS.fullmatch(t) or _LABEL.fullmatch(t) for t in found)
    )


def _other_order(instance: Instance, seed: int) -> list[int]:
    """Return places of the options in another order; what speaks of the others keeps its place."""
    movable = [i for i, text in enumerate(instance.choices) if not _OF_OTHERS.search(text)]
    if len(movable) < 2:
        return []
    digest = hashlib.sha256(f"{seed}\0{instance.id}".encode("utf-8", "replace")).digest()
    rng = random.Random(int.from_bytes(digest[:8], "big"))
    moved = movable[:]
    while moved == movable:
        rng.shuffle(moved)
    order = list(range(len(instance.choices)))
    for place, option in zip(movable, moved, strict=True):
        order[place] = option
    return order


def _without_right(instance: Instance, none: str) -> list[str]:
    """Return the options with `none` in the place of the right one; nothing where that has no sense."""
    folded = [text.casefold().strip() for text in instance.choices]
    if not none or len(instance.references) != 1 or _CLOSED.intersection(folded):
        return []
    right = ascii_uppercase.index(instance.references[0])
    if folded.count(folded[right]) > 1 or any(map(_OF_OTHERS.search, instance.choices)):
        return []
    return [none if place == right else text for place, text in enumerate(instance.choices)]
