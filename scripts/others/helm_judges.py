"""Scores answers with HELM's own juries while the judges' replies are known.

Imported by helm_packages.py, in an environment that holds HELM or the package `medhelm`.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import helm.benchmark.run_specs.medhelm_run_specs  # noqa: F401
from answers import HEALTH_ANSWERS, HEALTHBENCH, read_lines
from helm.benchmark.annotation.aci_bench_annotator import ACIBenchAnnotator
from helm.benchmark.metrics.llm_jury_metrics import LLMJuryMetric
from helm.benchmark.run_spec import get_run_spec_function
from helm.benchmark.scenarios.aci_bench_scenario import ACIBenchScenario
from helm.common.request import GeneratedOutput, RequestResult
from stored import Score

ACI_BENCH = (
    "aci_bench/clinicalnlp_taskB_test1_full.json",
    "aci_bench/clinicalnlp_taskC_test2_full.json",
    "aci_bench/clef_taskC_test3_full.json",
)

NONE: Any = None


def request_state(instance: Any, text: str) -> Any:
    """Return what HELM hands to an annotator and a metric for one answer."""
    completions = [SimpleNamespace(text=text)]
    return SimpleNamespace(
        instance=instance, result=SimpleNamespace(completions=completions), annotations={}
    )


def measure(metric: Any, state: Any) -> dict[str, float]:
    """Return the values that a metric gives an answer, by name."""
    stats = metric.evaluate_generation(NONE, state, NONE, "")
    return {stat.name.name: float(stat.sum) for stat in stats}


class FixedClient:
    """Answers every request of a judge by one function of the prompt; None is a failed request."""

    def __init__(self, answer: Callable[[str], str | None]) -> None:
        self.answer = answer

    def make_request(self, request: Any) -> RequestResult:
        """Return the answer as HELM's clients do."""
        text = self.answer(request.prompt)
        if text is None:
            return RequestResult(False, NONE, [], False, error="the server is gone")
        output = GeneratedOutput(text=text, logprob=0.0, tokens=[])
        return RequestResult(True, NONE, [output], False)


def same(reply: str | None, prompt: str) -> str | None:
    """Return the reply, whatever the prompt."""
    return reply


def jury_metric(run_spec: str) -> tuple[Any, Any]:
    """Return the jury's metric and its judges, as the package's own run has them."""
    specs = get_run_spec_function(run_spec)().metric_specs
    (spec,) = (spec for spec in specs if spec.class_name.endswith(".LLMJuryMetric"))
    return LLMJuryMetric(**spec.args), spec.args["annotator_models"]


def score_jury(data: Path) -> Iterator[Score]:
    """Yield what gold notes of ACI-Bench get from judges that fail or answer in another form."""
    criteria = ("accuracy", "completeness", "clarity")
    ratings = {key: {"score": 5, "explanation": ""} for key in criteria}
    replies = {
        "every judge gives 5 of 5": json.dumps(ratings),
        "every judge's request fails": None,
        "every judge answers in prose": "All three criteria deserve 5 of 5.",
        "every judge gives 4.9 of 5": json.dumps(ratings).replace("5", "4.9"),
        "every judge gives 50 of 5": json.dumps(ratings).replace("5", "50"),
    }
    metric, judges = jury_metric("aci_bench")
    instances = [
        instance
        for file in ACI_BENCH
        for instance in ACIBenchScenario().process_json(str(data / file), "test")
    ]
    for name, reply in replies.items():
        client: Any = FixedClient(partial(same, reply))
        annotator = ACIBenchAnnotator(client, judges)
        points = 0.0
        for instance in instances:
            state = request_state(instance, instance.references[0].output.text)
            state.annotations = {"aci_bench": annotator.annotate(state)}
            points += sum(measure(metric, state).values())
        yield Score("aci_bench", metric.metric_name, name, "all", len(instances), points)


def score_healthbench(data: Path) -> Iterator[Score]:
    """Yield what fixed answers get from a judge whose replies are known."""
    annotation = importlib.import_module("helm.benchmark.annotation.health_bench_annotator")
    metric, judges = jury_metric("health_bench")
    rows = read_lines(data / HEALTHBENCH)
    for name, judge in HEALTH_ANSWERS.items():
        points = 0.0
        for row in rows:
            criteria = {
                str(item): judge(place, item["points"]) for place, item in enumerate(row["rubrics"])
            }
            annotator = annotation.HealthBenchAnnotator(
                FixedClient(partial(find, criteria)), judges
            )
            instance = SimpleNamespace(
                id="",
                input=SimpleNamespace(messages=row["prompt"]),
                extra_data={"rubrics": row["rubrics"]},
            )
            state = request_state(instance, "an answer")
            state.annotations = {"health_bench": annotator.annotate(state)}
            points += sum(measure(metric, state).values())
        yield Score("healthbench", metric.metric_name, name, "all", len(rows), points)


def find(criteria: dict[str, str], prompt: str) -> str:
    """Return the reply on the criterion that a judge's prompt holds."""
    (reply,) = {reply for text, reply in criteria.items() if f"\n{text}\n" in prompt}
    return reply
