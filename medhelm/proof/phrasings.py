"""Instance -> replies that give its gold in many wordings, and replies that give no answer.

The wordings of choices, numbers and label sets are data (`phrasings.yaml`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import ascii_uppercase

from medhelm.extract import extract_date, extract_weeks_days
from medhelm.extract.numbers.asked import asked_unit
from medhelm.schema.data import Benchmark, Instance

_FIELD = re.compile(r"\[\[(\w+)\]\]")
_FILE = Path(__file__).parent / "phrasings.yaml"


@dataclass(frozen=True, kw_only=True)
class Phrasing:
    """A reply by which the reading of one instance's answer is tried."""

    name: str
    text: str
    gives_gold: bool
    """True if a reader finds the gold in it. False if nothing may be read."""
    is_cut: bool
    """True if the reply ended at the output budget."""


def phrasings_of(benchmark: Benchmark, instance: Instance) -> Iterator[Phrasing]:
    """Yield the replies by which the reading of an instance's gold is tried; none without a gold.

    Fields of the wordings: `letter`, `text` (the gold option), `other_letter`, `other_text` (a
    wrong one), `echo_lines`, `echo_line`, `probabilities` (all options); `value`, `other_value`
    (a number, a date or a duration as people write it), `unit` (which the question asks for), `before` (the
    number before a factor of 0.8); `commas`, `semicolons`, `lines`,
    `bullets`, `numbered`, `json` (all gold labels).
    """
    own, file = benchmark.phrasings, _FILE
    if own is not None:
        file, (kinds, fields) = own.file, own.fill(instance)
    elif not instance.references:
        return
    elif instance.choices:
        fields, kinds = _of_choices(instance), ["choice"]
    elif benchmark.answer == "number":
        fields, kinds = _of_value(instance.references[0], instance.question)
    elif benchmark.answer == "labels":
        fields, kinds = _of_labels(instance.references), ["labels"]
    else:
        return
    for kind in kinds:
        for name, text, gives_gold, is_cut in _wordings(file)[kind]:
            wanted = set(_FIELD.findall(text))
            if wanted <= fields.keys():
                filled = _FIELD.sub(lambda match: fields[match[1]], text)
                yield Phrasing(name=name, text=filled, gives_gold=gives_gold, is_cut=is_cut)


@cache
def _wordings(path: Path) -> Mapping[str, tuple[tuple[str, str, bool, bool], ...]]:
    """Return (name, template, whether it gives the gold, whether it is cut) by kind of answer."""
    import yaml

    read = yaml.safe_load(path.read_text("utf-8"))
    return {
        kind: tuple(
            (name, word["text"], group == "gold", word["cut"])
            if isinstance(word, dict)
            else (name, word, group == "gold", False)
            for group, words in groups.items()
            for name, word in words.items()
        )
        for kind, groups in read.items()
    }


def _of_choices(instance: Instance) -> dict[str, str]:
    lettered = list(zip(ascii_uppercase, instance.choices, strict=False))
    shown = [f"{letter}. {text}" for letter, text in lettered]
    right = {letter for letter, _ in lettered if letter in instance.references}
    found = {"echo_lines": "\n".join(shown), "echo_line": " ".join(shown)}
    if len(lettered) > 2:
        share = 100 // len(lettered)
        found["probabilities"] = ", ".join(f"{letter}: {share}%" for letter, _ in lettered)
    for letter, text in lettered:
        if letter == instance.references[0]:
            found["letter"] = letter
            others = {name for name, _ in lettered} - {letter}
            if text not in others:  # which as an answer it would be
                found["text"] = text
        elif letter not in right and "other_letter" not in found:
            found |= {"other_letter": letter, "other_text": text}
    return found


def _of_value(gold: str, question: str) -> tuple[dict[str, str], list[str]]:
    """Return the fields of a number, a date or a duration, and the kinds of wordings that fit."""
    if (duration := extract_weeks_days(gold)) is not None:
        weeks, days = duration
        shown = (f"{weeks} weeks and {days} days", f"{weeks + 3} weeks and {days} days")
        return dict(zip(("value", "other_value"), shown, strict=True)), ["number"]
    if (date := extract_date(gold)) is not None:
        other = date.replace(year=date.year + 1, day=1)
        fields = {"value": f"{date:%m/%d/%Y}", "other_value": f"{other:%m/%d/%Y}"}
        return fields, ["number"]
    unit = asked_unit(question)
    fields = {
        "value": gold,
        "other_value": f"{float(gold) + 1.5 * abs(float(gold)) + 4:g}",
        "unit": f" {unit}" if unit else "",
        "before": f"{round(float(gold) / 0.8, 4):.15g}",
    }
    return fields, ["number", "numeral"]


def _of_labels(golds: tuple[str, ...]) -> dict[str, str]:
    return {
        "commas": ", ".join(golds),
        "semicolons": "; ".join(golds),
        "lines": "\n".join(golds),
        "bullets": "\n".join(f"- {gold}" for gold in golds),
        "numbered": "\n".join(f"{n}. {gold}" for n, gold in enumerate(golds, 1)),
        "json": json.dumps(golds, ensure_ascii=False),
    }
