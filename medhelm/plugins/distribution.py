"""The name that medhelm is installed under, and the other project that has its import name."""

from __future__ import annotations

from pathlib import Path

GROUP = "medhelm"
"""Entry points of this group name plugins."""

NAME = "medhelm-framework"
OTHER = "medhelm"
"""On the package index another project, a fork of HELM: it has the same import name and command.
A checkout that was installed before ours was renamed bears it, too."""


def other_version() -> str | None:
    """Return the version of the other distribution; None where it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(OTHER)
    except PackageNotFoundError:
        return None


def version_text(own: str) -> str:
    """Return the marks of this medhelm against the other one: version, distribution and folder."""
    return f"medhelm {own} (distribution {NAME}, in {Path(__file__).parents[1]})"


def clash() -> str:
    """Return what is wrong where both are installed in one environment; empty where they are not."""
    if (other := other_version()) is None:
        return ""
    return (
        f"the distribution {OTHER} {other} is installed here as well and has the same import name, so "
        f"that either may run: `pip uninstall {OTHER} {NAME}`, then `pip install .` in the checkout"
    )
