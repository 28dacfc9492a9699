"""Precision, recall and F1 of label sets (ICD codes, specialties): pooled, per note, per label.

The references of an instance are the labels of its set, all of them; none means that no label
applies. How an answer is read depends on what is known of the labels: `answer_key["labels"]`, a
JSON list of all labels of the task, names them; else gold labels in the form of ICD-10 codes say
that codes are asked for; else every item of the answer's list is a label.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from medhelm import (
    MEAN,
    Aggregation,
    DataError,
    Episode,
    Floats,
    Instance,
    Metric,
    Outcome,
    Reading,
    Score,
    Sums,
    hookimpl,
    is_code,
    read_codes,
    read_labels,
)

_PUBLISHED_CODE = re.compile(r"\b[A-Z]\d{1,3}(?:\.\d{1,4})?\.?\b")
_PROCEDURE = re.compile(
    r"(?!X\d{2}[\dX]{3}[A-Z]$|C44)(?:[\dBCDFX][\dA-HJ-NP-Z]|[GH]Z)[\dA-HJ-NP-Z]{5}"
)
"""A code of ICD-10-PCS: seven places, the first one of its sections. Diagnoses of that length
begin with other letters, but for X58XXXA, C441021, H401110 and their like."""
_NOT_CODES = Score(
    value=None, outcome="uninformative", reason="the published scorer reads ICD-10 codes alone"
)
_SHOWN = 100
"""Labels of an answer that the score keeps."""


def micro_precision(sums: Sums) -> Floats:
    """Return tp / (tp + fp): 0 where nothing was predicted though something was to be found,
    undefined where there was neither."""
    import numpy as np

    from medhelm import ratio

    predicted = sums["tp"] + sums["fp"]
    return np.where((predicted == 0) & (sums["fn"] > 0), 0.0, ratio(sums["tp"], predicted))


def micro_recall(sums: Sums) -> Floats:
    """Return tp / (tp + fn): 0 where nothing was to be found though something was predicted,
    undefined where there was neither."""
    import numpy as np

    from medhelm import ratio

    wanted = sums["tp"] + sums["fn"]
    return np.where((wanted == 0) & (sums["fp"] > 0), 0.0, ratio(sums["tp"], wanted))


def micro_f1(sums: Sums) -> Floats:
    """Return 2 tp / (2 tp + fp + fn); undefined where all are 0."""
    from medhelm import ratio

    return ratio(2 * sums["tp"], 2 * sums["tp"] + sums["fp"] + sums["fn"])


def macro_f1(sums: Sums) -> Floats:
    """Return the mean F1 over labels. A label that is neither among the golds nor predicted is
    left out, as in scikit-learn; undefined where no label is left."""
    from medhelm import by_label, mean_of_defined

    return mean_of_defined(micro_f1({n: by_label(sums, f"{n}/*") for n in ("tp", "fp", "fn")}))


def count_extremes(seen: Sums, minimum: float, maximum: float) -> tuple[Sums, Sums]:
    """Return the counts of a cluster as large as the largest seen, all wrong and all right."""
    low: dict[str, Floats] = {}
    high: dict[str, Floats] = {}
    for tp in (name for name in seen if name.startswith("tp")):
        fp, fn = (name + tp.removeprefix("tp") for name in ("fp", "fn"))
        size = (seen[tp] + seen[fp] + seen[fn]).max(0)
        low |= {tp: 0 * size, fp: size, fn: size}
        high |= {tp: size, fp: 0 * size, fn: 0 * size}
    return low, high


def _of_counts(name: str, of: Callable[[Sums], Floats], tail: str = "") -> Aggregation:
    sums = ("tp" + tail, "fp" + tail, "fn" + tail)
    return Aggregation(name=name, sums=sums, of=of, extremes=count_extremes)


MICRO_PRECISION = _of_counts("micro_precision", micro_precision)
MICRO_RECALL = _of_counts("micro_recall", micro_recall)
MICRO_F1 = _of_counts("micro_f1", micro_f1)
MACRO_F1 = _of_counts("macro_f1", macro_f1, "/*")


@dataclass(frozen=True, kw_only=True)
class LabelSetMetric(Metric):
    """A statistic of how many labels are right, too many and missed.

    A score's value is the statistic of one note; `aggregation` makes the run's value, the mean
    over notes or the statistic of counts summed over notes (micro), labels apart (macro). A note
    whose answer cannot be read counts as one for which nothing was predicted. Of a list that the
    budget cut, the whole items count and the last one is dropped.
    """

    version: str = "4"
    statistic: Callable[[Sums], Floats]
    source: str = "Sokolova and Lapalme 2009, doi 10.1016/j.ipm.2009.03.002"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the note's statistic and the counts, or `unparsed` where no label is listed."""
        gold = _gold(instance)
        reading = _predicted(instance, episode)
        if reading.value is None:
            return Score(value=None, outcome="unparsed", reason=reading.reason)
        found = frozenset(map(_key, reading.value))
        return Score(
            value=self._of_note(gold, found),
            extracted=", ".join(sorted(found)[:_SHOWN]),
            sums=self._sums(instance, gold, found),
        )

    def _of_note(self, gold: frozenset[str], found: frozenset[str]) -> float:
        """Return the statistic of one note: 1 where there is neither a gold nor a predicted label."""
        import numpy as np

        counts = {name: np.float64(n) for name, n in _counts(gold, found).items()}
        return float(self.statistic(counts)) if gold or found else 1.0

    def floor_score(self, instance: Instance, outcome: Outcome, reason: str = "") -> Score:
        """Return the floor, with the counts of a prediction without labels."""
        sums = self._sums(instance, _gold(instance), frozenset())
        return Score(value=self.floor, outcome=outcome, reason=reason, sums=sums)

    def _sums(
        self, instance: Instance, gold: frozenset[str], found: frozenset[str]
    ) -> dict[str, float]:
        """Return tp, fp and fn, for macro of each label of the list; none for a mean."""
        if self.aggregation == MEAN:
            return {}
        if not self.aggregation.is_by_label:
            return _counts(gold, found)
        if not (labels := _labels(instance)):
            raise DataError(
                f"instance {instance.id!r} has no list of all labels, which {self.name} needs; "
                "to_instance must set answer_key['labels'] to a JSON list, the same everywhere"
            )
        keys = {label: frozenset([_key(label)]) for label in labels}
        return {
            f"{name}/{label}": n
            for label, key in keys.items()
            for name, n in _counts(gold & key, found & key).items()
        }


