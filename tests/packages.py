"""The wheel of the tree, and environments that it is installed in, once for all workers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.once import once

ROOT = Path(__file__).parent.parent
THIRD_PARTY = Path(__file__).parent / "third_party"


def call(*argv: str | Path, cwd: Path | None = None) -> str:
    """Run a program without network and without this process's paths; return what it prints."""
    done = subprocess.run(
        [str(a) for a in argv], cwd=cwd, env=clean(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def clean() -> dict[str, str]:
    """Return an environment without keys and paths in which every connection fails."""
    dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "MEDHELM_DATA_DIR", "PIP_TARGET")
    kept = {k: v for k, v in os.environ.items() if k not in dropped and not k.endswith("_API_KEY")}
    nowhere = "http://127.0.0.1:9"
    return kept | {
        "COLUMNS": "160",
        "http_proxy": nowhere,
        "https_proxy": nowhere,
        "no_proxy": "",
        "PIP_NO_INDEX": "1",
    }


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree: what git has or would take, so that nothing is left in the original."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("the tree is no git checkout")

    def make(copy: Path) -> None:
        for name in listed.stdout.decode().rstrip("\0").split("\0"):
            if (ROOT / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)

    return once(tmp_path_factory, "tree", make)


@pytest.fixture(scope="session")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the tree."""

    def make(folder: Path) -> None:
        build = ("wheel", "--no-build-isolation", "--no-deps", "--no-index", "--quiet")
        call(sys.executable, "-m", "pip", *build, "--wheel-dir", folder, tree)

    (built,) = once(tmp_path_factory, "wheel", make).glob("*.whl")
    return built


@dataclass(frozen=True)
class Environment:
    """A fresh virtual environment that sees the packages of this one, but not its medhelm."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def install(self, *what: Path) -> None:
        options = ("--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed")
        call(self.python, "-m", "pip", "install", "--quiet", *options, *what)

    def medhelm(
        self, *argv: str, cwd: Path, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.folder / "bin" / "medhelm"), *argv],
            cwd=cwd,
            env=clean() | {"HOME": str(cwd)} | dict(env or {}),
            capture_output=True,
            text=True,
            timeout=300,
        )


def make_environment(folder: Path) -> Environment:
    call(sys.executable, "-m", "venv", "--without-pip", folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    # Plain paths: .pth files below them are not read, so an editable install stays unseen.
    seen = [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
    (packages / "seen.pth").write_text("\n".join(seen) + "\n")
    return Environment(folder)


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel."""
    made = once(
        tmp_path_factory, "installed", lambda folder: make_environment(folder).install(wheel)
    )
    return Environment(made)


@pytest.fixture(scope="session")
def plugged(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel and a plugin package of a third party."""

    def make(folder: Path) -> None:
        shutil.copytree(THIRD_PARTY / "medhelm_example", folder / "source")
        make_environment(folder).install(wheel, folder / "source")

    return Environment(once(tmp_path_factory, "plugged", make))
