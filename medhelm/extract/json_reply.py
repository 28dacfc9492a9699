"""A reply that is to be one JSON object -> its value. What has one meaning is read, what has two is refused.

The object may be in one fence, behind thoughts, behind one line that announces it and before one
sentence that takes nothing back. Slips of syntax (a comma too many, single quotes, `True`) are mended
by json_repair. Its result counts only where it has the signs and words of the reply, each in its
place: nothing is closed, dropped, cut out of a quotation or chosen between.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from medhelm.extract.marks import visible_text, without_invisible

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


_PARTS = re.compile(
    r"(?P<before>[^{}\[\]`]*+)(?P<fence>```\w*+)?\s*+(?P<json>[{\[].*[}\]])(?(fence)\s*+```)(?P<after>[^{}\[\]`]*+)",
    re.DOTALL,
)
VERDICT = (
    "evaluation|label|rating|scor(?:e|ing)|verdict|assessment|judge?ment|json|result|output|bewertung|urteil"
    "|ergebnis|\u00e9valuation|evaluaci\u00f3n|puntuaci\u00f3n|\u8bc4\u5206|\u8bc4\u4f30|\u8bc4\u4ef7|\u7ed3\u679c"
)
_ANNOUNCED = re.compile(
    rf"(?=[^\n]{{0,200}}(?:{VERDICT}|here (?:it is|you (?:are|go))))"
    r"[^\n\"\u201c\u201d<>]{1,200}[.:!\uff1a\u3002][*_]{0,3}\s*",
    re.IGNORECASE,
)
"""One line that says that a verdict follows, with nothing in quotes or brackets."""
_SENTENCE = re.compile(r"\s+(?=[*_]{0,3}[^\W\d_])(?![*_]{0,3}[a-z])[^\n\d\"\u201c\u201d<>]{1,200}")
_TAKEN_BACK = re.compile(
    r"actual|however|correction|instead|rather|should|\bwait|mistake|sorry|revis|reconsider|reflection"
    r"|second thought|ignor|\bask|want|demand|claim|request|\bsa(?:id|ys)|\bt(?:old|ells)|instruct|quot"
    r"|eigentlich|allerdings|sollte|realidad|debe|cependant|devrait|\u5176\u5b9e|\u4f46|\u5e94|\u66f4\u6b63",
    re.IGNORECASE,
)
"""Words of a sentence that may change what was said, or say that somebody else said it."""
_QUOTES = re.compile(
    r"\b(?:asks?|wants?|tells|told) (?:me|us|you|the)\b|\bsa(?:id|ys)\b|instruct|demand|claim|quot|ignor",
    re.IGNORECASE,
)
"""Words of an announcement of what somebody else says."""
_TOKEN = re.compile(
    r'"((?:[^"\\]|\\.)*+)"'
    r"|'((?:[^'\\]|\\.)*+)'"
    r"|\u201c([^\u201d]*+)\u201d"
    r"|([{}\[\]:]|[^\s{}\[\]:,\"'\u201c\u201d]++|[\"'\u201c\u201d])",
    re.DOTALL,
)
_LITERALS = {"true": "true", "false": "false", "none": "null"}
_LONGEST = 200_000
"""Characters beyond which no slip is mended."""
NOT_ONE = "the reply is not one JSON object and nothing else"


class BadReply(ValueError):
    """A reply cannot be read. The message is written for its author and holds no text of the reply."""


class JsonReply(NamedTuple):
    """The value of a reply."""

    value: Any
    text: str
    """The JSON as it was written."""
    is_bare: bool
    """True where there is nothing beside it, so that nobody else can be the one who is quoted."""


def read_json(text: str) -> JsonReply:
    """Return the only object or list of a reply; raises BadReply."""
    fault = BadReply(NOT_ONE)
    for shown, is_visible in ((text.strip(), False), (_after_thoughts(text), True)):
        parts = _PARTS.fullmatch(shown)
        if parts is None:
            continue
        is_bare = not (parts["before"] + parts["after"]).strip()
        if not (is_bare or (is_visible and _has_text_beside(text, shown, parts))):
            continue
        try:
            return JsonReply(_decoded(parts["json"]), parts["json"], is_bare)
        except BadReply as e:
            fault = e
    raise fault


def _after_thoughts(text: str) -> str:
    """Return the visible text; nothing where the reply ends inside of a thought.

    A verdict with a thought behind it may be quoted in what the judge thinks.
    """
    return visible_text(text) if visible_text(f"{text}\n.").endswith(".") else ""


def _has_text_beside(text: str, shown: str, parts: re.Match[str]) -> bool:
    """Return whether what is beside the JSON can only be its author's, and changes nothing of it."""
    before, after = parts["before"].strip(), parts["after"].rstrip()
    said = "".join(without_invisible(text).split())
    return (
        said.endswith("".join(shown.split()))  # no thought is behind it or in it
        and (not before or _ANNOUNCED.fullmatch(before) is not None)
        and not _QUOTES.search(before)
        and (not after or _SENTENCE.fullmatch(after) is not None)
        and not _TAKEN_BACK.search(after)
    )


def _decoded(text: str) -> Any:
    whole = without_halves(text)
    try:
        return _DECODER.decode(whole)
    except BadReply:
        raise
    except (ValueError, RecursionError):
        pass
    if len(whole) > _LONGEST or (signs := _tokens(whole)).count("{") != signs.count("}"):
        raise BadReply(NOT_ONE)
    from json_repair import repair_json

    try:
        value = repair_json(whole, return_objects=True, skip_json_loads=True)
        same = _tokens(json.dumps(value, ensure_ascii=False)) == signs
    except (ValueError, RecursionError):
        same = False
    if not same:
        raise BadReply(NOT_ONE)
    return value


def _tokens(text: str) -> list[str]:
    """Return the strings, words, brackets and colons of JSON or of what is nearly JSON."""
    return [_token_text(found) for found in _TOKEN.finditer(text)]


def _token_text(token: re.Match[str]) -> str:
    if token[4] is not None:
        return _LITERALS.get(token[4].casefold(), token[4])
    inside = token[1] or (token[2] or "").replace("\\'", "'") or token[3] or ""
    try:
        return str(json.loads(f'"{inside}"', strict=False))
    except ValueError:
        return inside


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if repr(found.setdefault(key, value)) != repr(value):
            raise BadReply("a key stands twice, with values that differ")
    return found


def _no_constant(name: str) -> Any:
    raise BadReply(f"{name} is no value")


# Not strict: a line break inside of a text is not an ambiguity.
_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_once, parse_constant=_no_constant)
