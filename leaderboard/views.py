"""Filters of the overview -> sets of benchmarks, and the tables of each set.

A choice of suite, access and category leaves some benchmarks, never of two suites that are apart:
without a choice those of the first one. Ranks and win rates on them are computed here, so that the page only chooses. They are those of `medhelm tables --benchmark ...`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping

from medhelm.tables.study.study import Study
from medhelm.tables.suites import suites_apart
from medhelm.tables.tabulate import categories, overall
from medhelm_leaderboard.files import SiteFolder
from medhelm_leaderboard.pages import View, ViewPage, page_table

Suites = Mapping[str, Iterable[str]]


def write_views(site: SiteFolder, scoring: str, study: Study, suites: Suites) -> list[View]:
    """Write the tables of every choice of filters that leaves a benchmark; return the choices."""
    views: list[View] = []
    done: dict[tuple[str, ...], str] = {}
    cards = {b: panel.card for b, panel in study.panels.items()}
    apart = {name: set(own.cells) for name, own in suites_apart(study).items()}
    first, *others = apart
    fitting = {n: set(m) & set(cards) for n, m in suites.items()}
    shown = {name: apart[name] for name in others} | {
        n: m
        for n, m in fitting.items()
        if n not in apart and m and any(m < whole for whole in apart.values())
    }
    for suite, members in {"": apart[first], **shown}.items():
        for access in ("", *sorted({c.data_class for c in cards.values()})):
            for category in ("", *sorted({c.category for c in cards.values()})):
                chosen = tuple(
                    b
                    for b, card in cards.items()
                    if b in set(members)
                    and access in ("", card.data_class)
                    and category in ("", card.category)
                )
                if not chosen:
                    continue
                if chosen not in done:
                    done[chosen] = _write(site, scoring, study, chosen)
                views.append(
                    View(
                        scoring=scoring,
                        suite=suite,
                        access=access,
                        category=category,
                        key=done[chosen],
                    )
                )
    return views


def _write(site: SiteFolder, scoring: str, study: Study, chosen: tuple[str, ...]) -> str:
    part = study.on(chosen)
    name = hashlib.sha256(json.dumps([scoring, *chosen]).encode()).hexdigest()[:12]
    page = ViewPage(
        benchmarks=chosen,
        half=page_table(overall(part)),
        literal=page_table(overall(study.on(chosen, "literal"))),
        categories=page_table(categories(part)),
    )
    return site.put_data(f"view-{name}", page)
