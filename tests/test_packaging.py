"""A wheel built from the tree runs the demo elsewhere; third-party packages plug into it."""

from __future__ import annotations

import email
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from importlib import metadata
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement

from medhelm.store import records

ROOT = Path(__file__).parent.parent
THIRD_PARTY = Path(__file__).parent / "third_party"
PLACES = {
    "medhelm": "medhelm",
    "benchmarks": "medhelm_benchmarks",
    "leaderboard": "medhelm_leaderboard",
    "metrics": "medhelm_metrics",
    "conf": "medhelm/conf",
}
"""Folder of the tree -> folder of the wheel."""

pytestmark = pytest.mark.slow


def call(*argv: str | Path, cwd: Path | None = None) -> str:
    """Run a program without network and without this process's paths; return what it prints."""
    done = subprocess.run(
        [str(a) for a in argv], cwd=cwd, env=clean(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def clean(home: Path | None = None) -> dict[str, str]:
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


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree: what git has or would take, so that nothing is left in the original."""
    copy = tmp_path_factory.mktemp("tree") / "medhelm"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("the tree is no git checkout")
    for name in listed.stdout.decode().rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name, follow_symlinks=False)
    return copy


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the tree, built once for all workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "wheel"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not [*folder.glob("*.whl")]:
            build = ("wheel", "--no-build-isolation", "--no-deps", "--no-index", "--quiet")
            call(sys.executable, "-m", "pip", *build, "--wheel-dir", folder, tree)
    (built,) = folder.glob("*.whl")
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

    def medhelm(self, *argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.folder / "bin" / "medhelm"), *argv],
            cwd=cwd,
            env=clean() | {"HOME": str(cwd)},
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


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel."""
    environment = make_environment(tmp_path_factory.mktemp("installed") / "venv")
    environment.install(wheel)
    return environment


@pytest.fixture(scope="module")
def plugged(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel and a plugin package of a third party."""
    folder = tmp_path_factory.mktemp("plugged")
    shutil.copytree(THIRD_PARTY / "medhelm_example", folder / "source")
    environment = make_environment(folder / "venv")
    environment.install(wheel, folder / "source")
    return environment


# The wheel -----------------------------------------------------------------------------------


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def metadata_of(wheel: Path) -> Message:
    (name,) = (n for n in names_in(wheel) if n.endswith(".dist-info/METADATA"))
    with zipfile.ZipFile(wheel) as archive:
        return email.message_from_bytes(archive.read(name))


def test_only_names_of_ours_are_at_top_level(wheel: Path) -> None:
    tops = {PurePosixPath(name).parts[0] for name in names_in(wheel)}
    tops = {top for top in tops if not top.endswith(".dist-info")}
    assert tops == {
        "medhelm",
        "medhelm_benchmarks",
        "medhelm_leaderboard",
        "medhelm_metrics",
    }


def test_every_module_and_data_file_is_in_it(wheel: Path, tree: Path) -> None:
    kinds = {
        ".py",
        ".pyi",
        ".md",
        ".csv",
        ".txt",
        ".toml",
        ".yaml",
        ".json",
        ".jsonl",
        ".sql",
        ".typed",
        ".html",
        ".css",
        ".js",
    }
    wanted = {
        f"{place}/{path.relative_to(tree / folder).as_posix()}"
        for folder, place in PLACES.items()
        for path in (tree / folder).rglob("*")
        if path.suffix in kinds or path.name == "py.typed"
    }
    found = {name for name in names_in(wheel) if ".dist-info/" not in name}
    assert found == wanted
    assert {"medhelm/taxonomy.yaml", "medhelm/py.typed", "medhelm/conf/config.yaml"} <= found
    assert "medhelm_benchmarks/manifests/headqa.json" in found
    assert "medhelm_benchmarks/samples/headqa.jsonl" in found
    assert {
        "medhelm_benchmarks/clear.yaml",
        "medhelm_benchmarks/ehrsql/samples/ehrsql.sql",
        "medhelm/grading/jury/rubrics/accuracy_completeness_clarity.yaml",
        "medhelm/conf/jury/paper.yaml",
        "medhelm/conf/suite/medhelm_public.yaml",
    } <= found
    with zipfile.ZipFile(wheel) as archive:
        assert archive.read("medhelm/taxonomy.yaml") == (tree / "taxonomy.yaml").read_bytes()


def test_its_metadata(wheel: Path) -> None:
    about = metadata_of(wheel)
    assert (about["Name"], about["License-Expression"]) == ("medhelm-framework", "Apache-2.0")
    assert about["Requires-Python"] == ">=3.11"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(about.get_all("Provides-Extra") or ()) == set(project["optional-dependencies"])
    assert "medhelm run" in str(about.get_payload()), "the README is its description"


def test_a_plain_install_brings_no_torch(wheel: Path) -> None:
    waiting = [str(r) for r in metadata_of(wheel).get_all("Requires-Dist") or ()]
    seen: set[str] = set()
    while waiting:
        requirement = Requirement(waiting.pop())
        name = requirement.name.lower().replace("_", "-")
        if requirement.marker and not requirement.marker.evaluate({"extra": ""}):
            continue
        if name not in seen:
            seen.add(name)
            waiting += metadata.requires(name) or []
    assert {"hydra-core", "pandas", "datasets"} <= seen
    heavy = {"torch", "transformers", "tensorflow", "jax", "ray", "submitit", "tokenizers"}
    assert not seen & heavy


def test_the_source_archive_builds_the_same_wheel(tree: Path, wheel: Path, tmp_path: Path) -> None:
    # without --wheel or --sdist, `build` makes the archive and then the wheel from the archive
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, tree)
    (archive,) = tmp_path.glob("*.tar.gz")
    (built,) = tmp_path.glob("*.whl")
    assert names_in(built) == names_in(wheel)
    assert archive.name == f"medhelm_framework-{metadata_of(wheel)['Version']}.tar.gz"


# The demo elsewhere --------------------------------------------------------------------------


def test_nothing_of_the_tree_or_of_this_environment_is_imported(
    installed: Environment, tmp_path: Path
) -> None:
    code = (
        "import json, medhelm, medhelm.conf, medhelm_benchmarks, medhelm_metrics\n"
        "from importlib.metadata import entry_points\n"
        "mods = [medhelm, medhelm.conf, medhelm_benchmarks, medhelm_metrics]\n"
        "points = entry_points(group='medhelm')\n"
        "print(json.dumps([[m.__file__ for m in mods], [p.name for p in points],\n"
        "    sorted({str(p.dist.locate_file('')) for p in points})]))"
    )
    files, points, places = json.loads(call(installed.python, "-c", code, cwd=tmp_path))
    assert all(Path(file).is_relative_to(installed.folder) for file in files), files
    assert points == ["benchmarks", "metrics"]
    assert all(Path(place).is_relative_to(installed.folder) for place in places), places


def test_the_demo_runs_from_an_empty_folder_without_network(
    installed: Environment, tmp_path: Path
) -> None:
    started = time.monotonic()
    done = installed.medhelm("run", cwd=tmp_path)
    seconds = time.monotonic() - started
    assert done.returncode == 0, done.stderr
    assert seconds < 60
    assert "Traceback" not in done.stderr and "Warning" not in done.stderr
    said = " ".join(done.stdout.split())
    for words in (
        "not language models",
        "Synthetic",
        "win rate",
        "macro",
        "baseline/oracle",
        f"Runs: {tmp_path / 'medhelm-results' / 'runs'}",
        f"Open it: {(tmp_path / 'medhelm-results' / 'site' / 'index.html').as_uri()}",
    ):
        assert words in said, words
    assert [p.name for p in tmp_path.iterdir()] == ["medhelm-results"]
    found = [records.read_record(g) for g in records.find_gradings(tmp_path / "medhelm-results")]
    assert {r.state for r in found} == {"complete"}
    benchmarks = {p.stem for p in (ROOT / "benchmarks").glob("**/samples/*.jsonl")}
    models = {f"baseline/{p.stem}" for p in (ROOT / "conf" / "model" / "baseline").glob("*.yaml")}
    played = {"agentclinic", "medsp1000"}  # by rules of their own
    names = {(r.spec.benchmark, r.spec.model.name) for r in found}
    assert {n for n in names if n[0] not in played} == {
        (b, m) for b in benchmarks - played for m in models
    }
    assert {b for b, m in names if m == "encounter/oracle"} == played
    site = tmp_path / "medhelm-results" / "site"
    for name in ("index.html", "app/main.js", "app/pages/overview.js", "app/plotly.min.js"):
        assert (site / name).is_file(), name
    shown = installed.medhelm("tables", "--data", "sample", "--table", "overall", cwd=tmp_path)
    assert shown.returncode == 0
    rows = tables_of(done.stdout)
    assert len(rows) == len(models)
    for row in rows:
        cells = re.split("  +", row.strip())
        lines = shown.stdout.splitlines()
        assert any(all(c in line for c in cells) for line in lines), f"other numbers: {row}"


def tables_of(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines() if line.startswith(" baseline/")]


def test_other_commands_find_their_files(installed: Environment, tmp_path: Path) -> None:
    for argv in ("list taxonomy", "describe pubmed_qa", "validate headqa", "run --help"):
        done = installed.medhelm(*argv.split(), cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout and not done.stderr
    assert not any(tmp_path.iterdir())


def test_python_m_is_the_same(installed: Environment, tmp_path: Path) -> None:
    said = call(installed.python, "-m", "medhelm", "--version", cwd=tmp_path)
    assert said == installed.medhelm("--version", cwd=tmp_path).stdout


# Third parties -------------------------------------------------------------------------------


def test_a_plugin_package_is_found_by_name(plugged: Environment, tmp_path: Path) -> None:
    for what, names in (
        ("benchmarks", ("example_triage", "example_rounds")),
        ("metrics", ("example_length",)),
        ("models", ("example/says_b",)),
    ):
        done = plugged.medhelm("list", what, cwd=tmp_path)
        assert done.returncode == 0 and not done.stderr
        assert all(name in done.stdout for name in names)
    described = plugged.medhelm("describe", "example_triage", cwd=tmp_path)
    assert str(plugged.folder) in described.stdout.replace("\n", "")
    done = plugged.medhelm("validate", "example_triage", "example_rounds", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_its_benchmarks_metric_and_model_run(plugged: Environment, tmp_path: Path) -> None:
    models = "model=example/says_b,baseline/oracle"
    done = plugged.medhelm("run", models, "benchmark=glob(example_*)", "data=sample", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = [records.read_record(g) for g in records.find_gradings(tmp_path / "medhelm-results")]
    values = {
        (r.spec.benchmark, r.spec.model.name): {m.metric: m.value for m in r.results} for r in found
    }
    # B is right for two of the four patients and for one of the two rounds
    says_b = values["example_triage", "example/says_b"]
    assert says_b == {"exact_match": 0.5, "example_length": 1.0}
    assert values["example_rounds", "example/says_b"] == {"exact_match": 0.5}
    assert values["example_rounds", "baseline/oracle"] == {"exact_match": 1.0}
    assert {r.card.redistributable for r in found if "triage" in r.spec.benchmark} == {True}
    source = THIRD_PARTY / "medhelm_example" / "medhelm_example" / "triage.py"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    (plugin,) = {r.card.plugin for r in found if "triage" in r.spec.benchmark}
    assert plugin.startswith("triage.py sha256:") and digest.startswith(plugin[-12:])


def test_its_names_are_offered_and_suggested(plugged: Environment, tmp_path: Path) -> None:
    for line, offered in (
        ("medhelm run benchmark=example_t", "benchmark=example_triage"),
        ("medhelm run model=example/", "model=example/says_b"),
    ):
        done = subprocess.run(
            [str(plugged.folder / "bin" / "medhelm"), "-sc", "query=bash"],
            cwd=tmp_path,
            env=clean() | {"COMP_LINE": line, "COMP_POINT": str(len(line))},
            capture_output=True,
            text=True,
        )
        assert done.stdout.split() == [offered]
    done = plugged.medhelm("run", "benchmark=exampel_triage", "model=baseline/lead", cwd=tmp_path)
    assert done.returncode == 2 and "did you mean 'example_triage'" in done.stderr


@pytest.fixture
def half_broken(plugged: Environment, tmp_path: Path) -> Iterator[Environment]:
    """The same environment while a second package is in it that raises on import."""
    shutil.copytree(THIRD_PARTY / "medhelm_broken", tmp_path / "source")
    plugged.install(tmp_path / "source")
    yield plugged
    call(plugged.python, "-m", "pip", "uninstall", "--quiet", "--yes", "medhelm-broken")


def test_a_broken_package_is_named_and_stops_nothing(
    half_broken: Environment, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    line = (
        "medhelm: plugin medhelm-broken (medhelm_broken) is left out: "
        "OSError: the licence server does not answer (__init__.py line 3); "
        "mend the plugin or leave it out"
    )
    listed = half_broken.medhelm("list", "benchmarks", cwd=folder)
    assert listed.returncode == 0 and listed.stderr.splitlines() == [line]
    assert "headqa" in listed.stdout and "example_triage" in listed.stdout
    argv = ("model=example/says_b", "benchmark=headqa,example_triage", "data=sample")
    done = half_broken.medhelm("run", *argv, cwd=folder)
    assert done.returncode == 0
    assert done.stderr.splitlines()[0] == line
    assert len(records.find_gradings(folder / "medhelm-results")) == 2
    line_of_shell = "medhelm run benchmark=headq"
    done = subprocess.run(
        [str(half_broken.folder / "bin" / "medhelm"), "-sc", "query=bash"],
        env=clean() | {"COMP_LINE": line_of_shell},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["benchmark=headqa"] and done.stderr == ""
