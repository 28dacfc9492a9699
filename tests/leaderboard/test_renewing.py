"""Builds that are cut short, run at once, or follow a change of anything but the runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from threading import Timer

import msgspec
import pytest

from medhelm.errors import UsageError
from medhelm.plugins.registry import load_registry
from medhelm.processes.process_pool import ProcessPool, Worker
from medhelm.store.records import find_gradings, read_record
from medhelm.tables.format.table import Settings
from medhelm_leaderboard import site as site_module
from medhelm_leaderboard import worker_pool
from medhelm_leaderboard.collect import Wanted
from medhelm_leaderboard.files import SiteFolder, read_build
from medhelm_leaderboard.site import SiteOptions, build_site
from tests.leaderboard.casting import build, fresh
from tests.quiz import environment

DATED = ("build.json", "data/site.js")


def content(site: Path) -> dict[str, bytes]:
    """Return every file but those with the time of the build."""
    files = {p.relative_to(site).as_posix(): p for p in site.rglob("*") if p.is_file()}
    return {name: p.read_bytes() for name, p in files.items() if name not in DATED}


def change(results: Path) -> None:
    """Take one run away and give another one another card."""
    shutil.rmtree(find_gradings(results)[0].parents[1])
    for grading in find_gradings(results):
        if "/open/lab__one/" in grading.as_posix():
            record = read_record(grading)
            card = msgspec.structs.replace(record.card, licence="CC0", title="Other")
            raw = msgspec.json.encode(msgspec.structs.replace(record, card=card))
            (grading / "summary.json").write_bytes(raw)


@pytest.fixture(scope="module")
def changed(results: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Results after a change, and their site, built at once."""
    folder = tmp_path_factory.mktemp("changed")
    change(fresh(results, folder / "results"))
    build(folder / "results", folder / "site")
    return folder / "results", folder / "site"


def cut(monkeypatch: pytest.MonkeyPatch, results: Path, site: Path, after: int) -> None:
    """Build until so many files are written, then stop as Ctrl-C does, and leave a torn file."""
    real, left = SiteFolder._replace, [after]

    def stop(self: SiteFolder, path: Path, content: bytes) -> None:
        if not left[0]:
            (path.parent / f".{path.name}.12345.tmp").write_bytes(content[: len(content) // 2])
            raise KeyboardInterrupt
        left[0] -= 1
        real(self, path, content)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(SiteFolder, "_replace", stop)
        build(results, site)


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 3, 30])
def test_a_first_build_that_was_cut_is_gone_on_with(
    results: Path, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    cut(monkeypatch, results, tmp_path / "site", after)
    build(results, tmp_path / "site")
    assert content(tmp_path / "site") == content(site)


@pytest.mark.slow
@pytest.mark.parametrize("goes_back", [True, False])
@pytest.mark.parametrize("after", [1, 12])
def test_a_renewal_that_was_cut_is_made_whole(
    results: Path,
    site: Path,
    changed: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    after: int,
    goes_back: bool,
) -> None:
    fresh(site, tmp_path / "site")
    (tmp_path / "site" / "data" / "mine.txt").write_text("mine")
    cut(monkeypatch, changed[0], tmp_path / "site", after)
    then, whole = (results, site) if goes_back else changed
    build(then, tmp_path / "site")
    (tmp_path / "site" / "data" / "mine.txt").unlink()  # a file of somebody else was let be
    assert content(tmp_path / "site") == content(whole)
    assert build(then, tmp_path / "site").written == 0


@pytest.mark.slow
def test_two_builds_at_once(results: Path, site: Path, tmp_path: Path) -> None:
    fresh(site, tmp_path / "site")
    other = SiteFolder(tmp_path / "site")
    other.open()
    with pytest.raises(UsageError, match="another build writes"):
        build(results, tmp_path / "site")
    other.close()
    assert build(results, tmp_path / "site").written == 0
    assert not (tmp_path / "site" / ".building").exists()


def test_what_fails_before_anything_is_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no graded run"):
        build(tmp_path / "results", tmp_path / "site")
    assert not list((tmp_path / "site").iterdir())


@pytest.mark.slow
def test_a_killed_build_in_a_folder_with_blanks(results: Path, site: Path, tmp_path: Path) -> None:
    """With workers, from a script on the standard input, in a folder that holds a `queue.py`."""
    place = tmp_path / "a folder"
    place.mkdir()
    (place / "queue.py").write_text("raise SystemExit('imported from the folder of the command')")
    script = (
        "import sys; sys.path.remove('') if '' in sys.path else None\n"
        "from pathlib import Path\n"
        "import medhelm_leaderboard.worker_pool as worker_pool\n"
        "from tests.leaderboard.casting import build\n"
        "worker_pool._FEW = 0\n"
        "worker_pool.os.cpu_count = lambda: 3\n"
        f"build(Path({str(results)!r}), Path('my site'))\n"
        "print('built')\n"
    )
    env = environment() | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}

    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-"], cwd=place, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        process.stdin.write(script.encode())
        process.stdin.close()
        return process

    with start() as killed:
        while not (place / "my site" / "data").exists():
            assert killed.poll() is None, "the build ended before it wrote anything"
            time.sleep(0.005)
        killed.send_signal(signal.SIGKILL)
    for _ in range(100):  # workers that outlive it hold the site until they are done
        with start() as again:
            assert again.stdout is not None
            if again.stdout.read() == b"built\n":
                break
        time.sleep(0.1)
    assert content(place / "my site") == content(site)


