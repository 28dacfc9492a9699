"""A judge of two layers is trained by low-rank adapters, which become a model like any other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from medhelm.cli import run_command
from medhelm_benchmarks.clinconsensus.training import recipe
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

RANK = 4
LORA = {"r": RANK, "lora_alpha": 16, "lora_dropout": 0.1}
STOP_AT = 30
TRAIN = "medhelm_benchmarks.clinconsensus.training.train_command.train"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with an untrained model and rows."""
    need_transformers()
    pytest.importorskip("peft", reason="needs adapters: pip install '.[lora]'")
    make_model(tmp_path / "model")
    write_rows(tmp_path / "rows.jsonl", make_rows(1, 60))
    with one_thread():
        yield tmp_path


def train(folder: Path, name: str) -> int:
    """Run the command and return its exit code."""
    config = write_config(
        folder / f"{name}.yaml",
        folder / "rows.jsonl",
        folder / "model",
        lora=LORA,
        training={"num_train_epochs": 3},
    )
    return run_command(["judge", "train", str(config), "--no-base"])


def weights(folder: Path) -> dict[str, Any]:
    """Return the weights of a model by name."""
    from transformers import AutoModelForCausalLM

    return dict(AutoModelForCausalLM.from_pretrained(folder).state_dict())


def test_adapters_are_trained_and_merged(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import torch
    from transformers import TrainerCallback

    class Watch(TrainerCallback):  # type: ignore[misc]
        """Notes what has a gradient; stops a training in its middle."""

        def __init__(self, stop_at: int | None) -> None:
            self.stop_at = stop_at
            self.with_gradient: set[str] = set()

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            named = more["model"].named_parameters()
            self.with_gradient |= {name for name, own in named if own.grad is not None}

        def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            if state.global_step == self.stop_at:
                raise KeyboardInterrupt

    own_train = recipe.train

    def watched(name: str, stop_at: int | None = None) -> tuple[int, set[str]]:
        watch = Watch(stop_at)
        monkeypatch.setattr(TRAIN, lambda *given: own_train(*given, callbacks=(watch,)))
        return train(folder, name), watch.with_gradient

    code, with_gradient = watched("whole")
    assert code == 0
    blocks = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert {name.split(".")[-4] for name in with_gradient} == blocks
    assert {name.split(".")[-3] for name in with_gradient} == {"lora_A", "lora_B"}
    assert len(with_gradient) == 2 * 2 * len(blocks)  # two factors, two layers
    report = json.loads((folder / "whole" / "report.json").read_text())
    loss = report["loss"]
    assert loss["last"] < 0.5 * loss["first"] and loss["development"] < 0.5 * loss["first"]

    # the merged model has the base's parameters and form; those without an adapter are the base's
    base, merged = weights(folder / "model"), weights(folder / "whole" / "final")
    assert base.keys() == merged.keys()
    changed = {name for name in base if not torch.equal(base[name], merged[name])}
    assert {name.split(".")[-2] for name in changed} == blocks and len(changed) == 2 * len(blocks)
    differences = [(merged[name] - base[name]).double() for name in changed]
    sizes = [torch.linalg.svdvals(own) for own in differences]
    assert all(own[RANK] < 1e-4 * own[0] for own in sizes)  # of that rank, but for rounding

    # what the report has of it, worked out from the shapes
    trained = sum(RANK * sum(base[name].shape) for name in changed)
    share = trained / (sum(own.numel() for own in base.values()) + trained)
    assert report["finished"]["trained_share"] == pytest.approx(share)
    assert report["settings"]["lora"] == LORA and "peft" in report["packages"]
    out = capsys.readouterr().out
    assert f"{share:.2%} of the parameters" in out
    assert run_command(["judge", "serve", str(folder / "whole" / "final")]) == 0
    assert "provider: hf" in capsys.readouterr().out

    # stopped in its middle, it goes on to the same weights
    assert watched("again", STOP_AT)[0] == 130
    assert not (folder / "again" / "final").exists()
    assert watched("again")[0] == 0
    final = Path("final") / "model.safetensors"
    assert (folder / "again" / final).read_bytes() == (folder / "whole" / final).read_bytes()
