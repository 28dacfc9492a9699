"""Runs small real language models, asked in several ways, and writes their table in README.md.

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from pages import ROOT, grid, parser, put

import medhelm
from medhelm import Asking
from medhelm.models.catalogue import load_models
from medhelm.plugins.askings import load_askings
from medhelm.schema.model import ModelSpec
from medhelm.tables.format.table import Settings

README = ROOT / "README.md"
STORED = ROOT / "scripts" / "results" / "small_models.json"
BENCHMARKS = ("med_qa", "headqa", "pubmed_qa")
COLUMNS = ("score", "low", "high", "interval_method")
EXAMPLES_OF = {
    name: str(ROOT / "benchmarks" / "samples" / f"{name}.jsonl") for name in ("med_qa", "headqa")
}
"""Files of examples for sets whose own are not at hand: the bundled synthetic questions."""
RULES = ("baseline/majority", "baseline/lexical")
QUESTIONS, BATCH, TEMPERATURE, VOTES, REASONS = 40, 20, 0.7, 5, 256


@dataclass(frozen=True)
class Way:
    """One row of the table: how the questions are asked."""

    title: str
    asking: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of `medhelm.evaluate`."""
    repeats: int = 1
    reduce: str = "mean"


_COT = load_askings()["chain_of_thought"]
WAYS = (
    Way("as declared"),
    Way("5 examples", {"examples": 5}),
    Way("a marked line", {"form": "line"}),
    Way(
        f"chain of thought, {REASONS} tokens",
        {
            "ask": msgspec.structs.replace(
                _COT, name=f"chain_of_thought_{REASONS}", max_output_tokens=REASONS
            )
        },
    ),
    Way("majority of five", repeats=VOTES, reduce="majority"),
    Way("log-probabilities", {"form": "logprobs"}),
)


def run_models(folder: Path, models: Sequence[ModelSpec]) -> dict[str, Any]:
    """Return what is stored: the scores of each model, each way asked, and of the rules."""
    rows = [row for way in WAYS for model in models for row in _rows(folder, model, way)]
    rows += [row for name in RULES for row in _rows(folder, load_models()[name], WAYS[0])]
    weights = {spec.name: _sha256(Path(spec.model)) for spec in models}
    return {"questions": QUESTIONS, "weights_sha256": weights, "rows": rows}


def _rows(folder: Path, model: ModelSpec, way: Way) -> Iterator[dict[str, Any]]:
    """Yield a row of each benchmark for one model asked in one way."""
    own = folder / f"{way.title.replace(' ', '_')}"
    if way.repeats > 1:
        sampling = msgspec.structs.replace(model.sampling, temperature=TEMPERATURE)
        model = msgspec.structs.replace(model, sampling=sampling)
    for benchmark in BENCHMARKS:
        asking = dict(way.asking)
        if "examples" in asking and benchmark in EXAMPLES_OF:
            asking["ask"] = Asking(name="default", examples_from=EXAMPLES_OF[benchmark])
        results = medhelm.evaluate(
            model, benchmark, data="full", results_dir=own / benchmark / model.name.replace("/", "_"),
            max_instances=QUESTIONS, repeats=way.repeats, **asking,
        )  # fmt: skip
        settings = Settings(reduce=way.reduce)
        (cell,) = [row for row in results.typed("benchmarks", settings).rows if row["is_main"]]
        (record,) = [run.record for run in results.runs]
        (result,) = [r for r in record.results if r.metric == cell["metric"]]
        yield {
            "way": way.title,
            "model": model.name,
            "benchmark": benchmark,
            "benchmark_version": record.spec.benchmark_version,
            "dataset_sha256": record.spec.dataset_sha256,
            "served_models": list(record.own.served_models),
            "outcomes": dict(result.outcomes),
            **{name: cell[name] for name in COLUMNS},
        }


def read_models(given: Iterable[str]) -> list[ModelSpec]:
    """Return the models that NAME=FILE.gguf arguments name; raises SystemExit for others."""
    specs = []
    for word in given:
        name, _, file = word.partition("=")
        if not name or not Path(file).is_file():
            raise SystemExit(f"{word} is not NAME=FILE.gguf, or there is no such file")
        specs.append(
            msgspec.structs.replace(
                load_models()["hf/local"],
                name=f"hf/{name}",
                model=file,
                max_concurrency=BATCH,
                extra_body={"dtype": "float32"},
            )
        )
    return specs


def render(stored: Mapping[str, Any]) -> str:
    """Return the table: a row for each model and way, a score, its interval and the replies read per cell."""
    cells = {(row["model"], row["way"], row["benchmark"]): row for row in stored["rows"]}
    models = list(dict.fromkeys(model for model, _, _ in cells))
    pairs = sorted(dict.fromkeys(key[:2] for key in cells), key=lambda k: models.index(k[0]))
    rows = [
        (
            f"`{model}`",
            way if model not in RULES else "a rule, without a model",
            *(_cell(cells[model, way, benchmark]) for benchmark in BENCHMARKS),
        )
        for model, way in pairs
    ]
    lines = [
        *grid("ll" + "r" * len(BENCHMARKS), ("model", "asked", *BENCHMARKS), rows),
        "",
        f"The same {stored['questions']} questions of each public set for all rows. In brackets: 95% intervals. "
        "Below: how many of the replies could be read; one that could not counts as wrong. Examples are of the "
        f"train split (pubmed_qa) or bundled synthetic questions; majority is over temperature {TEMPERATURE}.",
    ]
    return "\n".join(lines) + "\n"


def _cell(row: Mapping[str, Any]) -> str:
    counted = sum(row["outcomes"].values())
    read = f"{row['outcomes'].get('scored', 0)} of {counted}"
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
