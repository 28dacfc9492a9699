"""The JSON Schema of a reply: what an endpoint is sent where it takes one, and how the value is read.

A value fits a schema where it can mean one thing by it: a key in another case, an integer or a
truth value as text (`"4"`, `"4/5"` and `4 out of 5` on a scale to 5), a further key, one
wrapper around the whole (`{"verdict": ...}`, a list of one).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec

from medhelm.extract.json_reply import VERDICT, BadReply, JsonReply, read_json

BOOLEAN, TEXT = {"type": "boolean"}, {"type": "string"}
_WRAPPER = re.compile(
    rf"(?:(?:my|the|final|overall|judge|jury)[_ -]?)?(?:{VERDICT}|criteri(?:a|on)|response)s?",
    re.IGNORECASE,
)
_INTEGER = re.compile(r"([+-]?\d{1,9})(?:\.0+)?(?:\s*(?:/|out of|of)\s*(\d{1,9})(?:\.0+)?)?")
_AT = re.compile(r"(.*) - at `(\$[\w.\[\]]*)`", re.DOTALL)
_T = TypeVar("_T")


def closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with all of these properties and no other."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [*properties],
        "additionalProperties": False,
    }


def list_of(items: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a list."""
    return {"type": "array", "items": dict(items)}


@cache
def schema_of(form: type[Any]) -> dict[str, Any]:
    """Return the schema of a form, without references, as endpoints take it."""
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
    # titles and descriptions would be words that no prompt holds
    keep = {k: v for k, v in value.items() if k not in ("title", "description", "$defs")}
    kind = TEXT if "enum" in keep else {}  # some endpoints want it said
    return kind | {k: _inlined(v, definitions) for k, v in keep.items()}


def read_form(text: str, form: type[_T]) -> tuple[_T, str]:
    """Return a reply of a form, and its JSON as it was written; raises BadReply."""
    reply = read_object(text, schema_of(form))
    try:
        return msgspec.convert(reply.value, form), reply.text
    except msgspec.ValidationError as e:
        found = _AT.fullmatch(str(e))
        where = found[2].replace("$.", "").replace("$", "the reply") if found else ""
        raise BadReply(f"{where}: {found[1]}" if found else str(e)) from None


def read_object(text: str, schema: Mapping[str, Any]) -> JsonReply:
    """Return the only object of a reply, as the schema has it; raises BadReply."""
    reply = read_json(text)
    try:
        value = _unwrapped(reply.value, schema["properties"])
        is_bare = reply.is_bare and value is reply.value
        return JsonReply(fit(value, schema, "the reply"), reply.text, is_bare)
    except RecursionError:
        raise BadReply("the reply is nested too deep") from None


def _unwrapped(value: Any, properties: Mapping[str, Any]) -> Any:
    """Return the object inside of one wrapper: a list of one, or one key that names a verdict."""
    inner = value
    if isinstance(value, list) and len(value) == 1:
        (inner,) = value
    elif isinstance(value, dict) and len(value) == 1:
        ((key, member),) = value.items()
        if _WRAPPER.fullmatch(key.strip()) and isinstance(member, dict):
            inner = member
    if isinstance(inner, dict) and _own(inner, properties)[0]:
        return value if isinstance(value, dict) and _own(value, properties)[0] else inner
    listed = [k for k, s in properties.items() if len(properties) == 1 and s["type"] == "array"]
    return {listed[0]: value} if listed and isinstance(value, list) and value else value


def fit(value: Any, schema: Mapping[str, Any], where: str) -> Any:
    """Return a value as a schema has it; raises BadReply. A schema without a type takes anything."""
    match schema.get("type"):
        case "object":
            return _object(value, schema, where)
        case "array":
            if not isinstance(value, list):
                raise BadReply(f"{where} is not a list")
            items = schema.get("items", {})
            return [fit(v, items, f"{where}[{n}]") for n, v in enumerate(value)]
        case "boolean":
            truths = {"true": True, "false": False}
            found = truths.get(value.strip().casefold()) if isinstance(value, str) else value
            if not isinstance(found, bool):
                raise BadReply(f"{where} is neither true nor false")
            return found
        case "integer":
            return _integer(value, schema.get("enum", ()), where)
        case "string" if not isinstance(value, str):
            raise BadReply(f"{where} is not a text")
        case "string" if "enum" in schema and value not in schema["enum"]:
            return _named(value, schema["enum"], where)
    return value


def _object(value: Any, schema: Mapping[str, Any], where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadReply(f"{where} is not an object")
    properties = schema.get("properties", {})
    own, others = _own(value, properties)
    if missing := [name for name in schema.get("required", ()) if name not in own]:
        raise BadReply(f"{where} has no {', '.join(missing)}")
    if isinstance(rest := schema.get("additionalProperties"), dict):
        return {name: fit(v, rest, f"{where}.{name}") for name, v in value.items()}
    found = {
        name: fit(own[name], s, name if where == "the reply" else f"{where}.{name}")
        for name, s in properties.items()
        if name in own
    }
    truths = {v for v in found.values() if isinstance(v, bool)}
    if len(truths) == 1 and any(v is (not min(truths)) for v in others):
        raise BadReply(f"{where} has a further key that says the opposite")
    if any(_holds(other, found) for other in others):
        raise BadReply(f"{where} has another {', '.join(found)} inside of a further key")
    return found


def _own(
    value: Mapping[str, Any], properties: Mapping[str, Any]
) -> tuple[dict[str, Any], list[Any]]:
    """Return the members by the names of a schema, and all others; raises BadReply for two of one."""
    names = {_folded(name): name for name in properties}
    own: dict[str, Any] = {}
    others = []
    for key, member in value.items():
        name = key if key in properties else names.get(_folded(key))
        if name is None:
            others.append(member)
        elif repr(own.setdefault(name, member)) != repr(member):
            raise BadReply(f"{name} stands twice, with values that differ")
    return own, others


def _folded(key: str) -> str:
    return re.sub(r"[\s_-]+", "_", key.strip().casefold())


def _holds(value: Any, names: Iterable[str]) -> bool:
    """Return whether one of the names is a key anywhere inside a value."""
    if isinstance(value, list):
        return any(_holds(v, names) for v in value)
    if not isinstance(value, dict):
        return False
    return bool(_own(value, dict.fromkeys(names))[0]) or _holds([*value.values()], names)


def _named(value: str, names: Iterable[str], where: str) -> str:
    found = [name for name in names if _folded(str(name)) == _folded(value)]
    if len(found) != 1:
        raise BadReply(f"{where} is none of {', '.join(map(str, names))}")
    return found[0]


def _integer(value: Any, scale: Iterable[int], where: str) -> int:
    """Return a value as an integer: 4, 4.0, "4" and, on a scale to 5, "4/5" are one; 4.5 is none."""
    allowed = tuple(scale)
    if isinstance(value, str) and (said := _INTEGER.fullmatch(value.strip().casefold())):
        if said[2] and not (allowed and int(said[2]) == max(allowed)):
            raise BadReply(f"{where} is on another scale than the one asked for")
        value = int(said[1])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadReply(f"{where} is no integer")
    if allowed and value not in allowed:
        raise BadReply(f"{where} is not in {min(allowed)} to {max(allowed)}")
    return value
