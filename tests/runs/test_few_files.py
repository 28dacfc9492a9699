"""A process that may open few files: the limit is raised, or named as what it is."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from tests.processes import Started, command_line
from tests.quiz import arguments, write_quiz
from tests.server import serve_in_thread

pytestmark = pytest.mark.slow


def run_limited(folder: Path, soft: int, hard: int, base_url: str) -> tuple[int, str]:
    """Return how a run ends that may open few files, and what it says."""
    process = Started(limited, soft, hard, arguments(folder, base_url, model__max_concurrency=100))
    _, said = process.communicate()
    return process.wait(), said


def limited(soft: int, hard: int, argv: list[str]) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    command_line(argv)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_too_few_files_are_not_a_dead_server(tmp_path: Path, host: str) -> None:
    write_quiz(tmp_path, 200)
    with serve_in_thread(latency_s=0.3) as server:
        url = server.base_url.replace("127.0.0.1", host)
        code, said = run_limited(tmp_path, 40, 40, url)
        assert code in (4, 6)
        assert "too many open files" in said and "ulimit -n 4096" in said
        assert "does not answer" not in said and "Traceback" not in said
        assert run_limited(tmp_path, 512, 512, url)[0] == 0


def test_a_soft_limit_is_raised(tmp_path: Path) -> None:
    write_quiz(tmp_path, 200)
    with serve_in_thread(latency_s=0.3) as server:
        code, said = run_limited(tmp_path, 40, 512, server.base_url)
    assert code == 0, said
