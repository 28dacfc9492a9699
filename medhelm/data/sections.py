"""Cuts a clinical note at a section, so that the section can be asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence

_HALF_HEADING = re.compile(r"[A-Z][A-Z /&'-]*[A-Z/]$")
"""Matches the rest of a heading whose last word was cut off: `ASSESSMENT AND`."""
_SENTENCE = 5
"""Words from which on a section that occurs in the note a second time is removed there too."""


def cut_section(note: str, headings: Sequence[str]) -> tuple[str, str, str, str] | None:
    """Return (heading, section, note before it, note behind it), or None without a section.

    A section is the rest of the line behind the first `HEADING:`; the first of `headings` whose
    section is not empty counts. Neither part of the note holds the section's text.
    """
    for heading in headings:
        match = re.search(rf"{re.escape(heading)}:(.*)", note)
        if match and (section := match[1].strip()):
            before = _HALF_HEADING.sub("", note[: match.start()].rstrip()).rstrip()
            behind = note[match.end() :].strip()
            return heading, section, _without(before, section), _without(behind, section)
    return None


def _without(note: str, section: str) -> str:
    words = section.split()
    if len(words) < _SENTENCE or _folded(section) not in _folded(note):
        return note
    pattern = r"\s+".join(map(re.escape, words))
    return re.sub(pattern, "", note, flags=re.IGNORECASE).rstrip()


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
