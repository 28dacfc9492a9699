"""`medhelm probe` says what a server takes, and the settings that it names work in a run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.server import Reply, instance_of, serve_in_thread
from tests.shell import Shell


def picky(body: Mapping[str, Any]) -> str | Reply:
    """Answer as a server with a field of its own for the budget, that takes no seed."""
    if "max_tokens" in body:
        error = {"message": "Use 'max_completion_tokens'.", "param": "max_tokens", "code": "bad"}
        return Reply(status=400, body={"error": error})
    if "seed" in body:
        return Reply(status=400, body={"error": {"message": "no \x1bseed here"}})
    if body.get("logprobs"):
        top = [{"token": letter, "logprob": -1.0} for letter in "AB"]
        content = [{"token": "A", "logprob": -1.0, "top_logprobs": top}]
        message = {"message": {"content": "A"}, "finish_reason": "length"}
        choice = {**message, "logprobs": {"content": content}}
        return Reply(body={"choices": [choice], "model": "weights-7b"})
    if "response_format" in body:
        return json.dumps(instance_of(body["response_format"]["json_schema"]["schema"]))
    return "A"


def test_what_a_server_takes_and_the_settings_that_fit(tmp_path: Path, shell: Shell) -> None:
    with serve_in_thread(by_body=picky) as server:
        server.served = "weights-7b"
        line = ["model=openai/ward-a", f"model.base_url={server.base_url}"]
        out = shell("probe", *line)
        said = " ".join(out.split())
        for fact in (
            "status 200, stop",
            "served model weights-7b",
            "seed refused: http 400; the server says: no seed here",
            "JSON Schema held",
            "log-probabilities given",
            "system message taken",
            "6 request(s), nothing stored",
        ):
            assert fact in said
        settings = shlex.split(out.partition("Settings that fit: ")[2].splitlines()[0])
        assert "model.token_limit_field=max_completion_tokens" in settings
        assert "model.send_seed=false" in settings and "model.json_schema=true" in settings
        run = ["run", *line, *settings, "benchmark=headqa", "data=sample"]
        shell(*run, f"results_dir={tmp_path}")
        assert shell.json("probe", *line, *settings)["settings"] == {}


@pytest.mark.slow
def test_every_address_is_asked(shell: Shell) -> None:
    with serve_in_thread() as one, serve_in_thread() as other:
        line = ["probe", "model=openai/x", f"model.base_url=[{one.base_url},{other.base_url}]"]
        assert f"openai/x at {other.base_url}" in shell(*line)
        assert one.requests == other.requests == 5
        line[-1] = f"model.base_url=[{one.base_url},http://127.0.0.1:9/v1]"
        said = shell.json(*line, code=6)["addresses"]
    assert said[one.base_url]["status"] == "200, stop"
    assert "answer at http://127.0.0.1:9/v1" in shell.err


def test_a_server_that_is_not_there(shell: Shell) -> None:
    words = ("model=openai/x", "model.base_url=http://127.0.0.1:9/v1")
    shell("probe", *words, code=6)
    assert "did not answer" in shell.err and shell.err.count("\n") == 1
    assert "failed: no connection" in " ".join(shell.out.split())
