"""Held-out rows, decided by a model: greedy, thinking off; and the agreement with the labels."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import numpy as np

from medhelm.plugin import UsageError, decision_of, two_class
from medhelm_benchmarks.clinconsensus.training.recipe import (
    Settings,
    load_model,
    load_tokenizer,
    prompt_text,
)
from medhelm_benchmarks.clinconsensus.training.rows import TrainingRow


class Fidelity(msgspec.Struct, frozen=True, kw_only=True):
    """Holds the agreement of a model with the labels of held-out rows."""

    rows: int
    oversize: int
    """Rows left out: prompt and reply are longer than the limit."""
    mf1: float | None
    """Macro F1 with invalid replies as unmet; None where a class has none."""
    mf1_wrong: float | None
    """The same with invalid replies wrong whatever the label is."""
    invalid: int
    positive: float
    positive_labels: float


def drawn(rows: Sequence[TrainingRow], most: int, seed: int) -> list[TrainingRow]:
    """Return at most that many rows, drawn by the seed, in their order; 0: all."""
    count = min(most or len(rows), len(rows))
    return [rows[n] for n in sorted(Random(seed).sample(range(len(rows)), count))]


def measure(place: str, rows: Sequence[TrainingRow], settings: Settings) -> Fidelity:
    """Return the fidelity of the model in a place on the rows that fit the limit of tokens."""
    import torch

    tokenizer, model = load_tokenizer(place), load_model(place, settings)
    model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    prompts = [prompt_text(tokenizer, row.messages) for row in rows]
    tokens = [tokenizer.encode(text, add_special_tokens=False) for text in prompts]
    kept = [n for n, own in enumerate(tokens) if len(own) < settings.max_tokens]
    if not kept:
        raise UsageError(f"no held-out row has fewer than {settings.max_tokens} tokens")
    by_length = sorted(kept, key=lambda n: len(tokens[n]))  # rows of one length waste no padding
    replies: dict[int, bool | None] = {}
    for start in range(0, len(by_length), settings.evaluation_batch):
        batch = by_length[start : start + settings.evaluation_batch]
        padded = tokenizer.pad(  # on the left: the reply follows the prompt
            {"input_ids": [tokens[n] for n in batch]}, padding_side="left", return_tensors="pt"
        ).to(model.device)
        with torch.inference_mode():
            out = model.generate(
                **_greedy(padded), max_new_tokens=settings.new_tokens,
                pad_token_id=tokenizer.pad_token_id,
            )  # fmt: skip
        width = padded["input_ids"].shape[1]
        texts = tokenizer.batch_decode(out[:, width:], skip_special_tokens=True)
        replies |= {n: decision_of(text) for n, text in zip(batch, texts, strict=True)}
    return fidelity([rows[n] for n in kept], [replies[n] for n in kept], len(rows) - len(kept))


def _greedy(padded: Any) -> dict[str, Any]:
    free = dict.fromkeys(("temperature", "top_p", "top_k"))
    asked = {name: padded[name] for name in ("input_ids", "attention_mask")}
    return {**asked, "do_sample": False, **free}


def fidelity(
    rows: Sequence[TrainingRow], decisions: Sequence[bool | None], oversize: int = 0
) -> Fidelity:
    """Return the agreement of decisions with the labels of their rows."""
    labels = np.asarray([row.is_met for row in rows], dtype=np.bool_)
    met = np.asarray([decision is True for decision in decisions], dtype=np.bool_)
    invalid = np.asarray([decision is None for decision in decisions], dtype=np.bool_)
    counts = two_class.confusion(labels, met).sum(0)
    wrong = two_class.confusion(labels, np.where(invalid, ~labels, met)).sum(0)
    mf1, mf1_wrong = (float(two_class.macro_f1(own)) for own in (counts, wrong))
    return Fidelity(
        rows=len(rows),
        oversize=oversize,
        mf1=None if np.isnan(mf1) else mf1,
        mf1_wrong=None if np.isnan(mf1_wrong) else mf1_wrong,
        invalid=int(invalid.sum()),
        positive=float(met.mean()),
        positive_labels=float(labels.mean()),
    )
