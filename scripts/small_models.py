"""Runs small real language models and writes their table in README.md.

    MEDHELM_DATA_DIR=... python scripts/small_models.py FOLDER NAME=FILE.gguf [NAME=FILE.gguf ...]
    python scripts/small_models.py [--check]

With a folder, asks each model and the rules without a model the same questions, keeps the answers
in FOLDER (the same command goes on from there), and stores the scores in
scripts/results/small_models.json, without any text of the data. Always puts the stored scores
between two markers of README.md. `--check` writes nothing and fails where the README differs.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from pages import ROOT, grid, parser, put

import medhelm
from medhelm.models.catalogue import load_models
from medhelm.schema.model import ModelSpec
from medhelm.store import records

README = ROOT / "README.md"
STORED = ROOT / "scripts" / "results" / "small_models.json"
BENCHMARKS = ("headqa", "med_qa", "med_mcqa", "mmlu_medical", "pubmed_qa", "medbullets")
RULES = ("baseline/majority", "baseline/lexical", "baseline/first_option", "baseline/random")
QUESTIONS = 40
BATCH = 20
COLUMNS = ("score", "low", "high", "interval_method", "counted", "cut", "ended_at_budget")


def run_models(folder: Path, models: Sequence[ModelSpec]) -> dict[str, Any]:
    """Return what is stored: the scores of models and rules, and the versions behind them."""
    rules = [load_models()[name] for name in RULES]
    asked = [*models, *rules]
    results = medhelm.evaluate(
        asked, BENCHMARKS, data="full", results_dir=folder, max_instances=QUESTIONS
    )
    table = results.typed("benchmarks")
    cells = {(row["model"], row["benchmark"]): row for row in table.rows if row["is_main"]}
    found = {}
    for grading in records.find_gradings(folder):
        record = records.read_record(grading)
        found[record.spec.model.name, record.spec.benchmark] = record
    rows = []
    for model in asked:
        for benchmark in BENCHMARKS:
            cell, record = cells[model.name, benchmark], found[model.name, benchmark]
            (metric,) = [m for m in record.grading.metrics if m.name == cell["metric"]]
            (result,) = [r for r in record.results if r.metric == metric.name]
            rows.append(
                {
                    "model": model.name,
                    "served_models": list(record.own.served_models),
                    "benchmark": benchmark,
                    "benchmark_version": record.spec.benchmark_version,
                    "dataset_sha256": record.spec.dataset_sha256,
                    "metric": metric.name,
                    "metric_version": metric.version,
                    "outcomes": dict(result.outcomes),
                    **{name: cell[name] for name in COLUMNS},
                }
            )
    weights = {spec.name: _sha256(Path(spec.model)) for spec in models}
    settings = {name: table.settings[name] for name in ("confidence", "draws", "bootstrap_seed")}
    return {"questions": QUESTIONS, "settings": settings, "weights_sha256": weights, "rows": rows}


def read_models(given: Iterable[str]) -> list[ModelSpec]:
    """Return the models that NAME=FILE.gguf arguments name; raises SystemExit for others."""
    specs = []
    for word in given:
        name, _, file = word.partition("=")
        if not name or not Path(file).is_file():
            raise SystemExit(f"{word} is not NAME=FILE.gguf, or there is no such file")
        specs.append(
            msgspec.structs.replace(
                load_models()["hf/local"], name=f"hf/{name}", model=file, max_concurrency=BATCH
            )
        )
    return specs


def render(stored: Mapping[str, Any]) -> str:
    """Return the table: one row per model, a score, its interval and the replies read per cell."""
    cells = {(row["model"], row["benchmark"]): row for row in stored["rows"]}
    models = list(dict.fromkeys(model for model, _ in cells))
    benchmarks = list(dict.fromkeys(benchmark for _, benchmark in cells))
    rows = [(f"`{m}`", *(_cell(cells[m, benchmark]) for benchmark in benchmarks)) for m in models]
    settings = stored["settings"]
    lines = [
        *grid("l" + "r" * len(benchmarks), ("model", *benchmarks), rows),
        "",
        f"The same {stored['questions']} questions of each public set for all rows. In brackets: "
        f"{settings['confidence']:.0%} intervals ({settings['draws']:,} bootstrap draws, seed "
        f"{settings['bootstrap_seed']}). Below: how many of the replies could be read; one that could "
        "not counts as wrong. mmlu_medical is the mean of its six subjects, not a share of the 40.",
    ]
    return "\n".join(lines) + "\n"


def _cell(row: Mapping[str, Any]) -> str:
    read = f"{row['outcomes'].get('scored', 0)} of {row['counted']}"
    return f"{row['score']:.2f} [{row['low']:.2f}, {row['high']:.2f}]<br>{read}"


def _sha256(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def main() -> int:
    """Run the models where some are named, write or check the table, and return the exit code."""
    given = parser(__doc__)
    given.add_argument("folder", nargs="?", type=Path, help="where the answers are kept")
    given.add_argument("models", nargs="*", metavar="NAME=FILE.gguf")
    options = given.parse_args()
    if options.folder is not None and not options.check:
        if not options.models or not os.environ.get("MEDHELM_DATA_DIR"):
            print("name NAME=FILE.gguf, and set MEDHELM_DATA_DIR to the folder of the full data")
            return 2
        found = run_models(options.folder, read_models(options.models))
        STORED.parent.mkdir(exist_ok=True)
        STORED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    table = render(json.loads(STORED.read_text(encoding="utf-8")))
    return put(README, table, part="small", check=options.check)


if __name__ == "__main__":
    sys.exit(main())
