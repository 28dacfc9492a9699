"""`medhelm curate` as a user runs it, against a server on loopback that sometimes answers badly."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from medhelm_benchmarks.encounters.curation.sources import read_article
from medhelm_benchmarks.encounters.data.medsp1000 import read_rows, to_instance
from medhelm_benchmarks.encounters.packets import packets_of
from tests.benchmarks.encounters import teaching
from tests.made import model_file
from tests.server import Faults, FaultServer, serve_in_thread
from tests.shell import Shell

pytestmark = pytest.mark.slow

SENT = 7
"""Two of triage, then partition, audit, rubric and leaks; the partition once more for its doubt."""
ITEMS = [line[2:] for line in teaching.CHECKLIST.splitlines()]


PRICE = {"input": 1.0, "output": 4.0, "date": "2026-01-01"}


def model(server: FaultServer) -> str:
    return model_file(server, "curator", price=PRICE)


def hashes(folder: Path) -> dict[str, str]:
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


@pytest.fixture
def desk(here: Path) -> Path:
    teaching.write_articles(here / "packets")
    return here


def cases_only(folder: Path) -> dict[str, str]:
    made = ("cases/", "rubrics.jsonl", "flags.jsonl")
    return {name: digest for name, digest in hashes(folder).items() if name.startswith(made)}


def test_packets_become_cases_and_nothing_of_the_source_is_altered(
    desk: Path, shell: Shell
) -> None:
    before = hashes(desk / "packets")
    with serve_in_thread(teaching.good) as server:
        args = ("curate", "packets", "--model", model(server), "--out", "out")
        assert shell.json(*args, "--estimate")["runs"][0]["to_ask"] == 2
        assert server.requests == 0 and not (desk / "out").exists()
        out = shell(*args)
        assert server.requests == SENT, out
        assert "1 not simulatable" in out and "scenarios: 1 made" in out
        assert "this command: 0\n" in shell(*args) and server.requests == SENT
    assert hashes(desk / "packets") == before

    place = desk / "out" / "cases" / "ear_md" / "scenario1"
    for role, text in (
        ("examinee", teaching.BRIEFING),
        ("sp_actor", teaching.SCRIPT.replace(" Man or woman.", "")),
        ("environment_controller", teaching.NOTES),
        ("evaluator", teaching.CHECKLIST),
    ):
        assert (place / role / "station.md").read_text().strip() == text
    (rewrite,) = map(json.loads, (place / "rewrites.jsonl").read_text().splitlines())
    assert rewrite["before"].replace(" Man or woman.", "") == rewrite["after"]
    diff = (place / "changes.diff").read_text()
    assert "-- Prescribes drops" in diff
    assert "-You are friendly and short, and never mention a diagnosis. Man or woman." in diff
    assert "+You are friendly and short, and never mention a diagnosis." in diff
    added = [line for line in diff.splitlines() if line.startswith("+") and line[1:2] not in "+"]
    assert {line[1:] for line in added} <= {rewrite["after"], ""}

    (row,) = read_rows([desk / "out" / "cases", desk / "out" / "rubrics.jsonl"], "test")
    instance = to_instance(row)
    assert instance is not None and instance.metadata == {"specialty": "ENT", "patient_age": "44"}
    items = packets_of(instance).evaluator.items
    assert sorted(i.text for i in items) == sorted(ITEMS)
    assert (desk / "out").stat().st_mode & 0o777 == 0o700


def test_a_server_that_answers_badly_gives_the_same_cases(desk: Path, shell: Shell) -> None:
    with serve_in_thread(teaching.good) as server:
        shell("curate", "packets", "--model", model(server), "--out", "good")
    faults = Faults(rate=0.2, kinds=("500", "drop", "invalid_json"), seed=3)
    with serve_in_thread(teaching.sloppy(0.3), faults=faults) as server:
        out = shell("curate", "packets", "--model", model(server), "--out", "bad")
        assert server.requests > 8, out
        assert "lost" in shell.err, "an answer that was lost on its way is counted"
    assert cases_only(desk / "good") == cases_only(desk / "bad")


@pytest.mark.extra
def test_an_office_file_becomes_the_same_packets(desk: Path, shell: Shell) -> None:
    pytest.importorskip("markitdown")
    teaching.write_pdf(desk / "pdf" / "checklist.pdf")
    (shown_pdf,) = read_article(desk / "pdf").documents
    assert all(item in " ".join(shown_pdf.lines) for item in ITEMS)
    folder = desk / "more" / "ear_docx"
    folder.mkdir(parents=True)
    teaching.write_docx(folder / "station.docx")
    (folder / "photo.jpg").write_bytes(b"\xff\xd8")
    article = read_article(folder)
    assert [d.name for d in article.documents] == ["station.docx"]
    assert article.left_out == ("photo.jpg",)
    with serve_in_thread(teaching.good) as server:
        shell("curate", "more", "--model", model(server), "--out", "out")
    place = desk / "out" / "cases" / "ear_docx" / "scenario1"
    for role, text in (("examinee", teaching.BRIEFING), ("evaluator", teaching.CHECKLIST)):
        shown = (place / role / "station.docx.md").read_text()
        assert [line for line in shown.splitlines() if line] == text.splitlines()


def test_what_cannot_be_curated_is_named(desk: Path, shell: Shell) -> None:
    with serve_in_thread(teaching.good) as server:
        name = model(server)
        private = ("packets", "--model", name, "--source-class", "private")
        for args, message in (
            (("packets",), "--model is missing"),
            (("nowhere", "--model", name), "cannot read nowhere"),
            (private, "curator 'test/curator' is external"),
            (("packets", "--model", name, "--out", "packets/x"), "is within packets"),
            (("packets", "--model", "encounter/silent"), "is a rule and cannot be the curator"),
        ):
            code = 5 if args == private else 2
            assert message in shell.error("curate", *args, code=code)
        assert server.requests == 0
        shell("curate", "packets", "--model", name, "--out", "out")
        model_file(server, "curator", model="curator-2", price=PRICE)
        said = shell.error("curate", "packets", "--model", name, "--out", "out")
        assert "with another model" in said
