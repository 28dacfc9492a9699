"""Run folders of the version before the common core: read, graded, tabulated and resumed.

`tests/stored_folders` holds them, whole and half-finished, with the tables that their own version
gave (see `write.py` there).
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from medhelm import MedhelmError, load_results, score
from tests.server import FaultServer, serve_in_thread
from tests.stored_folders.kinds import DATA, HALF, KINDS, PLUGINS, TABLES, WHOLE, answer
from tests.stored_folders.tabulated import differing, write_tables
from tests.stored_versions import use_stored_versions

pytestmark = pytest.mark.slow


def hashes_of(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file below a folder."""
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != "lock"]
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def calls_of(results: Path) -> Counter[str]:
    """Return how many calls the whole lines of all logs hold, by the name that a server gets."""
    calls: Counter[str] = Counter()
    for run in (path.parent for path in results.glob("runs/*/*/*/spec.json")):
        model = json.loads((run / "spec.json").read_bytes())["spec"]["model"]
        if model["provider"] == "openai":
            calls[model["model"]] += len(whole_lines(run / "responses.jsonl"))
        for log in run.glob("judges/*/grades.jsonl"):
            for line in whole_lines(log):
                calls[line["judge"].rpartition("/")[2]] += len(line["calls"])
    return calls


def whole_lines(log: Path) -> list[dict[str, Any]]:
    """Return the lines of a log that end with a line break."""
    return [json.loads(line) for line in log.read_bytes().split(b"\n")[:-1]]


@pytest.fixture(autouse=True)
def stored_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare with stored gradings under the version of the metric that they were made with."""
    use_stored_versions(monkeypatch)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    """A server that answers as the stored one did, for every address that has no server."""
    for name in ("http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with serve_in_thread(by_body=answer) as running:
        monkeypatch.setenv("HTTP_PROXY", running.base_url.removesuffix("/v1"))
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        yield running


@pytest.fixture
def results(tmp_path: Path) -> Callable[[Path], Path]:
    """A function that copies a stored folder to where it may be changed."""
    return lambda stored: shutil.copytree(stored, tmp_path / "results")


Copy = Callable[[Path], Path]


def asked(server: FaultServer) -> Counter[str]:
    return Counter(body["model"] for body in server.bodies)


def test_the_stored_folders_hold_what_the_tests_need() -> None:
    for stored in (WHOLE, HALF, TABLES):
        assert {folder.name for folder in stored.iterdir()} == KINDS.keys()
    logs = [*HALF.rglob("responses.jsonl"), *HALF.rglob("grades.jsonl")]
    assert len(logs) == 11
    assert all(not log.read_bytes().endswith(b"\n") for log in logs)
    assert not [*HALF.rglob("gradings")]
    abstained = [
        line
        for log in WHOLE.rglob("grades.jsonl")
        for line in whole_lines(log)
        if line["scores"] is None
    ]
    assert [line["judge"] for line in abstained] == ["judges/judge-c"]
    missing = {name: calls_of(WHOLE / name) - calls_of(HALF / name) for name in KINDS}
    assert missing == {
        "completion": {"asked": 9},
        "repeats": {"asked": 11},
        "baselines": {},
        "jury": JURY_MISSING,
        "labels": {"free": 2, "schema": 3},
        "queries": {"asked": 8},
    }


JURY_MISSING = {"asked": 3, "judge-a": 3, "judge-b": 6, "judge-c": 11}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_run_is_tabulated_to_the_same_numbers_and_not_changed(
    kind: str, results: Copy, tmp_path: Path
) -> None:
    folder = results(WHOLE / kind)
    before = hashes_of(folder)
    write_tables(folder, tmp_path / "tables", KINDS[kind].by)
    assert differing(TABLES / kind, tmp_path / "tables") == []
    assert hashes_of(folder) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_run_asks_nothing_and_is_not_changed(
    kind: str, results: Copy, server: FaultServer
) -> None:
    """A benchmark of medhelm whose file has changed since is graded anew, and asks nothing."""
    folder = results(WHOLE / kind)
    before = hashes_of(folder)
    KINDS[kind].ask(folder)
    assert server.requests == 0
    after = hashes_of(folder)
    if kind in ("labels", "queries"):
        before, after = (
            {name: digest for name, digest in found.items() if name.endswith(".jsonl")}
            for found in (before, after)
        )
    assert after == before


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_run_is_graded_anew_to_the_same_numbers(
    kind: str, results: Copy, tmp_path: Path
) -> None:
    folder = results(WHOLE / kind)
    lost = list(folder.rglob("scores.parquet"))
    for path in lost:
        path.unlink()
    logs = hashes_of(folder)
    score(folder, data_dir=DATA, plugins=PLUGINS)
    assert lost and all(path.is_file() for path in lost)
    write_tables(folder, tmp_path / "tables", KINDS[kind].by)
    assert differing(TABLES / kind, tmp_path / "tables") == []
    after = hashes_of(folder)
    assert {n: after[n] for n in logs if "gradings" not in n} == {
        n: logs[n] for n in logs if "gradings" not in n
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_half_finished_run_goes_on_and_asks_only_what_is_missing(
    kind: str, results: Copy, server: FaultServer, tmp_path: Path
) -> None:
    folder = results(HALF / kind)
    missing = calls_of(WHOLE / kind) - calls_of(HALF / kind)
    KINDS[kind].ask(folder)
    assert asked(server) == missing
    write_tables(folder, tmp_path / "tables", KINDS[kind].by)
    assert differing(TABLES / kind, tmp_path / "tables") == []
    runs = {path.parent for path in folder.glob("runs/*/*/*/spec.json")}
    assert {r.relative_to(folder) for r in runs} == {
        path.parent.relative_to(HALF / kind) for path in (HALF / kind).glob("runs/*/*/*/spec.json")
    }
    KINDS[kind].ask(folder)
    assert asked(server) == missing, "what was missing is stored"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["completion", "labels"])
def test_a_half_finished_run_is_graded_as_far_as_it_is(kind: str, results: Copy) -> None:
    """A kill leaves no grading; what was answered can be graded without a model."""
    folder = results(HALF / kind)
    found = score(folder, data_dir=DATA, plugins=PLUGINS)
    rows = found.table("benchmarks").set_index("model")
    for model, kept in KINDS[kind].kept.items():
        assert rows["coverage"][model] * rows["planned"][model] <= kept < rows["planned"][model]


# What cannot be read ------------------------------------------------------------------------------


def newer(path: Path) -> None:
    """Write a record as a later version would, whose schema is not known yet."""
    text = json.loads(path.read_bytes())
    text["schema"] = 99
    text.pop("sha256")  # of the file as it was
    path.write_text(json.dumps(text))


def newer_line(path: Path) -> None:
    """Give the first line of a log a later schema, with a checksum that is right."""
    first, *others = path.read_bytes().splitlines(keepends=True)
    body = first[: first.rindex(b',"crc"')].replace(b'"schema":1', b'"schema":99', 1) + b"}"
    path.write_bytes(b'%b,"crc":"%08x"}\n' % (body[:-1], zlib.crc32(body)) + b"".join(others))


def damaged(path: Path) -> None:
    """Change one digit, as a worn disk does."""
    content = path.read_bytes()
    place = next(i for i in range(len(content) // 2, len(content)) if content[i : i + 1].isdigit())
    digit = b"1" if content[place : place + 1] != b"1" else b"2"
    path.write_bytes(content[:place] + digit + content[place + 1 :])


def cut(path: Path) -> None:
    """Leave the first half of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


