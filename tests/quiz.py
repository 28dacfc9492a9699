"""A made-up benchmark of any size, and the command line as a user starts it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from medhelm.cli import run_command
from medhelm.models import providers
from medhelm.schema.run import RunRecord
from medhelm.store import records

PLUGIN = Path(__file__).parent / "plugins" / "quiz.py"


def write_quiz(folder: Path, n: int, *, context: str = "Case {i}.", start: int = 0) -> Path:
    """Write data_dir/quiz/quiz.jsonl with n instances; returns data_dir."""
    path = folder / "data" / "quiz" / "quiz.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lines:
        for i in range(start, start + n):
            row = {
                "id": f"q{i}",
                "context": context.replace("{i}", str(i)),
                "question": f"Which drug for patient {i}?",
                "gold": "ABCD"[i * 7 % 4],
                "ward": ("icu", "er")[i % 2],
            }
            lines.write(json.dumps(row) + "\n")
    return folder / "data"


def at(folder: Path, **more: Any) -> dict[str, Any]:
    """Return where the data and the results of a folder lie, for `evaluate` and its like."""
    places = {"data_dir": folder / "data", "results_dir": folder / "results", "plugins": PLUGIN}
    return places | more


def arguments(folder: Path, base_url: str, **settings: Any) -> list[str]:
    """Return what follows `medhelm` to run the quiz against a server."""
    given = {
        "model": "openai/test",
        "model.base_url": base_url,
        "benchmark": "quiz",
        "data": "full",
        "data_dir": folder / "data",
        "results_dir": folder / "results",
        "plugins": f"[{PLUGIN}]",
    } | {k.replace("__", "."): v for k, v in settings.items()}
    return ["run", *(f"{k}={v}" for k, v in given.items())]


Done = subprocess.CompletedProcess[str]


def medhelm(
    *argv: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    code: int | None = 0,
) -> Done:
    """Run the command line in this process, without what others before it have left here."""
    return in_this_process(lambda: run_command([*map(str, argv)]), env, cwd, code)


def ended(done: Done, code: int | None) -> Done:
    """Return a command that is to end with a code, or with any where that is None."""
    assert code is None or done.returncode == code, done.stdout + done.stderr
    return done


def in_this_process(
    call: Callable[[], int],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    code: int | None = 0,
) -> Done:
    """Return what a program prints and its exit code, as if it had a process of its own."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environment(env), clear=True),
        mock.patch.dict(providers._OF_PLUGINS, clear=True),
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            got = call()
        except SystemExit as e:  # --help, --version
            got = int(e.code or 0)
    return ended(subprocess.CompletedProcess([], got, out.getvalue(), err.getvalue()), code)


def medhelm_apart(
    *argv: str | Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    code: int | None = 0,
) -> Done:
    """Run the command line in a process of its own, where a process is what is tested."""
    words, own = command(*argv), environment(env)
    done = subprocess.run(words, capture_output=True, text=True, env=own, cwd=cwd, timeout=300)
    return ended(done, code)


def command(*argv: str | Path) -> list[str]:
    """Return the command line as a list."""
    return [sys.executable, "-m", "medhelm", *map(str, argv)]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without keys, and with a wide terminal."""
    kept = {k: v for k, v in os.environ.items() if not k.endswith("_API_KEY")}
    return kept | {"COLUMNS": "200", "OPENAI_API_KEY": "test-key"} | dict(more or {})


def record_of(folder: Path) -> RunRecord:
    """Return the only record below a results folder."""
    (grading,) = records.find_gradings(folder / "results")
    return records.read_record(grading)


def scores_of(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the only grading, by instance and repeat, without its order."""
    import pyarrow.parquet as pq

    (grading,) = records.find_gradings(folder / "results")
    rows: list[dict[str, Any]] = pq.read_table(grading / "scores.parquet").to_pylist()
    return sorted(rows, key=lambda r: (r["instance_id"], r["repeat"], r["metric"]))
