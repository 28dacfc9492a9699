"""The offline demo, which `medhelm run` is without arguments: what it asks, and the screen at its end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.cli.run_help import EXAMPLE
from medhelm.config import DEFAULT_RESULTS
from medhelm.plugins.registry import Registry

if TYPE_CHECKING:
    from medhelm.tables.format.table import Value
    from medhelm.tables.results import Results
    from medhelm.tables.study.study import Study

TITLE = "Offline demo: rules, which are not language models, on the bundled samples.\n"
_NEXT = f"""One answer: medhelm show {EXAMPLE} baseline/lexical

Now your own model, on a server that speaks the OpenAI protocol:
  medhelm run benchmark={EXAMPLE} data=sample model=openai/NAME \\
    model.base_url=http://localhost:8000/v1"""
_COLUMNS = ("rank", "win_rate", "macro_average")
_BRACKETS = "In brackets: the ranks that the data leave open, and 95% intervals."


def options(registry: Registry) -> list[str]:
    """Return the options that the demo stands for: all benchmarks, and all rules that can be under test."""
    from medhelm.models.providers import known_providers

    firsts = {name: protocol.roles[0] for name, protocol in registry.protocols.items()}
    own = [
        f"{provider.name}/*"
        for provider in known_providers().values()
        if not provider.reads_prompt
        and (not provider.plays or any(firsts.get(p) in r for p, r in provider.plays.items()))
    ]
    return [f"model=glob([{','.join(own)}])", "benchmark=glob(*)", "data=sample"]


def print_ranking(results: Results) -> None:
    """Print the ranking of the first suite, and a line for each other one."""
    from medhelm.tables.format.formats import print_tables
    from medhelm.tables.overall import overall
    from medhelm.tables.suites import suites_apart

    apart = dict(suites_apart(results.study()))
    first = next(iter(apart))
    table = overall(apart.pop(first)).choose(_COLUMNS)
    notes = (_BRACKETS, *_others(apart), _synthetic(table.rows))
    title = f"{first}: {table.title[0].lower()}{table.title[1:]}"
    print_tables([replace(table, title=title, notes=notes, settings={})])


def _others(apart: Mapping[str, Study]) -> Iterator[str]:
    from medhelm.tables.overall import overall

    for name, study in apart.items():
        firsts = [row for row in overall(study).rows if row["rank"] == 1]
        first = f"{len(firsts)} models share the first rank"
        if len(firsts) == 1:
            first = f"{firsts[0]['model']} is first, win rate {firsts[0]['win_rate']:.2f}"
        count = len(study.ranking.benchmarks)
        yield f"{name}, apart, over {count} of {len(study.cells)} benchmarks: {first}."


def _synthetic(rows: Sequence[Mapping[str, Value]]) -> str:
    gold = ", ".join(str(row["model"]).rpartition("/")[2] for row in rows if not row["ranked"])
    return (
        f"Synthetic: samples, models and judges ({gold} read the gold: no rank). The scores say "
        "nothing about any model."
    )


def show_site(registry: Registry) -> None:
    """Build the site of the demo, say how to open it, and what comes next."""
    from medhelm.cli.leaderboard import DEFAULT_SITE, report
    from medhelm_leaderboard.collect import Wanted
    from medhelm_leaderboard.site import SiteOptions, build_site

    results = Path(DEFAULT_RESULTS)
    wanted = Wanted(results_dir=results, data="sample", latest=True)
    how = SiteOptions(command=f"medhelm leaderboard build --out {DEFAULT_SITE} --data sample")
    report(build_site(wanted, results / DEFAULT_SITE, registry, how))
    print(_NEXT)
