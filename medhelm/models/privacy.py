"""Decide which data may go to which endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medhelm.errors import PrivacyRefused
from medhelm.schema.data import DataClass
from medhelm.schema.model import EndpointClass
from medhelm.schema.run import READER

POLICY: Mapping[DataClass, tuple[EndpointClass, ...]] = {
    "public": ("local", "contracted", "external"),
    "gated": ("local", "contracted"),
    "private": ("local",),
}
"""Endpoints for each class of data, unless the user's configuration differs."""


def may_leave(data_class: DataClass, policy: Mapping[DataClass, Sequence[EndpointClass]]) -> bool:
    """Return whether a policy lets a class of data go anywhere."""
    return "external" in policy.get(data_class, POLICY[data_class])


def check(
    benchmark: str,
    data_class: DataClass,
    model: str,
    endpoint_class: EndpointClass,
    policy: Mapping[DataClass, Sequence[EndpointClass]] | None = None,
    *,
    jury: str = "",
    role: str = "",
) -> None:
    """Refuse to send a benchmark's data to an endpoint that may not have it.

    `policy` is the user's setting `privacy`: what it says of a data class holds in place of
    `POLICY`, wider or narrower. `jury`: the one of which the model is a judge; `role`: the one that it plays
    in a cast. Raises `PrivacyRefused`.
    """
    allowed = (policy or {}).get(data_class, POLICY[data_class])
    if endpoint_class in allowed:
        return
    declare = " or ".join(f"model.endpoint_class={c}" for c in allowed)
    fix = f"declare {declare} if that is what it is, or " if allowed else ""
    wider = ",".join([*allowed, endpoint_class])
    who = f"model {model!r}"
    if role:
        who = f"{who} in the role {role!r}"
        setting = role if role == READER else f"cast.{role}"
        fix = fix.replace("model.", f"{setting}.")
    if jury:
        who = f"judge {model!r} of jury={jury}"
        here = f"name a jury whose judges' endpoint_class is {' or '.join(allowed)}, or "
        fix = f"jury=offline asks no model; {here if allowed else ''}"
    raise PrivacyRefused(
        f"benchmark {benchmark!r} is {data_class} and {who} is {endpoint_class}:"
        f" {fix}allow it with privacy.{data_class}=[{wider}]"
    )
