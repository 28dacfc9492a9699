"""The table `corrected`: a judge's share of criteria met, corrected by what experts decided.

Rogan and Gladen take the judge's sensitivity and specificity from the labelled decisions, the
prediction-powered share adds the mean gap of experts and judge to the judge's mean. Both intervals
carry the doubt in the judge's decisions and in the labels, summed over whole cases.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from medhelm.stats import agreement
from medhelm.stats.aggregation import Floats, Ints
from medhelm.stats.intervals import Interval
from medhelm.stats.two_class import Bools, corrected_share
from medhelm.tables.clinicians.alignment import Aligned
from medhelm.tables.clinicians.decisions import plain, plain_name
from medhelm.tables.clinicians.fidelity import Comparison
from medhelm.tables.format.column_kinds import count, ends, number, text
from medhelm.tables.format.table import Layout, Row, Settings, Table, make_table

CORRECTED = (
    text("judge", "whose decisions on all answers are corrected", "judge"),
    text("reference", "the group of experts that corrects them"),
    text("model", "whose answers were graded", "model"),
    count("decisions", "decisions of the judge, invalid ones as unmet", "decisions"),
    count("cases", "cases that they are about"),
    number("share", "share of them that is met", "share", "judge", is_percent=True, digits=1),
    count(
        "labelled",
        "criteria of this model that the experts decided too",
        "labelled",
        of="decisions",
    ),
    count("labelled_cases", "cases that those are about"),
    number(
        "labelled_share",
        "share of them that the experts find met",
        "share",
        "experts",
        is_percent=True,
        digits=1,
    ),
    text(
        "labels_of",
        "own: sensitivity and specificity are of the labelled of this model; others: "
        "of all other models, since it has none",
        "labels",
    ),
    number(
        "sensitivity", "share of what experts find met that the judge finds met", "share", digits=3
    ),
    number(
        "specificity",
        "share of what experts find unmet that the judge finds unmet",
        "share",
        digits=3,
    ),
    number(
        "corrected",
        "share corrected after Rogan and Gladen",
        "share",
        "Rogan-Gladen",
        ("corrected_low", "corrected_high"),
        3,
    ),
    *ends("corrected", "corrected", "share"),
    text("corrected_method", "how, or why there is none"),
    number(
        "powered",
        "prediction-powered share",
        "share",
        "prediction-powered",
        ("powered_low", "powered_high"),
        3,
    ),
    *ends("powered", "powered", "share"),
    text("powered_method", "how, or why there is none"),
)


@dataclass(frozen=True)
class _Graded:
    """All decisions i = 1..n of a judge on the answers of one model."""

    met: Bools
    clusters: Ints
    """Codes of the cases, as `cases` has them."""
    human: Floats
    """Holds the decisions of experts on the same, 1 or 0; NaN where they did not."""


def corrected_table(compared: Comparison, settings: Settings | None = None) -> Table:
    """Return each judge's share of criteria met, corrected by each group of experts."""
    confidence = (settings or Settings()).confidence
    rows: list[Row] = []
    for pair in compared.pairs():
        if pair.grader.is_judge:
            rows += _rows(pair, compared, confidence)
    return make_table(
        "corrected",
        "Share of criteria met, corrected by experts",
        CORRECTED,
        rows,
        [
            f"Rogan-Gladen: (share + specificity - 1) / (sensitivity + specificity - 1). "
            "Prediction-powered: mean of the judge + mean of (experts - judge) on the labelled. "
            f"{confidence:.0%} t intervals over the labelled cases, within 0 and 1.",
            "Right where the labelled answers are a random part of all answers of the model. With "
            "labels of others, where the judge is as right about this model as about those.",
            "Refused where sensitivity + specificity is below 1.1 or cannot be told from 1.",
        ],
        {"confidence": confidence},
        ("judge", "reference"),
        layout=Layout(leaving=("labels_of", "labelled_share"), main=("corrected", "powered")),
    )


