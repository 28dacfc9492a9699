"""The name of the distribution, and the other project of the same import name."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import medhelm
from medhelm.grading.scoring import software
from medhelm.plugins import distribution
from medhelm.plugins.registry import load_registry
from tests.shell import Shell

ROOT = Path(__file__).parents[2]


def write_other(folder: Path, version: str, points: str = "") -> None:
    """Write the metadata of another installed distribution."""
    about = folder / f"medhelm-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: medhelm\nVersion: {version}\n")
    (about / "entry_points.txt").write_text(points)


def test_the_name_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["name"] == distribution.NAME == "medhelm-framework"
    assert project["version"] == medhelm.__version__
    assert [*project["entry-points"]] == ["medhelm"] == [*project["scripts"]]


def test_the_version_names_distribution_and_folder(shell: Shell) -> None:
    out = shell("--version")
    folder = Path(medhelm.__file__).parent
    assert out == f"medhelm {medhelm.__version__} (distribution medhelm-framework, in {folder})\n"


@pytest.mark.parametrize(
    "how", [["-m", "medhelm"], ["-c", "from medhelm.__main__ import main; main()"]]
)
def test_the_other_project_in_one_environment_is_reported(tmp_path: Path, how: list[str]) -> None:
    write_other(tmp_path, "0.8.0")
    done = subprocess.run(
        [sys.executable, *how, "--version"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": "", "HOME": str(tmp_path)},
    )
    assert done.returncode == 0 and "medhelm-framework" in done.stdout
    assert "distribution medhelm 0.8.0" in done.stderr
    assert "`pip uninstall medhelm medhelm-framework`" in done.stderr


def test_an_installation_from_before_the_renaming_adds_no_second_benchmark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = load_registry()
    points = "[medhelm]\nbenchmarks = medhelm_benchmarks\nmetrics = medhelm_metrics\n"
    write_other(tmp_path, "0.1.0", points)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert metadata.version("medhelm") == "0.1.0"
    after = load_registry()
    assert after.broken == before.broken == ()
    assert after.benchmarks.keys() == before.benchmarks.keys()


def test_provenance_names_this_version_and_not_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_other(tmp_path, "0.8.0")
    monkeypatch.syspath_prepend(str(tmp_path))
    software.cache_clear()
    assert software()["version.medhelm"] == medhelm.__version__


def test_nothing_installs_by_name() -> None:
    """No text of ours says `pip install medhelm`, which would install the other project."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("the tree is no git checkout")
    by_name = re.compile(r"pip install (-\S+ )*[\"']?medhelm\b")
    for name in listed.stdout.rstrip("\0").split("\0"):
        path = ROOT / name
        if path.suffix in (".py", ".md", ".yaml", ".toml") and path != Path(__file__):
            text = path.read_text(encoding="utf-8")
            assert name == "CHANGELOG.md" or not by_name.search(text), name
            assert name == "CHANGELOG.md" or "medhelm[" not in text.replace("medhelm[\\w", ""), name
