"""The third-party protocol of three roles, and a server that plays all of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.server import FaultServer

PACKAGE = Path(__file__).parent.parent / "third_party" / "medhelm_interview"
PLUGIN = PACKAGE / "medhelm_interview" / "interview.py"


def play(prompt: str) -> str:
    """Answer in the role that the prompt is for; a fact of the note in each answer."""
    if prompt.startswith("[questioner]"):
        return f"Question {prompt.count(chr(10)) // 2 + 1}?"
    if prompt.startswith("[referee]"):
        return "stop" if prompt.count("A: ") >= 4 else "go on"
    note = prompt.partition("Known: ")[2].partition(".")[0]
    facts = note.replace(" and ", ", ").split(", ")
    return f"It is {facts[prompt.count('Question') % len(facts)]}."


def install(folder: Path) -> Path:
    """Return a folder of installed distributions that holds the whole package."""
    shutil.copytree(PLUGIN.parent, folder / PLUGIN.parent.name)
    info = folder / "medhelm_interview-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: medhelm-interview\nVersion: 0.1.0\n"
    )
    (info / "entry_points.txt").write_text("[medhelm]\ninterview = medhelm_interview\n")
    return folder


def options(server: FaultServer, folder: Path, **more: Any) -> list[str]:
    """Return the arguments of a run in which the server plays every role."""
    given = {
        "model": "openai/under-test",
        "model.base_url": server.base_url,
        "cast.questioner": "openai/asks",
        "cast.questioner.base_url": server.base_url,
        "cast.referee": "openai/referees",
        "cast.referee.base_url": server.base_url,
        "benchmark": "interview",
        "data": "sample",
        "plugins": f"[{PLUGIN}]",
        "results_dir": folder / "results",
    } | {k.replace("__", "."): v for k, v in more.items()}
    return ["run", *(f"{k}={v}" for k, v in given.items() if v is not None)]
