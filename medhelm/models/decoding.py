"""Draw each row of a batch of local completions, and decide when it ends."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from medhelm.schema.episode import Request

_TAIL = 16
"""Tokens that are decoded beyond the longest stop sequence to find it."""


@dataclass(frozen=True)
class BatchRow:
    """One request of a batch."""

    request: Request
    window: int | None = None
    """Tokens that prompt and answer may have; None: what the model's config says."""
    timeout_s: float = float("inf")
    is_dropped: Callable[[], bool] = lambda: False
    """True if nobody waits for it any more. It is read after every token."""


class Draws:
    """Samples each row with its own seed, so that a batch draws what single requests draw.

    The largest of the logits plus Gumbel noise is a draw from their softmax (Gumbel, 1954), so
    that rows at temperature 0, to which no noise is added, can be in the same batch.
    """

    def __init__(
        self, requests: Sequence[Request], defaults: tuple[float, float], device: Any
    ) -> None:
        import torch

        self._rows: list[tuple[int, float, float, Any]] = []
        for n, request in enumerate(requests):
            temperature, top_p = request.sampling.temperature, request.sampling.top_p
            if temperature is None:  # as the model is decoded by itself
                temperature = defaults[0]
                top_p = defaults[1] if top_p is None else top_p
            if temperature > 0:
                generator = torch.Generator(device=device)
                generator.manual_seed(_seed(request))
                self._rows.append((n, temperature, 1.0 if top_p is None else top_p, generator))

    def __bool__(self) -> bool:
        return bool(self._rows)

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        """Return the scores with noise in the rows that are drawn."""
        import torch

        for n, temperature, top_p, generator in self._rows:
            logits = scores[n].float() / temperature
            if top_p < 1.0:
                ordered, order = logits.softmax(-1).sort(descending=True)
                is_out = ordered.cumsum(-1) - ordered >= top_p
                logits[order[is_out]] = float("-inf")
            waits = torch.empty_like(logits).exponential_(generator=generator)
            scores[n] = logits - waits.log()
        return scores


class Endings:
    """Ends each row by itself: end of text, stop sequence, budget, time-out, nobody waits."""

    def __init__(
        self,
        rows: Sequence[BatchRow],
        width: int,
        tokenizer: Any,
        eos: frozenset[int],
        started: float,
        count: Callable[[int], None] = lambda tokens: None,
    ) -> None:
        self._rows = rows
        self._width = width
        self._tokenizer = tokenizer
        self._eos = eos
        self._started = started
        self._count = count
        self._ends: list[tuple[int, str] | None] = [None] * len(rows)

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """Return which rows are at their end."""
        import torch

        length = input_ids.shape[1] - self._width
        last = input_ids[:, -1].tolist()
        seconds = time.monotonic() - self._started
        self._count(sum(end is None for end in self._ends))
        for n, row in enumerate(self._rows):
            if self._ends[n] is None and (
                why := self._why(row, last[n], length, seconds, input_ids[n])
            ):
                self._ends[n] = (length, why)
        ended = [end is not None for end in self._ends]
        return torch.tensor(ended, dtype=torch.bool, device=input_ids.device)

    def of(self, n: int) -> tuple[int, str]:
        """Return how many tokens a row has, and why it ended."""
        return self._ends[n] or (0, "no end")

    def _why(self, row: BatchRow, last: int, length: int, seconds: float, ids: Any) -> str:
        request = row.request
        if last in self._eos or self._has_stop(request.sampling.stop, ids, length):
            return "stop"
        if length >= request.max_output_tokens:
            return "length"
        if row.is_dropped():
            return "stopped"
        return "timeout" if seconds >= row.timeout_s else ""

    def _has_stop(self, stops: Sequence[str], ids: Any, length: int) -> bool:
        if not stops:
            return False
        tail = min(length, max(len(stop) for stop in stops) + _TAIL)
        text = self._tokenizer.decode(ids[-tail:].tolist(), skip_special_tokens=True)
        return any(stop and stop in text for stop in stops)


def _seed(request: Request) -> int:
    """Return the request's seed mixed with its instance, so that instances draw independently."""
    if request.seed is None:
        return secrets.randbits(63)
    digest = hashlib.sha256(f"{request.seed}|{request.instance_id}".encode("utf-8", "replace"))
    return int.from_bytes(digest.digest()[:8], "big") >> 1
