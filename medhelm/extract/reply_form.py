"""The JSON Schema of a reply: what an endpoint is sent where it takes one, and how the value is read.

A value fits a schema where it can mean one thing by it: a key in another case, an integer or a
truth value as text (`"4"`, `"4/5"` and `4 out of 5` on a scale to 5), a further key, a number in
place of an object of a number and texts, one wrapper around the whole (`{"verdict": ...}`, a list of one).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from medhelm.extract.json_reply import NOT_ONE, VERDICT, read_json
from medhelm.extract.json_reply import BadReply as BadReply
from medhelm.extract.json_reply import without_halves as without_halves
from medhelm.extract.marks import unify as unify
from medhelm.prompts.askings import closed as closed

_BREAKS = re.compile(r"[\s_-]+")
_WRAPPER = re.compile(
    rf"(?:(?:my|the|final|overall|judge|jury)[_ -]?)?(?:{VERDICT}|criteri(?:a|on)|response|item)s?",
    re.IGNORECASE,
)
_INTEGER = re.compile(r"([+-]?\d{1,9})(?:\.0+)?(?:\s*(?:/|out of|of)\s*(\d{1,9})(?:\.0+)?)?")
_TYPES: dict[str, type | tuple[type, ...]] = {
    "array": list,
    "boolean": bool,
    "string": str,
    "number": (int, float),
    "integer": int,
    "null": type(None),
}
_SCALES = ("max", "maximum", "max_score", "out_of", "of", "scale")
_T = TypeVar("_T")


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
    kind = {"type": "string"} if "enum" in keep else {}  # some endpoints want it said
    return kind | {k: _inlined(v, definitions) for k, v in keep.items()}


def read_form(text: str, form: type[_T]) -> tuple[_T, str]:
    """Return a reply of a form, and its JSON as it was written; raises BadReply."""
    value, written = _read_with_text(text, schema_of(form), "")
    try:
        return msgspec.convert(value, form), written
    except msgspec.ValidationError as e:
        raise BadReply(str(e)) from None


def read_object(text: str, schema: Mapping[str, Any], answer: str = "") -> dict[str, Any]:
    """Return the only object of a reply, as the schema has it; raises BadReply.

    `answer`: what the reply is about. A verdict that the answer gives itself counts only where the
    reply is nothing else: it may be quoted.
    """
    return _read_with_text(text, schema, answer)[0]


def read_members(
    text: str, names: Iterable[str], keys: Sequence[str] = ("id",)
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the members of a reply's only object by these names, and all others; raises BadReply.

    A list of objects that each hold their name under one of `keys` is read as one object of them.
    """
    known = [*names]
    try:
        value = _unwrapped(read_json(text).value, known)
        if isinstance(value, dict) and len(value) == 1:  # {"labels": [...]}
            (listed,) = value.values()
            value = listed if isinstance(listed, list) else value
        if isinstance(value, list):
            members = [v for v in value if isinstance(v, dict)]
            pairs = [(str(v[k]), v) for v in members for k in keys if k in v]
            if not len(value) == len(pairs) == len(dict(pairs)):
                raise BadReply("the list is not of objects with a name each")
            value = dict(pairs)
        if not isinstance(value, dict):
            raise BadReply("the reply is not an object")
        return _own(value, known)
    except RecursionError:
        raise BadReply("the reply is nested too deep") from None


def _read_with_text(
    text: str, schema: Mapping[str, Any], answer: str
) -> tuple[dict[str, Any], str]:
    reply = read_json(text)
    try:
        inner = _unwrapped(reply.value, schema["properties"])
        value: dict[str, Any] = fit(inner, schema, "the reply")
        is_bare = reply.is_bare and inner is reply.value
        if not is_bare and _is_planted(answer, value):
            raise BadReply(NOT_ONE)
    except RecursionError:
        raise BadReply("the reply is nested too deep") from None
    return value, reply.text


def _is_planted(answer: str, value: dict[str, Any]) -> bool:
    said = [*_verdicts(value, "")]
    return bool(said) and all(
        re.search(
            rf"{re.escape(name)}\W{{0,9}}(?:score\W{{0,9}})?{is_so}(?!\w)", answer, re.IGNORECASE
        )
        for name, is_so in said
    )


