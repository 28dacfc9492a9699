r"""Writes the files of other harnesses that tests of `medhelm import` read, each by the harness itself.

    python -m venv ENV && ENV/bin/pip install inspect-ai==0.3.285 openai
    ENV/bin/python scripts/others/foreign_runs.py inspect ROWS OUT
    python -m venv ENV && ENV/bin/pip install 'lm-eval[api]==0.4.13'
    HF_HUB_OFFLINE=1 ENV/bin/python scripts/others/foreign_runs.py lm_eval ROWS OUT
    python -m venv ENV && ENV/bin/pip install crfm-helm==0.5.16
    ENV/bin/python scripts/others/foreign_runs.py helm ROWS OUT

ROWS holds `med_qa.jsonl` and `medcalc_bench.jsonl`, rows as the benchmarks' samples have them. Run by
hand, in environments that hold the harness and nothing of this package. The model is a server on this
machine whose reply follows from the question: an answer in one of several forms, or none at all. With PLAIN
in the environment all letters have one form.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from answers import read_lines
from local_server import LocalServer

OPTIONS = ("A", "B", "C", "D")
FORMS = ("ANSWER: {}", "ANSWER: {}", "The answer is ({}).", "{}", "Option {} fits best.", "")


def replier(rows: Path) -> Callable[[str], str]:
    """Return a model: its answer, right or wrong, and the answer's form follow from the question."""
    golds = {row["question"]: row["answer_idx"] for row in read_lines(rows / "med_qa.jsonl")}
    if (rows / "medcalc_bench.jsonl").exists():
        for row in read_lines(rows / "medcalc_bench.jsonl"):
            golds[f"{row['Patient Note']}\n\n{row['Question']}"] = row["Ground Truth Answer"]

    def reply(prompt: str) -> str:
        found = (text for text in golds if text in prompt)
        gold = golds.get(question := next(found, ""), "A")
        number = int(hashlib.sha256(question.encode()).hexdigest()[:8], 16)
        if gold not in OPTIONS:
            return (f"The answer is {gold}", gold, "20.0", "I do not know.")[number % 4]
        forms = FORMS[: 1 if "PLAIN" in os.environ else None]
        letter = gold if number // 7 % 3 else OPTIONS[number // 11 % 4]
        return forms[number % len(forms)].format(letter)

    return reply


def run_inspect(rows: Path, out: Path) -> None:
    """Write a log of each task: multiple choice, asked twice, and free answers."""
    from inspect_ai import Task
    from inspect_ai import eval as run_eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.scorer import choice, match
    from inspect_ai.solver import generate, multiple_choice

    choices = [
        Sample(
            id=str(row.get("realidx", place)),
            input=row["question"],
            choices=[*row["options"].values()],
            target=row["answer_idx"],
        )
        for place, row in enumerate(read_lines(rows / "med_qa.jsonl"))
    ]
    if (rows / "medcalc_bench.jsonl").exists():  # a question that no benchmark has
        other = {"input": "Which of these is a colour?", "choices": ["Red", "Up"], "target": "A"}
        choices.append(Sample(id="other", **other))
    tasks = [
        Task(
            name="med_qa",
            dataset=MemoryDataset(choices),
            solver=multiple_choice(),
            scorer=choice(),
            epochs=2,
        )
    ]
    if (rows / "medcalc_bench.jsonl").exists():
        notes = [
            Sample(
                id=row["Row Number"],
                input=f"{row['Patient Note']}\n\n{row['Question']}",
                target=row["Ground Truth Answer"],
            )
            for row in read_lines(rows / "medcalc_bench.jsonl")
        ]
        tasks.append(
            Task(
                name="calculations",
                dataset=MemoryDataset(notes),
                solver=generate(),
                scorer=match(numeric=True),
            )
        )
    os.environ["LOCAL_API_KEY"] = "none"
    logs = run_eval(
        tasks,
        model="openai-api/local/fixed",
        model_base_url=LocalServer(replier(rows)).url,
        temperature=0.0,
        max_tokens=64,
        log_dir=str(out),
        display="none",
    )
    for log in logs:
        assert log.status == "success" and log.location, log.error
        place = out / f"{log.eval.task}.eval"
        shutil.move(log.location.removeprefix("file://"), place)
        print(place, log.results.scores[0].metrics if log.results else None)


