"""Completion text -> a set of labels or codes, or None. Nothing is guessed."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Sequence

from medhelm.extract.json_reply import without_halves
from medhelm.extract.late import late
from medhelm.extract.marks import Mark, Reading, all_marks, own_text, tokens, unify

_MOST = 1_000
"""Items of a list that are read."""
_FINALS = 5
"""Final lists that are compared, the last ones."""
_WORDS = 8
_FEW = 3
"""Words of an item beyond which a list that was cut is prose: without, and with known labels."""

_SEPARATOR = late(r"[,;\n|]")
_BULLET = late(
    r"\s*(?:\[[xX\u2713\u2714]\][ \t]*|[\u2705\u2611\u2713\u2714]\ufe0f?[ \t]*|[-*\u2022>\u2013]+\s*|\(?\d{1,3}[.)]\s+|and\s+|&\s*)*"
)
_AROUND = " \t\r\n.\"'`*_[]{}()<>\u201c\u201d\u2018\u2019"
_NOTHING = late(
    r"\W{0,9}(?:none(?: of the (?:above|labels|codes))?|nothing|n/?a|not applicable|empty"
    r"|(?:there (?:are|is) )?no (?:\w+ ){0,2}(?:labels?|codes?|categor(?:y|ies))"
    r"(?: apply| applies| found)?)\W{0,9}",
    re.IGNORECASE,
)
_NEGATION = late(
    r"\b(?:not|no|never|neither|nor|without|except|excluding|excluded|unlikely|ruled\sout|tempting)\b"
    r"|n['\u2019]t\b",
    re.IGNORECASE,
)
# CM codes, then PCS codes of seven characters without I and O, the first of them a section. No
# category is called B12, a vitamin; and the third character is a letter only in a few (C4A, C7B,
# D3A, M1A, O9A, Z3A), so that A1C and H1N1 are not codes. Of the PCS codes in force only those of
# surgery (0) can be digits alone, and only some of D and G letters alone, which then end in Z; so
# a telephone number, GENERAL or BLADDER is not a code.
_CODE = (
    r"(?:(?!B12\b)[A-Z]\d[\dAB](?:\.?[\dA-Z]{1,4})?"
    r"|(?=0|\d{1,6}[A-Z]|[A-Z]{1,6}\d|[DG][A-Z]{5}Z)[\dBCDFGHX][\dA-HJ-NP-Z]{6})"
)
_CODES = late(rf"(?<![\w.-]){_CODE}(?![\w-]|\.\w)")
_LEADING = late(rf"{_CODE}(?![\w-]|\.\w)", re.IGNORECASE)
_TRAILING = late(rf"[\s(:\[]({_CODE})[)\].]{{0,3}}$")
_GAP = late(r"[\s/&+()]*(?:and\s+)?")
_DENIALS = (
    r"(?:not[ \t]+(?:to[ \t]+be[ \t]+|be[ \t]+)?(?:coded|assigned|billed|reported|included|applicable|supported"
    r"|documented|used|selected|present|needed|appropriate|indicated|apply|code|report|bill|include)"
    r"|(?:exclu|omit|reject|dismiss|rul|remov|den)\w{1,8}(?:[ \t]+out)?|do[ \t]+not[ \t]+\w+|non-?billable)"
)
"""Matches a statement that codes are not given."""
_DENIED_LIST = late(
    rf"(?:^|(?<=[.;,{{|]))[^\w\n]{{0,12}}(?:(?:the|these|codes?|diagnos[ie]s|conditions?|considered"
    rf"|but|and|are|is)[ \t_]+){{0,4}}{_DENIALS}(?:[ \t_]+[\w()/]{{1,20}}){{0,4}}[\"'*_` \t]{{0,6}}:"
    rf"(?:[ \t*_`]*\[[^\]]{{0,5000}}\]|[ \t*_`]*(?:\n[ \t]{{0,9}}[-*\u2022\d][^\n]{{0,1000}}){{1,500}}"
    rf"|[ \t*_`]*\n[^\n]{{0,5000}}|[^\n]{{0,5000}})",
    re.IGNORECASE | re.MULTILINE,
)
"""A heading such as `Not coded:` with all that is listed under it."""
_RUN = (
    rf"(?>{_CODE}(?![\w-]|\.\w)(?:[ \t]{{0,3}}(?:[/&]|,?[ \t]{{0,3}}\b(?:or|nor|and)\b)[ \t]{{0,3}}"
    rf"{_CODE}(?![\w-]|\.\w)){{0,20}})"
)
_NOT = (
    r"\b(?:not|no|nor|neither|never|without|except(?:[ \t]+for)?|excluding|excludes?|omit|instead[ \t]+of"
    r"|rather[ \t]+than|(?:rule[sd]?|ruling)[ \t]+out|(?:do|does|did|have|has|would|could|was|were|is|are)n['\u2019]t)"
    r"(?:[ \t]+(?:codes?|coding|coded|as|for|with|the|any|use|using|report|assign|assigned|bill|include"
    r"|apply|to|icd-10(?:-cm)?)\b){0,4}[ \t(:*_`\"]{1,6}"
)
_DENIED = late(
    rf"(?:^[^\w\n]{{0,12}}{_NOT}{_RUN}(?:[^\n.;]|\.(?!\s|$)){{0,1000}}|{_NOT}{_RUN})",
    re.IGNORECASE | re.MULTILINE,
)
"""Codes behind a not: on a line that begins with it all up to the sentence's end."""
_DENIED_BEHIND = late(
    rf"(?<![\w.-]){_RUN}(?:[ \t:|*_`]{{0,6}}|[^\n,;]{{0,80}}?[ \t]{{0,3}}(?:[(:|\[=\u2013\u2014]|[ \t]-)[ \t*_`]{{0,6}})"
    rf"(?:(?:is|was|are|were|has[ \t]been|should|does|do|can|must)[ \t]{{1,3}}){{0,2}}"
    rf"(?:{_DENIALS}|not\b(?=[ \t]*[).\]]))",
    re.IGNORECASE,
)
"""Codes that the text behind them denies."""
_RANGE = late(
    rf"(?<![\w.-]){_CODE}(?:[ \t]{{0,9}}(?:-|[\u2010-\u2015])[ \t]{{0,9}}|[ \t]{{1,9}}(?:to|through|thru)[ \t]{{1,9}}){_CODE}"
    rf"(?![\w-]|\.\w)",
    re.IGNORECASE,
)
"""From one code to another, neither of which need be meant."""
_TITLE = late(
    r"[\w\s-]{0,40}\b(?:labels?|codes?|categor(?:y|ies)|diagnos[ie]s|conditions?|tags?)\b"
    r"[\w\s]{0,20}:\s",
    re.IGNORECASE,
)
_INTRODUCTION = late(r"[^,;\n]{0,60}\b(?:are|is|includes?)[:\s]{1,3}")
_HEADER = late(r"[^:\n]{0,80}:(?!\S)\s*")


