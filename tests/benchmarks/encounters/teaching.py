"""Synthetic teaching packets, and a model that curates them by rule and can do it badly."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from medhelm_benchmarks.encounters.data.layout import META_FIELDS
from tests.server import Reply

TITLES = {
    "Candidate briefing": "clinician",
    "Actor script": "patient",
    "Operator notes": "controller",
    "Rater checklist": "evaluator",
}
BRIEFING = """You are the doctor in a walk-in clinic on a weekday evening.
A person of 44 years holds the right ear and looks tired.
Take care of this person as you would in practice."""
SCRIPT = """You are Alex Moor, 44 years old, a cook. Your right ear has hurt for two days.
Asked about swimming: you swim in a lake three times a week.
Asked about hearing: it is muffled on the right since this morning.
You are friendly and short, and never mention a diagnosis. Man or woman."""
NOTES = """Temperature 37.4, pulse 76, blood pressure 124/78 mmHg.
Otoscopy: the canal is swollen and moist, the drum is intact.
When the canal has been looked at, the pain grows for a minute."""
CHECKLIST = """- Asks whether water gets into the ear
- Looks into both ears with an otoscope
- Names inflammation of the outer canal as the diagnosis
- Prescribes drops and not tablets
- Explains how to keep the ear dry
- Asks whether anything is still open"""
COMPETENCIES = ("PC", "PC", "MK", "PC", "ICS", "PROF")
LECTURE = """# Lecture: the outer ear

Aims of the hour and a list of questions for discussion.

1. Which bacteria are found?
2. Which drops are there?"""


def packet() -> str:
    """Return a whole packet as Markdown."""
    parts = zip(TITLES, (BRIEFING, SCRIPT, NOTES, CHECKLIST), strict=True)
    return "# Ear pain\n\n" + "\n\n".join(f"## {title}\n\n{text}" for title, text in parts) + "\n"


def write_articles(folder: Path) -> Path:
    """Write a packet and a lecture."""
    for name, text in {"ear_md/station.md": packet(), "lecture_1/notes.txt": LECTURE}.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def write_docx(path: Path) -> None:
    """Write a whole packet as an Office file."""
    from docx import Document

    document = Document()
    for title, text in zip(TITLES, (BRIEFING, SCRIPT, NOTES, CHECKLIST), strict=True):
        document.add_heading(title, level=2)
        for line in text.splitlines():
            document.add_paragraph(line)
    document.save(str(path))


def write_pdf(path: Path) -> None:
    """Write the checklist as a PDF of one page."""
    lines = ["Rater checklist", *CHECKLIST.splitlines()]
    shown = " ".join(f"({line}) Tj 0 -16 Td" for line in lines)
    stream = zlib.compress(f"BT /F1 11 Tf 60 760 Td {shown} ET".encode())
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents 4 0 R"
    page += b"/Resources<</Font<</F1 5 0 R>>>>>>"
    content = b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(stream), stream)
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>"]
    objects += [page, content, font]
    body, places = b"%PDF-1.4\n", []
    for number, value in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj%s\nendobj\n" % (number, value)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"xref\n0 6\n0000000000 65535 f \n%strailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF"
    path.parent.mkdir()
    path.write_bytes(body + end % (table, len(body)))


def lines_of(prompt: str) -> dict[str, list[tuple[int, str]]]:
    """Return the numbered lines of the documents of a prompt."""
    found: dict[str, list[tuple[int, str]]] = {}
    for name, body in re.findall(r"(?ms)^Document ([^\n]+):\n(.*?)^End of \1\.$", prompt):
        found[name] = [(int(n), text) for n, text in re.findall(r"(?m)^(\d+)\| ?(.*)$", body)]
    return found


def span(document: str, first: int, last: int) -> dict[str, Any]:
    return {"document": document, "first": first, "last": last}


def sections(prompt: str) -> dict[str, list[dict[str, Any]]]:
    """Return the lines below the title of each role."""
    found: dict[str, list[dict[str, Any]]] = {role: [] for role in TITLES.values()}
    for name, lines in lines_of(prompt).items():
        role = ""
        for n, text in lines:
            title = text.strip("#* \t")
            if title in TITLES:
                role = TITLES[title]
            elif role and text.strip():
                found[role].append(span(name, n, n))
    return found


def triage(prompt: str) -> dict[str, Any]:
    documents = lines_of(prompt)
    name = next(iter(documents))
    is_met = "Lecture" not in documents[name][0][1]
    criterion = {"is_met": is_met, "reason": "as marked", "lines": [span(name, 1, 1)]}
    meta = dict.fromkeys(("scenario_title", *META_FIELDS))
    scenario = {"scenario_id": "scenario1", **meta, "specialty": "ENT", "patient_age": "44"}
    met = dict.fromkeys(("encounter_task", "counterpart", "scene"), criterion)
    parts = {"documents": {d: "part of a packet" for d in documents}, "case_shape": "A station."}
    return parts | met | {"scenarios": [scenario] if is_met else []}


def partition(prompt: str) -> dict[str, Any]:
    """Return the lines of each role, with a rater's line too many for the clinician."""
    own = sections(prompt)
    line = next(
        (name, n, text)
        for name, lines in lines_of(prompt).items()
        for n, text in lines
        if "Man or woman" in text
    )
    rewrite = {"role": "patient", "document": line[0], "line": line[1]}
    rewrite["text"] = line[2].replace(" Man or woman.", "")
    leaked = own["evaluator"][3]
    return {"is_ready": True, "reason": "all is there", **own, "rewrites": [rewrite]} | {
        "clinician": [*own["clinician"], leaked]
    }


