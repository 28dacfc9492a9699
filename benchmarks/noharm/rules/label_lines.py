"""Labels in lines, tables and lists."""

from __future__ import annotations

import re
from collections.abc import Iterator

from medhelm_benchmarks.noharm.rules.label_names import Names, Read, valid
from medhelm_benchmarks.noharm.rules.label_objects import GROUP_KEY, NEGATIVE, Pairs, is_new_case
from medhelm_benchmarks.noharm.rules.label_words import (
    APPROPRIATE,
    INAPPROPRIATE,
    LONG,
    MOST_COMMENT,
    SHORT,
    is_both,
    is_denied,
    read_word,
)

_LINE = re.compile(
    r"^[ \t>*_#\u2022+|\-\u2013]{0,16}(?:\d{1,3}[.)][ \t]{1,4})?[*_`\[(<]{0,4}"
    r"(?P<id>[A-Za-z]\w{0,15})(?!\w)(?P<rest>[^\n]*)$",
    re.MULTILINE,
)
_CSV = re.compile(
    r"^\s{0,9}\"?([A-Za-z]\w{0,15})\"?[ \t]{0,3},[ \t]{0,3}\"?((?:not[ \t]|in|non-?|un)?appropriate)\"?(?=[ \t]{0,9}(?:,|$))",
    re.IGNORECASE,
)
"""A row of a file with commas: an id and its label."""
_SEPARATOR = re.compile(r"\s*(?:[:|=\u2192\u2014]|->|(?:^|\s)[-\u2013]+\s)+>?\s*")
_IDS = re.compile(
    r"[A-Za-z]\w{0,15}(?:(?:\s{0,3}(?:[,&/\-\u2013]|and\s|to\s|through\s)){1,2}\s{0,3}"
    r"[A-Za-z]\w{0,15}){1,300}(?=[\s*_`\])]{0,9}(?:[:=|\u2192]|->|\s[-\u2013\u2014]\s))"
)
"""Several ids before one label: `a1, a3: Appropriate`."""
_PAIR = re.compile(
    r"(?<![\w-])(?P<id>[A-Za-z]\w{0,15})(?:[*_`\])>]{0,4}(?:\s{0,4}(?:[:=|\u2192]|-+>|-+\s)>?)"
    r"|\s{1,4}(?=[*_`]{0,3}(?:not\s|in|non-?|un)?appropriate(?!\w)))",
    re.IGNORECASE,
)
"""An id before its label, wherever in a line."""
_SAID_OF = re.compile(
    r"(?<!\w)(?P<id>[A-Za-z]\w{0,15})[*_`\])>]{0,4}(?:\s{0,3}[:=]|\s{1,3}(?:is|becomes)(?=\s))"
    r"(?P<word>[^\n]{0,60})",
    re.IGNORECASE,
)
_ID = re.compile(r"(?<!\w)[A-Za-z]\w{0,15}(?!\w)")


def of_lines(text: str, names: Names, is_cut: bool) -> Read:
    """Return the labels by the lines of a text that begin with an id, or are under a label."""
    lines = text.split("\n")
    found, at = Read(), 0
    part = _Lines(names, found)
    for line in lines[:-1] if is_cut else lines:
        if valid(found) > 1 and is_new_case(line) and _repeats(text[at:], found, names):
            break
        at += len(line) + 1
        part.read(line)
    return found


def _repeats(text: str, found: Read, names: Names) -> bool:
    """Return whether a text labels no other actions than those that were found."""
    again = Read()
    reader = _Lines(names, again)
    for line in text.split("\n"):
        reader.read(line)
    return again.words.keys() <= found.words.keys()