def _rows(pair: Aligned, compared: Comparison, confidence: float) -> list[Row]:
    by_model = _graded(pair, compared)
    return [
        {
            "judge": pair.grader.name,
            "reference": pair.reference.name,
            "model": compared.model(model),
            **_row(own, [g for m, g in by_model.items() if m != model], confidence),
        }
        for model, own in by_model.items()
    ]


def _graded(pair: Aligned, compared: Comparison) -> dict[str, _Graded]:
    """Return the judge's decisions on each model, with the labels that the alignment found."""
    labels: dict[tuple[str, str, str], list[float]] = {}
    for answer in pair.answers:
        for criterion, label in zip(answer.criteria, pair.expected[answer.places], strict=True):
            key = answer.model, plain(answer.case), plain(criterion)
            labels.setdefault(key, []).append(float(label))
    cases: dict[str, int] = {}
    found: dict[str, tuple[list[bool], list[int], list[float]]] = {}
    for row in pair.grader.rows:
        model, case = plain_name(compared.aliases.get(row.model, row.model)), plain(row.case)
        met, clusters, human = found.setdefault(model, ([], [], []))
        for decision in row.decisions:
            left = labels.get((model, case, plain(decision.criterion)))
            met.append(decision.verdict == "met")
            clusters.append(cases.setdefault(case, len(cases)))
            human.append(left.pop(0) if left else np.nan)  # repeated answers: in their order
    for (model, case, _), left in labels.items():  # on criteria that the judge's file does not name
        met, clusters, human = found[model]
        met += [False] * len(left)
        clusters += [cases[case]] * len(left)
        human += left
    return {
        model: _Graded(np.asarray(met), np.asarray(clusters), np.asarray(human))
        for model, (met, clusters, human) in found.items()
        if met
    }


def _row(own: _Graded, others: list[_Graded], confidence: float) -> Row:
    labelled = ~np.isnan(own.human)
    sources = [own] if labelled.any() else others
    row: Row = {
        "decisions": len(own.met),
        "cases": len(np.unique(own.clusters)),
        "share": own.met.mean(),
        "labelled": int(labelled.sum()),
        "labelled_cases": len(np.unique(own.clusters[labelled])),
        "labelled_share": own.human[labelled].mean() if labelled.any() else None,
        "labels_of": "own" if labelled.any() else "others",
    }
    parts = [(g.met[there], g.human[there] > 0, g.clusters[there]) for g, there in _labels(sources)]
    if not parts:
        why = "none (no label)"
        return row | {"labels_of": None, "corrected_method": why, "powered_method": why}
    graded, truth, clusters = (np.concatenate(column) for column in zip(*parts, strict=True))
    found = corrected_share(own.met, own.clusters, graded, truth, clusters)
    row |= {
        "sensitivity": graded[truth].mean() if truth.any() else None,
        "specificity": (~graded[~truth]).mean() if not truth.all() else None,
        **_ends("corrected", found, len(np.unique(clusters)), confidence),
    }
    if not labelled.any():
        return row | {"powered_method": "none (no label of this model)"}
    judge = own.met.astype(np.float64)
    codes = np.unique(own.clusters, return_inverse=True)[1].astype(np.int64)
    powered = agreement.powered_mean(judge, own.human, codes)
    return row | _ends("powered", powered, len(np.unique(codes[labelled])), confidence)


def _labels(sources: list[_Graded]) -> list[tuple[_Graded, Bools]]:
    found = [(graded, ~np.isnan(graded.human)) for graded in sources]
    return [(graded, there) for graded, there in found if there.any()]


def _ends(name: str, found: agreement.Corrected, clusters: int, confidence: float) -> Row:
    ends: Interval = agreement.t_interval(found, clusters, confidence)
    return {
        name: None if found.value is None else min(1.0, max(0.0, found.value)),
        f"{name}_low": None if ends.low is None else max(0.0, ends.low),
        f"{name}_high": None if ends.high is None else min(1.0, ends.high),
        f"{name}_method": ends.method,
    }
