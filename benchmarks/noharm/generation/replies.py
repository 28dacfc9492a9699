"""Read each stage's reply strictly: one JSON object of a fixed form, and nothing guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, TypeVar

import msgspec

from medhelm.extract import visible_text
from medhelm_benchmarks.noharm.generation.views import Kind
from medhelm_benchmarks.noharm.rules.cases import Category, RedFlag

_AT = re.compile(r"(.*) - at `(\$[\w.\[\]]*)`", re.DOTALL)
_FENCED = re.compile(r"```(?:json)?[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL | re.IGNORECASE)
_T = TypeVar("_T")


class BadReply(ValueError):
    """Reports a reply's fault in words that go back to its author. See `checks` on its own."""


class _Reply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A form of reply: no key may be missing, and there are no others."""


class SceneReply(_Reply, frozen=True, kw_only=True):
    """Stage 1."""

    vignette: str
    question: str
    knowns: tuple[str, ...]
    unknowns: tuple[str, ...]
    red_flags: tuple[RedFlag, ...]


class OptionReply(_Reply, frozen=True, kw_only=True):
    """One action of stage 2."""

    text: str
    category: Category


class OptionsReply(_Reply, frozen=True, kw_only=True):
    """Stage 2."""

    options: tuple[OptionReply, ...]


class TrapReply(_Reply, frozen=True, kw_only=True):
    """One action of stage 3."""

    text: str
    category: Category
    kind: Kind


class TrapsReply(_Reply, frozen=True, kw_only=True):
    """Stage 3."""

    options: tuple[TrapReply, ...]


class BroadReply(_Reply, frozen=True, kw_only=True):
    """A broad action and those that it holds."""

    broad: str
    specific: tuple[str, ...]


class GroupsReply(_Reply, frozen=True, kw_only=True):
    """Lists the actions that replace each other."""

    alternatives: tuple[tuple[str, ...], ...]
    broad: tuple[BroadReply, ...]


class RatingReply(_Reply, frozen=True, kw_only=True):
    """One action as one rater sees it."""

    id: str
    rating: int
    """By the harm or benefit to the patient, whether the guideline covers the action or not."""
    covered: bool
    """True if the guideline covers the action or the principle that decides it."""
    quote: str
    """Words of the guideline that the rating rests on; empty where it covers nothing of it."""
    implausible: bool


class RatingsReply(_Reply, frozen=True, kw_only=True):
    """One rater's sheet."""

    ratings: tuple[RatingReply, ...]


class QuoteReply(_Reply, frozen=True, kw_only=True):
    """Words of the guideline for one action; empty where it is silent."""

    id: str
    quote: str


class QuotesReply(_Reply, frozen=True, kw_only=True):
    """One rater's second look for references."""

    quotes: tuple[QuoteReply, ...]


def read_reply(text: str, form: type[_T]) -> _T:
    """Return a reply of a form, bare or in one fenced block; raises BadReply."""
    body = visible_text(text).strip()
    if fenced := _FENCED.fullmatch(body):
        body = fenced.group(1)
    try:
        value = json.loads(body, object_pairs_hook=_once, parse_constant=_no_constant)
        if "\\u" in body:
            json.dumps(value, ensure_ascii=False).encode()
    except BadReply:
        raise
    except UnicodeEncodeError:
        raise BadReply("it holds half a character, a \\u escape without its other half") from None
    except (ValueError, RecursionError):
        raise BadReply("it is not one JSON object and nothing else") from None
    try:
        return msgspec.convert(value, form)
    except msgspec.ValidationError as e:
        raise BadReply(_plain(str(e))) from None


def reply_schema(form: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a form, without references, as endpoints take it."""
    (schema,), definitions = msgspec.json.schema_components([form], ref_template="{name}")
    inlined: dict[str, Any] = _inlined(schema, definitions)
    return inlined


def _inlined(value: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_inlined(v, definitions) for v in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return _inlined(definitions[value["$ref"]], definitions)
    # titles and descriptions would be words that no stage's prompt holds
    keep = {k: v for k, v in value.items() if k not in ("title", "description", "$defs")}
    kind = {"type": "string"} if "enum" in keep else {}  # some endpoints want it said
    return kind | {k: _inlined(v, definitions) for k, v in keep.items()}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise BadReply("a key stands twice")
    return found


def _no_constant(name: str) -> Any:
    raise BadReply(f"{name} is no value")


def _plain(message: str) -> str:
    found = _AT.fullmatch(message)
    if found is None:
        return message
    where = found[2].replace("$.", "").replace("$", "the reply")
    return f"{where}: {found[1]}"


def check_ids(asked: Collection[str], given: Collection[str], what: str) -> None:
    """Raise BadReply where the ids of a reply are not exactly those that were asked."""
    if missing := [i for i in asked if i not in set(given)]:
        raise BadReply(f"no {what} of {_some(missing)}")
    if unknown := [i for i in given if i not in set(asked)]:
        raise BadReply(f"a {what} of {_some(unknown)!r}, which is not on the list")
    if len(given) > len(asked):
        raise BadReply(f"some ids have two {what}s")


def _some(names: Collection[str]) -> str:
    shown = [name[:20] for name in names][:10]
    return ", ".join(shown) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
