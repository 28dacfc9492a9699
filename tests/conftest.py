"""Settings that hold for every test."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest
from absl import logging as absl_logging
from hypothesis import settings

from medhelm.models import providers
from tests.packages import installed, plugged, tree, wheel
from tests.server import FaultServer, serve_in_thread
from tests.shell import Shell

__all__ = ["installed", "plugged", "tree", "wheel"]  # fixtures for all

# No test draws the plug: what is in the system's memory is there for whoever is started next.
os.fsync = lambda fd: None  # type: ignore[assignment]

# The collector would walk all modules and tests again and again: a twelfth of the suite's time.
gc.disable()

# A busy machine is no defect: what must be fast is measured in perf/, not timed in tests.
settings.register_profile("whole", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=20)

# rouge-score imports absl, whose handler would keep the captured stderr of the test that imports it
# first, and close it when Hydra sets up logging in a later one.
absl_logging.get_absl_handler().python_handler.stream = sys.__stderr__  # type: ignore[attr-defined]


def pytest_configure(config: pytest.Config) -> None:
    """Draw fewer examples in the quick part."""
    settings.load_profile("quick" if "not slow" in config.option.markexpr else "whole")


def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than there are cores, for some tests wait: for servers, for processes."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let each worker begin with modules of its own: to import one for the first time takes long."""
    own = getattr(session.config, "workerinput", None)
    if own and session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        root = Path(__file__).parent
        paths = sorted(root.rglob("test_*.py"))[int(own["workerid"][2:]) :: own["workercount"]]
        for path in paths:
            with suppress(Exception, pytest.skip.Exception):  # reported where it is collected
                import_module(".".join(path.relative_to(root.parent).with_suffix("").parts))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the first day and the pages of the documentation, which are the longest tests."""
    first = ("test_first_day.py", "test_docs.py")
    items.sort(key=lambda item: first.index(item.path.name) if item.path.name in first else 9)


def pytest_collection_finish() -> None:
    """Collect only what tests make."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.fixture(autouse=True)
def no_providers_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Providers of plugins are known to a whole process: let each test begin without any."""
    monkeypatch.setattr(providers, "_OF_PLUGINS", {})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, without keys and data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDHELM_DATA_DIR", str(tmp_path / "nowhere"))
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def server() -> Iterator[FaultServer]:
    """A server of models that answers at once."""
    with serve_in_thread() as running:
        yield running


@pytest.fixture
def shell(capsys: pytest.CaptureFixture[str]) -> Shell:
    """The command line in this process."""
    return Shell(capsys)
