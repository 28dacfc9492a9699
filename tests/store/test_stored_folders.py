"""Run folders of the first version whose records are read: tabulated, graded and resumed.

`tests/stored_folders` holds them with the tables that their own version gave (see `write.py` there).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from medhelm import MedhelmError, Metric, load_results, score
from medhelm.plugins.registry import Registry
from medhelm.runs import run as runs
from tests.server import FaultServer, serve_in_thread
from tests.stored_folders.kinds import DATA, KINDS, PLUGINS, TABLES, WHOLE, Kind, answer
from tests.stored_folders.tabulated import differing, write_tables

pytestmark = pytest.mark.slow


def hashes_of(folder: Path) -> dict[str, str]:
    """Return the sha256 of every file below a folder."""
    files = [p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != "lock"]
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def calls_of(results: Path) -> Counter[str]:
    """Return how many calls the whole lines of all logs hold, by the name that a server gets."""
    calls: Counter[str] = Counter()
    for run in (path.parent for path in results.glob("runs/*/*/*/spec.json")):
        spec = json.loads((run / "spec.json").read_bytes())["spec"]
        names = {"": spec["model"]["model"], "questioner": "questioner", "referee": "referee"}
        if spec["model"]["provider"] == "openai":
            for line in whole_lines(run / "responses.jsonl"):
                if "call" in line or "episode" not in line:
                    role = line.get("call", {}).get("role", "")
                    calls[names.get(role, names[""])] += 1
        for log in (*run.glob("judges/*/*.jsonl"), *run.glob("graders/*/*.jsonl")):
            calls.update(served_by(whole_lines(log)))
    return calls


def served_by(lines: list[dict[str, Any]]) -> list[str]:
    """Return the judge that answered, once for each call of its log."""
    return [line["call"]["response"]["served_model"] for line in lines if "call" in line]


def whole_lines(log: Path) -> list[dict[str, Any]]:
    """Return the lines of a log that end with a line break."""
    return [json.loads(line) for line in log.read_bytes().split(b"\n")[:-1]]


def halve(kind: Kind, results: Path) -> None:
    """Make of finished runs what a kill leaves: nothing graded, each log cut within a line."""
    for run in (spec.parent for spec in results.glob("runs/*/*/*/spec.json")):
        shutil.rmtree(run / "gradings")
        cut(run / "responses.jsonl", kind.kept[run.parent.name.replace("__", "/")])
        for log in [*run.glob("judges/*/*.jsonl"), *run.glob("graders/*/*.jsonl")]:
            if kept := kind.kept[served_by(whole_lines(log))[0]]:
                cut(log, kept)
            else:
                shutil.rmtree(log.parent)


def cut(log: Path, kept: int) -> None:
    """Leave some lines of a log, and half of the next one."""
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:kept]) + lines[kept][: len(lines[kept]) // 2])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultServer]:
    """A server that answers as the stored one did, for every address that has no server."""
    for name in ("http_proxy", "ALL_PROXY", "all_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with serve_in_thread(by_body=answer) as running:
        monkeypatch.setenv("HTTP_PROXY", running.base_url.removesuffix("/v1"))
        monkeypatch.setenv("OPENAI_API_KEY", "test-key")
        yield running


Copy = Callable[[str], Path]


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Copy:
    """A function that copies the stored runs of a kind to where they may be changed.

    Metrics have the versions that the stored gradings name, and a plugin the hash of its file then:
    another version, or another file, is graded anew. So is what has no metric by each judge alone.
    """
    today = Registry.metric

    def copy(kind: str) -> Path:
        paths = (WHOLE / kind).glob("runs/*/*/*/gradings/*/summary.json")
        records = [json.loads(path.read_bytes()) for path in paths]
        metrics = [m for record in records for m in record["grading"]["metrics"]]
        stored = {(m["name"], m["scoring"]): m["version"] for m in metrics}

        def as_stored(self: Registry, name: str, *scoring: Any) -> Metric:
            metric = today(self, name, *scoring)
            version = stored.get((metric.name, metric.scoring), metric.version)
            return dataclasses.replace(metric, version=version)

        monkeypatch.setattr(Registry, "metric", as_stored)
        monkeypatch.setattr(runs, "with_judges", lambda metrics, jury: metrics)
        plugin = records[0]["card"]["plugin"]
        monkeypatch.setattr(runs, "_plugin", lambda origin: plugin)
        return shutil.copytree(WHOLE / kind, tmp_path / "results")

    return copy


def asked(server: FaultServer) -> Counter[str]:
    return Counter(body["model"] for body in server.bodies)


def check_tables(kind: str, folder: Path, into: Path) -> None:
    write_tables(folder, into)
    assert differing(TABLES / kind, into) == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_run_is_tabulated_and_asks_nothing(
    kind: str, results: Copy, server: FaultServer, tmp_path: Path
) -> None:
    folder = results(kind)
    before = hashes_of(folder)
    check_tables(kind, folder, tmp_path / "tables")
    assert hashes_of(folder) == before
    KINDS[kind].ask(folder)
    assert server.requests == 0
    assert hashes_of(folder) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_run_is_graded_anew_to_the_same_numbers(
    kind: str, results: Copy, tmp_path: Path
) -> None:
    folder = results(kind)
    lost = list(folder.rglob("scores.parquet"))
    for path in lost:
        path.unlink()
    logs = {name: found for name, found in hashes_of(folder).items() if "gradings" not in name}
    score(folder, data_dir=DATA, plugins=PLUGINS)
    assert lost and all(path.is_file() for path in lost)
    check_tables(kind, folder, tmp_path / "tables")
    assert logs.items() <= hashes_of(folder).items()


@pytest.mark.parametrize("kind", KINDS)
def test_a_half_finished_run_goes_on_and_asks_only_what_is_missing(
    kind: str, results: Copy, server: FaultServer, tmp_path: Path
) -> None:
    folder = results(kind)
    halve(KINDS[kind], folder)
    missing = calls_of(WHOLE / kind) - calls_of(folder)
    assert missing or kind == "baselines"
    KINDS[kind].ask(folder)
    assert asked(server) == missing
    check_tables(kind, folder, tmp_path / "tables")
    runs = {path.parent.relative_to(folder) for path in folder.glob("runs/*/*/*/spec.json")}
    stored = WHOLE / kind
    assert runs == {path.parent.relative_to(stored) for path in stored.glob("runs/*/*/*/spec.json")}
    KINDS[kind].ask(folder)
    assert asked(server) == missing, "what was missing is stored"


def test_verdicts_in_a_form_that_is_no_longer_read_are_refused(
    results: Copy, server: FaultServer, tmp_path: Path
) -> None:
    """Without them their judges would seem not asked: neither a new grading nor a new request."""
    folder = results("jury")
    for log in folder.glob("runs/*/*/*/judges/*/responses.jsonl"):
        log.rename(log.with_name("grades.jsonl"))
    before = hashes_of(folder)
    check_tables("jury", folder, tmp_path / "tables")  # of the stored scores
    with pytest.raises(MedhelmError, match="another version.*run again"):
        KINDS["jury"].ask(folder)
    warned = pytest.warns(UserWarning, match="another version.*run again")
    with warned, pytest.raises(MedhelmError, match="graded"):
        score(folder, data_dir=DATA, plugins=PLUGINS)
    assert server.requests == 0
    assert hashes_of(folder) == before


def test_a_half_finished_run_is_graded_as_far_as_it_is(results: Copy) -> None:
    """A kill leaves no grading; what was answered can be graded without a model."""
    folder = results("completion")
    halve(KINDS["completion"], folder)
    (row,) = score(folder, data_dir=DATA, plugins=PLUGINS).typed("benchmarks").rows
    assert row["coverage"] * row["planned"] <= 7 < row["planned"]


# What cannot be read ------------------------------------------------------------------------------


def other(path: Path) -> None:
    """Write a record as another version would, whose schema is not known."""
    text = json.loads(path.read_bytes())
    text["schema"] = 99
    text.pop("sha256")  # of the file as it was
    path.write_text(json.dumps(text))


def other_line(path: Path) -> None:
    """Give the first line of a log another schema, with a checksum that is right."""
    first, *others = path.read_bytes().splitlines(keepends=True)
    body = first[: first.rindex(b',"crc"')].replace(b'"schema":1', b'"schema":99', 1) + b"}"
    path.write_bytes(b'%b,"crc":"%08x"}\n' % (body[:-1], zlib.crc32(body)) + b"".join(others))


def damaged(path: Path) -> None:
    """Change one digit, as a worn disk does."""
    content = path.read_bytes()
    place = next(i for i in range(len(content) // 2, len(content)) if content[i : i + 1].isdigit())
    digit = b"1" if content[place : place + 1] != b"1" else b"2"
    path.write_bytes(content[:place] + digit + content[place + 1 :])


def shortened(path: Path) -> None:
    """Leave the first half of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


