r"""Scores golds and other fixed answers with HELM's own code and stores the counts.

    python -m venv ENV && ENV/bin/pip install crfm-helm==0.5.16
    ENV/bin/python scripts/others/helm_packages.py crfm-helm DATA

The package `medhelm` of the index holds modules of the same names, and takes the same command with
its name, in an environment of its own. DATA is the folder of the full data. Run by hand: annotators
and metrics are imported from the installed package and nothing of them is changed.
"""

from __future__ import annotations

import csv
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

from answers import HEALTHBENCH
from helm.benchmark import runner
from helm.benchmark.annotation.ehr_sql_annotator import EhrSqlAnnotator
from helm.benchmark.metrics.ehr_sql_metrics import EhrSqlMetric
from helm.benchmark.metrics.medcalc_bench_metrics import MedCalcBenchMetric
from helm.benchmark.scenarios.ehr_sql_scenario import EhrSqlScenario
from helm_judges import ACI_BENCH, measure, request_state, score_healthbench, score_jury
from stored import Score, store

MEDCALC = "medcalc_bench/test_data.csv"
EHRSQL = {
    "release of MedHELM": ("ehrsql/e172ec8/valid.json", "ehrsql/e172ec8/test.json"),
    "release of 2026": ("ehrsql/valid.json", "ehrsql/test.json"),
}
DATABASE = "ehrsql/eicu.sqlite"


def score_medcalc(data: Path) -> Iterator[Score]:
    """Yield what golds and empty answers get, golds by category too."""
    content = (data / MEDCALC).read_text(encoding="utf-8")
    rows = list(csv.DictReader(content.splitlines(keepends=True)))
    answers: dict[str, Callable[[dict[str, str]], str]] = {
        "gold": lambda row: row["Ground Truth Answer"],
        "empty": lambda row: "",
    }
    for name, answer in answers.items():
        points: dict[str, list[float]] = {"all": []}
        for row in rows:
            extra = {
                "category": row["Category"],
                "upper_limit": row["Upper Limit"],
                "lower_limit": row["Lower Limit"],
            }
            gold = SimpleNamespace(output=SimpleNamespace(text=row["Ground Truth Answer"]))
            instance = SimpleNamespace(references=[gold], extra_data=extra)
            values = measure(MedCalcBenchMetric(), request_state(instance, answer(row)))
            parts = ("all", row["Category"]) if name == "gold" else ("all",)
            for part in parts:
                points.setdefault(part, []).extend(values.values())
        metric = next(iter(values))
        for part, own in points.items():
            yield Score("medcalc_bench", metric, name, part, len(own), sum(own))


def score_ehrsql(data: Path) -> Iterator[Score]:
    """Yield what gold queries (no text where a question has none) and empty answers get."""
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder, "scenarios", "ehr_sql")
        database.mkdir(parents=True)
        shutil.copyfile(data / DATABASE, database / "eicu.sqlite")
        runner.set_benchmark_output_path(folder)
        for part, files in EHRSQL.items():
            instances = [
                instance
                for file in files
                for instance in EhrSqlScenario().process_json(str(data / file), "", "test")
            ]
            for name in ("gold", "empty"):
                points: dict[str, float] = {}
                for instance in instances:
                    has_query = name == "gold" and not instance.extra_data["is_impossible"]
                    text = instance.references[0].output.text if has_query else ""
                    state = request_state(instance, text)
                    state.annotations = {"ehr_sql": EhrSqlAnnotator().annotate(state)}
                    for metric, value in measure(EhrSqlMetric(), state).items():
                        points[metric] = points.get(metric, 0.0) + value
                for metric in ("ehr_sql_execution_accuracy", "ehr_sql_query_validity"):
                    yield Score("ehrsql", metric, name, part, len(instances), points[metric])


def main() -> int:
    """Store what the package gives the items."""
    package, data = sys.argv[1], Path(sys.argv[2])
    logging.disable(logging.CRITICAL)
    scores = [*score_medcalc(data), *score_ehrsql(data), *score_jury(data)]
    files = [MEDCALC, *sum(EHRSQL.values(), ()), DATABASE, *ACI_BENCH]
    if find_spec("helm.benchmark.annotation.health_bench_annotator"):
        scores += score_healthbench(data)
        files.append(HEALTHBENCH)
    name = {"crfm-helm": "HELM", "medhelm": "medhelm (package index)"}[package]
    store(name, [package], scores, data, files)
    return 0


if __name__ == "__main__":
    sys.exit(main())
