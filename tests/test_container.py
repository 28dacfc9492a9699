"""The steps of the Dockerfile, run without an engine: what it copies, installs and starts."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest

from tests.packages import clean, make_environment

ROOT = Path(__file__).parent.parent


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile with their arguments, lines joined."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and line[0] != "#"]
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def context(folder: Path) -> Path:
    """Copy what `.dockerignore` lets through of what git has or would take."""
    rules = [r for r in (ROOT / ".dockerignore").read_text().splitlines() if r and r[0] != "#"]
    assert rules[0] == "*", "only what is named enters an image"
    named = {rule[1:] for rule in rules if rule[0] == "!"}
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("the tree is no git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        if name.split("/")[0] in named and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    assert named == {path.name for path in folder.iterdir()}
    return folder


def test_the_image_is_slim_and_its_user_is_not_root() -> None:
    found = instructions()
    assert all("slim" in rest for word, rest in found if word == "FROM")
    (user,) = [rest for word, rest in found if word == "USER"]
    assert user.isdigit() and int(user) > 0
    last = max(i for i, (word, _) in enumerate(found) if word in ("RUN", "COPY"))
    assert last < found.index(("USER", user)), "everything after the installation is the user's"


def test_notes_and_results_of_a_checkout_stay_out() -> None:
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    let_in = [rule[1:] for rule in rules if rule.startswith("!")]
    for name in ("medhelm-results", "notes.csv", ".env", "data", ".git", "build", "tests"):
        assert not any(fnmatch(name, rule) for rule in let_in), name


@pytest.mark.slow
def test_its_steps_install_medhelm_which_writes_into_its_folder_alone(tmp_path: Path) -> None:
    """Absolute folders of the image become folders below `tmp_path`, its Python a fresh environment.

    The environment sees the packages of this one, so that nothing is fetched.
    """
    venv = tmp_path / "venv"
    make_environment(venv)
    pip = venv / "bin" / "pip"
    pip.write_text(f'#!/bin/sh\nexec {venv}/bin/python -m pip "$@"\n')
    pip.chmod(0o755)
    environment = clean() | {"PIP_NO_BUILD_ISOLATION": "0", "PIP_IGNORE_INSTALLED": "1"}
    environment["PATH"] = f"{venv / 'bin'}:/usr/bin:/bin"
    image, work = tmp_path / "image", tmp_path / "image"
    image.mkdir()

    def below(text: str) -> str:
        return re.sub(r"(?<![\w.])/(?=source|wheels|results)", f"{image}/", text)

    started: list[str] = []
    for word, rest in instructions():
        if word == "COPY" and rest == ". /source":
            context(Path(below("/source")))
        elif word == "RUN":
            command = below(rest)
            if "pip install" in command:  # what it needs is seen already, and not fetched
                command = command.replace("pip install", "pip install --no-deps")
            subprocess.run(command, shell=True, cwd=image, env=environment, check=True)
        elif word == "ENV":
            environment |= dict(pair.split("=", 1) for pair in shlex.split(below(rest)))
        elif word == "WORKDIR":
            work = Path(below(rest))
        elif word in ("ENTRYPOINT", "CMD"):
            started += json.loads(rest)
        else:
            assert word in ("FROM", "USER") or rest == "--from=build /wheels /wheels", (word, rest)
    assert [path.name for path in image.iterdir() if path.name != "source"] == ["results"]
    program = venv / "bin" / started[0]
    assert started == ["medhelm", "run"], "the demo, which tests/test_first_day.py runs whole"
    small = ("run", "model=baseline/lexical", "benchmark=headqa", "data=sample")
    done = subprocess.run(
        [program, *small], cwd=work, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert [path.name for path in work.iterdir()] == ["medhelm-results"], "it writes there alone"
    where = "import medhelm; print(medhelm.__file__)"
    found = subprocess.run(
        [venv / "bin" / "python", "-c", where], cwd=work, env=environment, capture_output=True
    )
    assert str(venv) in found.stdout.decode(), "the medhelm that ran is the one of the image"
