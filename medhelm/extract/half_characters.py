"""Halves of surrogate pairs in a model's JSON. No text can be written that holds one."""

from __future__ import annotations

import re

_HAS_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""Matches one escape, or the two of a pair. A backslash that is itself escaped begins none."""


def without_halves(json_text: str) -> str:
    """Return a JSON text with U+FFFD in the place of each escape that is half of a surrogate pair.

    A model that is cut, or counts wrongly, writes such a half. The reply has arrived all the same.
    """
    if not _HAS_SURROGATE.search(json_text):
        return json_text
    return _ESCAPE.sub(lambda found: "\ufffd" if found["half"] else found[0], json_text)
