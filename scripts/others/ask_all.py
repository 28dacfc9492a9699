"""Asks every question of MMLU's medical subjects once, with the harness that is named.

    ENV/bin/python scripts/others/ask_all.py HARNESS URL DATA CONCURRENCY

Started by footprint.py, which measures it, in an environment that holds the harness. URL is that of
a server of the OpenAI protocol.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from answers import MMLU, read_lines

OPTIONS = "ABCD"


def read_records(data: Path) -> list[dict[str, Any]]:
    """Return the rows as the set on the hub has them."""
    return [
        {
            "question": f"[item {place}] {row['question']}",  # Inspect refuses equal ones
            "choices": list(row["options"].values()),
            "answer": OPTIONS.index(row["answer_idx"]),
            "subject": row["subject"].replace(" ", "_"),
            "reply": "",
        }
        for place, row in enumerate(read_lines(data / MMLU))
    ]


def ask_inspect(url: str, data: Path, concurrency: int, folder: str) -> int:
    """Run Inspect, which writes its log, and return the number of items scored."""
    from inspect_ai import Task
    from inspect_ai import eval as run_eval
    from inspect_ai.dataset import MemoryDataset
    from inspect_ai.scorer import choice
    from inspect_evals.mmlu.mmlu import mmlu_multiple_choice, record_to_sample_mmlu

    task = Task(
        dataset=MemoryDataset([record_to_sample_mmlu(row) for row in read_records(data)]),
        solver=mmlu_multiple_choice(max_non_cot_tokens=16),
        scorer=choice(),
    )
    os.environ["LOCAL_API_KEY"] = "none"
    (log,) = run_eval(
        task,
        model="openai-api/local/fixed",
        model_base_url=url,
        max_connections=concurrency,
        max_samples=concurrency,
        log_dir=folder,
        display="none",
    )
    assert log.status == "success" and log.results, log.error
    return int(log.results.completed_samples)


def ask_evalscope(url: str, data: Path, concurrency: int, folder: str) -> int:
    """Run evalscope, which writes predictions, reviews and a report, and return the items."""
    from evalscope_scores import run
    from local_server import LocalServer

    server = LocalServer(str)
    server.url = url
    rows = read_records(data)
    ((_, n),) = run("mmlu", rows, {"few_shot_num": 0}, server, concurrency).values()
    return n


def ask_lm_eval(url: str, data: Path, concurrency: int, folder: str) -> int:
    """Run lm-evaluation-harness, without files of its samples, and return the items."""
    from lm_eval_scores import run

    settings = f"model=fixed,base_url={url}/chat/completions,num_concurrent={concurrency}"
    file = "mmlu/generative/mmlu_anatomy.yaml"
    rows = read_records(data)
    return len(run(file, rows, folder, "local-chat-completions", settings))


def ask_medhelm(url: str, data: Path, concurrency: int, folder: str) -> int:
    """Run this package, which writes its record of every call, and return the items."""
    import medhelm
    from medhelm.schema.model import ModelSpec

    spec = ModelSpec(name="local/fixed", model="fixed", base_url=url, max_concurrency=concurrency)
    medhelm.evaluate([spec], "mmlu_medical", data_dir=data, results_dir=folder)
    return len(read_lines(data / MMLU))


HARNESSES: dict[str, Callable[[str, Path, int, str], int]] = {
    "inspect": ask_inspect,
    "evalscope": ask_evalscope,
    "lm-eval": ask_lm_eval,
    "medhelm-framework": ask_medhelm,
}


def main() -> int:
    """Print how many items were scored."""
    harness, url, data, concurrency = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        print(HARNESSES[harness](url, Path(data), int(concurrency), folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
