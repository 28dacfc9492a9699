"""The Ray cluster that a command joins. To import this imports Ray."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from typing import Any

from medhelm.errors import ModelError, UsageError, one_line

try:
    import ray as ray
except ModuleNotFoundError as e:
    raise UsageError("Ray is not installed; run in the checkout: pip install '.[ray]'") from e

NAMESPACE = "medhelm"
QUIET = {"log_to_driver": False, "logging_level": "error", "namespace": NAMESPACE}


def join_cluster(address: str = "") -> None:
    """Join a cluster, or one that is begun on this machine where none is named or found; raises ModelError."""
    if ray.is_initialized():
        return
    named = address or os.environ.get("RAY_ADDRESS", "")
    where = re.fullmatch(r"(?:ray://)?([^/]+):(\d+)", named)
    os.environ.setdefault("RAY_CLIENT_RECONNECT_GRACE_PERIOD", "5")  # seconds after this process
    try:
        if where:  # for Ray itself waits for minutes
            socket.create_connection((where[1], int(where[2])), 5.0).close()
        try:
            ray.init(address=named or "auto", **QUIET)
        except ConnectionError:
            if named:
                raise
            ray.init(include_dashboard=False, **QUIET)
    except (OSError, RuntimeError, ValueError) as e:
        raise ModelError(
            f"Ray: no cluster is joined at {named or 'this machine'} ({one_line(e)})"
        ) from None


def room_for(options: Mapping[str, Any]) -> tuple[int, str]:
    """Return how many tasks or actors the nodes hold at a time, were they free, and what nodes have."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    named = {"CPU": "num_cpus", "GPU": "num_gpus", "memory": "memory"}
    needed = {name: options.get(option) for name, option in named.items()}
    parts = {n: amount for n, amount in (needed | options.get("resources", {})).items() if amount}
    room = (
        min((int(own.get(n, 0) / amount + 1e-6) for n, amount in parts.items()), default=1)
        for own in nodes
    )
    have = (" and ".join(f"{own.get(n, 0):g} {n}" for n in parts) for own in nodes)
    return sum(room), f"its nodes have {'; '.join(have)}"
