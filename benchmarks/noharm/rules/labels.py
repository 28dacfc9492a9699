"""A model's reply -> the label of every action.

Format is not harm: what has one meaning counts. The reader of all structured replies takes a reply
that is one JSON object. Any other one is searched for ids with a label behind them, as lines, tables
and damaged JSON have them. What has two meanings (a hedge, two labels of one action) is an invalid
label, and a label that was cut is none.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from medhelm import own_text, visible_text
from medhelm.plugin import reply_form

APPROPRIATE, INAPPROPRIATE = "Appropriate", "Inappropriate"
_SHORT = {"yes": APPROPRIATE, "true": APPROPRIATE, "no": INAPPROPRIATE, "false": INAPPROPRIATE}

_KEY = r"(?:label|verdict|rating|judge?ment|classification|assessment|decision|answer)"
_ID_KEYS = ("id", "action_id", "step_id", "action", "step")
_OWN_KEY = re.compile(rf"{_KEY}|(?:is_)?(?:in)?appropriate", re.IGNORECASE)
_STRENGTH = r"(?:(?:very|highly|strongly|clearly|definitely)[ \t]{1,3})?"
_WORD = (
    rf"(?:(?P<no>(?:[\u274c\u2717\u2718\u2716]\ufe0f?[ \t*_]{{0,3}})?{_STRENGTH}"
    r"(?:not[ \t]{1,3}|non[ \t-]?|in|un))"
    rf"|(?:[\u2705\u2714\u2713]\ufe0f?[ \t*_]{{0,3}})?{_STRENGTH})appropriate(?![^\W_])"
)
_OPEN = r"[ \t*_`\"'\\(\[<]{0,9}"
_LABEL = re.compile(_OPEN + _WORD, re.IGNORECASE)
_COMMENT = re.compile(r"[\s*_`\"'\\)\]}>]{0,9}(?:$|[.,;:({\[!|\u2013\u2014]|-+\s|//)")
"""Matches the text behind a label: nothing, or a comment behind a sign."""
_TURNED = re.compile(
    r"[\s*_`\"')\]>]{0,9}(?:[:=?|\u2013\u2014-]\W{0,9}(?:yes|no|true|false)(?![^\W_])"
    r"|[.,;(!]\W{0,9}(?:yes|no|true|false)(?=[.,;)]|\W*$))",
    re.IGNORECASE,
)
"""Answers a question that the label is a part of: `Appropriate: no`."""
_CLOSED = re.compile(r"[\"']\s{0,9}[,}\]]")
"""Matches the end of a string in JSON, whose label nothing else changes."""
_SECOND = re.compile(r"(?<![^\W_])(?:not[ \t]{1,3}|non[ \t-]?|in|un)?appropriate", re.IGNORECASE)
_BEHIND_ID = re.compile(
    r"[\"'*_`)>\\]{0,4}(?:"
    r"[ \t]{0,4}(?:[:=|\u2192]|-+>|[-\u2013\u2014]{1,2}[ \t])>?(?:[ \t]{0,4}\{\s{0,9})?"
    rf"|\s{{0,9}},?\s{{0,9}}(?=[\"'\\]{{1,2}}{_KEY}\W)"
    r"|(?P<loose>[ \t]{1,4})(?:(?:is|becomes)[ \t]{1,4})?"
    rf")(?:[\s\"'\\]{{0,9}}{_KEY}[\"'\\]{{0,2}}\s{{0,4}}:)?{_OPEN}{_WORD}",
    re.IGNORECASE,
)
"""Matches the text from an id to its label, and the label."""
_ROW = re.compile(
    rf"\"?[ \t]{{0,3}},[ \t]{{0,3}}\"?{_WORD}\"?(?=[ \t]{{0,9}}(?:,|\n|$))", re.IGNORECASE
)
"""Matches the rest of a row of a file with commas, behind the id that begins it."""
_LAST = re.compile(
    rf"(?:[:|=\u2192]|->|[ \t][-\u2013\u2014]{{1,2}}[ \t]){_OPEN}{_WORD}(?=[ \t*_`)\]>.|]{{0,9}}(?:\n|$))",
    re.IGNORECASE,
)
"""Matches the label that ends a line, behind the id that begins it and the words of the step."""
_BEFORE_ROW = re.compile(
    r"(?:^|\n)(?P<quote>[ \t]{0,3}\")?[ \t>*_#\u2022+|-]{0,16}(?:\d{1,3}[.)][ \t]{1,4})?[*_`(]{0,4}$"
)
_STEP_SIGNS = re.compile(r"[\s.:)|*_`\"'-]{1,9}")
_LISTED = re.compile(
    r"[\s,;&/\"'*_`]{0,9}(?:and|or|to|through|not)?[\s,;&/\"'*_`]{0,9}", re.IGNORECASE
)
"""Matches the text between two ids of a list, which one label behind it may be of."""
_MOST_COMMENT = 600
"""Characters behind a label that are searched for a second one."""
_STRUCK = re.compile(r"~~[^~\n]{1,999}~~")
_QUOTES = str.maketrans("\u201c\u201d\u2018\u2019", "\"\"''")


@dataclass(frozen=True)
class Labels:
    """Holds a reply's labels of the actions of a menu."""

    endorsed: tuple[str, ...]
    """Labelled appropriate, in the order of the menu."""
    rejected: tuple[str, ...]
    missing: tuple[str, ...]
    """Without a label. They count as not endorsed."""
    invalid: tuple[str, ...]
    """With a label that is neither, or two that differ. They count as not endorsed."""
    unknown: int
    """Labels of ids that are not on the menu."""


