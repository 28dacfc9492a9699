"""The table of reliability: cases as an examination of the models, as examiners report one.

Scores are x = mean + model + case + rest, crossed, on the cases that all ranked models have. From the mean
squares come the variances of the three; of them the generalizability coefficient of a mean over n cases,
model / (model + rest / n), and the dependability, model / (model + (case + rest) / n) (Shavelson and Webb, 1991).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from medhelm import Floats, Layout, Part, Table, TableRequest, TableSpec, make_table, pooled_share
from medhelm.plugin import aggregation, agreement, notes
from medhelm.plugin import column_kinds as kinds
from medhelm.plugin import study as studies
from medhelm_benchmarks.encounters.grading.completion import TURNED
from medhelm_benchmarks.encounters.tables.encounters import ACCURACY, COMPLETION

LEAST_MODELS, LEAST_CASES = 3, 10
WANTED = 0.8
"""The coefficient from which an examination is commonly taken to tell its candidates apart."""
_TIE = 1e-9

COLUMNS = (
    kinds.text("benchmark", "name of the benchmark"),
    kinds.text("level", "benchmark: the cases as an examination; model: its passes"),
    kinds.text("model", "name of the clinician's model", "model"),
    kinds.yes("ranked", "whether the model is ranked"),
    kinds.count("models", "ranked models, by whose scores the cases are examined", "models"),
    kinds.count("n", "cases: those that every ranked model has", "n"),
    *kinds.measured("generalizability", "model variance / (model + rest / n): whether other cases would rank the models alike", "", "generalizability", 3, "generalizability", "by the F distribution"),
    kinds.count("cases_needed", f"cases of this kind for a coefficient of {WANTED:g}", f"cases for {WANTED:g}"),
    kinds.number("dependability", "model variance / (model + (case + rest) / n): whether they would score them alike", "", "dependability", digits=3),
    kinds.number("at_mark", "dependability of the decision at the pass mark (Brennan and Kane, 1977)", "", "at the mark", digits=3),
    kinds.number("variance_model", "variance of models", "", "models", digits=4),
    kinds.number("variance_case", "variance of cases", "", "cases", digits=4),
    kinds.number("variance_rest", "variance of models within cases, and what is left", "", "rest", digits=4),
    *kinds.measured("score", "mean over cases", "", "mean", 3, "score"),
    *kinds.measured("pass_rate", "cases with at least the pass mark and without a critical item missed / cases", "share", "pass rate", 3, "pass_rate"),
    kinds.share("critical_missed", "cases in which a critical item is missed / cases of n with one", "critical missed"),
    kinds.yes("passes", "whether the mean is at least the pass mark", "passes"),
    kinds.number("consistency", "probability that two samples of as many cases give the same decision on the mean, by bootstrap over source articles", "", "consistency", digits=3),
)  # fmt: skip
_PARTS = (
    Part(level="benchmark", title="The cases as an examination", group=("benchmark",), columns=("models", "n", "generalizability", "cases_needed", "dependability", "at_mark", "variance_model", "variance_case", "variance_rest")),
    Part(level="model", title="Passes", group=("benchmark",), columns=("model", "score", "passes", "consistency", "pass_rate", "critical_missed", "n")),
)  # fmt: skip


@dataclass(frozen=True)
class Reliability:
    """The reliability of scores (models, cases)."""

    generalizability: agreement.Icc
    dependability: float
    model: float
    case: float
    rest: float
    """Variances. One below 0 is shown as it is: it is too small to be seen."""
    mean: float

    @property
    def cases_needed(self) -> int | None:
        """Return the cases for the coefficient that is wanted; None where no number of them is enough."""
        if self.model <= 0:
            return None
        return max(math.ceil(WANTED / (1 - WANTED) * self.rest / self.model - _TIE), 1)

    def at(self, mark: float) -> float:
        """Return the dependability of a decision at a mark."""
        n, k = self.generalizability.n, self.generalizability.k
        model, case, rest = (max(v, 0.0) for v in (self.model, self.case, self.rest))
        of_mean = model / n + case / k + rest / (n * k)
        signal = max(model + (self.mean - mark) ** 2 - of_mean, 0.0)
        error = (case + rest) / k
        return signal / (signal + error) if signal + error > 0 else math.nan


def reliability(scores: Floats, confidence: float) -> Reliability:
    """Return the reliability of scores (models, cases), at least two of each."""
    models, cases = scores.shape
    by_model, by_case = scores.mean(1), scores.mean(0)
    left = scores - by_model[:, None] - by_case + scores.mean()
    rest = float((left**2).sum()) / ((models - 1) * (cases - 1))
    return Reliability(
        agreement.icc3k(scores, confidence),
        agreement.icc2(scores, confidence)[1].value,
        float(by_model.var(ddof=1)) - rest / cases,
        float(by_case.var(ddof=1)) - rest / models,
        rest,
        float(scores.mean()),
    )


def table(asked: TableRequest) -> Table:
    """Return rows of each benchmark of encounters: its cases as an examination, and each model's passes."""
    study, mark = asked.study, asked.study.settings.pass_mark
    said, rows = [*notes.common(study)], []
    for benchmark in study.panels:
        for metric in [m for m in (COMPLETION, ACCURACY) if m in study.metrics(benchmark)][:1]:
            panel = study.panel(benchmark, metric)
            rows += [
                {"benchmark": benchmark, **row}
                for row in (*_exam(panel, study, mark), *_passes(panel, study, mark))
            ]
            models, cases = len(_ranked(panel, study)), len(panel.ids)
            if models < LEAST_MODELS or cases < LEAST_CASES:
                said.append(
                    f"{benchmark}: {models} ranked model(s) share {cases} case(s); reliability is defined from "
                    f"{LEAST_MODELS} models and {LEAST_CASES} cases."
                )
    mine = (
        f"The pass mark is {mark:g} (--pass-mark), of a case and of the mean. It is a convention unless a panel "
        "of examiners has set it."
    )
    said.append(mine if rows else "No benchmark here has encounters.")
    settings = notes.settings(study) | {"pass_mark": mark}
    return make_table(
        RELIABILITY.name,
        "Reliability of encounters",
        COLUMNS,
        rows,
        said,
        settings,
        parts=_PARTS,
        layout=Layout(main=("model", "generalizability", "score", "pass_rate")),
    )