def audit(prompt: str) -> dict[str, Any]:
    leaked = sections(prompt)["evaluator"][3]
    cut = {"role": "clinician", "lines": leaked, "category": "management"}
    return {"remove": [cut], "restore_for_patient": [], "rewrites": [], "summary": ["management"]}


def rubric(prompt: str) -> dict[str, Any]:
    found = [
        (name, n, text.strip().removeprefix("-").removeprefix("*").strip())
        for name, lines in lines_of(prompt).items()
        for n, text in lines
        if text.strip()
    ]
    assert len(found) == len(COMPETENCIES), found
    return {
        "items": [
            {"competency": code, "text": text, "lines": span(name, n, n)}
            for code, (name, n, text) in zip(COMPETENCIES, found, strict=True)
        ]
    }


PHASES: dict[str, Callable[[str], dict[str, Any]]] = {
    "You sort teaching packets": triage,
    "You part one teaching packet": partition,
    "You audit how": audit,
    "You take the items": rubric,
    "You look for items": lambda prompt: {"leaks": []},
}


def good(prompt: str) -> str:
    """Return what the phase of a prompt asks for."""
    (write,) = (phase for opening, phase in PHASES.items() if opening in prompt)
    return json.dumps(write(prompt))


def sloppy(share: float) -> Callable[[str], str | Reply]:
    """Return a curator a share of whose replies cannot be used, decided by the prompt."""

    def answer(prompt: str) -> str | Reply:
        place = hashlib.sha256(prompt.encode()).digest()[0] / 256
        if place >= share:
            return good(prompt)
        bad = json.loads(good(prompt))
        ways = ("Certainly! Here it is:", "", json.dumps(bad)[:40], _worse(bad))
        return ways[int(place / share * len(ways))]

    return answer


def _worse(reply: dict[str, Any]) -> str:
    """Return a reply of the right form that names lines or words that are not there."""
    for key in ("clinician", "restore_for_patient"):
        if key in reply:
            reply[key] = [span("station.md", 900, 901)]
    for item in reply.get("items", ()):
        item["text"] = f"{item['text']} with great care"
    for meta in reply.get("scenarios", ()):
        meta["department"] = "Cardiac surgery"
    return json.dumps(reply)
