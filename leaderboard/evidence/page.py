"""The page of a report: one HTML file that needs no network and no script, and can be printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib import resources

from medhelm.schema.run import RunRecord
from medhelm.tables.format.formats import clean, to_html
from medhelm.tables.format.table import Table
from medhelm_leaderboard.evidence.answers import WORST, ShownAnswer
from medhelm_leaderboard.evidence.facts import Facts, asked_facts, run_facts, scoring_facts
from medhelm_leaderboard.evidence.gather import Evidence

LONGEST = 1500
"""Characters of a text of an answer that are shown."""

SECTIONS = {
    "asked": "What was asked, of which data",
    "exposure": "Exposure of the questions",
    "scoring": "How it was scored, and by whom",
    "results": "Results",
    "subgroups": "Subgroups and gaps",
    "gate": "Gate",
    "cost": "Cost",
    "failures": "Failures by outcome",
    "worst": "The worst answers",
    "versions": "Versions, hashes and commands",
    "checklists": "Reporting checklists",
    "citations": "Citations",
    "left_out": "What is not shown",
    "signature": "How to check this folder",
}
"""The sections of the page in their order."""

_NONE = {
    "exposure": "No benchmark here has a date.",
    "subgroups": "No benchmark of these runs declares parts or groups; --by KEY adds slices.",
    "gate": "No profile was named: --profile NAME adds the verdict.",
    "left_out": "Everything that was chosen is shown.",
}


def shown_sections(evidence: Evidence) -> dict[str, str]:
    """Return the titles of the sections that have something to show."""
    there = {
        **{name: bool(evidence.tables.get(name)) for name in SECTIONS},
        **dict.fromkeys(("asked", "scoring", "versions", "checklists", "citations"), True),
        "gate": evidence.verdict is not None,
        "worst": bool(evidence.worst),
    }
    return {name: title for name, title in SECTIONS.items() if there[name]}


def render(evidence: Evidence, known: Facts, lists: Sequence[Table], command: str) -> str:
    """Return the page; `known` are its `known_facts`, `lists` the checklists, `command` makes it again."""
    said: set[str] = set()  # notes that stand above need not be said again
    tables = {n: [_table(t, said) for t in own] for n, own in evidence.tables.items()}
    records = evidence.records
    content: dict[str, Iterable[str]] = {
        "asked": (_block(r, asked_facts(r)) for r in records),
        "scoring": [
            *(_block(r, scoring_facts(r)) for r in records),
            *tables.get("scoring", ()),
            *_unmeasured(evidence),
        ],
        "gate": [_table(evidence.verdict, said)] if evidence.verdict else [],
        "failures": [*tables.get("failures", ()), *map(_answer, evidence.failed)],
        "worst": [_text(_of_worst(evidence)), *map(_answer, evidence.worst)],
        "versions": [
            *(_block(r, run_facts(r)) for r in records),
            _text("The report is made by"),
            f"<pre>{escape(clean(command))}</pre>",
        ],
        "checklists": [f'<div class="wide">{_table(table, said)}</div>' for table in lists],
        "citations": [
            _list(f"{r.column_card.title}: {_citation(r.card.citation)}" for r in records)
        ],
        "left_out": [_list(f"{p.where}: {p.what}" for p in evidence.problems), *_closed(evidence)],
        "signature": [_text(line) for line in _SIGNATURE],
    }
    titles = [f'<li><a href="#{name}">{title}</a></li>' for name, title in SECTIONS.items()]
    parts = [_head(evidence, known), f"<nav aria-label='Contents'><ol>{''.join(titles)}</ol></nav>"]
    for name, title in SECTIONS.items():
        inner = "".join(content.get(name, tables.get(name, ()))) or _text(_NONE.get(name, "None."))
        parts.append(f'<section id="{name}"><h2>{title}</h2>{inner}</section>')
    return _PAGE.format(
        title=escape(clean(f"Evidence on {evidence.model}")),
        style="\n".join(_styles()),
        main="\n".join(parts),
    )


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>
{style}
</style>
</head>
<body>
<main>
{main}
</main>
</body>
</html>
"""

_SIGNATURE = (
    "manifest.json holds the sha256 of every file of this folder, and of the files of the runs behind "
    "it. `medhelm report --verify DIR` says what has changed, and prints the sha256 of manifest.json "
    "itself: keep that number elsewhere, as in the minutes, since whoever changes a file can change "
    "the manifest, too.",
    "ro-crate-metadata.json describes the folder for archives (RO-Crate 1.1).",
)


def _styles() -> Iterator[str]:
    root = resources.files("medhelm_leaderboard")
    yield (root / "app" / "style.css").read_text("utf-8")
    yield (root / "evidence" / "page.css").read_text("utf-8")


