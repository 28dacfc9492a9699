"""Patterns that wait: each is sound, and none is compiled before a reply is read."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

import medhelm.extract
from medhelm.extract.late import _Late


def test_every_pattern_of_the_readers_compiles() -> None:
    found = 0
    for info in pkgutil.walk_packages(medhelm.extract.__path__, "medhelm.extract."):
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, _Late):
                assert value.groups >= 0
                found += 1
    assert found > 100


@pytest.mark.slow
def test_reading_plugins_compiles_none_of_them() -> None:
    code = (
        "import re; made = []; compiled = re.compile\n"
        "re.compile = lambda p, flags=0: made.append(p) or compiled(p, flags)\n"
        "from medhelm.plugins.registry import load_registry\n"
        "load_registry()\n"
        "from medhelm.extract import options, polarity\n"
        "print(len({options._LEAD.pattern, polarity.DOUBT.pattern} & set(made)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert done.stdout == b"0\n"
