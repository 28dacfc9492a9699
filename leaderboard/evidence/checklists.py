"""Reporting checklists, filled where the record knows: TRIPOD-LLM and CHART."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from importlib import resources
from typing import Any

import msgspec
import yaml

from medhelm.tables.format.column_kinds import text
from medhelm.tables.format.table import Table, make_table
from medhelm_leaderboard.evidence.facts import Facts

NOT_REPORTED = "not reported"

_COLUMNS = (
    text("item", "number of the item in the guideline", "item"),
    text("about", "what is to be reported, in our words", "what is to be reported"),
    text("record", "what the record says; not reported: it is for the author", "from the record"),
    text("section", "section of the page with more of it", "section"),
)


class _Checklist(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    title: str
    source: str
    items: dict[str, list[Any]]
    """By number: what is to be reported, then the names of facts, then a section of the page."""


def checklists(facts: Facts, sections: Mapping[str, str]) -> Iterator[Table]:
    """Yield each checklist as a table; `sections`: titles of those of the page that show something."""
    raw = (
        resources.files("medhelm_leaderboard.evidence")
        .joinpath("checklists.yaml")
        .read_text("utf-8")
    )
    for own in msgspec.convert(yaml.safe_load(raw), list[_Checklist]):
        rows = []
        for item, (about, *more) in own.items.items():
            names = more[0] if more else []
            there = sections.get(more[1], "") if len(more) > 1 else ""
            rows.append(
                {"item": item, "about": about, "record": _said(names, facts), "section": there}
            )
        said = [
            f"{own.source}. Items are named in short words of ours: submit the guideline's own form.",
            "Not reported: nothing in the record says it, and the author of the study has to.",
        ]
        yield make_table(own.name, f"Checklist {own.title}", _COLUMNS, rows, said, {})


def _said(names: Collection[str], facts: Facts) -> str:
    """Return what the record says of an item; of a part that it does not know, that."""
    if not any(facts[name] for name in names):
        return NOT_REPORTED
    return ". ".join(f"{name}: {facts[name] or NOT_REPORTED}" for name in names)