# What else a site is made of -----------------------------------------------------------------------


@pytest.mark.slow
def test_another_version_builds_anew_and_writes_only_what_differs(
    results: Path, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = fresh(site, tmp_path / "site")
    before = content(site)
    times = {name: (site / name).stat().st_mtime_ns for name in before}
    monkeypatch.setattr(site_module, "__version__", "99")
    assert build(results, site).written == 1  # the first page, which names the version
    assert content(site) == before
    again = read_build(site)
    assert again is not None and again.medhelm == "99"
    assert {name: (site / name).stat().st_mtime_ns for name in before} == times


@pytest.mark.slow
def test_a_file_that_was_changed_by_hand_is_mended_by_the_next_build_of_anything(
    site: Path, changed: tuple[Path, Path], tmp_path: Path
) -> None:
    site = fresh(site, tmp_path / "site")
    before = content(site)
    for name in before:
        if name.startswith("data/"):
            path = site / name
            path.write_bytes(path.read_bytes()[:-2] + b"#\n")  # of the same length
    build(changed[0], site)
    assert content(site) == content(changed[1]) != before


@pytest.mark.slow
def test_a_new_chart_library_and_a_new_taxonomy_renew_the_site(
    results: Path, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = fresh(site, tmp_path / "site")
    (tmp_path / "plotly" / "package_data").mkdir(parents=True)
    (tmp_path / "plotly" / "package_data" / "plotly.min.js").write_text("'newer'")
    spec = ModuleSpec("plotly", None, origin=str(tmp_path / "plotly" / "__init__.py"))
    monkeypatch.setattr("medhelm_leaderboard.site.find_spec", lambda _: spec)
    assert build(results, site).written
    assert (site / "app" / "plotly.min.js").read_text() == "'newer'"
    registry = load_registry()
    kept = registry.taxonomy.categories[:1]
    taxonomy = msgspec.structs.replace(registry.taxonomy, categories=kept)
    changed = replace(registry, taxonomy=taxonomy)
    options = SiteOptions(settings=Settings(draws=50))
    assert build_site(Wanted(results_dir=results), site, changed, options).written


# Workers -------------------------------------------------------------------------------------------

# Python 3.11's executor counts its processes while another is started, once it has told every future.
breaking = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> list[Worker]:
    """Have every build use two workers; returns those that were started."""
    monkeypatch.setattr(worker_pool, "_FEW", 0)
    monkeypatch.setattr("medhelm_leaderboard.worker_pool.os.cpu_count", lambda: 3)
    return starting(monkeypatch, lambda worker: None)


def starting(monkeypatch: pytest.MonkeyPatch, then: Callable[[Worker], None]) -> list[Worker]:
    real, started = Worker.start, list[Worker]()

    def start(self: Worker) -> None:
        real(self)
        started.append(self)
        then(self)

    monkeypatch.setattr(Worker, "start", start)
    return started


@pytest.mark.slow
def test_workers_write_what_one_process_writes(
    results: Path, site: Path, tmp_path: Path, many: list[Worker]
) -> None:
    build(results, tmp_path / "site")
    assert len(many) == 2 and content(tmp_path / "site") == content(site)
    assert not any(worker.is_alive() for worker in many)


@pytest.mark.slow
@breaking
@pytest.mark.parametrize("seconds", [0, 0.5])
def test_a_worker_that_ends_early_is_made_up_for(
    results: Path,
    site: Path,
    tmp_path: Path,
    many: list[Worker],
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
) -> None:
    started = starting(monkeypatch, lambda worker: Timer(seconds, worker.kill).start())
    build(results, tmp_path / "site")
    assert started and content(tmp_path / "site") == content(site)


@breaking
def test_workers_that_end_while_others_start(monkeypatch: pytest.MonkeyPatch) -> None:
    starting(monkeypatch, lambda worker: Timer(0, worker.kill).start())
    for _ in range(10):
        with ProcessPool(4, os.getpid) as pool:
            for lost in [pool.submit(abs) for _ in range(4)]:
                assert isinstance(lost.exception(timeout=60), BrokenExecutor)


def test_an_error_leaves_no_worker_behind(
    results: Path, tmp_path: Path, many: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise UsageError("the disk is full")

    monkeypatch.setattr(site_module, "write_scoring", fail)
    with pytest.raises(UsageError, match="the disk is full"):
        build(results, tmp_path / "site")
    assert len(many) == 2 and not any(worker.is_alive() for worker in many)