@dataclass(frozen=True, kw_only=True)
class PublishedLabelSetMetric(LabelSetMetric):
    """The published scorer of ICD-10 codes: a narrow pattern, applied to gold and answer alike.

    The gold's diagnoses have their point, as in the file that HELM reads and other than in the
    tables of MIMIC; the answer is read as it is, so that E119 is not E11.9. Codes with letters
    after the first place are cut or lost on both sides, lower case is not read, and a note
    without any code counts 0. It reads codes alone: of other labels it says nothing.
    """

    version: str = "4"
    scoring: Literal["fixed", "helm"] = "helm"
    source: str = "HELM, mimiciv_billing_code_metrics"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the note's statistic. An answer without codes counts as an empty prediction."""
        if not _has_codes(instance):
            return _NOT_CODES
        golds = map(_published_form, instance.references)
        gold = frozenset(code for g in golds for code in _published_codes(g))
        found = _published_codes(episode.text)
        value = self._of_note(gold, found) if gold or found else 0.0
        return Score(value=value, extracted=", ".join(sorted(found)[:_SHOWN]))

    def floor_score(self, instance: Instance, outcome: Outcome, reason: str = "") -> Score:
        """Return 0, or `uninformative` where no answer would have counted."""
        if not _has_codes(instance):
            return _NOT_CODES
        return Score(value=self.floor, outcome=outcome, reason=reason)


def _counts(gold: frozenset[str], found: frozenset[str]) -> dict[str, float]:
    """Return how many labels are right, too many and missed."""
    parts = {"tp": gold & found, "fp": found - gold, "fn": gold - found}
    return {name: float(len(labels)) for name, labels in parts.items()}


def _key(label: str) -> str:
    """Return what makes two spellings one label: codes without point, words without case."""
    if is_code(label.upper()):
        return label.upper().replace(".", "")
    return " ".join(label.casefold().split())


def _gold(instance: Instance) -> frozenset[str]:
    gold = frozenset(map(_key, instance.references))
    labels = _labels(instance)
    if labels and (unknown := gold - set(map(_key, labels))):
        raise DataError(
            f"instance {instance.id!r} has {len(unknown)} gold labels that are not in "
            "answer_key['labels']; the list must hold all labels of the task"
        )
    return gold


def _labels(instance: Instance) -> tuple[str, ...]:
    """Return all labels of the task, () where they are not given; raises DataError."""
    text = instance.answer_key.get("labels")
    labels = () if text is None else _parse_labels(text)
    if labels is None:
        raise DataError(
            f"instance {instance.id!r}: answer_key['labels'] must be a JSON list of different texts"
        )
    return labels


@lru_cache(maxsize=16)
def _parse_labels(text: str) -> tuple[str, ...] | None:
    """Return the labels of a JSON list; None if it is none, empty, or holds one twice."""
    try:
        labels = json.loads(text)
    except ValueError:
        return None
    is_list = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
    if not is_list or not labels or len(set(map(_key, labels))) < len(labels):
        return None
    return tuple(labels)


def _asks_for_codes(instance: Instance) -> bool:
    return bool(instance.references) and all(is_code(r.upper()) for r in instance.references)


def _predicted(instance: Instance, episode: Episode) -> Reading[tuple[str, ...]]:
    labels = _labels(instance)
    is_cut = episode.finish == "length"
    if not labels and _asks_for_codes(instance):
        return read_codes(episode.text, is_cut=is_cut)
    return read_labels(episode.text, labels or None, is_cut=is_cut)


def _has_codes(instance: Instance) -> bool:
    """Return whether a gold is a code. The file that HELM reads ends those of three places in a
    point."""
    return any(is_code(gold.upper().rstrip(".")) for gold in instance.references)


def _published_form(gold: str) -> str:
    """Return a gold as the file has it that HELM reads: diagnoses with their point, E11.9."""
    if "." in gold or _PROCEDURE.fullmatch(gold):
        return gold
    return f"{gold[:3]}.{gold[3:]}"


def _published_codes(text: str) -> frozenset[str]:
    found = _PUBLISHED_CODE.findall(text.replace("**", ""))
    return frozenset(code.rstrip(".") for code in found)


@hookimpl
def medhelm_metrics() -> list[Metric]:
    """Return the statistics of label sets. The published ones are means over notes."""
    per_note = {
        "label_precision": micro_precision,
        "label_recall": micro_recall,
        "mean_f1": micro_f1,
    }
    pooled = (MICRO_PRECISION, MICRO_RECALL, MICRO_F1)
    return [
        *(LabelSetMetric(name=a.name, statistic=a.of, aggregation=a) for a in pooled),
        LabelSetMetric(name=MACRO_F1.name, statistic=micro_f1, aggregation=MACRO_F1),
        *(LabelSetMetric(name=n, statistic=s) for n, s in per_note.items()),
        *(PublishedLabelSetMetric(name=n, statistic=s) for n, s in per_note.items()),
    ]
