"""The benchmarks, and the real upstream files where they are."""

import importlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import medhelm_benchmarks
from medhelm.config import packaged_suites
from medhelm.data.dataset import open_dataset
from medhelm.plugins.yaml_benchmark import read_yaml_benchmark
from medhelm.prompts.messages import render_prompt
from medhelm.schema.data import Benchmark, Instance

HOME = Path(medhelm_benchmarks.__path__[0])
SAMPLES = HOME / "samples"
NAMES = sorted(
    path.stem
    for path in HOME.iterdir()
    if (path.suffix in (".py", ".yaml") or (path / "__init__.py").is_file())
    and path.stem not in ("__init__", "clinconsensus", "encounters", "noharm")
)
"""The paper's benchmarks and those of the suite today: one file or one package each."""
PAPER = tuple(packaged_suites()["medhelm"])
TODAY = tuple(name for name in NAMES if name not in PAPER)
_BESIDE = Path(__file__).parents[3] / "shared" / "data"


def sample_file(name: str) -> Path:
    """The samples of a benchmark: beside its file, or in its package."""
    own = HOME / name / "samples" / f"{name}.jsonl"
    return own if own.is_file() else SAMPLES / f"{name}.jsonl"


def load(name: str) -> Benchmark:
    if (path := HOME / f"{name}.yaml").is_file():
        return read_yaml_benchmark(path)
    (benchmark,) = importlib.import_module(f"medhelm_benchmarks.{name}").medhelm_benchmarks()
    assert isinstance(benchmark, Benchmark)
    return benchmark


def prompt(benchmark: Benchmark, instance: Instance) -> str:
    return "\n".join(message.content for message in render_prompt(benchmark, instance))


@pytest.fixture(scope="session")
def real_data() -> Path:
    root = Path(os.environ.get("MEDHELM_DATA_DIR") or _BESIDE)
    if not (root / "headqa").is_dir():
        pytest.skip(f"no upstream files in {root}; name their folder in MEDHELM_DATA_DIR")
    return root


@pytest.fixture(scope="session")
def real_instances(real_data: Path) -> Callable[..., list[Instance]]:
    """All instances of a split of the real files, whose pinned hashes are checked on opening."""

    @cache
    def instances(name: str, split: str | None = None) -> list[Instance]:
        benchmark = load(name)
        dataset = open_dataset(benchmark, "full", split=split, root=real_data)
        found = list(dataset.instances())
        assert len(found) == benchmark.expected_instances[dataset.split]
        assert len({i.id for i in found}) == len(found)
        return found

    return instances
