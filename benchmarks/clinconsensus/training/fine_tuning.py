"""The training itself: Transformers' Trainer, alone or under Accelerate with FSDP."""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from medhelm.errors import RecordError, UsageError
from medhelm_benchmarks.clinconsensus.training.adapters import (
    ADAPTERS,
    trained_share,
    write_merged,
)
from medhelm_benchmarks.clinconsensus.training.settings import TrainingSettings
from medhelm_benchmarks.clinconsensus.training.tokens import Encoded, padded

STATE = "training.json"
ACCOUNT = "finished.json"
FINAL = "final"
_NEEDED = ("torch", "transformers", "accelerate")


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies the training that an output folder holds."""

    fingerprint: str


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """Holds the account of a training that is done."""

    steps: int
    left_out: dict[str, int]
    """Rows of each part beyond the limit of tokens."""
    seconds: float
    """Since its last start."""
    rows_per_second: float | None
    """None where a part was trained before."""
    trained_share: float = 1.0
    """Share of the parameters that were trained: 1 without adapters."""
    gpu_gib: float | None
    """The most memory of the first process's GPU; None without one."""
    log: list[dict[str, float]]


def require_packages(*, with_lora: bool) -> None:
    """Raise UsageError where the extra is not installed."""
    from importlib.util import find_spec

    extra = "lora" if with_lora else "judge"
    for name in (*_NEEDED, *("peft",) * with_lora):
        if find_spec(name) is None:
            raise UsageError(
                f"the package {name} is missing; install the extra {extra}: "
                f"pip install '.[{extra}]'"
            )


def open_output(settings: TrainingSettings) -> Path | None:
    """Return the last checkpoint of the output folder, which is made where it is not there.

    Raises UsageError where the folder holds another training, or a finished one.
    """
    folder = Path(settings.output)
    state = State(fingerprint=settings.fingerprint)
    path = folder / STATE
    try:
        if path.exists():
            if msgspec.json.decode(path.read_bytes(), type=State) != state:
                raise UsageError(
                    f"{folder} holds a training of other settings or rows; name another output"
                )
        else:
            folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(msgspec.json.encode(state))
    except (OSError, msgspec.DecodeError) as error:
        raise RecordError(f"cannot use {folder}: {error}") from None
    steps = [p for p in folder.glob("checkpoint-*") if (p / "trainer_state.json").exists()]
    return max(steps, key=lambda p: int(p.name.rpartition("-")[2]), default=None)


def read_finished(settings: TrainingSettings) -> Finished | None:
    """Return the account of a training that is done, with these settings; None for any other."""
    folder = Path(settings.output)
    try:
        if msgspec.json.decode((folder / STATE).read_bytes(), type=State).fingerprint != (
            settings.fingerprint
        ):
            return None
        return msgspec.json.decode((folder / ACCOUNT).read_bytes(), type=Finished)
    except (OSError, msgspec.DecodeError):
        return None


def load_tokenizer(place: str) -> Any:
    """Return the tokenizer of a model; raises UsageError where it has no chat template."""
    tokenizer = importlib.import_module("transformers").AutoTokenizer.from_pretrained(place)
    if tokenizer.chat_template is None:
        raise UsageError(f"{place} has no chat template: a judge is asked by one")
    return tokenizer


def load_model(place: str, settings: TrainingSettings) -> Any:
    """Return a model whose weights are float32: steps of 1e-5 are lost in bfloat16."""
    torch, transformers = (importlib.import_module(name) for name in ("torch", "transformers"))
    return transformers.AutoModelForCausalLM.from_pretrained(
        place, dtype=torch.float32, attn_implementation=settings.attention
    )


def train(
    model: Any,
    tokenizer: Any,
    training: Sequence[Encoded],
    development: Sequence[Encoded],
    settings: TrainingSettings,
    left_out: Mapping[str, int],
    checkpoint: Path | None = None,
    callbacks: Sequence[Any] = (),
) -> Finished:
    """Train the model, from a checkpoint where there is one; write and return the account."""
    torch, transformers = (importlib.import_module(name) for name in ("torch", "transformers"))
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id

    def collate(batch: Sequence[Any]) -> dict[str, Any]:
        return {name: torch.tensor(rows) for name, rows in padded(batch, pad).items()}

    if settings.checkpoint_activations:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.config.use_cache = False
    trainer = transformers.Trainer(
        model=model,
        args=arguments(settings),
        train_dataset=[row.features() for row in training],
        eval_dataset=[row.features() for row in development],
        data_collator=collate,
        callbacks=[*callbacks],
    )
    is_alone = trainer.args.world_size == 1 or not torch.cuda.is_available()
    if not is_alone and getattr(trainer.accelerator.state, "fsdp_plugin", None) is None:
        raise UsageError("several processes without FSDP: start them by --processes N")
    start = time.monotonic()
    trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
    seconds = time.monotonic() - start
    trainer.evaluate()
    model.config.use_cache = True  # where it is asked, not trained
    folder = Path(settings.output)
    trainer.save_model(str(folder / (ADAPTERS if settings.lora else FINAL)))
    finished = Finished(
        steps=int(trainer.state.global_step),
        left_out=dict(left_out),
        seconds=seconds,
        trained_share=trained_share(model),
        rows_per_second=None if checkpoint else len(training) * settings.epochs / seconds,
        gpu_gib=torch.cuda.max_memory_allocated() / (1 << 30)
        if torch.cuda.is_available()
        else None,
        log=[{k: float(v) for k, v in line.items()} for line in trainer.state.log_history],
    )
    if trainer.is_world_process_zero():
        if settings.lora:
            write_merged(load_model(settings.model, settings), folder / ADAPTERS, folder / FINAL)
        tokenizer.save_pretrained(str(folder / FINAL))
        (folder / ACCOUNT).write_bytes(msgspec.json.encode(finished))
    return finished


def arguments(settings: TrainingSettings) -> Any:
    """Return the settings as Transformers takes them."""
    transformers = importlib.import_module("transformers")
    torch = importlib.import_module("torch")
    return transformers.TrainingArguments(
        output_dir=settings.output,
        num_train_epochs=settings.epochs,
        per_device_train_batch_size=settings.batch_size,
        per_device_eval_batch_size=settings.batch_size,
        gradient_accumulation_steps=settings.accumulation,
        learning_rate=settings.learning_rate,
        lr_scheduler_type=settings.scheduler,
        warmup_steps=settings.warmup,
        weight_decay=settings.weight_decay,
        bf16=settings.precision == "bfloat16",
        logging_steps=10,
        eval_strategy="steps",
        eval_steps=settings.save_steps,
        save_steps=settings.save_steps,
        save_total_limit=settings.keep_checkpoints,
        seed=settings.seed,
        data_seed=settings.seed,
        remove_unused_columns=False,
        dataloader_pin_memory=torch.cuda.is_available(),
        use_cpu=not torch.cuda.is_available(),
        report_to="none",
        disable_tqdm=True,
    )
