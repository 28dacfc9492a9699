"""Shards: several processes ask one run, and what comes is what one process would have made."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import medhelm
from medhelm import api
from medhelm.cli import run_command
from medhelm.errors import UsageError
from medhelm.models import ModelPool
from medhelm.models.costs import Ledger
from medhelm.plugins.registry import load_registry
from medhelm.runs.planning import plan_runs
from medhelm.runs.runner import Ending, run_sweep
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import JurySpec
from medhelm.store.records import find_gradings, read_record
from medhelm.store.runlog import RunFolder, read_log
from medhelm.store.shards import Shard, find_shard, gather, logs_of
from tests.rubric.test_grader import PLUGIN, PRICE
from tests.server import FaultServer, Reply, letter, serve_in_thread

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
from scripted_evaluators import ROLES, judge  # noqa: E402


class Quiet:
    """Shows nothing; keeps the messages."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def planned(self, *_: object) -> None: ...
    def advanced(self, *_: object) -> None: ...
    def ended(self, *_: object) -> None: ...
    def message(self, text: str) -> None:
        self.said.append(text)


def ask(shard: str, *args: Any, **more: Any) -> tuple[Ending, list[str]]:
    """Ask a shard in this process, as `medhelm run ... shard=K/N` does."""
    bound = inspect.signature(medhelm.evaluate).bind(*args, **more)
    bound.apply_defaults()
    registry = load_registry((more["plugins"],) if "plugins" in more else ())
    jobs = api._jobs("evaluate", bound.arguments | {"shard": shard}, registry)
    runs = plan_runs(jobs, registry, os.environ).runs
    quiet = Quiet()
    end = asyncio.run(run_sweep(runs, Ledger(), quiet, ModelPool(os.environ)))
    assert end.stopped is None and all(e.error is None for e in end.endings), end
    return end.endings[0], quiet.said


def graded(results: Path) -> tuple[list[Any], pd.DataFrame]:
    """Return what a record says of scores, controls and usage, and every score."""
    (folder,) = find_gradings(results)
    record = read_record(folder)
    scores = pd.read_parquet(folder / "scores.parquet")
    usage = [(p.role, p.model.name, p.usage, p.ends) for p in record.parties]
    kept = [record.state, record.instances, record.results, record.controls, usage]
    columns = ["instance_id", "repeat", "metric"]
    return kept, scores.sort_values(columns, ignore_index=True)


def model(server: FaultServer, name: str, **more: Any) -> ModelSpec:
    return ModelSpec(
        name=name, model=name.rpartition("/")[2], provider="openai", base_url=server.base_url, price=PRICE, **more
    )  # fmt: skip


def said(prompt: str) -> str | Reply:
    """Answer whoever is asked: an evaluator, a role, a judge of a jury or of a criterion, or a model."""
    digest = sum(prompt.encode())
    if '"items"' in prompt and '"turn"' in prompt:
        return judge("by-words", prompt)
    if "criteria_met" in prompt:
        return json.dumps({"explanation": "So.", "criteria_met": digest % 3 > 0})
    if names := re.findall(r'"(\w+)": \{"score"', prompt) or re.findall(r"^- (\w+):", prompt, re.M):
        return json.dumps({name: {"score": 1 + digest % 5, "explanation": "So."} for name in names})
    return letter(prompt)


def cases(server: FaultServer) -> Mapping[str, dict[str, Any]]:
    one, two = model(server, "j/one"), model(server, "j/two")
    jury = JurySpec(name="two", judges=(one, two), quorum=1)
    return {
        "completion": {"benchmarks": "med_qa", "repeats": 2},
        "jury": {"benchmarks": "medication_qa", "jury": jury, "controls": 0.2},
        "criteria": {"benchmarks": "checklist", "jury": jury, "controls": 0.5, "plugins": PLUGIN},
        "encounters": {"benchmarks": "agentclinic", "jury": jury},
        "labels": {"benchmarks": "noharm"},
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["completion", "jury", "criteria", "encounters", "labels"])
@pytest.mark.parametrize("count", [4, 7])
def test_shards_give_what_one_process_gives(tmp_path: Path, kind: str, count: int) -> None:
    with serve_in_thread(said) as server:
        given = cases(server)[kind] | {"data": "sample"}
        asked = model(server, "m/one")
        medhelm.evaluate(asked, results_dir=tmp_path / "one", progress=False, **given)
        calls = server.requests
        endings = [
            ask(f"{number}/{count}", asked, results_dir=tmp_path / "many", **given)
            for number in reversed(range(count))
        ]
        assert server.requests == 2 * calls  # each call once
    assert [e.record is not None for e, _ in endings] == [False] * (count - 1) + [True]
    assert f"shard {count - 1}/{count} has ended; " in endings[0][1][-1]
    (one, scores), (many, of_many) = graded(tmp_path / "one"), graded(tmp_path / "many")
    assert one == many
    pd.testing.assert_frame_equal(scores, of_many)
    assert not [*(tmp_path / "many").glob("runs/*/*/*/**/*-of-*")]