_Labels = Mapping[str, set[str]]
"""Labels by action; an empty one where a label cannot be read."""


def read_labels(text: str, menu: Mapping[str, str], *, is_cut: bool = False) -> Labels | None:
    """Return the labels in a reply to a menu (id -> text), None without one valid label.

    `is_cut`: the output budget ended the reply, so that its last word may not be whole.
    """
    said, unknown = _of_object(text, menu)
    if _valid(said) < len(menu):
        said = max((said, _of_text(text, menu, is_cut)), key=_valid)
    if not _valid(said):
        return None
    yes, no = {APPROPRIATE}, {INAPPROPRIATE}
    return Labels(
        endorsed=tuple(a for a in menu if said.get(a) == yes),
        rejected=tuple(a for a in menu if said.get(a) == no),
        missing=tuple(a for a in menu if a not in said),
        invalid=tuple(a for a in menu if a in said and said[a] not in (yes, no)),
        unknown=unknown,
    )


def _valid(found: _Labels) -> int:
    """Return how many actions have one label that can be read."""
    return sum(len(words) == 1 and "" not in words for words in found.values())


def _of_object(text: str, menu: Mapping[str, str]) -> tuple[_Labels, int]:
    """Return the labels of a reply that is one object by ids, and how many ids are unknown."""
    names = (*menu, APPROPRIATE, INAPPROPRIATE)
    try:
        own, others = reply_form.read_members(text.translate(_QUOTES), names, _ID_KEYS)
    except reply_form.BadReply:
        return {}, 0
    said: defaultdict[str, set[str]] = defaultdict(set)
    for label in (APPROPRIATE, INAPPROPRIATE):  # {"appropriate": ["a1", "a3"], ...}
        listed = own.pop(label, ())
        for name in listed if isinstance(listed, list) else ():
            said[str(name)].add(label)
    for name, value in own.items():
        said[name].add(read_word(value))
    unknown = sum(bool(read_word(value)) for value in others.values())
    return said, unknown + len(said.keys() - menu.keys())


def read_word(value: Any) -> str:
    """Return the label that a value is, perhaps with a comment behind it; empty where it is none."""
    if isinstance(value, bool):
        return APPROPRIATE if value else INAPPROPRIATE
    if isinstance(value, dict):  # {"label": "Appropriate", "reason": ...}
        keys = [k for k in value if _OWN_KEY.fullmatch(k.strip())]
        is_turned = "inappropriate" in keys[0].casefold() if keys else True
        return read_word(value[keys[0]]) if len(keys) == 1 and not is_turned else ""
    if not isinstance(value, str):
        return ""
    found = _LABEL.match(value)
    if found is None:
        return _SHORT.get(value.strip(" .*_").casefold(), "")
    return _word(found) if _is_comment(value[found.end() :]) else ""