RELIABILITY = TableSpec(
    name="encounter_reliability",
    help="cases as an examination: generalizability, cases needed, pass rates and their consistency",
    columns=COLUMNS,
    make=table,
    options=("pass_mark",),
)


def _ranked(panel: studies.Panel, study: studies.Study) -> list[str]:
    return [m for m in panel.cells if m in study.ranked and m not in panel.unfit]


def _exam(panel: studies.Panel, study: studies.Study, mark: float) -> Iterator[dict[str, object]]:
    each = [panel.scores(model) for model in _ranked(panel, study)]
    if len(each) < LEAST_MODELS or len(panel.ids) < LEAST_CASES:
        return
    scores = np.stack([one.values[one.among(panel.ids)] for one in each])
    found = reliability(scores, study.settings.confidence)
    g = found.generalizability
    yield {
        "level": "benchmark",
        "models": g.n,
        "n": g.k,
        "generalizability": g.value,
        "generalizability_low": g.low,
        "generalizability_high": g.high,
        "cases_needed": found.cases_needed,
        "dependability": found.dependability,
        "at_mark": found.at(mark),
        "variance_model": found.model,
        "variance_case": found.case,
        "variance_rest": found.rest,
    }


_PASSED = pooled_share("encounter_passed", "passed", "cases")


def _passes(panel: studies.Panel, study: studies.Study, mark: float) -> Iterator[dict[str, object]]:
    """Yield each model's passes: of its mean, and case by case."""
    name, cells, missed = panel.metric.name, {}, {}
    for model, cell in panel.cells.items():
        scores = panel.scores(model)
        lost = np.zeros(len(scores.ids), dtype=np.bool_)
        if (turned := cell.scores.get(TURNED)) is not None:
            found = turned.pooling.by_name(turned.sums)
            lost = np.isin(scores.ids, turned.ids[found["critical_missed"] > 0])
            own = found["critical"] > 0
            own &= turned.among(panel.ids) if len(panel.ids) else True
            if own.any():
                missed[model] = float((found["critical_missed"][own] > 0).mean())
        passed = (scores.values >= mark - _TIE) & ~lost
        sums = np.stack([passed, np.ones(len(passed))], 1).astype(np.float64)
        pooling = aggregation.Pooling(_PASSED, _PASSED.sums)
        passes = replace(scores, values=sums[:, 0], sums=sums, pooling=pooling)
        cells[model] = replace(cell, scores={name: passes})
    rates = studies.estimate(replace(panel, cells=cells), study.settings, "passed")
    means = studies.estimate(panel, study.settings, "mean")
    for model, mean in sorted(
        means.items(), key=lambda one: (-np.nan_to_num(one[1].score, nan=-1), one[0])
    ):
        above = float(np.mean(mean.draws >= mark - _TIE))
        yield {
            "level": "model",
            "model": model,
            "ranked": model in study.ranked,
            "n": mean.n,
            "score": mean.score,
            **mean.interval.ends("score"),
            "passes": bool(mean.score >= mark - _TIE) if mean.n else None,
            "consistency": above**2 + (1 - above) ** 2 if mean.n >= LEAST_CASES else None,
            "pass_rate": rates[model].score,
            **rates[model].interval.ends("pass_rate"),
            "critical_missed": missed.get(model),
        }
