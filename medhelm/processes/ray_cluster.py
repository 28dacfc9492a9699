"""The Ray cluster that a command joins. To import this imports Ray."""

from __future__ import annotations

import os
from collections.abc import Mapping

import ray

from medhelm.errors import ModelError

NAMESPACE = "medhelm"
QUIET = {"log_to_driver": False, "logging_level": "error", "namespace": NAMESPACE}


def one_line(error: BaseException) -> str:
    """Return what Ray says, or of what a task or an actor raised what that said, short."""
    return " ".join(str(getattr(error, "cause", None) or error).split())[:300]


def join_cluster(address: str = "", setting: str = "workers") -> None:
    """Join a cluster, or one that is begun on this machine where none is named or found; raises ModelError.

    `setting`: the one that names it. A process that has joined one stays there.
    """
    if ray.is_initialized():
        return
    named = address or os.environ.get("RAY_ADDRESS", "")
    os.environ.setdefault("RAY_CLIENT_RECONNECT_GRACE_PERIOD", "5")  # seconds after this process
    try:
        try:
            ray.init(address=named or "auto", **QUIET)
        except ConnectionError:
            if named:
                raise
            ray.init(include_dashboard=False, **QUIET)
    except (ConnectionError, RuntimeError, ValueError) as e:
        raise ModelError(
            f"{setting}=ray: no cluster is joined at {named or 'this machine'} ({one_line(e)})"
        ) from None


def times_that_fit(needed: Mapping[str, float]) -> int:
    """Return how many tasks or actors that need so much the nodes hold at a time, were they free."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    parts = {name: amount for name, amount in needed.items() if amount}
    return sum(
        min(int(node.get(name, 0) / amount + 1e-6) for name, amount in parts.items())
        for node in nodes
    )


def describe_nodes(names: Mapping[str, float]) -> str:
    """Return what each node has of some resources."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    return ", ".join(
        f"{node['NodeManagerAddress']} has "
        + " and ".join(f"{node['Resources'].get(name, 0):g} {name}" for name in names)
        for node in nodes
    )
