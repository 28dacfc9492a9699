"""The protocol of labelled actions: one request, a label for every action of the case's menu."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from medhelm.noharm.label_words import APPROPRIATE, INAPPROPRIATE
from medhelm.protocols.completion import build_request as plain_request
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import Request
from medhelm.schema.run import RunSpec


def build_request(benchmark: Benchmark, spec: RunSpec, instance: Instance, repeat: int) -> Request:
    """Return what is sent for one case, zero-shot: its whole menu in one prompt.

    It carries the JSON Schema of this very menu where the model's endpoint holds answers to one.
    """
    request = plain_request(benchmark, spec, instance, repeat)
    if not spec.model.json_schema:
        return request
    return msgspec.structs.replace(request, json_schema=label_schema(instance.menu))


def label_schema(actions: Iterable[str]) -> dict[str, Any]:
    """Return the JSON Schema of a reply that labels all of these actions and nothing else."""
    label = {"type": "string", "enum": [APPROPRIATE, INAPPROPRIATE]}
    return _closed({"labels": _closed(dict.fromkeys(actions, label))})


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with all of these properties and no other."""
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }
