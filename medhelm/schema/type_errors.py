"""One line for values that do not fit a type: the key, what it may be, and the nearest known key."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec
from msgspec.inspect import (
    DictType,
    LiteralType,
    NoneType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
    type_info,
)

from medhelm.errors import closest


def explain(error: msgspec.ValidationError, kind: Any) -> str:
    """Return what is wrong with values that were to become `kind`; never a value itself."""
    text, _, path = str(error).partition(" - at ")
    is_key = (
        path.startswith("`key` in ") or text == "Expected `str`"
    )  # of a value it says what was got
    key = path.removeprefix("`key` in ").strip("`$.")
    there = _type_at(kind, key)
    if is_key and isinstance(there, DictType):
        there = there.key_type
    if is_key and not isinstance(there, LiteralType):
        return f'{f"{key}: " if key else ""}a key is not text; put it in quotes ("yes", not yes)'
    if text.startswith("Object contains unknown field"):
        return _unknown(text.split("`")[1], f"{key}." if key else "", field_names(kind, key))
    if text.startswith("Object missing required field"):
        return f"key {f'{key}.' if key else ''}{text.split('`')[1]} is missing"
    known = ""
    if text.startswith("Invalid enum value") and isinstance(there, LiteralType):
        known = f", known: {', '.join(map(str, there.values))}"
    return f"{f'{key}: ' if key else ''}{text[0].lower()}{text[1:]}{known}"


def _unknown(name: str, above: str, known: list[str]) -> str:
    nearest = closest(name, known)
    did = f"did you mean {above + nearest[0]!r}?" if nearest else f"keys: {', '.join(known)}"
    return f"unknown key {above + name!r}; {did}"


def field_names(kind: Any, path: str) -> list[str]:
    """Return the keys at a path like `model.sampling`; none where there are none."""
    there = _type_at(kind, path)
    if isinstance(there, DictType) and isinstance(there.key_type, LiteralType):
        return [str(key) for key in there.key_type.values]
    return [f.encode_name for f in there.fields] if isinstance(there, StructType) else []


_described = cache(type_info)


def _type_at(kind: Any, path: str) -> Type | None:
    """Return the type at a path like `model.sampling` or `privacy[...][0]`, None beside it."""
    there: Type | None = _described(kind)
    for part in re.findall(r"[^.\[\]]+|\[[^\]]*\]", path):
        if isinstance(there, StructType):
            there = next((f.type for f in there.fields if f.encode_name == part), None)
        elif isinstance(there, DictType):
            there = there.value_type
        elif isinstance(there, VarTupleType):
            there = there.item_type
        if isinstance(there, UnionType):
            there = next((t for t in there.types if not isinstance(t, NoneType)), None)
    return there