_FINAL = late(
    r"^[ \t>*_#|-]{0,12}(?:(?:so|thus|therefore|hence|my|the)[ \t,]{1,3}){0,2}(?:final|predicted|selected|assigned|resulting)[ \t]{1,3}"
    r"(?:(?:answer|icd-10|set[ \t]of|list[ \t]of)[ \t]{1,3}){0,2}"
    r"(?:labels?|codes?|categor(?:y|ies)|specialt(?:y|ies)|diagnos[ie]s|tags?|list|set)[ \t*_`]{0,6}[:=][ \t*_`]{0,6}",
    re.IGNORECASE | re.MULTILINE,
)
"""Matches a mark of the final list, which is the line behind it."""
_ALLOWED = late(
    r"^[^\w\n]{0,12}(?:(?:the|your|all|of|list)[ \t]{1,3}){0,3}(?:allowed|available|possible|valid|candidate|permitted|potential|given)"
    r"[ \t]{1,3}(?:\w+[ \t]{1,3})?(?:labels?|codes?|categor(?:y|ies)|specialt(?:y|ies)|options?|tags?)"
    r"(?:[ \t]{1,3}(?:are|include))?[ \t*_`]{0,6}:[^\n]{0,20000}(?:\n(?=[ \t]{0,9}[-*\u2022\d])[^\n]{0,1000}){0,500}",
    re.IGNORECASE | re.MULTILINE,
)
"""The labels that were allowed, repeated."""
_UNTICKED = late(
    r"^[ \t>*-]{0,9}(?:\[[ \t]?\](?=[ \t]+[*_`\w])|[\u2610\u2b1c\u274c\u2717\u2718])[^\n]*",
    re.MULTILINE,
)
"""A line with an empty box, or a cross: it is not chosen."""
_NEXT_NOTE = late(
    r"\n[ \t>*_#-]{0,12}(?:(?:clinical|discharge|patient|medical|progress)[ \t])?(?:notes?|text|input|summary|document|report|vignette)"
    r"[*_ \t]{0,6}(?:\d{1,4}[*_ \t]{0,6})?:[^\n]{0,20000}\n(?:[^\n]{0,5000}\n){0,200}?"
    r"[ \t>*_#-]{0,12}(?:labels?|codes?|answer|output|categor(?:y|ies)|specialt(?:y|ies))[*_ \t]{0,6}:",
    re.IGNORECASE,
)
"""Another note with its labels, into which a base model runs on."""
_IS_NO = late(
    r"[:=|][ \t*_`]{0,6}(?:no|false|0|absent|negative|n|not[ \t](?:met|present|applicable)|unmet|\u2717|\u2718|\u274c|\u00d7)"
    r"[ \t*_`.\"]{0,6}(?=$|[|,;}(])",
    re.IGNORECASE,
)
"""Matches a row's statement that its label does not apply."""


