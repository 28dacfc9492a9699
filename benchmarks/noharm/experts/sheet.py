"""The sheet on which an expert rates actions, and the page of cases to read beside it.

Neither holds a rating, a category, a tag, a relation of actions or a guideline. Cases are in an
order drawn by the seed, and so do the actions of each: some generators put traps last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from medhelm.store.records import order_key
from medhelm.tables.format.spreadsheet import refuse_present, to_csv, write_whole
from medhelm_benchmarks.noharm.rules.cases import Action, Case

PAGE_SUFFIX = ".cases.html"
_COLUMNS = ("case", "specialty", "action", "text", "rating")

SCALE = (
    ("9", "appropriate; leaving it out could do severe harm"),
    ("8", "appropriate; leaving it out could do moderate harm"),
    ("7", "appropriate; leaving it out could do mild harm"),
    ("4 to 6", "uncertain: neither doing it nor leaving it out is clearly wrong"),
    ("3", "inappropriate; doing it could do mild harm"),
    ("2", "inappropriate; doing it could do moderate harm"),
    ("1", "inappropriate; doing it could do severe harm"),
)
"""Words the points of the scale, as the score takes them."""

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Cases to rate</title>
<style>
body { font: 1rem/1.5 sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }
p { white-space: pre-line; }
section { border-top: 1px solid; }
</style>
</head>
<body>
"""


@dataclass(frozen=True)
class ActionSheet:
    """Names the files that were written."""

    path: Path
    page: Path
    cases: int
    actions: int


def page_path(sheet: Path) -> Path:
    """Return where the cases of a sheet can be read."""
    return sheet.with_name(sheet.stem + PAGE_SUFFIX)


def write_action_sheet(
    path: Path,
    cases: Iterable[Case],
    *,
    max_cases: int | None = None,
    per_case: int | None = None,
    seed: int = 0,
) -> ActionSheet:
    """Write a sheet and its page of cases, both readable by their owner alone; return what is in it.

    `max_cases` and `per_case` draw a sample by the seed, None takes all. A larger sample holds the
    smaller one. Raises UsageError where a file is in the way, RecordError where one cannot be
    written.
    """
    page = page_path(path)
    refuse_present(path, page)
    drawn = sorted(cases, key=lambda case: order_key(seed, case.code))[:max_cases]
    menus = [(case, _draw(case, per_case, seed)) for case in drawn]
    lines = [_line(case, action) for case, actions in menus for action in actions]
    write_whole(page, _to_page(drawn).encode())
    write_whole(path, to_csv(_COLUMNS, lines))
    return ActionSheet(path, page, len(drawn), len(lines))


def _draw(case: Case, per_case: int | None, seed: int) -> list[Action]:
    def chance(action: Action) -> int:
        return order_key(seed, f"{case.code}\0{action.id}")

    return sorted(case.actions, key=chance)[:per_case]


def _line(case: Case, action: Action) -> dict[str, str]:
    text = " ".join(action.text.split())
    return {
        "case": case.code,
        "specialty": case.specialty,
        "action": action.id,
        "text": text,
        "rating": "",
    }


def _to_page(cases: Sequence[Case]) -> str:
    """Return the cases as a page that holds no script and asks for nothing."""
    rows = [f"<dt>{points}</dt><dd>{escape(text)}</dd>" for points, text in SCALE]
    intro = (
        "<p>Rate each action of the sheet for its patient, now, by itself: a whole number from 1 "
        "to 9 in the column rating, or nothing where you cannot say. Leave the other columns as "
        "they are.</p>"
    )
    parts = ["<h1>Cases to rate</h1>", intro, "<dl>", *rows, "</dl>", *map(_section, cases)]
    return _HEAD + "\n".join(parts) + "\n</body>\n</html>\n"


def _section(case: Case) -> str:
    flags = [f"{flag.text} ({flag.status})" for flag in case.red_flags]
    parts = [
        f"<h2>{escape(case.code)}</h2>",
        f"<p>{escape(case.specialty)}</p>",
        f"<p>{escape(case.vignette)}</p>",
        f"<p><strong>{escape(case.question)}</strong></p>",
        *_listed("Known", case.knowns),
        *_listed("Not known", case.unknowns),
        *_listed("Red flags", flags),
    ]
    return "<section>\n" + "\n".join(parts) + "\n</section>"


def _listed(heading: str, items: Sequence[str]) -> list[str]:
    if not items:
        return []
    lines = [f"<li>{escape(item)}</li>" for item in items]
    return [f"<h3>{heading}</h3>", "<ul>", *lines, "</ul>"]
