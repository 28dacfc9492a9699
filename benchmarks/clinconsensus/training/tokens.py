"""Rows as tokens: the prompt is masked, and a row beyond the limit is left out, never cut."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medhelm.errors import UsageError
from medhelm_benchmarks.clinconsensus.training.rows import TrainingRow

MASKED = -100
"""The label of a token that adds nothing to the loss."""


@dataclass(frozen=True)
class Encoded:
    """A row as tokens."""

    tokens: tuple[int, ...]
    prompt: int
    """The number of them that are the prompt."""

    def features(self) -> dict[str, list[int]]:
        """Return what a model is trained on."""
        labels = [MASKED] * self.prompt + [*self.tokens[self.prompt :]]
        return {
            "input_ids": [*self.tokens],
            "attention_mask": [1] * len(self.tokens),
            "labels": labels,
        }


def prompt_text(tokenizer: Any, messages: Sequence[Mapping[str, str]]) -> str:
    """Return what a judge is sent, by the model's chat template with thinking off."""
    return str(
        tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
    )


def encode(tokenizer: Any, row: TrainingRow) -> Encoded:
    """Return a row as tokens: the prompt as a judge is sent it, then the reply and its end.

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
    return Encoded((*before, *reply), len(before))


def encode_within(
    tokenizer: Any, rows: Iterable[TrainingRow], max_tokens: int
) -> tuple[list[Encoded], list[str]]:
    """Return the rows within the limit as tokens, and the places of those that are left out."""
    kept, left_out = [], []
    for row in rows:
        encoded = encode(tokenizer, row)
        if len(encoded.tokens) > max_tokens:
            left_out.append(row.where)
        else:
            kept.append(encoded)
    return kept, left_out


def padded(batch: Sequence[Mapping[str, Sequence[int]]], pad: int) -> dict[str, list[list[int]]]:
    """Return a batch with all rows as long as the longest; what is added is masked."""
    width = max(len(row["input_ids"]) for row in batch)
    filler = {"input_ids": pad, "attention_mask": 0, "labels": MASKED}
    return {
        name: [[*row[name], *[value] * (width - len(row[name]))] for row in batch]
        for name, value in filler.items()
    }
