"""Which data may go to which endpoint, and what may be published."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args

from medhelm.errors import PrivacyRefused, UnknownName
from medhelm.schema import DataClass, EndpointClass

POLICY: Mapping[DataClass, tuple[EndpointClass, ...]] = {
    "public": ("local", "contracted", "external"),
    "gated": ("local", "contracted"),
    "private": ("local",),
}
"""Where the data of each class may go unless the user's configuration widens it."""

Widened = Mapping[str, Iterable[str]] | Mapping[DataClass, Iterable[EndpointClass]]
"""The user's setting `privacy`, checked or as it was read."""


def check(
    benchmark: str,
    data_class: DataClass,
    model: str,
    endpoint_class: EndpointClass,
    widened: Widened | None = None,
) -> None:
    """Refuse to send a benchmark's data to an endpoint that may not have it.

    `widened` is the user's setting `privacy`: it adds endpoint classes to `POLICY` and takes
    none away. Raises `PrivacyRefused`, and `UnknownName` for a class that does not exist.
    """
    allowed = {*POLICY[data_class], *_read(widened or {}).get(data_class, ())}
    if endpoint_class in allowed:
        return
    wider = ",".join([*POLICY[data_class], endpoint_class])
    declare = " or ".join(f"model.endpoint_class={c}" for c in POLICY[data_class])
    raise PrivacyRefused(
        f"benchmark {benchmark!r} is {data_class} and model {model!r} is {endpoint_class}:"
        f" declare {declare} if that is what it is,"
        f" or allow it with privacy.{data_class}=[{wider}]"
    )


def is_publishable(data_class: DataClass, redistributable: bool) -> bool:
    """Return whether the text of instances and responses may stand in published output."""
    return data_class == "public" and redistributable


def _read(widened: Widened) -> dict[str, tuple[str, ...]]:
    policy = {}
    for data_class, classes in widened.items():
        if data_class not in POLICY:
            raise UnknownName("data class in privacy", data_class, POLICY)
        policy[data_class] = tuple(classes)
        for name in policy[data_class]:
            if name not in get_args(EndpointClass):
                where = f"endpoint class in privacy.{data_class}"
                raise UnknownName(where, name, get_args(EndpointClass))
    return policy
