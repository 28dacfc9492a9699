"""Results of benchmarks of every class of data, with words that may not get out."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path
from typing import Any

import msgspec

import medhelm
from medhelm.plugins.registry import load_registry
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import JurySpec
from medhelm.tables.format.table import Settings
from medhelm_leaderboard.collect import Wanted
from medhelm_leaderboard.site import Built, SiteOptions, build_site

PLUGIN = '''"""Free text of every class of data."""

from medhelm import Benchmark, Criterion, FileDataset, Instance, Row, SourceFile, hookimpl


def to_instance(row: Row) -> Instance:
    return Instance(
        id=row["id"],
        context=row["context"],
        question=row["question"],
        references=(row["gold"],),
        answer_key={"hidden": row["key"]},
        cluster=row["patient"],
        metadata={"ward": row["ward"]},
        criteria=(Criterion(name="own", text=row["criterion"]),) if row.get("criterion") else (),
    )


def benchmark(name: str, data_class: str, redistributable: bool) -> Benchmark:
    return Benchmark(
        name=name,
        subcategory="planning_treatments",
        dataset=FileDataset(files=(SourceFile(name=f"{name}-FILECANARY.jsonl"),), source="SOURCE" + MARK[name]),
        to_instance=to_instance,
        metrics=["jury", "rouge_l"],
        rubric="accuracy_completeness_clarity",
        prompt="plain",
        instruction="Answer. " + MARK[name],
        answer="text",
        data_class=data_class,
        redistributable=redistributable,
        cluster="patient",
    )


MARK = {"open": "", "unlicensed": "", "gated": "PROMPTCANARY", "private": "PROMPTCANARY"}


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        benchmark("open", "public", True),
        benchmark("unlicensed", "public", False),
        benchmark("gated", "gated", True),
        benchmark("private", "private", False),
    ]
'''

CLOSED = ("unlicensed", "gated", "private")


def row(name: str, i: int, mark: str) -> dict[str, str]:
    """Return one row whose every value holds `mark`."""
    return {
        "id": f"{mark}ID{name}{i}",
        "context": f"{mark}CONTEXT of {name} {i}",
        "question": f"{mark}QUESTION {i}?",
        "gold": f"{mark}GOLD give aspirin {i}",
        "key": f"{mark}KEY",
        "patient": f"{mark}PATIENT{i // 2}",
        "ward": f"{mark}WARD{i % 2}",
    }


def write_data(folder: Path, n: int = 6, mark: str = "CANARY") -> Path:
    """Write plugin and data below a folder; return the plugin's path."""
    plugin = folder / "plugins" / "casting_PLUGINCANARY.py"
    plugin.parent.mkdir(parents=True, exist_ok=True)
    plugin.write_text(PLUGIN)
    for name in ("open", *CLOSED):
        path = folder / "data" / name / f"{name}-FILECANARY.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        own = "" if name == "open" else mark
        path.write_text("".join(json.dumps(row(name, i, own)) + "\n" for i in range(n)))
    return plugin


def scripted(name: str, reply: str, **more: Any) -> ModelSpec:
    """Return a local model that always says the same."""
    return ModelSpec(
        name=name,
        model="/models/PATHCANARY/weights.gguf",
        provider="scripted",
        endpoint_class="local",
        extra_body={"default": reply, **more.pop("script", {})},
        **more,
    )


def judge(name: str, score: int) -> ModelSpec:
    """Return a judge that gives every criterion one score; its reasons quote what it is shown."""

    def reply(reason: str) -> str:
        names = ("accuracy", "completeness", "clarity")
        return json.dumps({n: {"score": score, "reason": f"{reason} {n}"} for n in names})

    opened = {f"IDopen{i}": reply("REASONOPEN") for i in range(100)}
    return scripted(name, reply("REASONCANARY"), script={"replies": opened})


def run_all(folder: Path, plugin: Path, **more: Any) -> Path:
    """Run two models on all four benchmarks with a jury of two; return the results folder."""
    results = folder / "results"
    medhelm.evaluate(
        [
            scripted("lab/one", "ANSWERCANARY one: aspirin", system_prompt="SYSTEMCANARY"),
            scripted("lab/two", "ANSWERCANARY two: rest"),
        ],
        ["open", *CLOSED],
        data="full",
        data_dir=folder / "data",
        results_dir=results,
        plugins=plugin,
        jury=JurySpec(name="two", judges=(judge("judge/a", 4), judge("judge/b", 2)), quorum=1),
        **{"controls": 0, **more},  # judges of one mark fail
    )
    return results


def build(results: Path, site: Path, *, draws: int = 50, **wanted: Any) -> Built:
    """Build a site with few draws."""
    return build_site(
        Wanted(results_dir=results, **wanted),
        site,
        load_registry(),
        SiteOptions(settings=Settings(draws=draws)),
    )


def data_of(site: Path, key: str) -> Any:
    """Return what a data file hands to the page, read as a browser reads it."""
    script = (site / "data" / f"{key}.js").read_text()
    head, tail = f"medhelmData('{key}','", "')\n"
    assert script.startswith(head) and script.endswith(tail)
    return msgspec.json.decode(js_string(script[len(head) : -len(tail)]))


def js_string(literal: str) -> str:
    """Return the value of the inside of a JavaScript string literal, whose escapes are Python's too."""
    assert "<" not in literal
    return str(ast.literal_eval(f"'{literal}'"))


def fresh(source: Path, target: Path) -> Path:
    """Return a copy of a results folder."""
    shutil.copytree(source, target)
    return target
