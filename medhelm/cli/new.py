"""`medhelm new benchmark|metric NAME`: a small file that works, to start from."""

from __future__ import annotations

import argparse
import inspect
import re
from pathlib import Path

from medhelm.errors import UsageError
from medhelm.plugins.registry import load_registry

_NAME = re.compile(r"[a-z][a-z0-9_]*")

_BENCHMARK = '''"""@NAME@: say here what is asked, about which data, and where it comes from.

Full data: put test.jsonl into <data folder>/@NAME@/, or give SourceFile a url and a sha256.
data_class="gated" or "private" keeps the data from endpoints that may not have it.
"""

from medhelm import Benchmark, FileDataset, Instance, Row, SourceFile, hookimpl


def to_instance(row: Row) -> Instance:
    """Return the instance of one row: pure, so that it can be tested on a literal row."""
    return Instance(
        id=row["id"],
        context=row["note"],
        question=row["question"],
        choices=tuple(row["options"]),
        references=(row["answer"],),
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    """Return the benchmark; `medhelm list taxonomy` shows the subcategories."""
    return [
        Benchmark(
            name="@NAME@",
            subcategory="supporting_diagnostic_decisions",
            dataset=FileDataset(files=(SourceFile(name="test.jsonl"),)),
            to_instance=to_instance,
            instruction="Answer the question about the patient note.",
            metrics=["exact_match"],
        )
    ]
'''

_SAMPLES = """\
{"id": "1", "note": "Synthetic note. A 54-year-old has had fever and a productive cough for three days. The chest film shows a right lower lobe infiltrate.", "question": "What is the most likely diagnosis?", "options": ["Pneumonia", "Asthma", "Pulmonary embolism"], "answer": "A"}
{"id": "2", "note": "Synthetic note. A 30-year-old has had burning on passing urine since yesterday, without fever. The dipstick is positive for nitrite.", "question": "What is the most likely diagnosis?", "options": ["Kidney stone", "Cystitis", "Appendicitis"], "answer": "B"}
"""

_METRIC = '''"""@NAME@: say here what is measured, and the paper that defines it."""

from dataclasses import dataclass

from medhelm import Episode, Instance, Metric, Score, hookimpl, read_answer, read_choice


@dataclass(frozen=True, kw_only=True)
class @CLASS@(Metric):
    """1 if the completion states an accepted answer, but for case and white space, else 0."""

    name: str = "@NAME@"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the score; a value of None with outcome "unparsed" where no answer can be read."""
        is_cut = episode.finish == "length"
        if instance.choices:
            labels = instance.option_labels
            reading = read_choice(episode.text, instance.choices, is_cut=is_cut, labels=labels)
        else:
            reading = read_answer(episode.text, is_cut=is_cut)
        if reading.value is None:
            return Score(value=None, outcome="unparsed", reason=reading.reason)
        answer = " ".join(reading.value.casefold().split())
        accepted = {" ".join(r.casefold().split()) for r in instance.references}
        return Score(value=float(answer in accepted), extracted=answer)


@hookimpl
def medhelm_metrics() -> list[Metric]:
    """Return the metric."""
    return [@CLASS@()]
'''


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("kind", choices=("benchmark", "metric"))
    parser.add_argument("name", metavar="NAME", help="snake_case; also the name of the file")
    parser.add_argument(
        "--dir", metavar="DIR", default=".", help="where to write (default: the current folder)"
    )


def run(args: argparse.Namespace) -> int:
    """Write the files, print the next commands and return 0. Nothing is overwritten."""
    name = args.name
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a name: write snake_case, a-z, 0-9 and _")
    if owner := _owner(args.kind, name):
        raise UsageError(
            f"the {args.kind} {name!r} is there already, defined in {owner}; choose another name"
        )
    folder = Path(args.dir)
    plugin = folder / f"{name}.py"
    if args.kind == "benchmark":
        texts = {plugin: _BENCHMARK, folder / "samples" / f"{name}.jsonl": _SAMPLES}
    else:
        texts = {plugin: _METRIC}
    for path in texts:
        if path.exists():
            raise UsageError(f"{path} exists already and is left as it is; choose another name")
    class_name = "".join(part.capitalize() for part in name.split("_"))
    for path, text in texts.items():
        _write(path, text.replace("@NAME@", name).replace("@CLASS@", class_name))
        print(f"wrote {path}")
    print("next:")
    for line in _next_commands(args.kind, name, plugin):
        print(f"  {line}")
    return 0


def _owner(kind: str, name: str) -> str:
    """Return the file that defines an installed benchmark or metric; empty if there is none."""
    registry = load_registry()
    if kind == "benchmark":
        return registry.benchmarks[name].origin if name in registry.benchmarks else ""
    found = next((m for (n, _), m in registry.metrics.items() if n == name), None)
    return "" if found is None else inspect.getfile(type(found))


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as e:
        raise UsageError(
            f"cannot write {path}: {(e.strerror or 'unknown error').lower()}"
        ) from None


def _next_commands(kind: str, name: str, plugin: Path) -> list[str]:
    if kind == "metric":
        return [
            f"medhelm describe {name} --plugin {plugin}",
            f"put {name!r} into the metrics of a benchmark, then: "
            f"medhelm validate BENCHMARK --plugin {plugin} --plugin BENCHMARK.py",
        ]
    return [
        f"medhelm validate {name} --plugin {plugin}",
        f"medhelm run model=baseline/random benchmark={name} data=sample 'plugins=[{plugin}]'",
    ]
