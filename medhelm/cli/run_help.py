"""Print `medhelm run --help` without Hydra, which would need a second for it."""

from __future__ import annotations

import textwrap
from importlib import resources

from medhelm.cli.compose import packaged_options
from medhelm.models.catalogue import open_providers
from medhelm.plugins.registry import Registry

EXAMPLE = "headqa"
"""A benchmark to copy into a command: public, with bundled samples and no judge."""

TEXT = """\
usage: medhelm run [KEY=VALUE ...] [OPTION ...]

Ask models, grade their answers, show the tables. Without an argument: the offline demo
(embedded baselines on bundled samples; no key, no network). The same command goes on where
it stopped and asks nothing twice.

examples:
  medhelm run model=openai/gpt-4o benchmark=headqa max_instances=50
  medhelm run model=openai/NAME model.base_url=http://localhost:8000/v1 benchmark=headqa
  medhelm run model=baseline/lexical,baseline/random benchmark=headqa,medec data=sample
  medhelm run model=openai/gpt-6-luna suite=medhelm_public budget_usd=20
  medhelm run model=baseline/lexical 'benchmark=glob(*)' data=sample
  medhelm run model=openai/gpt-4o suite=medhelm_core experiment=repeatability
  medhelm run model=openai/gpt-4o benchmark=headqa variants=all max_instances=200
  medhelm run model=house/llm benchmark=headqa --config-dir DIR   (DIR/model/house/llm.yaml)

Several values, a,b or glob(PATTERN), make one run for each combination. `medhelm estimate`
takes the same arguments and says what they would cost.

groups (GROUP=NAME):
{groups}

settings (KEY=VALUE), with their defaults; model.KEY=VALUE changes the chosen model
(`medhelm run model=NAME --cfg job` shows all keys):
{settings}

options:
  --cfg job           show the configuration that the arguments make, and stop
  --config-dir DIR    a further folder of configuration: DIR/model, DIR/benchmark, DIR/suite, ...
  --env-file FILE     lines NAME=VALUE with keys, for this command; no such file is read by itself
  --info searchpath   show where configuration is looked for, and stop
  --shell-completion install=bash   print what to eval for completion (also zsh, fish)
  --hydra-help        more options, of Hydra, which composes the configuration

Keys are read from the environment or an --env-file only: OPENAI_API_KEY, or what
model.api_key_env and model.headers name.
Exit codes: 0 done; 2 a wrong name, option or plugin; 3 data; 4 a run folder; 5 refused for
privacy; 6 a model; 7 the budget is reached; 130 interrupted.
"""


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
