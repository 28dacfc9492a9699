"""The verdicts of a gate as JUnit XML, which CI systems show as tests: one of each threshold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from xml.etree import ElementTree

from medhelm.tables.format.formats import clean
from medhelm.tables.format.table import Table, Value


def to_junit(table: Table) -> bytes:
    """Return the gate's table as XML: FAIL is a failure, INCONCLUSIVE is skipped, each with its reason."""
    rows = [row for row in table.rows if row["level"] == "threshold"]
    top = ElementTree.Element("testsuites", name=clean(f"medhelm gate {table.settings['profile']}"))
    for model in dict.fromkeys(str(row["model"]) for row in rows):
        own = [row for row in rows if row["model"] == model]
        found = Counter(row["verdict"] for row in own)
        ends = {"tests": len(own), "failures": found["FAIL"], "skipped": found["INCONCLUSIVE"]}
        counts = {name: str(n) for name, n in (ends | {"errors": 0}).items()}
        suite = ElementTree.SubElement(top, "testsuite", {"name": clean(model)} | counts)
        for row in own:
            what = clean(f"{row['benchmark']}: {row['metric']} {row['needed']}")
            case = ElementTree.SubElement(suite, "testcase", name=what, classname=clean(model))
            if row["verdict"] != "PASS":
                kind = "failure" if row["verdict"] == "FAIL" else "skipped"
                said = clean(f"{row['verdict']}, {_score(row)}: {row['reason']}")
                ElementTree.SubElement(case, kind, type="threshold", message=said)
    ElementTree.indent(top)
    return bytes(ElementTree.tostring(top, encoding="utf-8", xml_declaration=True))


def _score(row: Mapping[str, Value]) -> str:
    score, low, high = row["score"], row["low"], row["high"]
    interval = "" if low is None else f" [{low:.4g}, {high:.4g}]"
    return "no score" if score is None else f"{score:.4g}{interval}"
