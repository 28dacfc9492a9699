"""A body that cannot be read is an error of its instance; the run goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medhelm import evaluate
from medhelm.schema.model import ModelSpec
from tests.server import Reply, serve_in_thread

GOOD = {"choices": [{"message": {"content": "Answer: A"}, "finish_reason": "stop"}], "model": "m"}


@pytest.mark.slow
def test_one_body_that_is_not_utf8_costs_one_instance(tmp_path: Path) -> None:
    bad: list[str] = []

    def answer(prompt: str) -> Reply:
        bad.append(prompt)
        body = json.dumps(GOOD).encode()
        return Reply(body=body.replace(b"A", b"\xff") if prompt == bad[0] else body)

    with serve_in_thread(answer) as server:
        model = ModelSpec(
            name="lab/m", model="m", base_url=server.base_url, max_concurrency=1, max_attempts=2
        )
        found = evaluate(model, "headqa", data="sample", results_dir=tmp_path)
        again = server.requests
        evaluate(model, "headqa", data="sample", results_dir=tmp_path)
        assert server.requests == again + 2  # the one that failed, and nothing else
    (row,) = found.typed("benchmarks").rows
    assert (row["scored"], row["planned"]) == (7, 8)
    log = "".join(path.read_text() for path in tmp_path.glob("runs/*/*/*/responses.jsonl"))
    assert "invalid utf-8" in log
