"""Conduct one instance with a model. Every protocol returns an `Episode`.

Which protocol a benchmark takes follows from what its answers are.
"""

from __future__ import annotations

import msgspec

from medhelm.models.identity import without_unused
from medhelm.protocols import action_labels, completion
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import Request
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import RunSpec

_BUILD = {"actions": action_labels.build_request}
"""Answer kind -> what builds its requests. All others are the completion protocol's."""
_SENDS_SCHEMA = frozenset({"actions"})


def build_request(benchmark: Benchmark, spec: RunSpec, instance: Instance, repeat: int) -> Request:
    """Return what is sent for one instance by the benchmark's protocol. The gold takes no part."""
    build = _BUILD.get(benchmark.answer, completion.build_request)
    return build(benchmark, spec, instance, repeat)


def as_asked(benchmark: Benchmark, model: ModelSpec) -> ModelSpec:
    """Return a model as the benchmark's protocol asks it: without what its requests never carry.

    So a setting makes another run only of those benchmarks and models whose requests it changes.
    """
    model = without_unused(model)
    if not model.json_schema or benchmark.answer in _SENDS_SCHEMA:
        return model
    return msgspec.structs.replace(model, json_schema=False)
