"""Compare wordings of actions, and find the words that give an action's class away.

Two actions may differ by one figure and be right and wrong (5 mg and 2.5 mg), so that likeness of
letters is not a measure: prednisone is to prednisolone as a typing error is to its word. By rule only
those are near-duplicates that have the same words in the same order, whatever their case, articles
and signs. The same in other words is a question for an encoder (`--embeddings`) or a judge (`--judge`).

An action is to say what would be done, and nothing on whether that is right: a model that reads
"despite the known allergy" needs no medicine. Only words with one meaning are looked for here. What
else may give a class away is a question for a judge, too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medhelm import ModelError, UsageError

EMBEDDING_THRESHOLD = 0.92
"""Least cosine of two embeddings."""

Embed = Callable[[Sequence[str]], NDArray[np.float64]]

_ARTICLES = frozenset({"a", "an", "the", "of"})
_WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+|[<>%\u2264\u2265/]")
_DECIDING = re.compile(
    r"[\d<>\u2264\u2265%]|(?:not?|never|without|stop|hold|left|right|iv|intravenous\w*|oral\w*)$"
)
"""Words that two actions of like meaning must share, since to an encoder they are nearly the same."""


def gist(text: str) -> tuple[str, ...]:
    """Return what a text says, without case, articles and signs: equal for texts that say the same."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = re.sub(r"(?<=\d),(?=\d{3}\b)", "", plain)
    return tuple(word for word in _WORD.findall(plain) if word not in _ARTICLES)


def near_duplicates(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return pairs of ids whose texts say the same, in natural order (a2 before a10)."""
    read = [(name, gist(texts[name])) for name in sorted(texts, key=natural)]
    return [(a, b) for (a, one), (b, other) in combinations(read, 2) if one and one == other]


def embedding_duplicates(
    texts: Mapping[str, str], embed: Embed, threshold: float = EMBEDDING_THRESHOLD
) -> list[tuple[str, str]]:
    """Return pairs of ids whose embeddings have a cosine of the threshold or more.

    Pairs of which one has a figure, a side, a route or a negation that the other lacks are left out,
    whatever their cosine.
    """
    names = sorted(texts, key=natural)
    if len(names) < 2:
        return []
    vectors = np.asarray(embed([texts[name] for name in names]), dtype=np.float64)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    cosines = unit @ unit.T
    facts = [{word for word in gist(texts[name]) if _DECIDING.match(word)} for name in names]
    return [
        (names[i], names[j])
        for i, j in combinations(range(len(names)), 2)
        if cosines[i, j] >= threshold and facts[i] == facts[j]
    ]


def natural(name: str) -> tuple[tuple[tuple[int, int | str], ...], str]:
    """Return a key that sorts numbers within names as numbers."""
    parts = re.split(r"([0-9]+)", name)
    return tuple((0, int(p)) if p.isdecimal() else (1, p) for p in parts if p), name


LEAKS: dict[str, str] = {
    "contraindication": r"(?:not |is )?contraindicated",
    "recommendation": r"(?:guideline|evidence)s?-\w+|recommended(?! (?:daily|weekly|dietary|limit))|"
    r"(?:as|clinically) indicated|standard[- ]of[- ]care|gold[- ]standard|(?:drug|agent|test) of choice",
    "judgement": r"unnecessar(?:y|ily)|needless(?:ly)?|inappropriately|an inappropriate|dangerously|"
    r"reckless(?:ly)?|carelessly|wrongly|unwarranted|unjustified|malpractice",
    "intent": r"(?:dose|interaction|contraindication|prerequisite|monitoring)[ _-]trap|trap_\d+|distract[oe]r|"
    r"decoy|red herring|(?:correct|wrong|right|best|incorrect|expected) answer|answer key|rubric|"
    r"(?:score|rating|rated|median|consensus):? \d(?:/9)?|[1-9]/9|first_line|"
    r"(?:blind|conditional|first_line) option|provenance",
}
"""Kind -> words: what contradicts the case, praises, blames, or names the writer's intent."""
_LEAK = re.compile(
    "|".join(rf"(?P<{kind}>(?<![\w-])(?:{words})(?![\w-]))" for kind, words in LEAKS.items()),
    re.IGNORECASE,
)
_DASHES = str.maketrans({c: "-" for c in "\u2010\u2011\u2012\u2013\u2014\u2212"})
_HIDDEN = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")


@dataclass(frozen=True)
class Leak:
    """One wording and the kind of hint that it is."""

    kind: str
    phrase: str


def find_leaks(text: str) -> tuple[Leak, ...]:
    """Return the leaks of an action's text from left to right."""
    shown = " ".join(_HIDDEN.sub("", text).translate(_DASHES).split())
    return tuple(Leak(str(found.lastgroup), found[0]) for found in _LEAK.finditer(shown))


_LONGEST = 512
"""Tokens of a text that are read, where the model knows no limit of its own."""


def load_embedder(model: str) -> Embed:
    """Return a function from texts to vectors (n, d): the mean of the last layer's tokens.

    `model` is a folder or a hub id; texts stay on this machine. Raises UsageError where the
    packages or the folder are missing, ModelError where the model cannot be loaded.
    """
    if any(find_spec(package) is None for package in ("torch", "transformers")):
        raise UsageError(
            f"--embeddings {model} needs the packages torch and transformers; "
            "run in the checkout: pip install '.[hf]'"
        )
    place = Path(model).expanduser()
    if not place.is_dir() and (model.startswith((".", "/", "~")) or model.count("/") > 1):
        raise UsageError(f"--embeddings: there is no folder {model}; name one, or a hub id")
    try:
        from transformers import pipeline
        from transformers.utils import logging

        logging.disable_progress_bar()
        logging.set_verbosity_error()
        source = str(place) if place.is_dir() else model
        encoder = pipeline("feature-extraction", model=source, tokenizer=source, device="cpu")
        known = getattr(encoder.model.config, "max_position_embeddings", None) or _LONGEST
        longest = min(int(known), int(encoder.tokenizer.model_max_length), _LONGEST)
        cut = {"truncation": True, "max_length": longest}
        encoder("A text to try it on.", tokenize_kwargs=cut)
    except Exception as e:  # the boundary to the library
        said = str(e).strip().splitlines()
        raise ModelError(
            f"--embeddings {model} cannot be loaded ({said[0][:200] if said else type(e).__name__}); "
            "give the id of an encoder on the hub, or a folder with one"
        ) from None

    def embed(texts: Sequence[str]) -> NDArray[np.float64]:
        found = (encoder(text, tokenize_kwargs=cut, return_tensors=True) for text in texts)
        return np.stack([tokens[0].mean(0).double().numpy() for tokens in found])

    return embed
