"""Plugins that are installed for one test, and commands that are called with them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from medhelm.cli import run_command

Call = Callable[..., tuple[int, str, str]]
"""Runs a command; returns its exit code, and what it printed on either output."""


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Return what runs a command in this process."""

    def run(*argv: object) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            code = run_command([str(a) for a in argv])
        except SystemExit as e:  # argparse
            code = int(str(e.code))
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed distributions, whose names begin with `ward` or `medhelm_words`."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in [n for n in sys.modules if n.startswith(("ward", "medhelm_words"))]:
        del sys.modules[name]
