"""`--env-file FILE`: variables for this command, keys above all. No such file is read by itself."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from medhelm.errors import UsageError
from medhelm.files.durable import why

OPTION = "--env-file"
HELP = "a file of lines NAME=VALUE, such as keys; what the environment has already is kept"
_LINE = re.compile(
    r"""(?:export\s+)?(?P<name>[A-Za-z_]\w*)\s*=\s*
    (?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<plain>[^'"\s\#](?:[^\#]|(?<!\s)\#)*)?)
    \s*(?:\#.*)?""",
    re.VERBOSE,
)


@contextmanager
def env_files(argv: Sequence[str]) -> Iterator[None]:
    """Hold the variables of the files that a command line names in the environment."""
    own: set[str] = set()
    try:
        for file in _files(argv):
            own |= _load(file)
        yield
    finally:
        for name in own:
            os.environ.pop(name, None)


def _load(file: str) -> set[str]:
    """Return the names that the environment did not have."""
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
    except OSError as e:
        raise UsageError(f"{OPTION} {file}: {why(e)}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{OPTION} {file}: it is not UTF-8") from None
    found = dict(_variables(file, text))
    new = found.keys() - os.environ.keys()
    kept = [n for n, value in found.items() if os.environ.setdefault(n, value) != value]
    if kept:
        print(
            f"medhelm: {file}: the environment has another {', '.join(kept)}, which is used",
            file=sys.stderr,
        )
    return new


def _files(argv: Sequence[str]) -> Iterator[str]:
    for place, word in enumerate(argv):
        if word == OPTION and place + 1 == len(argv):
            raise UsageError(f"{OPTION} needs a file")
        if word == OPTION:
            yield argv[place + 1]
        elif word.startswith(f"{OPTION}="):
            yield word.partition("=")[2]


def _variables(file: str, text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.strip()
        if not plain or plain.startswith("#"):
            continue
        found = _LINE.fullmatch(plain)
        if found is None:
            raise UsageError(
                f"{OPTION} {file}, line {number}: this is not NAME=VALUE; put quotes around a value "
                "that begins with a quote or #"
            )
        held = (found[kind] for kind in ("double", "single", "plain"))
        yield found["name"], next((value.rstrip() for value in held if value is not None), "")
