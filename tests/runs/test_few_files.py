"""A process that may open few files: the limit is raised, or named as what it is."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.quiz import arguments, command, environment, write_quiz
from tests.server import serve_in_thread

pytestmark = pytest.mark.slow


def run_limited(folder: Path, limit: str, base_url: str) -> subprocess.CompletedProcess[str]:
    argv = command(*arguments(folder, base_url, model__max_concurrency=100))
    return subprocess.run(
        ["bash", "-c", f"{limit} && exec {shlex.join(argv)}"],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=120,
    )


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_too_few_files_are_not_a_dead_server(tmp_path: Path, host: str) -> None:
    write_quiz(tmp_path, 200)
    with serve_in_thread(latency_s=0.3) as server:
        url = server.base_url.replace("127.0.0.1", host)
        done = run_limited(tmp_path, "ulimit -n 40", url)
        assert done.returncode in (4, 6)
        assert "too many open files" in done.stderr and "ulimit -n 4096" in done.stderr
        assert "does not answer" not in done.stderr and "Traceback" not in done.stderr
        assert run_limited(tmp_path, "ulimit -n 512", url).returncode == 0


def test_a_soft_limit_is_raised(tmp_path: Path) -> None:
    write_quiz(tmp_path, 200)
    with serve_in_thread(latency_s=0.3) as server:
        done = run_limited(tmp_path, "ulimit -Sn 40", server.base_url)
    assert done.returncode == 0, done.stderr
