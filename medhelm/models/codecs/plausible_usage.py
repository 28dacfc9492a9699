"""Token counts that a server reports, held against what was sent: those that cannot be, and prompts that were cut."""

from __future__ import annotations

import re
from collections.abc import Sequence

from medhelm.schema.episode import Message, Usage

_BYTES_PER_TOKEN = 12
_CUT_FROM_BYTES = 4000
_TIMES, _BESIDE = 4, 4096
"""A count may be so many times what is expected, and so many tokens more."""
_RUN = re.compile(r"(.)\1{3,}", re.DOTALL)


def believable(usage: Usage, input_tokens: int, output_tokens: int) -> Usage:
    """Return a usage without the counts that cannot be, which are unknown as if they were missing.

    `input_tokens` is the estimate of what was sent, `output_tokens` the most that was asked for. Real
    counts exceed them: tokenizers differ, servers add templates and prompts, some count thoughts
    beyond the limit.
    """

    def known(count: int | None, expected: float) -> int | None:
        return count if count is not None and count <= expected else None

    read = known(usage.input_tokens, _TIMES * input_tokens + _BESIDE)
    written = known(usage.output_tokens, _TIMES * output_tokens + _BESIDE)
    cached = usage.cached_tokens
    if read is not None and cached is not None and cached > read:
        read = None  # one of the two is wrong
    return Usage(
        input_tokens=read,
        cached_tokens=known(cached, -1 if read is None else read),
        output_tokens=written,
        reasoning_tokens=known(usage.reasoning_tokens, -1 if written is None else written),
    )


def is_cut(messages: Sequence[Message], body_bytes: int, usage: Usage, window: int | None) -> bool:
    """Return whether the server read clearly less than was sent, as Ollama does without a word.

    Either it reports a prompt as large as the whole declared window, which leaves no room for
    an answer; or more than 12 bytes of text per token. Real text has 2 to 5 (clinical English
    4.2 to 4.7, at most 7 for other languages), and runs of one character, which one token can
    cover, are squeezed before counting. Prompts below 4,000 bytes fit every window.
    """
    tokens = usage.input_tokens
    if tokens is None:
        return False
    if window is not None and tokens >= window:
        return True
    if body_bytes <= max(_CUT_FROM_BYTES, _BYTES_PER_TOKEN * tokens):
        return False
    squeezed = sum(len(_RUN.sub(r"\1\1\1", m.content).encode()) for m in messages)
    return squeezed > max(_CUT_FROM_BYTES, _BYTES_PER_TOKEN * tokens)
