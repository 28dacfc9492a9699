"""A judge of two layers is trained end to end on the CPU: it learns, and goes on where it was stopped."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from medhelm.cli import run_command
from tests.benchmarks.clinconsensus.tiny_judge import (
    make_model,
    make_rows,
    one_thread,
    write_config,
    write_rows,
)
from tests.models.local_model import need_transformers

pytestmark = [
    pytest.mark.extra,
    pytest.mark.filterwarnings("default"),  # those of the libraries are theirs
]

ANSWERS = 100
HELD_OUT = ("epsilon", "zeta")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with an untrained model, rows, and rows whose labels for training are shuffled."""
    need_transformers()
    folder = tmp_path_factory.mktemp("judge")
    make_model(folder / "model")
    rows = make_rows(1, ANSWERS)
    write_rows(folder / "rows.jsonl", rows)
    shuffled = make_rows(1, ANSWERS, is_shuffled=True)
    mixed = [
        own if own["model"] in HELD_OUT else other
        for own, other in zip(rows, shuffled, strict=True)
    ]
    write_rows(folder / "shuffled.jsonl", mixed)
    with one_thread():
        yield folder


def train(folder: Path, name: str, *words: str, rows: str = "rows.jsonl") -> dict[str, Any]:
    """Run the command and return the report."""
    config = write_config(folder / f"{name}.yaml", folder / rows, folder / "model")
    assert run_command(["judge", "train", str(config), *words]) == 0
    report: dict[str, Any] = json.loads((folder / name / "report.json").read_text())
    return report


@pytest.fixture(scope="module")
def report(folder: Path) -> dict[str, Any]:
    """The report of a whole training."""
    return train(folder, "whole")


def test_the_judge_learns_the_rule(folder: Path, report: dict[str, Any]) -> None:
    assert report["training"]["models"].keys() == {"alpha", "beta", "gamma", "delta"}
    assert report["held_out"]["models"] == {name: 2 * ANSWERS for name in HELD_OUT}
    assert report["training"]["rows"] + report["development"]["rows"] == 2 * ANSWERS * 4
    loss = report["loss"]
    assert loss["last"] < 0.05 < 1 < loss["first"] and loss["development"] < 0.05
    trained, base = report["trained"], report["base"]
    positive = trained["positive_labels"]
    majority = positive / (1 + positive)  # half the F1 of a judge that finds everything met
    assert trained["invalid"] == 0 and trained["mf1"] > 0.95 > majority + 0.4
    assert base["invalid"] == base["rows"] == trained["rows"] == 2 * 2 * ANSWERS
    assert base["mf1_wrong"] == 0
    shuffled = train(folder, "noise", "--no-base", rows="shuffled.jsonl")
    assert shuffled["trained"]["mf1"] < trained["mf1"] - 0.3
    assert shuffled["held_out"]["positive"] == report["held_out"]["positive"]


def test_an_interrupted_training_ends_with_the_same_weights(
    folder: Path, report: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import TrainerCallback

    from medhelm_benchmarks.clinconsensus.training import recipe

    class Stop(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            if state.global_step == 50:
                raise KeyboardInterrupt

    whole = (folder / "whole" / "final" / "model.safetensors").read_bytes()
    arguments = recipe.train
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "medhelm_benchmarks.clinconsensus.training.train_command.train",
            lambda *given: arguments(*given, callbacks=(Stop(),)),
        )
        config = write_config(folder / "again.yaml", folder / "rows.jsonl", folder / "model")
        assert run_command(["judge", "train", str(config), "--no-base"]) == 130
    assert not (folder / "again" / "final").exists()
    assert {p.name for p in (folder / "again").glob("checkpoint-*")} == {
        "checkpoint-20",
        "checkpoint-40",
    }
    # as it is where gradients have no finite norm
    state = folder / "again" / "checkpoint-40" / "trainer_state.json"
    state.write_text(state.read_text().replace('"grad_norm": ', '"grad_norm": NaN, "other": ', 1))
    assert "NaN" in state.read_text()
    # as `kill -9` leaves it while a checkpoint is written: its state is the last file
    torn = folder / "again" / "checkpoint-60"
    shutil.copytree(torn.with_name("checkpoint-40"), torn)
    (torn / "trainer_state.json").write_text('{"best_global_step": ')
    (torn / "optimizer.pt").write_bytes(b"")
    again = train(folder, "again", "--no-base")
    assert (folder / "again" / "final" / "model.safetensors").read_bytes() == whole
    assert again["trained"] == report["trained"]
    assert again["finished"]["was_resumed"]  # a part of it was trained before
    # done is done: the same command trains nothing and reports the same; other settings are refused
    capsys.readouterr()
    assert train(folder, "again", "--no-base")["finished"] == again["finished"]
    config = write_config(
        folder / "again.yaml", folder / "rows.jsonl", folder / "model", training={"seed": 7}
    )
    assert run_command(["judge", "train", str(config)]) == 2
    assert "other settings or rows" in capsys.readouterr().err


def test_rows_beyond_the_limit_are_counted(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = make_rows(1, 20)
    for row in rows[::3]:
        row["instruction"] += " answer" * 60
    write_rows(folder / "long.jsonl", rows)
    config = write_config(folder / "long.yaml", folder / "long.jsonl", folder / "model")
    assert run_command(["judge", "train", str(config), "--check"]) == 0
    out = capsys.readouterr().out
    long = [row["model"] for row in rows[::3]]
    outside = sum(model in HELD_OUT for model in long)
    assert f"{outside} of them left out" in out.splitlines()[2]
    inside = [
        int(line.split(" of them left out")[0].rpartition(", ")[2])
        for line in out.splitlines()[:2]
        if "left out" in line
    ]
    assert sum(inside) == len(long) - outside
    assert not (folder / "long").exists()


def test_the_config_of_accelerate_is_one() -> None:
    need_transformers()
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.utils import DistributedType

    from medhelm_benchmarks.clinconsensus.training.recipe import FSDP

    config = load_config_from_file(str(FSDP))
    assert config.distributed_type == DistributedType.FSDP
    assert config.fsdp_config["fsdp_version"] == 2
    assert config.fsdp_config["fsdp_reshard_after_forward"] is True  # parameters are sharded, too
    assert config.fsdp_config["fsdp_auto_wrap_policy"] == "TRANSFORMER_BASED_WRAP"
