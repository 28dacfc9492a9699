"""A training of Transformers' `Trainer`: its settings, rows as tokens, adapters, checkpoints."""

from __future__ import annotations

import hashlib
import importlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml

from medhelm import ModelError, UsageError
from medhelm.plugin import RecordError, durable, file_sha256
from medhelm_benchmarks.clinconsensus.training.rows import TrainingRow

PAPER = Path(__file__).parent / "paper.yaml"
FSDP = Path(__file__).parent / "fsdp.yaml"
FINAL = "final"
ADAPTERS = "adapters"
MASKED = -100
"""The label of a token that adds nothing to the loss."""
_STATE = "training.json"
_ACCOUNT = "finished.json"
_CHANGES_NO_WEIGHT = ("output", "new_tokens", "evaluation_batch", "max_held_out")
_OF_CHECKPOINTS = ("save_steps", "save_total_limit", "eval_steps", "eval_strategy")


_Positive = Annotated[int, msgspec.Meta(gt=0)]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Holds all that decides a training; `paper.yaml` has the default of each."""

    model: str
    """Hub id or folder of the causal model to start from."""
    rows: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """Files of rows, one JSON object a line."""
    output: Annotated[str, msgspec.Meta(min_length=1)]
    """Folder of checkpoints, weights and the report."""
    held_out: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    """Models whose answers are in no training row."""
    development_share: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    """Share of the other answers that measure the loss while training, drawn by the seed."""
    max_tokens: _Positive
    """Rows beyond are left out and counted, never cut."""
    attention: str
    """Transformers' name of the implementation: sdpa, eager, flash_attention_2 (a package of its own)."""
    lora: dict[str, Any] | None
    """Arguments of peft's `LoraConfig`; None: all parameters are trained, as in the paper."""
    new_tokens: _Positive
    """Of a judge's reply, when held-out rows are decided."""
    evaluation_batch: _Positive
    max_held_out: int
    """Held-out rows that are decided, drawn by the seed; 0: all."""
    training: dict[str, Any]
    """Arguments of Transformers' `TrainingArguments`."""

    @property
    def seed(self) -> int:
        """Return the seed of the training, which also draws rows."""
        return int(self.training["seed"])

    @property
    def fingerprint(self) -> str:
        """Return a hash of what decides the weights, and the files of rows by their content."""
        own = {k: v for k, v in msgspec.to_builtins(self).items() if k not in _CHANGES_NO_WEIGHT}
        own["training"] = {k: v for k, v in self.training.items() if k not in _OF_CHECKPOINTS}
        with durable.os_errors_as(UsageError, "rows: cannot read them"):
            own["rows"] = [file_sha256(Path(name)) for name in self.rows]
        return hashlib.sha256(msgspec.json.encode(own, order="sorted")).hexdigest()


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """Holds the account of a training that is done."""

    fingerprint: str
    left_out: dict[str, int]
    """Rows of each part beyond the limit of tokens."""
    trained_share: float
    """Share of the parameters that were trained: 1 without adapters."""
    was_resumed: bool
    """A part was trained before: the rate of the log is too high."""
    gpu_gib: float | None
    """The most memory of the first process's GPU; None without one."""
    log: list[dict[str, float]]
    """The lines of the Trainer, with losses, seconds and rows a second."""

    def logged(self, key: str) -> list[float]:
        """Return the values of one key of the log, in their order."""
        return [line[key] for line in self.log if key in line]


def default_settings() -> dict[str, Any]:
    """Return the paper's settings, without rows."""
    return _mapping(PAPER)


def read_settings(path: Path) -> Settings:
    """Return the settings of a config; raises UsageError with the key that is wrong."""
    given, known = _mapping(path), default_settings()
    if isinstance(own := given.get("training"), dict):
        given["training"] = known["training"] | {key: _number(value) for key, value in own.items()}
    try:
        return msgspec.convert(known | given, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}") from None