def _head(evidence: Evidence, known: Facts) -> str:
    records = evidence.records
    planned = sum(record.instances for record in records)
    lines = {
        "asked": f"{len(records):,} benchmarks, {planned:,} instances",
        **{name: known[name] for name in _FIRST},
        "gate": evidence.verdict.title if evidence.verdict else "",
    }
    marks = []
    if any(record.spec.data == "sample" for record in records):
        marks.append("Bundled samples are few and synthetic: they say nothing about models.")
    if evidence.problems or evidence.closed:
        marks.append(f"Not all is shown: see {SECTIONS['left_out']!r}.")
    shown = "".join(f'<p class="mark warn">{escape(mark)}</p>' for mark in marks)
    return f"<h1>Evidence on {escape(clean(evidence.model))}</h1>{_facts(lines)}{shown}"


_FIRST = (
    *("first and last answer", "class of data", "judges", "scores", "intervals"),
    *("coverage", "other outcomes", "cost"),
)
"""What is known that the page begins with."""


def _unmeasured(evidence: Evidence) -> Iterator[str]:
    """Yield what nobody has measured of the judges."""
    if evidence.table("controls") is None:
        yield _text(
            "No judge of these runs was asked about answers whose verdicts are known (controls)."
        )
    if evidence.table("fidelity") is None:
        yield _text(
            "How the judges agree with experts is not kept here; `medhelm fidelity --keep` measures it."
        )


def _block(record: RunRecord, facts: Facts) -> str:
    card = record.column_card
    return f"<h3>{escape(clean(f'{card.title} ({card.name})'))}</h3>{_facts(facts)}"


def _facts(facts: Mapping[str, str]) -> str:
    pairs = (
        f"<dt>{escape(clean(name))}</dt><dd>{escape(clean(value))}</dd>"
        for name, value in facts.items()
        if value
    )
    return f'<dl class="facts">{"".join(pairs)}</dl>'


def _table(table: Table, said: set[str]) -> str:
    grid = to_html(table, said).replace("<table", '<div class="scroll" tabindex="0"><table')
    return f'<div class="table-block">{grid.replace("</table>", "</table></div>")}</div>'


def _text(line: str) -> str:
    return f"<p>{escape(clean(line))}</p>"


def _list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(clean(line))}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _citation(text: str) -> str:
    return text or "not reported"


def _of_worst(evidence: Evidence) -> str:
    if not evidence.worst:
        return "None: no answer whose text may be shown has less than the best score."
    return (
        f"The {min(WORST, len(evidence.worst))} scored answers with the lowest scores among those whose "
        "text may be shown, by the main metric from 0 (worst) to 1 (best). Of equal ones each benchmark "
        "has its first before any has its second, in an order that nobody chose. A long text is cut."
    )


def _closed(evidence: Evidence) -> Iterator[str]:
    if evidence.closed:
        names = ", ".join(evidence.closed)
        yield _text(
            f"No text of questions and answers, since the data are not public and redistributable: "
            f"{names}. `medhelm show BENCHMARK {evidence.model}` shows them on a terminal of the machine "
            "that holds the results. Nor values of metadata: `medhelm tables --table slices --by KEY` does."
        )


def _answer(shown: ShownAnswer) -> str:
    """Return one answer, from the question to the verdicts."""
    run, row = shown
    score = row["score"]
    value = "none" if score is None else f"{score:.3f}".removesuffix(".000")
    title = (
        f"{run.benchmark}, {row['instance_id']}, repeat {row['repeat']}: {row['outcome']}, {value}"
    )
    options = [f"{chr(65 + n)}. {choice}" for n, choice in enumerate(row["choices"])]
    parts = {
        "context": row["context"],
        "question": row["question"],
        "choices": "\n".join(options),
        "references": "\n".join(row["references"]),
        **{f"turn {n}, {who}": said for n, (who, said) in enumerate(row["turns"], 1)},
        "reply": row["reply"] or f"empty ({row['finish']})",
        "read": row["read"],
        "reasons": "\n".join(f"{name}: {why}" for name, why in row["reasons"].items()),
        **{f"judge {judge['judge']}": _judged(judge) for judge in row["judges"]},
    }
    inner = "".join(
        f"<p class='caption'>{escape(clean(name))}</p><pre>{escape(clean(_cut(text), _KEPT))}</pre>"
        for name, text in parts.items()
        if text
    )
    return f"<article><h3>{escape(clean(title))}</h3>{inner}</article>"


_KEPT = "\n\t"


def _judged(judge: Mapping[str, Mapping[str, str]]) -> str:
    given = [
        f"{name} {rating}: {(judge['reasons'] or {}).get(name, '')}".rstrip(": ")
        for name, rating in judge["ratings"].items()
    ]
    return "\n".join([str(judge["ended"]), *given])


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]} ... ({len(text) - LONGEST:,} more characters)"