class _Lines:
    """Lines that are read one by one, each under the heading before it."""

    def __init__(self, names: Names, found: Read) -> None:
        self._names, self._found = names, found
        self._heading = ""
        self._columns: list[str] = []
        self._is_negative = False

    def read(self, line: str) -> None:
        """Read one line."""
        line = _CSV.sub(r"\1: \2", line)
        match = _LINE.match(line)
        action = self._names.find(match["id"]) if match else None
        if match is None or action is None:
            if line.strip(" \t|:-+=\u2013"):
                self._read_other(line)
            return
        at = match.start("id")
        listed = line[at:].rstrip(" \t*_`|.")
        if self._heading and len(several := self._names.find_all(listed)) > 1:
            self._found.add(((i, self._heading) for i in several), self._names)
            return
        if several_ids := _IDS.match(line, at):
            if len(several := self._names.find_all(several_ids[0])) > 1:
                self._add(several, line[several_ids.end() :])
                return
            if any(self._names.find(i[0]) for i in [*_ID.finditer(several_ids[0])][1:]):
                return  # a list that is not understood is not read
        starts = [
            (pair.start(), pair.end("id"), other)
            for pair in _PAIR.finditer(line, at)
            if (other := self._names.find(pair["id"])) is not None
        ]
        if not starts or starts[0][0] != at:
            starts.insert(0, (at, match.end("id"), action))
        for place, (_, start, one) in enumerate(starts):
            end = starts[place + 1][0] if place + 1 < len(starts) else len(line)
            rest = line[start:end]
            if place + 1 < len(starts):
                rest = re.sub(r"(?:[\s|;,&]|(?<!\w)and(?!\w))+$", "", rest[-2000:])
            self._add((one,), rest)

    def _add(self, actions: tuple[str, ...], rest: str) -> None:
        """Add the labels behind ids, or that of the heading."""
        words = [*_words(rest, self._columns, self._is_negative)]
        if not words and self._heading:
            if any(self._names.find(i[0]) is not None for i in _ID.finditer(rest)):
                return  # "a1, but not a2": not a plain list
            words = [self._heading]
        elif self._heading and self._heading not in words:
            words.append(self._heading)
        self._found.add(((i, word) for i in actions for word in words), self._names)

    def _read_other(self, line: str) -> None:
        """Read a line that begins with no id: a heading, a head of a table, or a correction."""
        self._heading, pairs = _heading(line)
        head = line.strip().strip("|")
        self._columns = [part.strip() for part in head.split("|")] if "|" in head else []
        negative = NEGATIVE.search(line)
        positive = re.search(r"(?<![A-Za-z])appropriate", line, re.IGNORECASE)
        self._is_negative = negative is not None and (
            positive is None or negative.start() <= positive.start() <= negative.end()
        )
        self._found.add(((i, word) for i, word in pairs if self._names.find_all(i)), self._names)
        for said in _SAID_OF.finditer(line[: MOST_COMMENT * 4]):
            action = self._names.find(said["id"])
            word = read_word(said["word"], is_short_too=False)
            if action in self._found.words and word:
                self._found.add([(said["id"], word)], self._names)


def _heading(line: str) -> tuple[str, Pairs]:
    """Return the label that a line is a heading of, and the ids that it lists itself."""
    head, _, rest = line.strip(" \t#*_>`|-").partition(":")
    group = GROUP_KEY.fullmatch(head.strip(" \t*_`"))
    if group is None:
        return "", []
    word = INAPPROPRIATE if group["no"] else APPROPRIATE
    rest = rest.strip(" \t*_`")
    return ("", [(rest, word)]) if rest else (word, [])


def _words(rest: str, columns: list[str], is_negative: bool) -> Iterator[str]:
    """Yield the labels among the parts of a line behind its id; short ones only in the first.

    In a table also where the head of the column asks for them. Yes to a question of the other
    pole is turned round in a table, and elsewhere no label.
    """
    parts = [p for p in _SEPARATOR.split(rest.lstrip("*_`])>. \t")) if p.strip(" *_`|")]
    if columns:
        cells = [p.strip() for p in rest.strip().strip("|").split("|")]
        if len(cells) == len(columns) - 1:
            yield from _cells(cells, columns[1:])
            return
    place = 0
    while place < len(parts):
        part = parts[place]
        word = read_word(part, is_short_too=place == 0)
        is_short = bool(word) and LONG.match(part) is None
        if is_short and is_negative:
            yield ""
        elif not is_short and place + 1 < len(parts) and SHORT.match(parts[place + 1]):
            if LONG.match(part) is not None:  # Appropriate: No
                yield read_word(f"{part.rstrip(' ?*_`')}: {' - '.join(parts[place + 1 :])}")
                return
        elif word:
            yield "" if is_denied(word, " ; ".join(parts[place + 1 :])) else word
        elif LONG.match(part) is not None and is_both(part):
            yield ""
        place += 1


def _cells(cells: list[str], columns: list[str]) -> Iterator[str]:
    """Yield the labels in the cells of a row, read as the heads of the columns ask."""
    for place, (cell, column) in enumerate(zip(cells, columns, strict=True)):
        word = read_word(cell)
        if not word or LONG.match(cell) is not None:
            if word or (LONG.match(cell) is not None and is_both(cell)):
                yield word
        elif NEGATIVE.search(column):
            yield APPROPRIATE if word == INAPPROPRIATE else INAPPROPRIATE
        elif place == 0 or re.search(r"appropriate|label|verdict|judg", column, re.IGNORECASE):
            yield word