def _number(value: Any) -> Any:
    """Return a number that YAML takes for a text: 1e-5, without a point."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _mapping(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise UsageError(f"{path} is not YAML") from None
    if not isinstance(found, dict):
        raise UsageError(f"{path}: a config is keys and values, as `rows: [rows.jsonl]`")
    return found


def require_packages(settings: Settings) -> None:
    """Raise UsageError where an extra is not installed, or does not know an argument."""
    from importlib.util import find_spec

    extra = "lora" if settings.lora is not None else "judge"
    for name in ("torch", "transformers", "accelerate", *("peft",) * (extra == "lora")):
        if find_spec(name) is None:
            raise UsageError(
                f"the package {name} is missing; install the extra {extra}: "
                f"pip install '.[{extra}]'"
            )
    try:
        arguments(settings)
        if settings.lora is not None:
            lora_config(settings.lora)
    except (TypeError, ValueError) as error:
        raise UsageError(f"training or lora: {str(error)[:200]}") from None


def arguments(settings: Settings) -> Any:
    """Return the settings as Transformers takes them."""
    torch, transformers = (importlib.import_module(name) for name in ("torch", "transformers"))
    has_gpu = torch.cuda.is_available()
    ours = {"remove_unused_columns": False, "report_to": "none", "disable_tqdm": True}
    own = {"output_dir": settings.output, "use_cpu": not has_gpu, "dataloader_pin_memory": has_gpu}
    return transformers.TrainingArguments(**(ours | own | settings.training))


def lora_config(lora: Mapping[str, Any]) -> Any:
    """Return the form of low-rank adapters, at all linear layers but the last."""
    defaults = {"task_type": "CAUSAL_LM", "target_modules": "all-linear", "lora_alpha": 16}
    return importlib.import_module("peft").LoraConfig(**(defaults | dict(lora)))


def load_tokenizer(place: str) -> Any:
    """Return the tokenizer of a model; raises UsageError where it has no chat template."""
    tokenizer = _loaded("AutoTokenizer", place)
    if tokenizer.chat_template is None:
        raise UsageError(f"{place} has no chat template: a judge is asked by one")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    return tokenizer


def load_model(place: str, settings: Settings) -> Any:
    """Return a model whose weights are float32: steps of 1e-5 are lost in bfloat16."""
    dtype = importlib.import_module("torch").float32
    return _loaded(
        "AutoModelForCausalLM", place, dtype=dtype, attn_implementation=settings.attention
    )


def _loaded(kind: str, place: str, **options: Any) -> Any:
    loader = getattr(importlib.import_module("transformers"), kind)
    try:
        return loader.from_pretrained(place, **options)
    except Exception as error:  # a boundary: whatever a file or the hub makes the library raise
        first = str(error).strip().partition("\n")[0][:200]
        raise ModelError(
            f"model {place} cannot be loaded ({type(error).__name__}: {first})"
        ) from None


def prompt_text(tokenizer: Any, messages: Sequence[Mapping[str, str]]) -> str:
    """Return what a judge is sent, by the model's chat template with thinking off."""
    return str(
        tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
    )


def encode(tokenizer: Any, row: TrainingRow) -> dict[str, list[int]]:
    """Return a row as a model is trained on it: the prompt is masked, then the reply and its end.

    Both are tokenised apart, as they are when the judge is asked. Raises UsageError for a template
    under which the prompt is not the beginning of the whole.
    """
    prompt = prompt_text(tokenizer, row.messages)
    whole = tokenizer.apply_chat_template(
        [*row.messages, {"role": "assistant", "content": row.output}],
        tokenize=False,
        enable_thinking=False,
    )
    if not whole.startswith(prompt):
        raise UsageError(
            f"the chat template of {tokenizer.name_or_path} shows the judge another text before "
            "its reply than in training; choose a model whose template keeps thinking off"
        )
    before, reply = (
        tokenizer.encode(part, add_special_tokens=False) for part in (prompt, whole[len(prompt) :])
    )
    tokens = [*before, *reply]
    labels = [MASKED] * len(before) + [*reply]
    return {"input_ids": tokens, "attention_mask": [1] * len(tokens), "labels": labels}


def encode_within(
    tokenizer: Any, rows: Iterable[TrainingRow], max_tokens: int
) -> tuple[list[dict[str, list[int]]], int]:
    """Return the rows within the limit as tokens, and how many are left out."""
    encoded = [encode(tokenizer, row) for row in rows]
    kept = [row for row in encoded if len(row["input_ids"]) <= max_tokens]
    return kept, len(encoded) - len(kept)


