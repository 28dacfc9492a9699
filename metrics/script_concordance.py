"""Credit of script concordance: how many of the panel of experts chose the same value.

Charlin et al., 2000, Teaching and Learning in Medicine 12(4); SCT-Bench, McCoy et al., NEJM AI 2025.
"""

import re
from dataclasses import dataclass

from medhelm import (
    DataError,
    Episode,
    Instance,
    Metric,
    Reading,
    Score,
    hookimpl,
    own_text,
    read_number,
    visible_text,
)

VALUES = ("-2", "-1", "0", "+1", "+2")
_VALUE = r"[+\-\u2212\u2013]?[0-2](?![\w%]|[.,]\d)"
_SCALE = re.compile(
    r"\(?(?:(?:on|from|using)\s)?(?:(?:a|the)\s)?(?:scale\s)?(?:of|from|ranging from|between)?\s?"
    r"[-\u2212\u2013]2\s?(?:to|through|and|\.{2,3}|\u2013)\s?\+?2\)?(?!\w)",
    re.IGNORECASE,
)
"""Matches the whole scale, which a reply repeats."""
_SECOND = rf"\s*(?:to|or|and|/|,|-|\u2013)\s*{_VALUE}"
_GAP = r"[^\w+\-\u2212\u2013]"
"""Matches what is neither a word nor a sign."""
_LEAD = re.compile(
    rf"{_GAP}*(?:[-\u2013]\s)?(?:(?:my|the|final|overall){_GAP}+)*"
    rf"(?:(?:rating|answer|score|response|value|choice){_GAP}*(?:is{_GAP}+)?)?"
    rf"(?P<value>{_VALUE})(?P<second>{_SECOND})?"
    r"[\s*_`\"')\]}]*(?=$|\n|[.:;,(\u2014]|[-\u2013]\s|because\b)",
    re.IGNORECASE,
)
"""Matches the value with which a reply begins."""
_AGAIN = re.compile(
    rf"\b(?:rating|answer|score|response)\b[*_`\s]*(?:is|:|=)[*_`\s:]*(?P<value>{_VALUE})",
    re.IGNORECASE,
)
_BACK = re.compile(
    r"\b(?:no,? wait|wait,|on second thought|correction|scratch that)\b", re.IGNORECASE
)


def read_value(text: str, *, is_cut: bool = False) -> Reading[str]:
    """Return the value of the scale that a reply gives, as in VALUES; a plus sign may be missing.

    The whole scale, where a reply repeats it, is passed over. Two values, as in `+1 or +2`, are
    not an answer.
    """
    own = _SCALE.sub(" ", own_text(visible_text(text)))
    lead = None if is_cut and len(own.strip()) < 3 else _LEAD.match(own)
    if lead is None or _BACK.search(own):
        return _read_in_words(own, is_cut)
    found = {_named(lead["value"]), *(_named(m["value"]) for m in _AGAIN.finditer(own))}
    if lead["second"] or len(found) > 1:
        return Reading(None, "two values of the scale are stated")
    return Reading(found.pop())


def _read_in_words(own: str, is_cut: bool) -> Reading[str]:
    """Return the value that a reply states somewhere, as numbers are read."""
    if re.search(rf"(?<![\w.,]){_VALUE}\s*(?:or|/)\s*{_VALUE}", own):
        return Reading(None, "two values of the scale are stated")
    reading = read_number(own, is_cut=is_cut)
    if reading.value is None:
        return Reading(None, reading.reason)
    if reading.value not in range(-2, 3):
        return Reading(None, "the number is not a value of the scale")
    return Reading(VALUES[int(reading.value) + 2])


def _named(value: str) -> str:
    """Return a value as the scale writes it."""
    number = int(re.sub("[\u2212\u2013]", "-", value))
    return VALUES[number + 2]


@dataclass(frozen=True, kw_only=True)
class ScriptConcordance(Metric):
    """Experts who chose the value, divided by those who chose the most frequent one.

    An answer of the most frequent value, or of one of several that are as frequent, scores 1; one
    that no expert gave scores 0. `answer_key` holds the weight of each value of the scale: the
    number of experts, or a share of it. A reply from which no value is read is `unparsed`.
    """

    name: str = "sct_score"
    version: str = "4"
    source: str = "Charlin et al. 2000; SCT-Bench (NEJM AI 2025)"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the credit, from 0 to 1."""
        weights = _weights(instance)
        reading = read_value(episode.text, is_cut=episode.finish == "length")
        if reading.value is None:
            return Score(value=None, outcome="unparsed", reason=reading.reason)
        return Score(value=self._credit(weights, reading.value), extracted=reading.value)

    def _credit(self, weights: dict[str, float], value: str) -> float:
        return weights[value] / max(weights.values())


@dataclass(frozen=True, kw_only=True)
class ExpertShare(ScriptConcordance):
    """1 where at least one expert of the panel gave the value, else 0."""

    name: str = "sct_any_expert"

    def _credit(self, weights: dict[str, float], value: str) -> float:
        return float(weights[value] > 0)


def _weights(instance: Instance) -> dict[str, float]:
    """Return the weight of each value of the scale; raises DataError."""
    try:
        weights = {value: float(instance.answer_key[value]) for value in VALUES}
    except (KeyError, ValueError):
        raise DataError(
            f"instance {instance.id!r}: answer_key must hold the weight of {', '.join(VALUES)}"
        ) from None
    if min(weights.values()) < 0 or not 0 < max(weights.values()) < float("inf"):
        raise DataError(f"instance {instance.id!r}: no value of the scale has a weight above 0")
    return weights


@hookimpl
def medhelm_metrics() -> list[Metric]:
    return [ScriptConcordance(), ExpertShare()]
