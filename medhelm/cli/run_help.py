"""Print `medhelm run --help` without Hydra, which would need a second for it."""

from __future__ import annotations

import textwrap
from importlib import resources

from medhelm.cli.compose import packaged_options
from medhelm.models.catalogue import open_providers
from medhelm.plugins.registry import Registry

EXAMPLE = "headqa"
"""A benchmark to copy into a command: public, with bundled samples and no judge."""

TEXT = (resources.files("medhelm.cli") / "templates" / "run_help.txt").read_text(encoding="utf-8")


def print_help(registry: Registry) -> None:
    """Print usage, examples, groups with their names, settings and options."""
    groups = {
        "model": [*registry.models, *(f"{p.name}/ANY-NAME" for p in open_providers())],
        "benchmark": list(registry.benchmarks),
        "suite": sorted(packaged_options("suite")),
        "jury": sorted(packaged_options("jury")),
        "ask": list(registry.askings),
        "experiment": sorted(packaged_options("experiment")),
    }
    listed = "\n".join(_wrap(group, names) for group, names in groups.items())
    print(TEXT.format(groups=listed, settings=textwrap.indent(_settings(), "  ")), end="")


def _wrap(group: str, names: list[str]) -> str:
    return textwrap.fill(
        ", ".join(names),
        width=96,
        initial_indent=f"  {group:<12}",
        subsequent_indent=" " * 14,
        break_on_hyphens=False,
    )


def _settings() -> str:
    """Return the settings of `conf/config.yaml` with its comments: what is behind the defaults."""
    text = (resources.files("medhelm.conf") / "config.yaml").read_text(encoding="utf-8")
    _, _, behind = text.partition("\ndefaults:")
    _, _, settings = behind.partition("\n\n")
    return settings.partition("\nhydra:")[0].strip()
