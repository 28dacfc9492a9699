"""The settings of a training: those of the paper, changed by a config of the user's."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Literal

import msgspec
import yaml

from medhelm.errors import UsageError, closest

PAPER = Path(__file__).parent / "paper.yaml"
FSDP = Path(__file__).parent / "fsdp.yaml"

_OF_THE_REPORT = ("new_tokens", "evaluation_batch", "max_held_out")
_NOT_HASHED = ("output", "save_steps", "keep_checkpoints", *_OF_THE_REPORT)
"""Settings that change no weight."""

_ABOVE_0 = (
    "epochs",
    "batch_size",
    "accumulation",
    "learning_rate",
    "max_tokens",
    "save_steps",
    "keep_checkpoints",
    "new_tokens",
    "evaluation_batch",
)


class LoraSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Holds the form of low-rank adapters, at all linear layers but the last: nothing else is trained."""

    rank: int = 8
    alpha: float = 16.0
    """Adapters are scaled by alpha / rank."""
    dropout: float = 0.0
    """Of what goes into an adapter, while it is trained."""


class TrainingSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Holds all that decides a training; `paper.yaml` has the default of each."""

    model: str
    """Hub id or folder of the causal model to start from."""
    rows: tuple[str, ...]
    """Files of rows, one JSON object a line."""
    output: str
    """Folder of checkpoints, weights and the report."""
    held_out: tuple[str, ...]
    """Models whose answers are in no training row."""
    development_share: float
    """Share of the other answers that measure the loss while training, drawn by the seed."""
    epochs: float
    batch_size: int
    """Rows a process takes at a time; `accumulation` such batches make a step."""
    accumulation: int
    learning_rate: float
    scheduler: str
    warmup: float
    """Share of the steps in which the learning rate rises."""
    weight_decay: float
    max_tokens: int
    """Rows beyond are left out and counted, never cut."""
    precision: Literal["bfloat16", "float32"]
    """Of the arithmetic; weights and states of the optimizer are float32."""
    attention: str
    """Transformers' name of the implementation: sdpa, eager, flash_attention_2 (a package of its own)."""
    checkpoint_activations: bool
    lora: LoraSettings | None
    """Train adapters of this form and merge them; None: all parameters, as in the paper."""
    save_steps: int
    keep_checkpoints: int
    seed: int
    new_tokens: int
    """Of a judge's reply, when held-out rows are decided."""
    evaluation_batch: int
    max_held_out: int
    """Held-out rows that are decided, drawn by the seed; 0: all."""

    @property
    def fingerprint(self) -> str:
        """Return a hash of what decides the weights, and the files of rows by their content."""
        own = {k: v for k, v in msgspec.to_builtins(self).items() if k not in _NOT_HASHED}
        if self.lora is None:  # so that trainings from before there was this key go on
            del own["lora"]
        own["rows"] = [_sha256(Path(name)) for name in self.rows]
        return hashlib.sha256(msgspec.json.encode(own, order="sorted")).hexdigest()


def default_settings() -> TrainingSettings:
    """Return the paper's settings, without rows."""
    return msgspec.convert(_mapping(PAPER), TrainingSettings)


def read_settings(path: Path) -> TrainingSettings:
    """Return the settings of a config; raises UsageError with the key and the nearest right one."""
    given = _mapping(path)
    known = _mapping(PAPER)
    _refuse_unknown(path, given, known)
    if isinstance(lora := given.get("lora"), dict):
        _refuse_unknown(path, lora, LoraSettings.__struct_fields__, "lora: ")
    try:
        # not strict: YAML reads 1e-5, without a point, as a text
        settings = msgspec.convert(known | given, TrainingSettings, strict=False)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {error}") from None
    for key in ("rows", "output", "held_out"):
        if not getattr(settings, key):
            raise UsageError(f"{path}: {key} is missing; a training has no default of it")
    for key in _ABOVE_0:
        if getattr(settings, key) <= 0:
            raise UsageError(f"{path}: {key} must be above 0")
    if not 0 < settings.development_share < 1:
        raise UsageError(f"{path}: development_share must lie between 0 and 1")
    if lora := settings.lora:
        if lora.rank < 1 or lora.alpha <= 0:
            raise UsageError(f"{path}: lora: rank and alpha must be above 0")
        if not 0 <= lora.dropout < 1:
            raise UsageError(f"{path}: lora: dropout must be at least 0 and below 1")
    return settings


def _refuse_unknown(
    path: Path, given: Iterable[object], known: Collection[str], place: str = ""
) -> None:
    for key in given:
        if key not in known:
            near = "".join(f"; did you mean {name}?" for name in closest(str(key), known, n=1))
            raise UsageError(f"{path}: {place}unknown key {str(key)[:40]!r}{near}")


def _mapping(path: Path) -> dict[str, object]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise UsageError(f"{path} is not YAML") from None
    if not isinstance(found, dict):
        raise UsageError(f"{path}: a config is keys and values, as `rows: [rows.jsonl]`")
    return found


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"rows: cannot read {path}: {error.strerror}") from None
