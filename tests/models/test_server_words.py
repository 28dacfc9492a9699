"""What a server says of a failed request is shown to who runs it, and stored nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.server import Reply, serve_in_thread
from tests.shell import Shell

SAID = "chat template of \x1b[31mward-a has no system role; key sk-secret: Which vitamin"


@pytest.mark.parametrize(
    ("status", "more", "is_shown"),
    [
        (400, ("model.endpoint_class=local",), True),
        (400, (), False),
        (400, ("show_errors=true",), True),
        (404, ("show_errors=true",), True),  # ends the run with its first request
        (500, ("show_errors=true", "model.max_attempts=1"), True),
    ],
)
def test_the_first_words_of_a_server(
    status: int,
    more: tuple[str, ...],
    is_shown: bool,
    tmp_path: Path,
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WARD_KEY", "sk-secret")
    body = {"error": {"message": SAID, "type": "BadRequestError"}}
    with serve_in_thread(lambda _: Reply(status=status, body=body)) as server:
        line = ["run", "model=openai/ward-a", f"model.base_url={server.base_url}", *more]
        line += ["model.api_key_env=WARD_KEY", "benchmark=headqa", "data=sample"]
        shell(*line, f"results_dir={tmp_path}", code=6)
    said = [n for n in shell.err.splitlines() if f"http {status} BadReq" in n]
    shown = [n for n in said if "the server says: chat template of [31mward-a has no" in n]
    assert len(shown) == is_shown and "sk-secret" not in "".join(said)
    assert is_shown or any("show_errors=true" in n for n in said)
    stored = b"".join(f.read_bytes() for f in tmp_path.rglob("*") if f.is_file())
    assert b"ward-a" in stored and b"chat template" not in stored