OTHER_VERSION = [
    pytest.param("spec.json", newer, id="newer"),
    pytest.param("responses.jsonl", newer_line, id="newer line"),
]
DAMAGED = [
    pytest.param("spec.json", damaged, id="damaged"),
    pytest.param("spec.json", cut, id="cut"),
]
SEVERAL = pytest.mark.parametrize("kind", ["completion", "jury"])


@SEVERAL
@pytest.mark.parametrize(("name", "spoil"), [*OTHER_VERSION, *DAMAGED])
def test_a_run_that_cannot_be_read_is_not_graded_and_not_changed(
    kind: str, name: str, spoil: Callable[[Path], None], results: Copy
) -> None:
    folder = results(WHOLE / kind)
    for path in folder.rglob(name):
        spoil(path)
    before = hashes_of(folder)
    with pytest.warns(UserWarning) as warned, pytest.raises(MedhelmError, match="could be graded"):
        score(folder, data_dir=DATA, plugins=PLUGINS)
    assert len(warned) == len(KINDS[kind].models)
    for warning in warned:
        assert "\n" not in str(warning.message) and str(folder) in str(warning.message)
    assert hashes_of(folder) == before


@SEVERAL
@pytest.mark.parametrize(("name", "spoil"), OTHER_VERSION)
@pytest.mark.parametrize("stored", [WHOLE, HALF], ids=["whole", "half"])
def test_a_run_of_a_later_version_is_not_resumed_and_not_changed(
    kind: str,
    name: str,
    spoil: Callable[[Path], None],
    stored: Path,
    results: Copy,
    server: FaultServer,
) -> None:
    folder = results(stored / kind)
    for path in folder.rglob(name):
        spoil(path)
    before = hashes_of(folder)
    with pytest.raises(MedhelmError, match="use the .*version that wrote it") as refused:
        KINDS[kind].ask(folder)
    assert "\n" not in str(refused.value)
    assert server.requests == 0
    assert hashes_of(folder) == before


@pytest.mark.slow
@SEVERAL
@pytest.mark.parametrize(("name", "spoil"), DAMAGED)
def test_the_command_that_began_a_run_writes_its_damaged_record_again(
    kind: str,
    name: str,
    spoil: Callable[[Path], None],
    results: Copy,
    server: FaultServer,
    tmp_path: Path,
) -> None:
    folder = results(HALF / kind)
    for path in folder.rglob(name):
        spoil(path)
    KINDS[kind].ask(folder)
    assert asked(server) == calls_of(WHOLE / kind) - calls_of(HALF / kind)
    write_tables(folder, tmp_path / "tables", KINDS[kind].by)
    assert differing(TABLES / kind, tmp_path / "tables") == []


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        pytest.param("summary.json", newer, id="newer summary"),
        pytest.param("summary.json", damaged, id="damaged summary"),
        pytest.param("summary.json", cut, id="cut summary"),
        pytest.param("scores.parquet", damaged, id="damaged scores"),
        pytest.param("scores.parquet", cut, id="cut scores"),
    ],
)
def test_a_grading_that_cannot_be_read_is_in_no_table(
    name: str, spoil: Callable[[Path], None], results: Copy
) -> None:
    folder = results(WHOLE / "completion")
    (path,) = folder.rglob(name)
    spoil(path)
    before = hashes_of(folder)
    with pytest.raises(MedhelmError) as refused:
        load_results(folder).table("benchmarks")
    assert name in str(refused.value) and "\n" not in str(refused.value)
    assert hashes_of(folder) == before
