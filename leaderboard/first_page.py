"""The first page: what every other page needs, and `build.json` for the next build."""

from __future__ import annotations

import time
from collections.abc import Iterator

from medhelm import __version__
from medhelm.models.identity import reads_prompt
from medhelm.plugins.registry import Registry
from medhelm.plugins.taxonomy import Taxonomy
from medhelm.schema.run import BenchmarkCard
from medhelm.tables.study.selection import is_ranked
from medhelm.tables.suites import grouped
from medhelm_leaderboard import publish
from medhelm_leaderboard.build_state import Made, SiteOptions
from medhelm_leaderboard.collect import Collected
from medhelm_leaderboard.files import SiteFolder
from medhelm_leaderboard.pages import (
    BenchmarkLine,
    CategoryLine,
    ModelCard,
    SitePage,
    SubcategoryLine,
    TaskLine,
    page_table,
)


def write_first_page(
    site: SiteFolder,
    found: Collected,
    registry: Registry,
    options: SiteOptions,
    made: Made,
    inputs: str,
) -> int:
    """Write what names all other files; return how many of before are gone."""
    built_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    site.put_data("site", _site_page(site, found, registry, options, made, built_at))
    return site.finish(
        {
            "medhelm": __version__,
            "built_at": built_at,
            "inputs": inputs,
            "problems": made.problems,
            "scores": made.scores,
            "ranks": made.ranks,
        }
    )


def _site_page(
    site: SiteFolder,
    found: Collected,
    registry: Registry,
    options: SiteOptions,
    made: Made,
    built_at: str,
) -> SitePage:
    cells = [c for own in found.cells.values() for c in own]
    ordered = sorted(cells, key=lambda c: c.run.benchmark)
    cards = {c.run.benchmark: c.record.column_card for c in ordered}
    models = {c.run.model: c.record.spec.model for c in sorted(cells, key=lambda c: c.run.model)}
    juries = {c.run.benchmark: c.record.grading.raters for c in cells}
    agreement = None
    if options.agreement is not None:
        agreement = site.put_data("agreement", page_table(options.agreement))
    return SitePage(
        title=options.title,
        data=found.data,
        medhelm=__version__,
        built_at=built_at,
        models=tuple(
            ModelCard(
                name=name,
                weights=spec.weights,
                provider=spec.provider,
                is_baseline=not reads_prompt(spec),
                is_ranked=is_ranked(spec),
                reasoning=spec.reasoning,
            )
            for name, spec in models.items()
        ),
        benchmarks=tuple(_line(card) for card in cards.values()),
        offline_jury=tuple(b for b, jury in sorted(juries.items()) if jury and not jury.judges),
        pages=tuple(page for _, page in sorted(made.pages.items())),
        incomplete=tuple(
            sorted({(c.run.benchmark, c.run.model) for c in cells if c.record.state == "partial"})
        ),
        taxonomy=tuple(_categories(registry.taxonomy, cards)),
        views=tuple(made.views),
        first_suite=next(iter(suites)) if len(suites := grouped(cards)) > 1 else "",
        scorings=tuple(made.scorings),
        problems=tuple(made.problems),
        agreement=agreement,
        downloads=tuple(made.downloads),
        command=options.command,
    )


def _line(card: BenchmarkCard) -> BenchmarkLine:
    return BenchmarkLine(
        name=card.name,
        title=card.title,
        category=card.category,
        subcategory=card.subcategory,
        access=card.data_class,
        has_text=publish.has_text(card),
        tasks=card.tasks,
    )


def _categories(taxonomy: Taxonomy, cards: dict[str, BenchmarkCard]) -> Iterator[CategoryLine]:
    for category in taxonomy.categories:
        subcategories = []
        for sub in category.subcategories:
            own = [b for b, card in cards.items() if card.subcategory == sub.name]
            tasks = tuple(
                TaskLine(
                    id=task.id,
                    title=task.name,
                    benchmarks=tuple(b for b in own if task.id in cards[b].tasks),
                )
                for task in sub.tasks
            )
            subcategories.append(
                SubcategoryLine(id=sub.id, title=sub.name, tasks=tasks, benchmarks=tuple(own))
            )
        yield CategoryLine(id=category.id, title=category.name, subcategories=tuple(subcategories))
