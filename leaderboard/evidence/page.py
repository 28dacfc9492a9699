"""The page of a report: one HTML file that needs no network and no script, and can be printed."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib import resources
from typing import Any

from medhelm.files.yaml_bounds import read_yaml
from medhelm.schema.run import RunRecord
from medhelm.tables.format.formats import clean, to_html
from medhelm.tables.format.table import Table
from medhelm.tables.instances import Row
from medhelm_leaderboard import publish
from medhelm_leaderboard.evidence import facts
from medhelm_leaderboard.evidence.facts import Facts
from medhelm_leaderboard.evidence.gather import Evidence

LONGEST = 1500
"""Characters of a text of an answer that are shown."""
_KEPT = "\n\t"


def render(evidence: Evidence, command: str) -> tuple[str, list[Table]]:
    """Return the page, and the checklists on it; `command` makes the report again."""
    root, records = resources.files("medhelm_leaderboard"), evidence.records
    sections = read_yaml((root / "evidence" / "page.yaml").read_bytes(), "page.yaml")
    of = {table: name for name, words in sections.items() for table in words.get("tables", ())}
    said: set[str] = set()  # notes that stand above need not be said again
    shown: dict[str, list[str]] = {name: [] for name in sections}
    shown["asked"] = [_block(record, facts.asked_facts(record)) for record in records]
    shown["scoring"] = [_block(record, facts.scoring_facts(record)) for record in records]
    for name, table in evidence.tables.items():
        other = "subgroups" if name.startswith("slices_") else "results"
        shown[of.get(name, other)].append(_table(table, said))
    if any(record.graders for record in records):
        lacking = sections["scoring"]["lacking"].items()
        shown["scoring"] += [_text(words) for name, words in lacking if name not in evidence.tables]
    for outcome, answers in evidence.answers.items():
        shown["worst" if outcome == "scored" else "failures"] += map(_answer, answers)
    shown["versions"] = [_block(record, facts.run_facts(record)) for record in records]
    shown["versions"] += [_text("The report is made by"), f"<pre>{_safe(command)}</pre>"]
    cited = {r.column_card.title: r.card.citation or "not reported" for r in records}
    shown["citations"] = [_facts(cited)]
    shown["left_out"] = [_text(f"{p.where}: {p.what}") for p in evidence.problems]
    closed = [r.column_card.name for r in records if not publish.has_text(r.card)]
    more = {"names": ", ".join(closed), "model": evidence.model}
    shown["left_out"] += [_text(sections["left_out"]["closed"].format(**more))] * bool(closed)
    known = facts.known_facts(evidence)
    there = {name: words["title"] for name, words in sections.items() if shown[name]}
    lists = [*facts.checklists(known, there)]
    shown["checklists"] = [f'<div class="wide">{_table(table, said)}</div>' for table in lists]
    parts = [_head(evidence, known, sections, is_whole=not shown["left_out"])]
    for name, words in sections.items():
        inner = "".join([_text(words.get("first", "")), *shown[name]])
        inner = inner if shown[name] else _text(words.get("none", "None."))
        parts.append(f'<section id="{name}"><h2>{words["title"]}</h2>{inner}</section>')
    styles = (root / "app" / "style.css", root / "evidence" / "page.css")
    words = {"title": _safe(f"Evidence on {evidence.model}"), "main": "\n".join(parts)}
    style = "\n".join(path.read_text("utf-8") for path in styles)
    page = (root / "evidence" / "page.html").read_text("utf-8").format(style=style, **words)
    return page, lists


def _safe(text: str, kept: str = "") -> str:
    return escape(clean(text, kept))


def _text(line: str) -> str:
    return f"<p>{_safe(line)}</p>" if line else ""


def _facts(own: Facts) -> str:
    pairs = (f"<dt>{_safe(name)}</dt><dd>{_safe(said)}</dd>" for name, said in own.items() if said)
    return f'<dl class="facts">{"".join(pairs)}</dl>'


def _block(record: RunRecord, own: Facts) -> str:
    card = record.column_card
    return f"<h3>{_safe(f'{card.title} ({card.name})')}</h3>{_facts(own)}"


def _table(table: Table, notes_above: set[str]) -> str:
    grid = to_html(table, notes_above).replace("<table", '<div class="scroll" tabindex="0"><table')
    return f'<div class="table-block">{grid.replace("</table>", "</table></div>")}</div>'


def _head(evidence: Evidence, known: Facts, sections: Mapping[str, Any], *, is_whole: bool) -> str:
    records = evidence.records
    asked = f"{len(records):,} benchmarks, {sum(r.instances for r in records):,} instances"
    marks = []
    if any(record.spec.data == "sample" for record in records):
        marks.append("Bundled samples are few and synthetic: they say nothing about models.")
    if not is_whole:
        marks.append(f"Not all is shown: see {sections['left_out']['title']!r}.")
    first = _facts(
        {"asked": asked, **{name: known[name] for name in sections["asked"]["first_facts"]}}
    )
    warned = "".join(f'<p class="mark warn">{_safe(mark)}</p>' for mark in marks)
    links = (f'<li><a href="#{n}">{words["title"]}</a></li>' for n, words in sections.items())
    contents = f'<nav aria-label="Contents"><ol>{"".join(links)}</ol></nav>'
    return f"<h1>Evidence on {_safe(evidence.model)}</h1>{first}{warned}{contents}"


def _answer(row: Row) -> str:
    value = "none" if row["score"] is None else f"{row['score']:.3f}".removesuffix(".000")
    place = f"{row['benchmark']}, {row['instance_id']}, repeat {row['repeat']}"
    parts = {
        **{name: row[name] for name in ("context", "question")},
        "choices": "\n".join(f"{chr(65 + n)}. {choice}" for n, choice in enumerate(row["choices"])),
        "references": "\n".join(row["references"]),
        **{f"turn {n}, {who}": said for n, (who, said) in enumerate(row["turns"], 1)},
        "reply": row["reply"] or f"empty ({row['finish']})",
        "read": row["read"],
        "reasons": "\n".join(f"{name}: {why}" for name, why in row["reasons"].items()),
        **{f"judge {judge['judge']}": _judged(judge) for judge in row["judges"]},
    }
    inner = "".join(
        f'<p class="caption">{_safe(name)}</p><pre>{_safe(_cut(said), _KEPT)}</pre>'
        for name, said in parts.items()
        if said
    )
    title = f"{place}: {row['outcome']}, score {value}"
    return f"<article><h3>{_safe(title)}</h3>{inner}</article>"


def _judged(judge: Mapping[str, Any]) -> str:
    why = judge["reasons"]
    said = (f"{n} {r}: {why.get(n, '')}".rstrip(": ") for n, r in judge["ratings"].items())
    return "\n".join((judge["ended"], *said))


def _cut(text: str) -> str:
    more = len(text) - LONGEST
    return f"{text[:LONGEST]} ... ({more:,} more characters)" if more > 0 else text
