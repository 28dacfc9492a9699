"""Completion text -> a set of labels or codes, or None. Nothing is guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from medhelm.extract.marks import last_mark, tokens, unify, visible_text

_MOST = 1_000
"""Items of a list that are read."""

_SEPARATOR = re.compile(r"[,;\n|]")
_BULLET = re.compile(r"\s*(?:[-*\u2022>\u2013]+\s*|\(?\d{1,3}[.)]\s+|and\s+|&\s*)*")
_AROUND = " \t\r\n.\"'`*_[]{}()<>\u201c\u201d\u2018\u2019"
_NOTHING = re.compile(
    r"\W{0,9}(?:none(?: of the (?:above|labels|codes))?|nothing|n/?a|not applicable|empty"
    r"|(?:there (?:are|is) )?no (?:\w+ ){0,2}(?:labels?|codes?|categor(?:y|ies))"
    r"(?: apply| applies| found)?)\W{0,9}",
    re.IGNORECASE,
)
_NEGATION = re.compile(
    r"\b(?:not|no|never|neither|nor|without|except|excluding|unlikely)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
# CM codes, then PCS codes. No category is called B12, a vitamin; and the third character is a
# letter only in a few (C4A, C7B, D3A, M1A, O9A, Z3A), so that A1C and H1N1 are no codes.
_CODE = (
    r"(?:(?!B12\b)[A-Z]\d[\dAB](?:\.?[\dA-Z]{1,4})?"
    r"|(?=[\dA-Z]{0,6}\d)(?=\d{0,6}[A-Z])[\dA-HJ-NP-Z]{7})"
)
_CODES = re.compile(rf"(?<![\w.-]){_CODE}(?![\w-]|\.\w)")
_LEADING = re.compile(rf"{_CODE}(?![\w-]|\.\w)", re.IGNORECASE)
_TRAILING = re.compile(rf"[\s(:\[]({_CODE})[)\].]{{0,3}}$")
_GAP = re.compile(r"[\s/&+()]*(?:and\s+)?")
_TITLE = re.compile(
    r"[\w\s-]{0,40}\b(?:labels?|codes?|categor(?:y|ies)|diagnos[ie]s|conditions?|tags?)\b"
    r"[\w\s]{0,20}:\s",
    re.IGNORECASE,
)
_HEADER = re.compile(r"[^:\n]{0,80}:(?!\S)\s*")


def extract_labels(text: str, labels: Sequence[str] | None = None) -> tuple[str, ...] | None:
    """Return the labels that a completion lists, in order, each once; None if it lists none.

    A list is separated by commas, semicolons or lines, or is JSON; `()` is the answer that there
    are none. With `labels`, those are read, whole, in any case and inside prose unless negated,
    and come back as spelt there; other items are passed over. Without, every item is a label.
    """
    body = _body(text)
    listed = _json_list(body)
    if labels:
        found = _known_labels(body.split("\n", _MOST)[:_MOST] if listed is None else listed, labels)
    else:
        title = _TITLE.match(body)
        items = _SEPARATOR.split(body[title.end() if title else 0 :], _MOST)[:_MOST]
        items = items if listed is None else listed
        found = [item for item in map(_strip_item, items) if item]
        if len(found) == 1 and _NOTHING.fullmatch(found[0]):
            found = []
    if found:
        return tuple(dict.fromkeys(found))
    return () if listed == [] or _NOTHING.fullmatch(body) else None


def extract_codes(text: str) -> tuple[str, ...] | None:
    """Return the ICD-10 codes (CM or PCS) that a completion lists, each once; None if none.

    Upper case and without points, so that spellings of one code are equal. A code that leads or
    ends an item of the list is meant; what its description mentions (a vitamin B12) is not. Only
    where no item has its code at a border, every code in the prose counts.
    """
    body = _body(text)
    listed = _json_list(body)
    found: list[str] = []
    for item in _SEPARATOR.split(body, _MOST)[:_MOST] if listed is None else listed:
        header = None if _LEADING.match(_strip_item(item)) else _HEADER.match(item)
        found += _codes_of_item(item[header.end() :] if header else item)
    if not found:
        found = _CODES.findall(body)
    if found:
        return tuple(dict.fromkeys(code.upper().replace(".", "") for code in found))
    return () if listed == [] or _NOTHING.fullmatch(body) else None


def is_code(label: str) -> bool:
    """Return whether a label has the form of an ICD-10 code."""
    return re.fullmatch(_CODE, label) is not None


def _body(text: str) -> str:
    """Return what is marked as final, with the lines that go on below it, else all of the text."""
    visible = unify(visible_text(text))
    mark = last_mark(visible)
    if mark is None:
        return visible
    if visible[mark.end : mark.end + 1] != "\n":
        return mark.value
    end = visible.find("\n\n", mark.start)
    return visible[mark.start : end if end >= 0 else None].strip()


def _json_list(body: str) -> list[str] | None:
    """Return the items of a JSON list, or of the only list in a JSON object; else None."""
    start = min((i for i in (body.find("["), body.find("{")) if i >= 0), default=-1)
    end = max(body.rfind("]"), body.rfind("}")) + 1
    if start < 0 or end <= start:
        return None
    try:
        value = json.loads(body[start:end])
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        lists = [v for v in value.values() if isinstance(v, list)]
        value = lists[0] if len(lists) == 1 else None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return None
    return value


def _strip_item(item: str) -> str:
    bullet = _BULLET.match(item)
    return item[bullet.end() if bullet else 0 :].strip(_AROUND)


def _known_labels(lines: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Return the labels in the lines, the longest where one contains another."""
    keys = {key: label for label in labels if (key := " ".join(tokens(label)))}
    if not keys:
        return []
    longest_first = sorted(keys, key=len, reverse=True)
    pattern = re.compile(rf"(?<= )(?:{'|'.join(map(re.escape, longest_first))})(?= )")
    found: list[str] = []
    for line in lines:
        for part in _SEPARATOR.split(line) if _NEGATION.search(line) else [line]:
            words = f" {' '.join(tokens(part))} "
            if not _NEGATION.search(pattern.sub("", words)):
                found += [keys[key] for key in pattern.findall(words)]
    return found


def _codes_of_item(item: str) -> list[str]:
    """Return the codes with which an item of a list begins, or all if it ends with one."""
    rest = _strip_item(item)
    found = []
    at = 0
    while match := _LEADING.match(rest, at):
        found.append(match[0])
        gap = _GAP.match(rest, match.end())
        at = gap.end() if gap else match.end()
    if found:
        return found
    return _CODES.findall(rest) if _TRAILING.search(rest[-30:]) else []