def extract_labels(
    text: str, labels: Sequence[str] | None = None, *, is_cut: bool = False
) -> tuple[str, ...] | None:
    """Return the labels that a completion lists, in order, each once; None if it lists none.

    `read_labels` gives the reason as well.
    """
    return read_labels(text, labels, is_cut=is_cut).value


def read_labels(
    text: str, labels: Sequence[str] | None = None, *, is_cut: bool = False
) -> Reading[tuple[str, ...]]:
    """Return the labels that a completion lists, in order, each once.

    A list is separated by commas, semicolons or lines, or is JSON; `()` is the answer that there
    are none. With `labels`, those are read, whole, in any case and inside prose unless negated,
    and come back as spelt there; other items are passed over. Without, every item is a label.
    Where the reply was cut, the item that touches the cut is dropped and prose is not read.
    """

    def read(body: str, is_body_cut: bool) -> tuple[str, ...] | None:
        listed = None if is_body_cut else _json_list(body)
        if is_body_cut:
            found = _cut_labels(_whole_items(body), labels)
        elif labels:
            lines = body.split("\n", _MOST)[:_MOST] if listed is None else listed
            found = _known_labels(lines, labels)
        else:
            title = _TITLE.match(body)
            items = _SEPARATOR.split(body[title.end() if title else 0 :], _MOST)[:_MOST]
            items = items if listed is None else listed
            found = [item for item in map(_strip_item, items) if item]
            if len(found) == 1 and _NOTHING.fullmatch(found[0]):
                found = []
        return _found(found, listed, body, is_body_cut)

    return _settled(text, read, is_cut)


def extract_codes(text: str, *, is_cut: bool = False) -> tuple[str, ...] | None:
    """Return the ICD-10 codes (CM or PCS) that a completion lists, each once; None if none.

    `read_codes` gives the reason as well.
    """
    return read_codes(text, is_cut=is_cut).value


def read_codes(text: str, *, is_cut: bool = False) -> Reading[tuple[str, ...]]:
    """Return the ICD-10 codes (CM or PCS) that a completion lists, each once.

    Upper case and without points, so that spellings of one code are equal. A code that leads or
    ends an item of the list is meant; what its description mentions (a vitamin B12) is not. Only
    where no item has its code at a border, every code in the prose counts. Where the reply was
    cut, the item that touches the cut is dropped and prose is not read. Codes that the reply
    denies, and the two that bound a range, count only where they are listed elsewhere.
    """

    def read(body: str, is_body_cut: bool) -> tuple[str, ...] | None:
        listed = None if is_body_cut else _json_list(body)
        if listed is not None:
            listed = [_given(item) for item in listed]
        body = _given(body)
        if is_body_cut:
            items = _whole_items(body)
        else:
            items = _SEPARATOR.split(body, _MOST)[:_MOST] if listed is None else listed
        found: list[str] = []
        for item in items:
            header = None if _LEADING.match(_strip_item(item)) else _HEADER.match(item)
            found += _codes_of_item(item[header.end() :] if header else item)
        if not found and not is_body_cut:
            found = _CODES.findall(body)
        found = [code.upper().replace(".", "") for code in found]
        return _found(found, listed, body, is_body_cut)

    return _settled(text, read, is_cut)


