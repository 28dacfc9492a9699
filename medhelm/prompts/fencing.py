"""Hostile text between two lines that it cannot write itself.

The answer of a model may hold verdicts, instructions or our own delimiters. It is put between lines
that carry a word made from its content, and inside of it every tag that looks like one of ours, and
every mark by which chat templates part turns, or thoughts from an answer, is broken. A judge that
quoted a whole one would seem to end its thoughts there, and to say itself what it quotes behind.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache


@lru_cache(maxsize=16)
def _tags(names: tuple[str, ...]) -> re.Pattern[str]:
    """Return what is broken inside of fenced text: tags of these names, and marks of templates."""
    return re.compile(
        rf"[<\uff1c](?=[^\w<>]{{0,40}}(?:{'|'.join(names)})(?![a-z]))"
        r"|<(?=[|\uff5c]|/?(?:s|bos|eos|unk|pad|mask|cls|sep|(?:start|end)_of_turn)>|</?SYS>>)"
        r"|\[(?=/?(?:INST|SYSTEM_PROMPT|THINK)\])"
        r"|<(?=/?(?:[a-z]{1,8}:)?(?:think(?:ing)?|thoughts?|reasoning|reflection|scratchpad)>)"
        r"|<(?=unused9[45]>|channel\|>)|\u25c1(?=/?think\u25b7)",
        re.IGNORECASE,
    )


def fenced(name: str, text: str, names: tuple[str, ...]) -> str:
    """Return a text between its opening and its closing line. `names`: of all tags of a prompt."""
    plain = _tags(names).sub("(", text)
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12]
    return f"<{name} {mark}>\n{plain}\n</{name} {mark}>"
