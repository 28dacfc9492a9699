"""A body that cannot be read is an error of its instance; the run goes on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from medhelm import evaluate
from medhelm.schema.run import JurySpec
from tests.juries import rated
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
        model = server.model("lab/m", max_concurrency=1, max_attempts=2)
        found = evaluate(model, "headqa", data="sample", results_dir=tmp_path)
        again = server.requests
        evaluate(model, "headqa", data="sample", results_dir=tmp_path)
        assert server.requests == again + 2  # the one that failed, and nothing else
    (row,) = found.typed("benchmarks").rows
    assert (row["scored"], row["planned"]) == (7, 8)
    log = "".join(path.read_text() for path in tmp_path.glob("runs/*/*/*/responses.jsonl"))
    assert "invalid utf-8" in log


HALF = "\ud800"


@pytest.mark.parametrize("kind", ["escape", "bytes", "reason"])
def test_half_a_character_is_read_and_asked_for_once(tmp_path: Path, kind: str) -> None:
    """An answer or a judge's reason with half of a surrogate pair: it has arrived, and is not sent again."""

    def answer(body: Mapping[str, Any]) -> Reply | str:
        if body["model"] == "judge":
            return rated(4, f"fine {HALF}" if kind == "reason" else "fine")
        if kind == "reason":
            return "A note."
        note = {"choices": [{"message": {"content": f"A {HALF} note."}, "finish_reason": "stop"}]}
        text = json.dumps(note, ensure_ascii=kind == "escape")
        return Reply(body=text.encode("utf-8", "surrogatepass"))

    with serve_in_thread(by_body=answer) as server:
        lab, judge = (server.model(f"lab/{name}") for name in ("m", "judge"))
        jury = JurySpec(name="one", quorum=1, judges=(judge,))
        found = evaluate(
            lab,
            "aci_bench",
            data="sample",
            results_dir=tmp_path,
            max_instances=1,
            jury=jury,
            controls=0,
        )
        assert server.requests == 2
    (row,) = found.typed("benchmarks").rows
    assert (row["scored"], row["planned"]) == (1, 1)
    (log,) = tmp_path.glob(f"runs/*/*/*/{'judges/*/' if kind == 'reason' else ''}responses.jsonl")
    assert ("fine \ufffd" if kind == "reason" else "A \ufffd note.") in log.read_text("utf-8")