def _given(text: str) -> str:
    """Return a text without the codes that it denies, and without ranges of codes."""
    for pattern in (_DENIED_LIST, _DENIED, _DENIED_BEHIND, _RANGE):
        text = pattern.sub(" ", text)
    return re.sub(r"(?m)^[ \t]{0,9}[.,;]+", "", text)


def is_code(label: str) -> bool:
    """Return whether a label has the form of an ICD-10 code."""
    return re.fullmatch(_CODE, label) is not None


def _settled(
    text: str, read: Callable[[str, bool], tuple[str, ...] | None], is_cut: bool
) -> Reading[tuple[str, ...]]:
    """Return the one set on which what is marked as final agrees, else what all of the text lists.

    `read` is handed a list, and whether it touches the cut.
    """
    own = unify(own_text(text))
    run_on = _NEXT_NOTE.search(own)
    if run_on and own[: run_on.start()].strip():
        own, is_cut = own[: run_on.start()].rstrip(), False
    own = _UNTICKED.sub("", _ALLOWED.sub("", own)).strip()
    bodies = [
        own[m.end() :].split("\n\n", 1)[0] for m in deque(_FINAL.finditer(own), maxlen=_FINALS)
    ]
    bodies = bodies or [_body_of(own, mark) for mark in all_marks(own)] or [own]
    is_last = is_cut and own.endswith(bodies[-1])
    found = [read(body, is_last and body is bodies[-1]) for body in bodies]
    sets = {frozenset(items) for items in found if items is not None}
    if len(sets) > 1:
        return Reading(None, "lists that differ are marked as final")
    if found[-1] is None:
        return Reading(None, "the reply was cut before its list" if is_cut else "nothing is listed")
    return Reading(found[-1])


def _body_of(own: str, mark: Mark) -> str:
    """Return what is marked as final, with the lines that go on below it."""
    if own[mark.end : mark.end + 1] != "\n":
        return mark.value
    end = own.find("\n\n", mark.start)
    return own[mark.start : end if end >= 0 else None].strip()


def _found(
    found: list[str], listed: list[str] | None, body: str, is_body_cut: bool
) -> tuple[str, ...] | None:
    if found:
        return tuple(dict.fromkeys(found))
    is_none = listed == [] or (not is_body_cut and _NOTHING.fullmatch(body))
    return () if is_none else None


def _whole_items(body: str) -> list[str]:
    """Return the items of a list that was cut, without the one that touches the cut."""
    title = _TITLE.match(body)
    return _SEPARATOR.split(body[title.end() if title else 0 :], _MOST)[:_MOST][:-1]


def _cut_labels(items: Sequence[str], labels: Sequence[str] | None) -> list[str]:
    """Return the labels that are items of their own; prose, which was cut, states none."""
    stripped = [item for item in map(_strip_item, items) if item]
    if labels is None:
        return [] if any(len(item.split()) > _WORDS for item in stripped) else stripped
    stripped[:1] = [_strip_item(_INTRODUCTION.sub("", item)) for item in stripped[:1]]
    keys = {tokens(label): label for label in labels}
    others = [item for item in stripped if tokens(item) not in keys]
    if any(len(item.split()) > _FEW for item in others):
        return []
    return [keys[tokens(item)] for item in stripped if tokens(item) in keys]


def _json_list(body: str) -> list[str] | None:
    """Return the items of a JSON list, or of the only list in a JSON object; else None."""
    start = min((i for i in (body.find("["), body.find("{")) if i >= 0), default=-1)
    end = max(body.rfind("]"), body.rfind("}")) + 1
    if start < 0 or end <= start:
        return None
    try:
        value = json.loads(without_halves(body[start:end]))
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
    pattern = late(rf"(?<= )(?:{'|'.join(map(re.escape, longest_first))})(?= )")
    found: list[str] = []
    for line in lines:
        for part in (
            _SEPARATOR.split(line) if _NEGATION.search(line) or _IS_NO.search(line) else [line]
        ):
            words = f" {' '.join(tokens(part))} "
            if _IS_NO.search(line if "|" in line else part):
                continue
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
