r"""Scores fixed answers with Inspect's own tasks and scorers and stores the counts.

    python -m venv ENV && ENV/bin/pip install inspect-ai==0.3.285 inspect-evals==0.26.0
    ENV/bin/python scripts/others/inspect_evals_scores.py DATA

DATA is the folder of the full data. Run by hand, in an environment of its own: tasks and scorers
are imported from the installed packages and nothing of them is changed. The model and the judge
are Inspect's mock model, which is given the replies.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from answers import HEALTH_ANSWERS, HEALTHBENCH, MMLU, place_in, read_lines, replies
from inspect_ai import Task
from inspect_ai import eval as run_eval
from inspect_ai.dataset import MemoryDataset
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import choice
from inspect_evals.healthbench.healthbench import healthbench
from inspect_evals.mmlu.mmlu import mmlu_multiple_choice, record_to_sample_mmlu
from stored import Score, store


def mock(reply: Callable[[str], str]) -> Any:
    """Return a model that replies by a function of the last message."""

    def output(messages: list[Any], *rest: object) -> ModelOutput:
        found = ModelOutput.from_content("mockllm/model", reply(messages[-1].text))
        found.usage = ModelUsage()  # else tokens are counted with a file from the network
        return found

    return get_model("mockllm/model", custom_outputs=output, memoize=False)


def run(task: Task, model: Any, folder: str) -> Any:
    """Return the results of a run, with its log in a folder that is thrown away."""
    (log,) = run_eval(
        task, model=model, log_dir=folder, display="none", log_level="critical", score_display=False
    )
    assert log.status == "success", log.error
    return log.results


def score_mmlu(data: Path, folder: str) -> Iterator[Score]:
    """Yield what replies to the six medical subjects get from the solver and scorer of MMLU."""
    rows = read_lines(data / MMLU)
    samples = [
        record_to_sample_mmlu(
            {
                "question": f"[item {place}] {row['question']}",
                "choices": list(row["options"].values()),
                "answer": "ABCD".index(row["answer_idx"]),
                "subject": row["subject"],
            }
        )
        for place, row in enumerate(rows)
    ]
    for name in replies(rows[0]):
        task = Task(
            dataset=MemoryDataset(samples),
            solver=mmlu_multiple_choice(max_non_cot_tokens=16),
            scorer=choice(),
        )
        model = mock(partial(reply_to_mmlu, [replies(row)[name] for row in rows]))
        results = run(task, model, folder)
        (score,) = results.scores
        n = results.completed_samples
        yield Score("mmlu_medical", "mmlu", name, "all", n, score.metrics["accuracy"].value * n)


def reply_to_mmlu(found: list[str], prompt: str) -> str:
    """Return the reply to the item that a prompt holds."""
    return found[place_in(prompt)]


def score_healthbench(data: Path, folder: str) -> Iterator[Score]:
    """Yield what fixed answers get from a judge whose replies are known."""
    path = Path(folder, "healthbench.jsonl")
    rows = read_lines(data / HEALTHBENCH)
    for place, row in enumerate(rows):
        first = row["prompt"][0]
        first["content"] = f"[item {place}] {first['content']}"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for name, judge in HEALTH_ANSWERS.items():
        os.environ["INSPECT_CACHE_DIR"] = str(Path(folder, name))  # answers are kept by prompt
        model = mock(partial(judge_row, [row["rubrics"] for row in rows], judge))
        task = healthbench(local_path=str(path), judge_model=model)
        results = run(task, mock(lambda prompt: "an answer"), folder)
        n = results.completed_samples
        (value,) = {
            metric.value
            for score in results.scores
            for key, metric in score.metrics.items()
            if key == "bootstrap_score"
        }
        yield Score("healthbench", "bootstrap_score", name, "all", n, value * n)


def judge_row(rubrics: list[Any], judge: Callable[[int, float], str], prompt: str) -> str:
    """Return a judge's reply on the criterion that its prompt holds."""
    items = enumerate(rubrics[place_in(prompt)])
    found = [
        judge(place, item["points"])
        for place, item in items
        if f"\n[{item['points']}] {item['criterion']}\n" in prompt
    ]
    (reply,) = found
    return reply


def main() -> int:
    """Store what Inspect gives the items."""
    data = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        scores = [*score_mmlu(data, folder), *score_healthbench(data, folder)]
    store("Inspect", ["inspect-evals", "inspect-ai"], scores, data, [MMLU, HEALTHBENCH])
    return 0


if __name__ == "__main__":
    sys.exit(main())
