"""Low-rank adapters (LoRA) through peft: a fraction of the parameters is trained, then merged."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from medhelm_benchmarks.clinconsensus.training.settings import LoraSettings

ADAPTERS = "adapters"


def with_adapters(model: Any, lora: LoraSettings, seed: int) -> Any:
    """Return the model with an adapter at each linear layer of its blocks, its own weights frozen."""
    peft, transformers = (importlib.import_module(name) for name in ("peft", "transformers"))
    transformers.set_seed(seed)  # all processes begin with the same adapters
    config = peft.LoraConfig(
        task_type="CAUSAL_LM",
        target_modules="all-linear",
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
    )
    return peft.get_peft_model(model, config)


def write_merged(model: Any, adapters: Path, folder: Path) -> None:
    """Write an untrained model with adapters added to its weights, as a model like any other.

    The model is read anew rather than taken from the training: there its weights may be spread
    over several GPUs.
    """
    peft = importlib.import_module("peft")
    merged = peft.PeftModel.from_pretrained(model, str(adapters)).merge_and_unload()
    merged.save_pretrained(str(folder))


def trained_share(model: Any) -> float:
    """Return the share of a model's parameters that a training changes."""
    sizes = [(own.numel(), own.requires_grad) for own in model.parameters()]
    return float(sum(size for size, is_trained in sizes if is_trained) / sum(n for n, _ in sizes))
