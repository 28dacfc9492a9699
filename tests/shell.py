"""The command line in this process, and what it prints."""

from __future__ import annotations

import json
from collections.abc import Container
from typing import Any

import pytest

from medhelm.cli import run_command


class Shell:
    """Runs commands and keeps what the last one printed, and what all of them did."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.always: tuple[object, ...] = ()
        """Words that follow every command."""
        self.out = self.err = self.all = ""

    def __call__(self, *argv: object, code: int | Container[int] = 0) -> str:
        """Return what a command prints that ends with this code, or one of these."""
        self._capsys.readouterr()
        got = run_command([*map(str, (*argv, *self.always))])
        self.out, self.err = self._capsys.readouterr()
        self.all += self.out + self.err
        assert got in ((code,) if isinstance(code, int) else code), (got, self.out, self.err)
        return self.out

    def json(self, *argv: object, code: int = 0) -> Any:
        """Return the document that a command prints."""
        return json.loads(self(*argv, "--format", "json", code=code))

    def error(self, *argv: object, code: int = 2) -> str:
        """Return the one line of a mistake, beside which nothing is printed."""
        assert self(*argv, code=code) == ""
        (line,) = self.err.strip().splitlines()
        assert line.startswith("medhelm: ") and "Traceback" not in line
        return line