def _verdicts(value: Any, name: str) -> Iterator[tuple[str, int]]:
    """Yield the numbers and truth values in a value by name."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _verdicts(member, name if key == "score" else key)
    elif isinstance(value, list):
        for member in value:
            yield from _verdicts(member, name)
    elif isinstance(value, int):
        yield name, value


def _unwrapped(value: Any, properties: Collection[str]) -> Any:
    """Return the object inside of one wrapper: a list of one, or one key that names a verdict."""
    inner = value
    if isinstance(value, list) and len(value) == 1:
        (inner,) = value
    elif isinstance(value, dict) and len(value) == 1 and not _own(value, properties)[0]:
        ((key, member),) = value.items()
        inner = member if _WRAPPER.fullmatch(key.strip()) else value
    return inner if isinstance(inner, dict) and _own(inner, properties)[0] else value


def fit(value: Any, schema: Mapping[str, Any], where: str) -> Any:
    """Return a value as a schema has it; raises BadReply. A schema without a type takes anything."""
    kind, names = schema.get("type"), schema.get("enum", ())
    if kind == "object":
        return _object(value, schema, where)
    if kind == "integer":
        return _integer(value, names, where)
    if kind == "array" and isinstance(value, list):
        return [fit(v, schema.get("items", {}), f"{where}[{n}]") for n, v in enumerate(value)]
    if kind == "boolean" and isinstance(value, str):
        value = {"true": True, "false": False}.get(value.strip().casefold())
    if kind == "string" and isinstance(value, str) and names:
        known = _by_spelling(names)
        value = known.get(value) or known.get(_folded(value))
    kinds = [kind] if isinstance(kind, str) else kind or ()
    is_other = isinstance(value, bool) and "boolean" not in kinds  # which Python takes for a number
    if kinds and (is_other or not any(isinstance(value, _TYPES[k]) for k in kinds)):
        raise BadReply(
            f"{where} is none of {', '.join(names)}"
            if names
            else f"{where} is no {' or '.join(kinds)}"
        )
    return value


def _object(value: Any, schema: Mapping[str, Any], where: str) -> dict[str, Any]:
    properties, required = schema.get("properties", {}), schema.get("required", ())
    if not isinstance(value, dict) and len(required) == 1 and value != []:
        value = {required[0]: value}
    if not isinstance(value, dict):
        raise BadReply(f"{where} is not an object")
    if isinstance(rest := schema.get("additionalProperties"), dict):
        return {name: fit(v, rest, f"{where}[...]") for name, v in value.items()}
    own, others = _own(value, properties)
    if missing := [name for name in required if name not in own]:
        raise BadReply(f"{where} has no {', '.join(missing)}")
    place = "" if where == "the reply" else f"{where}."
    found = {
        n: fit(own[n], s, where if n == "score" else f"{place}{n}")
        for n, s in properties.items()
        if n in own
    }
    truths = {v for v in found.values() if isinstance(v, bool)}
    if len(truths) == 1 and any(v is (not min(truths)) for v in others.values()):
        raise BadReply(f"{where} has a further key that says the opposite")
    if any(_holds(other, found) for other in others.values()):
        raise BadReply(f"{where} has another {', '.join(found)} inside of a further key")
    scale = properties.get("score", {}).get("enum")
    if scale and any(
        str(others[key]).split("-")[-1] != str(scale[-1]) for key in _SCALES if key in others
    ):
        raise BadReply(f"{where} is on another scale than the one asked for")
    return found


def _own(
    value: Mapping[str, Any], properties: Iterable[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the members by the names of a schema, and all others; raises BadReply for two of one."""
    names = _by_spelling(properties)
    own: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for key, member in value.items():
        name = names.get(key) or names.get(_folded(key))
        if name is None:
            others[_folded(key)] = member
        elif repr(own.setdefault(name, member)) != repr(member):
            raise BadReply(f"{name} stands twice, with values that differ")
    return own, others


def _by_spelling(names: Iterable[str]) -> dict[str, str]:
    """Return names by themselves and in another case, where it is the case of one of them only."""
    cases = Counter(map(_folded, names))
    return {_folded(n): n for n in names if cases[_folded(n)] == 1} | {n: n for n in names}


@lru_cache(maxsize=4096)  # a reply has the same few keys many times
def _folded(key: str) -> str:
    return _BREAKS.sub("_", key.strip().casefold())


def _holds(value: Any, names: Iterable[str]) -> bool:
    """Return whether one of the names is a key anywhere inside a value."""
    if isinstance(value, list):
        return any(_holds(v, names) for v in value)
    if not isinstance(value, dict):
        return False
    return bool(_own(value, names)[0]) or _holds([*value.values()], names)


def _integer(value: Any, scale: Sequence[int], where: str) -> int:
    """Return a value as an integer: 4, 4.0, "4" and, on a scale to 5, "4/5" are one; 4.5 is none."""
    if isinstance(value, str) and (said := _INTEGER.fullmatch(value.strip().casefold())):
        if said[2] and int(said[2]) != max(scale, default=None):
            raise BadReply(f"{where} is on another scale than the one asked for")
        value = int(said[1])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadReply(f"{where} is no integer")
    if scale and value not in scale:
        raise BadReply(f"{where} is not in {min(scale)} to {max(scale)}")
    return value