GENERATIVE = {
    "task": "med_qa_generative",
    "output_type": "generate_until",
    "doc_to_text": (
        "{{question}}\nA. {{options.A}}\nB. {{options.B}}\nC. {{options.C}}\nD. {{options.D}}\nAnswer:"
    ),
    "doc_to_target": "{{answer_idx}}",
    "generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 64, "temperature": 0.0},
    "filter_list": [
        {"name": "bare", "filter": [{"function": "take_first"}]},
        {
            "name": "marked",
            "filter": [
                {"function": "regex", "regex_pattern": "ANSWER: ([A-D])"},
                {"function": "take_first"},
            ],
        },
    ],
    "metric_list": [
        {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True},
    ],
}


def run_lm_eval(rows: Path, out: Path) -> None:
    """Write results and samples of a task that reads replies and of one that compares likelihoods."""
    import lm_eval
    from lm_eval.api.model import LM
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager
    from lm_eval.tasks._yaml_loader import load_yaml

    class Likelihoods(LM):  # type: ignore[misc]
        """Finds options likely by their letter and question."""

        def loglikelihood(self, requests: list[Any], **_: Any) -> list[tuple[float, bool]]:
            """Return a number for each option."""
            asked = ["".join(request.args) for request in requests]
            digests = [hashlib.sha256(text.encode()).hexdigest() for text in asked]
            return [(-int(digest[:4], 16) / 9999, False) for digest in digests]

        def generate_until(self, requests: list[Any], **_: Any) -> list[str]:
            """Refuse what no task here asks for."""
            raise NotImplementedError

        loglikelihood_rolling = generate_until

    own = read_lines(rows / "med_qa.jsonl")
    shipped = load_yaml(Path(lm_eval.__file__).parent / "tasks" / "medqa" / "medqa.yaml")
    of_hub = [
        {
            "sent1": row["question"],
            **{f"ending{at}": row["options"][key] for at, key in enumerate(OPTIONS)},
            "label": OPTIONS.index(row["answer_idx"]),
        }
        for row in own
    ]
    url = LocalServer(replier(rows)).url
    server = f"model=fixed,base_url={url}/chat/completions,num_concurrent=4"
    manager = TaskManager()
    for config, data, model, settings in (
        (GENERATIVE, own, "local-chat-completions", server),
        (shipped, of_hub, Likelihoods(), ""),
    ):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "rows.jsonl")
            file.write_text("".join(json.dumps(row) + "\n" for row in data), encoding="utf-8")
            files = dict.fromkeys(("train", "dev", "validation", "test"), str(file))
            config = config | {  # noqa: PLW2901
                "dataset_path": "json",
                "dataset_name": None,
                "dataset_kwargs": {"data_files": files},
                "test_split": "test",
            }
            found = lm_eval.simple_evaluate(
                model=model,
                model_args=settings,
                tasks=[ConfigurableTask(config=config)],
                apply_chat_template=bool(settings),
                num_fewshot=0,
                bootstrap_iters=0,
                task_manager=manager,
            )
        tracker = EvaluationTracker(output_path=str(out))
        name = "fixed" if settings else "likelihoods"
        tracker.general_config_tracker.log_experiment_args("local", f"model={name}", "", "", False)
        samples = found.pop("samples")
        tracker.save_results_aggregated(results=found, samples=samples)
        for task, lines in samples.items():
            tracker.save_results_samples(task_name=task, samples=lines)
            print(task, len(lines), found["results"])


