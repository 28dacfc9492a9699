"""A wheel built from the tree runs the demo elsewhere; third-party packages plug into it."""

from __future__ import annotations

import email
import hashlib
import json
import shutil
import sys
import tomllib
import zipfile
from contextlib import suppress
from email.message import Message
from importlib import metadata
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement

from medhelm.store import records
from tests.packages import ROOT, THIRD_PARTY, Environment, call
from tests.registry.distributions import register

PLACES = {
    "medhelm": "medhelm",
    "benchmarks": "medhelm_benchmarks",
    "leaderboard": "medhelm_leaderboard",
    "metrics": "medhelm_metrics",
    "conf": "medhelm/conf",
}
"""Folder of the tree -> folder of the wheel."""

pytestmark = pytest.mark.slow


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
    assert tops == {Path(place).parts[0] for place in PLACES.values()}


def test_every_module_and_data_file_is_in_it(wheel: Path, tree: Path) -> None:
    kinds = {
        ".py", ".pyi", ".md", ".csv", ".txt", ".toml", ".yaml", ".json", ".jsonl", ".sql",
        ".sha256", ".typed", ".html", ".css", ".js",
    }  # fmt: skip
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


_FREE = (
    "Apache",
    "BSD",
    "MIT",
    "ISC",
    "PSF",
    "Python Software",
    "MPL",
    "Mozilla",
    "Unlicense",
    "Zlib",
    "CC0",
)
"""Words of licences that go with ours."""


def licence_of(name: str) -> str:
    """Return what an installed package says of its licence: an expression, else classifiers, else the field's first line."""
    about = metadata.metadata(name)
    said = [c for c in about.get_all("Classifier") or () if c.startswith("License ::")]
    field = (about.get("License") or "").strip().partition("\n")[0]
    return about.get("License-Expression") or " ".join(said) or field


def test_licences_of_what_is_needed_go_with_ours(wheel: Path) -> None:
    needed = map(Requirement, metadata_of(wheel).get_all("Requires-Dist") or ())
    tools = ("test", "docs", "dev")
    waiting = [r.name for r in needed if not any(f'"{tool}"' in str(r.marker) for tool in tools)]
    licences, seen = dict[str, str](), set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        with suppress(metadata.PackageNotFoundError):  # of an extra that is not here
            licences[name] = licence_of(name)
            others = map(Requirement, metadata.requires(name) or ())
            waiting += (r.name for r in others if not r.marker or r.marker.evaluate({"extra": ""}))
    assert len(licences) > 30
    assert not {
        name: said
        for name, said in licences.items()
        if "GPL" in said or not any(word in said for word in _FREE)
    }


def test_the_source_archive_builds_the_same_wheel(tree: Path, wheel: Path, tmp_path: Path) -> None:
    # without --wheel or --sdist, `build` makes the archive and then the wheel from the archive
    call(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, tree)
    (archive,) = tmp_path.glob("*.tar.gz")
    (built,) = tmp_path.glob("*.whl")
    assert names_in(built) == names_in(wheel)
    assert archive.name == f"medhelm_framework-{metadata_of(wheel)['Version']}.tar.gz"


# Installed; `tests/test_first_day.py` types more commands there --------------------------------


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


def commands(environment: Environment, folder: Path, *lines: str) -> str:
    """Return what commands print that run one after the other in one process there."""
    code = (
        "import sys\nfrom medhelm.cli import run_command\n"
        "for line in sys.argv[1:]:\n    assert run_command(line.split()) == 0, line"
    )
    return call(environment.python, "-c", code, *lines, cwd=folder)


def test_other_commands_find_their_files(installed: Environment, tmp_path: Path) -> None:
    lines = ("list taxonomy", "describe pubmed_qa", "validate headqa", "run --help")
    assert "Med" in commands(installed, tmp_path, *lines)
    assert not any(tmp_path.iterdir())


def test_python_m_is_the_same(installed: Environment, tmp_path: Path) -> None:
    said = call(installed.python, "-m", "medhelm", "--version", cwd=tmp_path)
    assert said == installed.medhelm("--version", cwd=tmp_path).stdout


# Third parties -------------------------------------------------------------------------------


def test_a_plugin_package_is_found_by_name(plugged: Environment, tmp_path: Path) -> None:
    lines = ("list benchmarks", "describe example_triage", "validate example_triage example_rounds")
    said = commands(plugged, tmp_path, *lines)
    assert "example_triage" in said and "example_rounds" in said and "2 passed" in said
    assert str(plugged.folder) in said.replace("\n", "")


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


def test_a_broken_package_is_named_and_stops_nothing(plugged: Environment, tmp_path: Path) -> None:
    site, folder = tmp_path / "site", tmp_path / "work"
    folder.mkdir()
    shutil.copytree(THIRD_PARTY / "medhelm_broken" / "medhelm_broken", site / "medhelm_broken")
    register(site, "medhelm-broken")
    beside = {"PYTHONPATH": str(site)}
    argv = ("model=example/says_b", "benchmark=headqa,example_triage", "data=sample")
    done = plugged.medhelm("run", *argv, cwd=folder, env=beside)
    assert done.returncode == 0
    assert done.stderr.splitlines()[0] == (
        "medhelm: plugin medhelm-broken (medhelm_broken) is left out: "
        "OSError: the licence server does not answer (__init__.py line 3); "
        "mend the plugin or leave it out"
    )
    assert len(records.find_gradings(folder / "medhelm-results")) == 2
    line = "medhelm run benchmark=headq"
    typed = beside | {"COMP_LINE": line, "COMP_POINT": str(len(line))}
    done = plugged.medhelm("-sc", "query=bash", cwd=folder, env=typed)
    assert done.stdout.split() == ["benchmark=headqa"] and done.stderr == ""
