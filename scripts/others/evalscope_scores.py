r"""Scores fixed answers with evalscope's own benchmarks and stores the counts.

    python -m venv ENV && ENV/bin/pip install evalscope==1.14.1
    HF_HUB_OFFLINE=1 ENV/bin/python scripts/others/evalscope_scores.py DATA

DATA is the folder of the full data. Run by hand, in an environment of its own: the benchmarks are
those that the package ships and read the same rows from a file at hand. The model and the judge are
a server on this machine, which is given the replies.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from answers import HEALTH_ANSWERS, HEALTHBENCH, MMLU, place_in, read_lines, replies
from evalscope import TaskConfig, run_task
from local_server import LocalServer
from stored import Score, store

CONFIGS = """---
configs:
- config_name: all
  data_files:
  - split: test
    path: rows.jsonl
---
"""


def run(
    benchmark: str,
    rows: list[dict[str, Any]],
    arguments: dict[str, Any],
    server: LocalServer,
    concurrency: int = 4,
) -> dict[str, tuple[float, int]]:
    """Return the overall scores that a benchmark of the package gives, with the items scored."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        data.mkdir()
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (data / "rows.jsonl").write_text(lines, encoding="utf-8")
        (data / "2025-05-07-06-14-12_oss_eval.jsonl").write_text(lines, encoding="utf-8")
        (data / "README.md").write_text(CONFIGS, encoding="utf-8")
        config = TaskConfig(
            model="fixed",
            api_url=server.url,
            eval_type="openai_api",
            datasets=[benchmark],
            dataset_args={benchmark: {"local_path": str(data), **arguments}},
            judge={"models": [{"model_id": "judge", "api_url": server.url, "api_key": "none"}]},
            eval_batch_size=concurrency,
            work_dir=str(Path(folder, "out")),
        )
        report = run_task(config)[benchmark]
    return {metric.name: (metric.score, metric.num) for metric in report.metrics}


def score_mmlu(data: Path, server: LocalServer) -> Iterator[Score]:
    """Yield what replies to the six medical subjects get."""
    rows = read_lines(data / MMLU)
    items = [
        {
            "question": f"[item {place}] {row['question']}",
            "choices": list(row["options"].values()),
            "answer": "ABCD".index(row["answer_idx"]),
            "subject": row["subject"].replace(" ", "_"),
        }
        for place, row in enumerate(rows)
    ]
    for name in replies(rows[0]):
        server.reply = partial(reply_to_mmlu, [replies(row)[name] for row in rows])
        ((score, n),) = run("mmlu", items, {"few_shot_num": 0}, server).values()
        yield Score("mmlu_medical", "mmlu", name, "all", n, float(round(score * n)), len(rows) - n)


def reply_to_mmlu(found: list[str], prompt: str) -> str:
    """Return the reply to the item that a prompt holds."""
    return found[place_in(prompt)]


def score_healthbench(data: Path, server: LocalServer) -> Iterator[Score]:
    """Yield what fixed answers get from a judge whose replies are known."""
    rows = read_lines(data / HEALTHBENCH)
    for place, row in enumerate(rows):
        first = row["prompt"][0]
        first["content"] = f"[item {place}] {first['content']}"
    for name, judge in HEALTH_ANSWERS.items():
        server.reply = partial(judge_row, [row["rubrics"] for row in rows], judge)
        scores = run("health_bench", rows, {"extra_params": {"version": "All"}}, server)
        score, n = scores.get("overall_score:clipped_mean", (0.0, 0))
        metric = "overall_score"
        yield Score("healthbench", metric, name, "all", n, round(score * n, 1), len(rows) - n)


def judge_row(rubrics: list[Any], judge: Callable[[int, float], str], prompt: str) -> str:
    """Return a judge's reply on the criterion that a prompt holds, or an answer where none is."""
    found = [
        judge(place, item["points"])
        for place, item in enumerate(rubrics[place_in(prompt)] if "# Rubric item" in prompt else [])
        if f"\n[{item['points']}] {item['criterion']}\n" in prompt
    ]
    (reply,) = found or ["an answer"]
    return reply


def main() -> int:
    """Store what evalscope gives the items."""
    data = Path(sys.argv[1])
    server = LocalServer(str)
    scores = [*score_mmlu(data, server), *score_healthbench(data, server)]
    store("evalscope", ["evalscope"], scores, data, [MMLU, HEALTHBENCH])
    return 0


if __name__ == "__main__":
    sys.exit(main())
