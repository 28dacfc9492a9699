"""Benchmarks and models with what they must have, for tests that look at one part of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from medhelm.schema.data import Benchmark, FileDataset, LeftOut
from medhelm.schema.model import ModelSpec
from tests.server import FaultServer


def benchmark(name: str = "b", **own: Any) -> Benchmark:
    """Return a benchmark of no file."""
    given = {"subcategory": "s", "dataset": FileDataset(files=()), "metrics": ["exact_match"]}
    return Benchmark(name=name, **{"to_instance": lambda _: LeftOut("none"), **given, **own})


def scripted(name: str, endpoint_class: Any = "local", **script: Any) -> ModelSpec:
    """Return a model that says what its script holds."""
    return ModelSpec(
        name=name, model=name, provider="scripted", endpoint_class=endpoint_class, extra_body=script
    )


def model_file(server: FaultServer, name: str, **more: Any) -> str:
    """Write a model of a server into the current folder; return the file's name."""
    values = {"name": f"test/{name}", "model": name, "base_url": server.base_url, "timeout_s": 5}
    Path(f"{name}.yaml").write_text(json.dumps(values | more))  # JSON is YAML
    return f"{name}.yaml"
