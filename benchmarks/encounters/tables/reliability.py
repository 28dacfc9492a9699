"""The table of reliability: cases as an examination of the models, as examiners report one.

A score is mean + model + case + rest, crossed, on the cases that all ranked models have; mean squares give the
variances of the three. The generalizability coefficient of a mean over n cases is model / (model + rest / n), the
dependability model / (model + (case + rest) / n) (Shavelson and Webb, 1991).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from medhelm import Floats, Study, Table, TableRequest, TableSpec, pooled_share
from medhelm.plugin import column_kinds as kinds
from medhelm.plugin import measured, notes
from medhelm.plugin import study as studies
from medhelm_benchmarks.encounters.grading.completion import TURNED
from medhelm_benchmarks.encounters.tables.encounters import ACCURACY, COMPLETION

LEAST_MODELS, LEAST_CASES = 3, 10
WANTED = 0.8
"""The coefficient from which an examination is commonly taken to tell its candidates apart."""
_TIE = 1e-9

FORM = kinds.form(__file__, "encounter_reliability")


def reliability(scores: Floats, mark: float, confidence: float) -> dict[str, float | None]:
    """Return the columns of the reliability of scores (models, cases), at least two of each.

    The coefficient is ICC(3,k), whose interval is McGraw and Wong's (1996); the dependability is ICC(2,k).
    """
    by_model, by_case, rest, n, k = measured.mean_squares(scores)
    model, case = (by_model - rest) / k, (by_case - rest) / n
    consistency = measured.icc3k(scores, confidence)
    error = (max(case, 0.0) + rest) / k
    of_mean = max(model, 0.0) / n + max(case, 0.0) / k + rest / (n * k)
    signal = max(max(model, 0.0) + (float(scores.mean()) - mark) ** 2 - of_mean, 0.0)
    needed = WANTED / (1 - WANTED) * rest / model if model > _TIE**2 else None
    return {
        "models": n,
        "n": k,
        "generalizability": consistency.value,
        "generalizability_low": consistency.low,
        "generalizability_high": consistency.high,
        "cases_needed": None if needed is None else max(math.ceil(needed - _TIE), 1),
        "dependability": measured.icc2(scores)[1] if by_model > 0 else None,
        "at_mark": signal / (signal + error) if signal + error > 0 else None,
        "variance_model": model,
        "variance_case": case,
        "variance_rest": rest,
    }


def table(asked: TableRequest) -> Table:
    """Return rows of each benchmark of encounters: its cases as an examination, and each model's passes."""
    study, said = asked.study, list[str]()
    mark, rows = study.settings.pass_mark, list[dict[str, object]]()
    for benchmark in study.panels:
        own = [m for m in (TURNED, COMPLETION, ACCURACY) if m in study.metrics(benchmark)]
        if not own:
            continue
        panel = study.panel(benchmark, own[0])
        ranked = [m for m in panel.cells if m in study.ranked and m not in panel.unfit]
        if len(ranked) >= LEAST_MODELS and len(panel.ids) >= LEAST_CASES:
            each = [panel.scores(model) for model in ranked]
            scores = np.stack([_rates(one)[one.among(panel.ids)] for one in each])
            exam = reliability(scores, mark, study.settings.confidence)
            rows.append({"benchmark": benchmark, "level": "benchmark", **exam})
        else:
            said.append(
                f"{benchmark}: {len(ranked)} ranked model(s) share {len(panel.ids)} case(s); reliability is "
                f"defined from {LEAST_MODELS} models and {LEAST_CASES} cases."
            )
        rows += [{"benchmark": benchmark, **row} for row in _passes(panel, study, mark)]
    passing = f"The pass mark of a case, and of the mean, is {mark:g} (--pass-mark)."
    said.append(passing if rows else "No benchmark here has encounters.")
    return notes.study_table(study, FORM, rows, said, more={"pass_mark": mark})


RELIABILITY = TableSpec(
    name=FORM.name, help=FORM.help, columns=FORM.columns, make=table, options=("pass_mark",)
)
_MEAN, _PASSED = (pooled_share(f"encounter_{name}", name, "cases") for name in ("rate", "passed"))
_MISSED = pooled_share("encounter_critical_missed", "critical_missed", "critical")


def _rates(own: studies.MetricScores) -> Floats:
    """Return the score of each case as written."""
    return own.columns.get("rate", own.values)


def _passes(panel: studies.Panel, study: Study, mark: float) -> Iterator[dict[str, object]]:
    """Yield each model's passes: of its mean, and case by case."""

    def with_whole(part: Floats) -> Floats:
        return np.stack([part, np.ones(len(part))], 1)

    def passed(own: studies.MetricScores) -> Floats:
        missed = own.columns.get("critical_missed", np.zeros(len(own.ids)))
        return with_whole(((_rates(own) >= mark - _TIE) & (missed == 0)).astype(np.float64))

    readings = [
        panel.with_reading(_MEAN, lambda own: with_whole(_rates(own))),
        panel.with_reading(_PASSED, passed),
    ]
    if panel.metric.name == TURNED:
        readings.append(panel.with_reading(_MISSED))
    means, rates, *missed = (p.estimates(study.settings, "passes") for p in readings)
    for model in studies.best_first(means):
        mean = means[model]
        above = float(np.mean(mean.draws >= mark - _TIE))
        yield {
            "level": "model",
            "model": model,
            "ranked": model in study.ranked,
            "n": mean.n,
            **mean.cells("score"),
            "passes": bool(mean.score >= mark - _TIE) if mean.n else None,
            "consistency": above**2 + (1 - above) ** 2 if mean.n >= LEAST_CASES else None,
            **rates[model].cells("pass_rate"),
            "critical_missed": missed[0][model].score if missed else None,
        }
