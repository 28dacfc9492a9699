r"""Scores fixed answers with the tasks of lm-evaluation-harness and stores the counts.

    python -m venv ENV && ENV/bin/pip install lm-eval==0.4.13
    HF_HUB_OFFLINE=1 ENV/bin/python scripts/others/lm_eval_scores.py DATA

DATA is the folder of the full data. Run by hand, in an environment of its own: the tasks are those
that the package ships, with filters and metrics as they are, and read the same rows from a file at
hand. The model is one that gives the replies, or the log-likelihoods.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lm_eval
from answers import MMLU, read_lines, replies
from lm_eval.api.model import LM
from lm_eval.api.task import ConfigurableTask
from lm_eval.tasks import TaskManager
from lm_eval.tasks._yaml_loader import load_yaml
from stored import Score, store

MANAGER = TaskManager()
TASKS = Path(lm_eval.__file__).parent / "tasks"
MED_QA = "med_qa/medqa_4options_test.medagents.jsonl"
MED_MCQA = "med_mcqa/medmcqa_validation_single.medagents.jsonl"
PUBMED_QA = ("pubmed_qa/ori_pqal.json", "pubmed_qa/test_ground_truth.json")
OPTIONS = ("A", "B", "C", "D")


class FixedModel(LM):  # type: ignore[misc]
    """Gives each item the reply, and each option the log-likelihood, that lies in its row."""

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        """Return the replies."""
        return [request.doc["reply"] for request in requests]

    def loglikelihood(
        self, requests: list[Any], disable_tqdm: bool = False
    ) -> list[tuple[float, bool]]:
        """Return the log-likelihoods of options."""
        return [(request.doc["of_options"][request.idx], False) for request in requests]

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        """Refuse what no task here asks for."""
        raise NotImplementedError


def run(
    file: str,
    rows: list[dict[str, Any]],
    folder: str,
    model: Any = None,
    settings: str = "",
    *,
    has_chat: bool = True,
    changes: dict[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return what a task of the package gives each row, once for each of its filters.

    `has_chat`: whether a model is sent messages. `changes`: of the task's config.
    """
    data = Path(folder, f"{len(list(Path(folder).iterdir()))}.jsonl")
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    config = load_yaml(TASKS / file)
    files = dict.fromkeys(("train", "dev", "validation", "test"), str(data))
    config |= {
        "dataset_path": "json",
        "dataset_name": None,
        "dataset_kwargs": {"data_files": files},
        **(changes or {}),
    }
    found = lm_eval.simple_evaluate(
        model=model or FixedModel(),
        model_args=settings,
        apply_chat_template=bool(model) and has_chat,
        tasks=[ConfigurableTask(config=config)],
        num_fewshot=0,
        bootstrap_iters=0,
        task_manager=MANAGER,
    )
    (samples,) = found["samples"].values()
    return list(samples)


def score_mmlu(data: Path, folder: str) -> Iterator[Score]:
    """Yield what replies to the six medical subjects get from the two kinds of task that read."""
    rows = read_lines(data / MMLU)
    points: Counter[tuple[str, str]] = Counter()
    for subject in dict.fromkeys(row["subject"] for row in rows):
        own = [
            {
                "question": row["question"],
                "choices": [row["options"][option] for option in OPTIONS],
                "answer": OPTIONS.index(row["answer_idx"]),
                "form": form,
                "reply": reply,
            }
            for row in rows
            if row["subject"] == subject
            for form, reply in replies(row).items()
        ]
        for kind in ("generative", "flan_cot_zeroshot"):
            file = f"mmlu/{kind}/mmlu_{subject.replace(' ', '_')}.yaml"
            for sample in run(file, own, folder):
                metric = f"mmlu {kind}, {sample['filter']}"
                points[sample["doc"]["form"], metric] += sample["exact_match"]
    for (form, metric), right in points.items():
        yield Score("mmlu_medical", metric, form, "all", len(rows), right)


def read_choices(data: Path) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """Yield tasks that compare log-likelihoods, with rows as their sets have them and the gold."""
    yield (
        "med_qa",
        "medqa/medqa.yaml",
        [
            {
                "sent1": row["question"],
                **{f"ending{at}": row["options"][key] for at, key in enumerate(OPTIONS)},
                "label": OPTIONS.index(row["answer_idx"]),
                "gold": OPTIONS.index(row["answer_idx"]),
            }
            for row in read_lines(data / MED_QA)
        ],
    )
    yield (
        "med_mcqa",
        "medmcqa/medmcqa.yaml",
        [
            {
                "question": row["question"],
                **{f"op{key.lower()}": row["options"][key] for key in OPTIONS},
                "cop": OPTIONS.index(row["answer_idx"]),
                "gold": OPTIONS.index(row["answer_idx"]),
            }
            for row in read_lines(data / MED_MCQA)
        ],
    )
    articles = json.loads((data / PUBMED_QA[0]).read_bytes())
    decisions = json.loads((data / PUBMED_QA[1]).read_bytes())
    yield (
        "pubmed_qa",
        "pubmedqa/pubmedqa.yaml",
        [
            {
                "QUESTION": articles[key]["QUESTION"],
                "CONTEXTS": articles[key]["CONTEXTS"],
                "final_decision": decision,
                "gold": ("yes", "no", "maybe").index(decision),
            }
            for key, decision in decisions.items()
        ],
    )


def score_choices(data: Path, folder: str) -> Iterator[Score]:
    """Yield what a model that prefers the gold, and one without a preference, gets."""
    for benchmark, file, rows in read_choices(data):
        for name, preference in (("gold most likely", 1.0), ("every option as likely", 0.0)):
            for row in rows:
                row["of_options"] = [-preference * (at != row["gold"]) for at in range(4)]
            right = sum(sample["acc"] for sample in run(file, rows, folder))
            yield Score("likelihoods", "acc", f"{benchmark}: {name}", "all", len(rows), right)


def main() -> int:
    """Store what the package gives the items."""
    data = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        scores = [*score_choices(data, folder), *score_mmlu(data, folder)]
    files = [MMLU, MED_QA, MED_MCQA, *PUBMED_QA]
    store("lm-evaluation-harness", ["lm-eval"], scores, data, files)
    return 0


if __name__ == "__main__":
    sys.exit(main())
