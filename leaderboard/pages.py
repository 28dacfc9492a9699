"""The data of the site's pages. A file `data/<key>.js` calls `medhelmData(key, text)` with one of these as JSON:

| key | content | made by |
|---|---|---|
| `site` | what every page needs, read first | `site` |
| `view-*` | the overall tables of one set of benchmarks | `scoring_pages` |
| `table-*`, `agreement` | a table | `page_table` |
| `benchmark-*` | one benchmark under one scoring | `scoring_pages` |
| `run-*` | one graded run, with a line of each instance and repeat | `run_pages` |
| `text-*`, `answers-*` | shards of instances and of answers, of open data only | `run_pages` |
| `made-*` | how and when each run was made | `publish` |
| `page-*` | what else a plugin's page reads | the plugin |

Values of tables are in lists, never under names that data could choose. What is missing is null.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from medhelm.schema.run import fields_of
from medhelm.tables.format.table import Table
from medhelm.tables.published import Mark

SCHEMA: Literal["medhelm.site/4"] = "medhelm.site/4"

Content = dict[str, object]
"""The content of a data file, or a part of it, by the names that pages read."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was left out, and why."""

    where: str
    what: str


class PluginPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page that a plugin brings, where any run of the site is its own."""

    name: str
    title: str
    benchmarks: tuple[str, ...]
    """Those that it is about."""
    marks: tuple[Mark, ...]


def page_table(table: Table) -> Content:
    """Return a table as pages take it: every column, every number as the table has it."""
    return {
        "name": table.name,
        "title": table.title,
        "columns": [
            {
                **fields_of(c, "name", "type", "description", "unit", "heading", "digits"),
                "percent": c.is_percent,
                "low": c.interval[0] if c.interval else None,  # the column with the lower end
                "high": c.interval[1] if c.interval else None,
            }
            for c in table.columns
        ],
        "rows": [[row[c.name] for c in table.columns] for row in table.rows],
        "notes": table.notes,
        "settings": [*table.settings.items()],
    }
