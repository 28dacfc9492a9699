"""The bundled cases are as their page says: ratings with their guidelines, and what broad ones hold."""

from __future__ import annotations

import re
from pathlib import Path

from medhelm_benchmarks.noharm.rules.cases import read_cases
from medhelm_benchmarks.noharm.rules.score import consensus
from tests.benchmarks.noharm.making import SAMPLES

ROOT = Path(__file__).parents[3]
CASES = {c.code.split("-")[2]: c for c in read_cases(SAMPLES)}
ROW = re.compile(r"^\| ([A-Z]+) \| (a\d+) [^|]+\| (\d) \|[^|]+\| ([^|]+) \|$", re.M)


def test_the_ratings_with_reasons_are_those_of_the_cases_and_their_guidelines_are_cited() -> None:
    rows = ROW.findall((ROOT / "docs/action-safety.md").read_text(encoding="utf-8"))
    assert len(rows) == 8
    for code, name, median, guidelines in rows:
        (action,) = (a for a in CASES[code].actions if a.id == name)
        assert consensus(action) == int(median), (code, name)
        for guideline in re.split(r", (?=[A-Z])", guidelines):
            society, year = re.match(r"(\S+).*?(\d{4})", guideline).groups()  # type: ignore[union-attr]
            cited = [r for r in action.references if society in r and year in r]
            assert cited, (code, name, guideline)


def test_broad_actions_hold_what_they_say_and_no_more() -> None:
    held = {(code, b.broad): set(b.specific) for code, c in CASES.items() for b in c.broad}
    assert held["AFPCI", "a38"] == {"a2"}
    assert held["TRAVEL", "a30"] == {"a12"}
    assert held["SBP", "a25"] == {"a8", "a18"}
    assert held["PENI", "a23"] == {"a3"}
