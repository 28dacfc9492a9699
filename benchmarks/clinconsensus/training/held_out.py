"""Held-out rows, decided by a model: greedy, thinking off; and the agreement with the labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from medhelm.stats.two_class import confusion, macro_f1, positive_rates
from medhelm.store.records import order_key
from medhelm_benchmarks.clinconsensus.training.rows import TrainingRow, read_met
from medhelm_benchmarks.clinconsensus.training.tokens import prompt_text


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
    if not most or len(rows) <= most:
        return list(rows)
    keys = [order_key(seed, f"{row.model}\0{row.case}\0{row.where}") for row in rows]
    limit = sorted(keys)[most - 1]
    return [row for row, key in zip(rows, keys, strict=True) if key <= limit]


def decide(
    model: Any,
    tokenizer: Any,
    rows: Sequence[TrainingRow],
    *,
    max_tokens: int,
    new_tokens: int,
    batch_size: int,
) -> tuple[list[TrainingRow], list[bool | None]]:
    """Return the rows that fit the limit and what a model decides on each; None: an invalid reply."""
    import torch

    prompts = [prompt_text(tokenizer, row.messages) for row in rows]
    tokens = [tokenizer.encode(text, add_special_tokens=False) for text in prompts]
    kept = [n for n, own in enumerate(tokens) if len(own) < max_tokens]
    by_length = sorted(kept, key=lambda n: len(tokens[n]))  # rows of one length waste no padding
    replies: dict[int, bool | None] = {}
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    for start in range(0, len(by_length), batch_size):
        batch = by_length[start : start + batch_size]
        width = max(len(tokens[n]) for n in batch)
        gaps = [width - len(tokens[n]) for n in batch]  # on the left: the reply follows the prompt
        ids = [[pad] * gap + tokens[n] for gap, n in zip(gaps, batch, strict=True)]
        mask = [[0] * gap + [1] * len(tokens[n]) for gap, n in zip(gaps, batch, strict=True)]
        with torch.inference_mode():
            out = model.generate(
                input_ids=torch.tensor(ids, device=model.device),
                attention_mask=torch.tensor(mask, device=model.device),
                do_sample=False,
                temperature=None,
                top_p=None,
                top_k=None,
                max_new_tokens=new_tokens,
                pad_token_id=pad,
            )
        texts = tokenizer.batch_decode(out[:, width:], skip_special_tokens=True)
        replies |= {n: read_met(text) for n, text in zip(batch, texts, strict=True)}
    return [rows[n] for n in kept], [replies[n] for n in kept]


def fidelity(
    rows: Sequence[TrainingRow], decisions: Sequence[bool | None], oversize: int = 0
) -> Fidelity:
    """Return the agreement of decisions with the labels of their rows."""
    labels = np.asarray([row.is_met for row in rows], dtype=np.bool_)
    met = np.asarray([decision is True for decision in decisions], dtype=np.bool_)
    invalid = np.asarray([decision is None for decision in decisions], dtype=np.bool_)
    counts = confusion(labels, met).sum(0)
    expected, found = positive_rates(counts)
    wrong = confusion(labels, np.where(invalid, ~labels, met)).sum(0)
    return Fidelity(
        rows=len(rows),
        oversize=oversize,
        mf1=_defined(float(macro_f1(counts))),
        mf1_wrong=_defined(float(macro_f1(wrong))),
        invalid=int(invalid.sum()),
        positive=float(found),
        positive_labels=float(expected),
    )


def _defined(value: float) -> float | None:
    return None if np.isnan(value) else value
