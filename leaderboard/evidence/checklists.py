"""Reporting checklists, filled where the record knows: TRIPOD-LLM and CHART."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from importlib import resources

from medhelm.files.yaml_bounds import read_yaml
from medhelm.tables.format.column_kinds import text
from medhelm.tables.format.table import Table, make_table
from medhelm_leaderboard.evidence.facts import Facts

_NOT = "not reported"
_COLUMNS = (
    text("item", "number of the item in the guideline", "item"),
    text("about", "what is to be reported, in our words", "what is to be reported"),
    text("record", "what the record says; not reported: it is for the author", "from the record"),
    text("section", "section of the page with more of it", "section"),
)


def checklists(facts: Facts, sections: Mapping[str, str]) -> Iterator[Table]:
    """Yield each checklist as a table; `sections`: titles of those of the page that show something."""
    raw = (resources.files("medhelm_leaderboard.evidence") / "checklists.yaml").read_bytes()
    for own in read_yaml(raw, "checklists.yaml"):
        rows = [
            {
                "item": item,
                "about": about,
                "record": _said(more[0] if more else (), facts),
                "section": sections.get(more[1]) if len(more) > 1 else None,
            }
            for item, (about, *more) in own["items"].items()
        ]
        said = (
            f"{own['source']}. Items are in short words of ours: submit the guideline's own form."
        )
        yield make_table(own["name"], f"Checklist {own['title']}", _COLUMNS, rows, [said], {})


def _said(names: Collection[str], facts: Facts) -> str:
    """Return what the record says of an item; of a part that it does not know, that."""
    known = any(facts[name] for name in names)
    return ". ".join(f"{name}: {facts[name] or _NOT}" for name in names) if known else _NOT
