"""The verdicts of a gate as JUnit XML, which CI systems show as tests: one of each threshold."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

from medhelm.tables.format.formats import clean
from medhelm.tables.format.table import Table, Value


def to_junit(table: Table) -> bytes:
    """Return the gate's table as XML: FAIL is a failure, INCONCLUSIVE is skipped, each with its reason."""
    rows = [row for row in table.rows if row["level"] == "threshold"]
    name = f"medhelm gate {table.settings['profile']}"
    counts = _counts(rows)
    del counts["skipped"]  # which Jenkins' schema has of a suite alone
    top = ElementTree.Element("testsuites", name=clean(name), **counts)
    for model in dict.fromkeys(row["model"] for row in rows):
        own = [row for row in rows if row["model"] == model]
        suite = ElementTree.SubElement(top, "testsuite", name=clean(str(model)), **_counts(own))
        for row in own:
            what = clean(f"{row['benchmark']}: {row['metric']} {row['needed']}")
            case = ElementTree.SubElement(
                suite, "testcase", name=what, classname=clean(str(model)), time="0"
            )
            said = clean(f"{_score(row)}: {row['reason']}")
            if row["verdict"] == "FAIL":
                ElementTree.SubElement(case, "failure", type="threshold", message=said).text = said
            elif row["verdict"] != "PASS":
                ElementTree.SubElement(case, "skipped", message=f"INCONCLUSIVE, {said}")
    ElementTree.indent(top)
    return ElementTree.tostring(top, encoding="utf-8", xml_declaration=True) + b"\n"


def _counts(rows: list[dict[str, Value]]) -> dict[str, str]:
    """Return how many tests there are, and how they ended; an error is none of a gate's verdicts."""
    found = Counter(row["verdict"] for row in rows)
    counts = {"tests": len(rows), "failures": found["FAIL"], "errors": 0}
    return {k: f"{n}" for k, n in (counts | {"skipped": found["INCONCLUSIVE"], "time": 0}).items()}


def _score(row: dict[str, Value]) -> str:
    """Return the score with its interval, or that there is none."""
    score, low, high = row["score"], row["low"], row["high"]
    if score is None:
        return "no score"
    return f"{score:.4g}" + (f" [{low:.4g}, {high:.4g}]" if low is not None else "")