OTHER_VERSION = [("spec.json", other), ("responses.jsonl", other_line)]
DAMAGED = [("spec.json", damaged), ("spec.json", shortened)]
SEVERAL = pytest.mark.parametrize("kind", ["completion", "jury", "interview"])


@SEVERAL
@pytest.mark.parametrize(("name", "spoil"), [*OTHER_VERSION, *DAMAGED])
def test_a_run_that_cannot_be_read_is_not_graded_and_not_changed(
    kind: str, name: str, spoil: Callable[[Path], None], results: Copy
) -> None:
    folder = results(kind)
    for path in folder.rglob(name):
        spoil(path)
    before = hashes_of(folder)
    with pytest.warns(UserWarning, match=str(folder)), pytest.raises(MedhelmError, match="graded"):
        score(folder, data_dir=DATA, plugins=PLUGINS)
    assert hashes_of(folder) == before


@SEVERAL
@pytest.mark.parametrize(("name", "spoil"), OTHER_VERSION)
@pytest.mark.parametrize("is_half", [False, True])
def test_a_run_of_another_version_is_not_resumed_and_not_changed(
    kind: str,
    name: str,
    spoil: Callable[[Path], None],
    is_half: bool,
    results: Copy,
    server: FaultServer,
) -> None:
    folder = results(kind)
    if is_half:
        halve(KINDS[kind], folder)
    for path in folder.rglob(name):
        spoil(path)
    before = hashes_of(folder)
    with pytest.raises(MedhelmError, match="another version.*run again") as refused:
        KINDS[kind].ask(folder)
    assert "\n" not in str(refused.value)
    assert server.requests == 0
    assert hashes_of(folder) == before


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
    folder = results(kind)
    halve(KINDS[kind], folder)
    missing = calls_of(WHOLE / kind) - calls_of(folder)
    for path in folder.rglob(name):
        spoil(path)
    KINDS[kind].ask(folder)
    assert asked(server) == missing
    check_tables(kind, folder, tmp_path / "tables")


@pytest.mark.parametrize(
    ("name", "spoil"),
    [
        ("summary.json", other),
        ("summary.json", damaged),
        ("summary.json", shortened),
        ("scores.parquet", damaged),
        ("scores.parquet", shortened),
    ],
)
def test_a_grading_that_cannot_be_read_is_in_no_table(
    name: str, spoil: Callable[[Path], None], results: Copy
) -> None:
    folder = results("completion")
    (path,) = folder.rglob(name)
    spoil(path)
    before = hashes_of(folder)
    with pytest.raises(MedhelmError, match=name) as refused:
        load_results(folder).table("benchmarks")
    assert "\n" not in str(refused.value)
    assert hashes_of(folder) == before