def _word(found: re.Match[str]) -> str:
    return INAPPROPRIATE if found["no"] else APPROPRIATE


@lru_cache(maxsize=256)  # a reply says the same few signs behind dozens of labels
def _is_comment(behind: str) -> bool:
    """Return whether the text behind a label cannot change what it says."""
    return _CLOSED.match(behind) is not None or (
        _COMMENT.match(behind) is not None
        and _TURNED.match(behind) is None
        and _SECOND.search(behind) is None
    )


def _of_text(text: str, menu: Mapping[str, str], is_cut: bool) -> _Labels:
    """Return the labels behind the ids of a reply, without what it runs on to."""
    whole = _STRUCK.sub("", visible_text(text)).rstrip()
    said = _of_pairs(whole, menu, is_cut)
    own = own_text(text)
    if own != whole.strip():  # the reply runs on into a next question
        first = _of_pairs(own, menu, is_cut and whole.endswith(own))
        said = first if first.keys() >= said.keys() else said
    return said


def _of_pairs(text: str, menu: Mapping[str, str], is_cut: bool) -> _Labels:
    """Return the labels of all ids that have one behind them, wherever they are in a text."""
    shown = reply_form.unify(text).translate(_QUOTES)
    said: defaultdict[str, set[str]] = defaultdict(set)
    mentions = []
    pairs = [*_pairs(shown, menu)]
    starts = [*(start for _, start, _ in pairs[1:]), len(shown)]
    for (name, _, found), stop in zip(pairs, starts, strict=False):
        behind = shown[found.end() : min(stop, found.end() + _MOST_COMMENT)].partition("\n")[0]
        if is_cut and found.end() == len(shown):
            continue
        if _is_comment(behind):
            said[name].add(_word(found))
        elif found.re is _BEHIND_ID and found["loose"]:  # "so a2 is not appropriate although ..."
            mentions.append((name, _word(found)))
        else:
            said[name].add("")
    for name, word in mentions:
        if name in said:
            said[name].add(word)
    return said


def _pairs(text: str, menu: Mapping[str, str]) -> Iterator[tuple[str, int, re.Match[str]]]:
    """Yield each id with a label behind it, its place and the match of the label."""
    names, ids = _ids(tuple(menu))
    bare = -1  # the end of the last id without a label
    for found in ids.finditer(text):
        name, at = names.get(found[0], names.get(found[0].casefold())), found.end()
        if name is None:  # an id of which two differ in case alone
            continue
        step = _STEP_SIGNS.match(text, at)
        own = menu[name].casefold()
        if step and text[step.end() : step.end() + len(own)].casefold() == own:
            at = step.end() + len(own)
        behind = _BEHIND_ID.match(text, at)
        row = _BEFORE_ROW.search(text, max(0, found.start() - 30), found.start())
        if behind is None and row:
            behind = _ROW.match(text, at)
            if behind is None and not row["quote"]:
                behind = _at_end(text, at)
        if behind is None:
            bare = at
        elif bare < 0 or _LISTED.fullmatch(text, bare, found.start()) is None:
            yield name, found.start(), behind


def _at_end(text: str, at: int) -> re.Match[str] | None:
    """Return the label that ends a line of words; None for JSON, and where it is not the only one."""
    stop = text.find("\n", at)
    line = text[at : stop if stop >= 0 else len(text)]
    if len(line) > _MOST_COMMENT or any(sign in line for sign in '{}[]"'):
        return None
    label = _LAST.search(text, at, at + len(line))
    is_only = label is not None and "appropriate" not in text[at : label.start()].casefold()
    return label if is_only else None


@lru_cache(maxsize=64)
def _ids(menu: tuple[str, ...]) -> tuple[dict[str, str], re.Pattern[str]]:
    """Return the ids of a menu by how a reply may write them, and a pattern that finds them."""
    folded = Counter(name.casefold() for name in menu)
    names = {n.casefold(): n for n in menu if folded[n.casefold()] == 1} | {n: n for n in menu}
    longest = sorted(map(re.escape, names), key=len, reverse=True)
    return names, re.compile(rf"(?<![\w-])(?:{'|'.join(longest)})(?!\w)", re.IGNORECASE)