def read_finished(settings: Settings) -> Finished | None:
    """Return the account of a training that is done, with these settings; None for any other."""
    try:
        content = (Path(settings.output) / _ACCOUNT).read_bytes()
        found = msgspec.json.decode(content, type=Finished)
    except (OSError, msgspec.DecodeError):
        return None
    return found if found.fingerprint == settings.fingerprint else None


def _open_output(settings: Settings) -> str | None:
    """Return the last whole checkpoint of the output folder, which is made where it is not there.

    Raises UsageError where the folder holds another training.
    """
    folder, state = Path(settings.output), {"fingerprint": settings.fingerprint}
    path = folder / _STATE
    try:
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            path.write_bytes(msgspec.json.encode(state))
        elif msgspec.json.decode(path.read_bytes()) != state:
            raise UsageError(
                f"{folder} holds a training of other settings or rows; name another output"
            )
        # a checkpoint's state is written last: without it the training was killed while it wrote the rest
        whole = {
            int(step): file.parent
            for file in folder.glob("checkpoint-*/trainer_state.json")
            if (step := file.parent.name.removeprefix("checkpoint-")).isdecimal()
            and _is_json(file.read_bytes())
        }
    except (OSError, msgspec.DecodeError) as error:
        raise RecordError(f"cannot use {folder}: {error}") from None
    return str(whole[max(whole)]) if whole else None


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)  # msgspec takes no NaN, which the norm of a gradient may be
    except ValueError:
        return False
    return True


def train(
    settings: Settings, parts: Mapping[str, Sequence[TrainingRow]], callbacks: Sequence[Any] = ()
) -> Finished:
    """Train from the last checkpoint, write weights, and write and return the account."""
    torch, transformers = (importlib.import_module(name) for name in ("torch", "transformers"))
    tokenizer = load_tokenizer(settings.model)
    kept, left_out = {}, {}
    for name, rows in parts.items():
        kept[name], left_out[name] = encode_within(tokenizer, rows, settings.max_tokens)
        if not kept[name]:
            raise UsageError(f"no {name} row has {settings.max_tokens} tokens or fewer")
    checkpoint = _open_output(settings)
    model = load_model(settings.model, settings)
    if settings.lora is not None:
        transformers.set_seed(settings.seed)  # all processes begin with the same adapters
        peft = importlib.import_module("peft")
        try:
            model = peft.get_peft_model(model, lora_config(settings.lora))
        except ValueError as error:
            raise UsageError(f"lora: {error}") from None
    trainer = transformers.Trainer(
        model=model,
        args=arguments(settings),
        train_dataset=kept["training"],
        eval_dataset=kept["development"],
        data_collator=transformers.DataCollatorForSeq2Seq(tokenizer, label_pad_token_id=MASKED),
        callbacks=[*callbacks],
    )
    is_alone = trainer.args.world_size == 1 or not torch.cuda.is_available()
    if not is_alone and getattr(trainer.accelerator.state, "fsdp_plugin", None) is None:
        raise UsageError("several processes without FSDP: start them by --processes N")
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.evaluate()
    folder, parameters = Path(settings.output), list(model.parameters())
    model.config.use_cache = True  # where it is asked, not trained
    trainer.save_model(str(folder / (FINAL if settings.lora is None else ADAPTERS)))
    trained = sum(own.numel() for own in parameters if own.requires_grad)
    finished = Finished(
        fingerprint=settings.fingerprint,
        left_out=left_out,
        trained_share=trained / sum(own.numel() for own in parameters),
        was_resumed=checkpoint is not None,
        gpu_gib=torch.cuda.max_memory_allocated() / (1 << 30)
        if torch.cuda.is_available()
        else None,
        log=[
            {k: float(v) for k, v in line.items() if math.isfinite(v)}
            for line in trainer.state.log_history
        ],
    )
    if trainer.is_world_process_zero():
        if settings.lora is not None:
            # read anew: the weights of the training may be spread over several GPUs
            base = load_model(settings.model, settings)
            merged = peft.PeftModel.from_pretrained(base, str(folder / ADAPTERS))
            merged.merge_and_unload().save_pretrained(str(folder / FINAL))
        tokenizer.save_pretrained(str(folder / FINAL))
        (folder / _ACCOUNT).write_bytes(msgspec.json.encode(finished))
    return finished
