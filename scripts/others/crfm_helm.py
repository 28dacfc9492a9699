r"""Scores the golds of public sets with HELM's own metrics and stores the counts.

    python -m venv ENV && ENV/bin/pip install --no-deps crfm-helm==0.5.16
    ENV/bin/pip install dacite cattrs numpy pandas zstandard sqlitedict tqdm retrying colorlog \
        requests pyhocon filelock pyyaml mako
    ENV/bin/python scripts/others/crfm_helm.py DATA

DATA is the folder of the full data. Run by hand, in an environment of its own: the metrics are
imported from the installed package and nothing of them is changed. No text of an item is stored.
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from helm.benchmark.metrics.medcalc_bench_metrics import MedCalcBenchMetric

RESULTS = Path(__file__).parent / "results" / "crfm_helm.json"
MEDCALC = "medcalc_bench/test_data.csv"

Row = dict[str, str]


def score_medcalc(row: Row, answer: str) -> float:
    """Return HELM's score of an answer, from a request as HELM's scenario builds it."""
    extra = {
        "category": row["Category"],
        "upper_limit": row["Upper Limit"],
        "lower_limit": row["Lower Limit"],
    }
    gold = SimpleNamespace(output=SimpleNamespace(text=row["Ground Truth Answer"]))
    state: Any = SimpleNamespace(
        instance=SimpleNamespace(references=[gold], extra_data=extra),
        result=SimpleNamespace(completions=[SimpleNamespace(text=answer)]),
    )
    none: Any = None
    (stat,) = MedCalcBenchMetric().evaluate_generation(none, state, none, "")
    return float(stat.sum)


def medcalc(data: Path) -> list[dict[str, object]]:
    """Return what HELM gives the golds and empty answers, over all items and by category."""
    content = (data / MEDCALC).read_bytes()
    rows = list(csv.DictReader(content.decode("utf-8").splitlines(keepends=True)))
    parts = {"all": rows}
    for row in rows:
        parts.setdefault(row["Category"], []).append(row)
    answers: dict[str, Callable[[Row], str]] = {
        "gold": lambda row: row["Ground Truth Answer"],
        "empty": lambda row: "",
    }
    return [
        {
            "benchmark": "medcalc_bench",
            "file": MEDCALC,
            "sha256": hashlib.sha256(content).hexdigest(),
            "answers": name,
            "part": part,
            "n": len(members),
            "right": sum(score_medcalc(row, answer(row)) for row in members),
        }
        for name, answer in answers.items()
        for part, members in parts.items()
    ]


def main() -> int:
    """Store what HELM gives the items."""
    found = {
        "harness": "HELM",
        "package": "crfm-helm",
        "version": version("crfm-helm"),
        "scores": medcalc(Path(sys.argv[1])),
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
