"""MedCalc-Bench accuracy (Khandekar et al., 2024, arXiv 2406.12036): is the value right?"""

import datetime
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal

from medhelm import (
    DataError,
    Episode,
    Glossary,
    Instance,
    Metric,
    Score,
    hookimpl,
    read_date,
    read_number,
    read_weeks_days,
)

_CATEGORIES = frozenset(
    {
        "lab",
        "lab test",
        "physical",
        "risk",
        "severity",
        "diagnosis",
        "date",
        "dosage",
        "dosage conversion",
    }
)
"""The spellings of all releases."""
_SHOWN = 50
"""Characters of an answer that the score keeps."""
_QUOTED_PAIR = re.compile(r"\('(\d+) weeks', '(\d+) days'\)")


@cache
def glossary() -> Glossary:
    """Return the names of MedCalc-Bench."""
    return Glossary.of_toml((resources.files(__package__) / "medcalc.toml").read_bytes())


@dataclass(frozen=True, kw_only=True)
class MedCalcAccuracy(Metric):
    """1 where the stated value is right by the form of the gold, else 0.

    A gold of weeks and days is compared in days, a date as a date, an integer as a number; a
    decimal must lie within the published limits (95 % to 105 % of the gold), borders included.
    `answer_key` holds output_type, lower_limit and upper_limit; category is checked if given.
    """

    name: str = "medcalc_accuracy"
    version: str = "9"
    source: str = "arXiv 2406.12036; limits and output types of the data set"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return 0 or 1, or `unparsed`, with the reason, where the reply commits to no value."""
        gold = _gold(instance)
        category = instance.answer_key.get("category", "")
        if category and category not in _CATEGORIES:
            raise DataError(
                f"instance {instance.id!r} has the unknown category {category!r}; known are "
                f"{', '.join(sorted(_CATEGORIES))}"
            )
        text, is_cut = episode.text, episode.finish == "length"
        asked = glossary().asked_by(instance.question)
        if (duration := read_weeks_days(gold).value) is not None:
            pair = read_weeks_days(text, is_cut=is_cut, asked=asked)
            if pair.value is None:
                return _unread(pair.reason)
            weeks, days = pair.value
            is_right = _days(pair.value) == _days(duration)
            return Score(value=float(is_right), extracted=f"{weeks} weeks, {days} days")
        if (gold_date := read_date(gold).value) is not None:
            date = read_date(text, is_cut=is_cut, asked=asked)
            if date.value is None:
                return _unread(date.reason)
            return Score(value=float(date.value == gold_date), extracted=f"{date.value:%m/%d/%Y}")
        low, high = _range(instance, gold)
        number = read_number(text, is_cut=is_cut, asked=asked)
        if number.value is None:
            return _unread(number.reason)
        return Score(value=float(low <= number.value <= high), extracted=f"{number.value:.10g}")


@dataclass(frozen=True, kw_only=True)
class PublishedMedCalcAccuracy(Metric):
    """The published scorer, faults included.

    It decides by category and knows neither `lab` nor `dosage`, so that those are never right;
    rule-based scores are compared as text, weeks and days in one literal spelling.
    """

    name: str = "medcalc_accuracy"
    scoring: Literal["fixed", "helm"] = "helm"
    source: str = "HELM, medcalc_bench_metrics"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return 0 or 1; what the published parsers refuse is `unparsed` and counts 0."""
        text, gold = episode.text.strip(), _gold(instance)
        category = _need(instance, "category")
        if category in ("risk", "severity", "diagnosis"):
            return Score(value=float(text == gold), extracted=text[:_SHOWN])
        if category not in ("date", "physical", "dosage conversion"):
            return Score(value=0.0, reason=f"the published scorer does not know {category!r}")
        low, high = _need(instance, "lower_limit"), _need(instance, "upper_limit")
        try:
            if category != "date":
                is_right = float(low) <= float(text) <= float(high)
            elif _QUOTED_PAIR.match(gold):
                is_right = _quoted_days(low) <= _quoted_days(text) <= _quoted_days(high)
            else:
                is_right = _us_date(low) <= _us_date(text) <= _us_date(high)
        except ValueError:
            return _unread("no single value in the published form is stated")
        return Score(value=float(is_right), extracted=text[:_SHOWN])


def _range(instance: Instance, gold: str) -> tuple[float, float]:
    """Return between which numbers an answer is right: the limits, or the integer itself."""
    output_type = _need(instance, "output_type")
    if output_type not in ("decimal", "integer"):
        raise DataError(
            f"instance {instance.id!r} has the output type {output_type!r} and a gold of another "
            "form; known are decimal, integer and date (with a gold as M/D/Y)"
        )
    if output_type == "integer":
        return _float(instance, "reference", gold), _float(instance, "reference", gold)
    low, high = (_float(instance, k, _need(instance, k)) for k in ("lower_limit", "upper_limit"))
    if low > high:
        raise DataError(f"instance {instance.id!r}: lower_limit is above upper_limit")
    return low, high


def _gold(instance: Instance) -> str:
    if not instance.references:
        raise DataError(f"instance {instance.id!r} has no reference; medcalc_accuracy needs one")
    return instance.references[0]


def _need(instance: Instance, key: str) -> str:
    if key not in instance.answer_key:
        raise DataError(
            f"instance {instance.id!r} has no {key!r} in answer_key; medcalc_accuracy needs it"
        )
    return instance.answer_key[key]


def _float(instance: Instance, key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"instance {instance.id!r}: {key} is not a number") from None


def _days(pair: tuple[int, int]) -> int:
    return 7 * pair[0] + pair[1]


def _quoted_days(text: str) -> int:
    """Return the days of a pair in the published spelling; raises ValueError on any other."""
    match = _QUOTED_PAIR.match(text)
    if match is None:
        raise ValueError("not a quoted pair of weeks and days")
    return _days((int(match[1]), int(match[2])))


def _us_date(text: str) -> datetime.datetime:
    return datetime.datetime.strptime(text, "%m/%d/%Y")


def _unread(reason: str) -> Score:
    return Score(value=None, outcome="unparsed", reason=reason)


@hookimpl
def medhelm_metrics() -> list[Metric]:
    return [MedCalcAccuracy(), PublishedMedCalcAccuracy()]