def run_helm(rows: Path, out: Path) -> None:
    """Write a run folder, by the runner that `helm-run` starts."""
    from helm.benchmark.adaptation.common_adapter_specs import get_multiple_choice_adapter_spec
    from helm.benchmark.config_registry import register_builtin_configs_from_helm_package
    from helm.benchmark.executor import ExecutionSpec
    from helm.benchmark.metrics.common_metric_specs import get_exact_match_metric_specs
    from helm.benchmark.model_deployment_registry import (
        ClientSpec,
        ModelDeployment,
        register_model_deployment,
    )
    from helm.benchmark.model_metadata_registry import ModelMetadata, register_model_metadata
    from helm.benchmark.run_spec import RunSpec
    from helm.benchmark.runner import Runner
    from helm.benchmark.scenarios import scenario
    from helm.common.authentication import Authentication

    class MedQA(scenario.Scenario):
        """Questions with options, one of them marked as right."""

        name, description, tags = "med_qa", "", []  # noqa: RUF012

        def get_instances(self, output_path: str) -> list[Any]:
            """Return the questions."""
            return [
                scenario.Instance(
                    input=scenario.Input(text=row["question"]),
                    references=[
                        scenario.Reference(
                            scenario.Output(text=text),
                            tags=[scenario.CORRECT_TAG] * (letter == row["answer_idx"]),
                        )
                        for letter, text in row["options"].items()
                    ],
                    split=scenario.TEST_SPLIT,
                )
                for row in read_lines(rows / "med_qa.jsonl")
            ]

    sys.modules["foreign_scenario"] = module = type(sys)("foreign_scenario")
    module.MedQA = MedQA  # type: ignore[attr-defined]
    register_builtin_configs_from_helm_package()
    register_model_metadata(
        ModelMetadata(
            name="local/fixed",
            creator_organization_name="local",
            display_name="fixed",
            description="",
            access="open",
            release_date=None,
            tags=["TEXT_MODEL_TAG", "FULL_FUNCTIONALITY_TEXT_MODEL_TAG"],
        )
    )
    server = {"base_url": LocalServer(replier(rows)).url, "api_key": "none"}
    register_model_deployment(
        ModelDeployment(
            name="local/fixed",
            model_name="local/fixed",
            tokenizer_name="simple/tokenizer1",
            max_sequence_length=4096,
            client_spec=ClientSpec("helm.clients.openai_client.OpenAIClient", server),
        )
    )
    adapter = get_multiple_choice_adapter_spec(
        method="multiple_choice_joint",
        instructions="Answer with the letter alone.",
        input_noun="Question",
        output_noun="Answer",
        max_train_instances=0,
        max_tokens=64,
    )
    adapter = type(adapter)(
        **{**vars(adapter), "model": "local/fixed", "model_deployment": "local/fixed"}
    )
    spec = RunSpec(
        name="med_qa:model=local_fixed",
        scenario_spec=scenario.ScenarioSpec("foreign_scenario.MedQA", {}),
        adapter_spec=adapter,
        metric_specs=get_exact_match_metric_specs(),
        groups=["med_qa"],
    )
    with tempfile.TemporaryDirectory() as folder:
        local = str(Path(folder, "local"))
        execution = ExecutionSpec(
            url=None, auth=Authentication(""), local_path=local, parallelism=2
        )
        runner = Runner(
            execution,
            output_path=str(Path(folder, "out")),
            suite="suite",
            skip_instances=False,
            cache_instances=False,
            cache_instances_only=False,
            skip_completed_runs=False,
            exit_on_error=True,
        )
        runner.run_one(spec)
        made = Path(folder, "out", "runs", "suite", "med_qa:model=local_fixed")
        target = out / "med_qa_model=local_fixed"
        target.mkdir(parents=True)
        for name in ("run_spec.json", "scenario_state.json", "per_instance_stats.json"):
            shutil.copy(made / name, target / name)


HARNESSES: dict[str, Callable[[Path, Path], None]] = {
    "inspect": run_inspect,
    "lm_eval": run_lm_eval,
    "helm": run_helm,
}


def main() -> int:
    """Write the files of the harness that is named."""
    harness, rows, out = sys.argv[1:]
    HARNESSES[harness](Path(rows), Path(out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
