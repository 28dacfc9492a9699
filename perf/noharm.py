"""Scores 9 models' stored replies to 100 cases of 50 actions, printed as rows of a Markdown table.

    python perf/noharm.py [--models 9] [--cases 100] [--actions 50]

Cases and replies are drawn and stored as a run stores them. Then a process of its own reads the
logs and scores each reply by all metrics of the benchmark; parsing the same replies with the
standard library alone takes turns with it, and the best of three rounds counts, as other work on
the machine only ever slows one down. The commands that a user would give follow, whole processes.
The target is 2 s.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from measuring import ROOT, parser

WORK = """
import json, sys, time
from pathlib import Path
from medhelm.grading.grade import grade
from medhelm_benchmarks.noharm.rules import menu
from medhelm.store.records import find_runs, read_plan
from medhelm.plugins.registry import load_registry
from medhelm.store.runlog import read_episodes

registry = load_registry()
metrics = [registry.metric(name) for name in registry.benchmark("noharm").metrics]
runs = [(path, read_plan(path)) for path in find_runs(Path(sys.argv[1]))]
ours = bare = float("inf")
for _ in range(3):
    menu._parse.cache_clear()
    menu._label.cache_clear()
    began = time.perf_counter()
    scores = [
        grade(metric, episode)
        for path, plan in runs
        for episode in read_episodes(path, plan)
        for metric in metrics
    ]
    ours = min(ours, time.perf_counter() - began)
    began = time.perf_counter()
    for path, _ in runs:
        for line in (path / "responses.jsonl").open():
            reply = json.loads(line)["response"]["text"]
            json.loads(reply[reply.index("{") : reply.rindex("}") + 1])
    bare = min(bare, time.perf_counter() - began)
assert all(score.outcome == "scored" for score in scores)
print(ours, ours / bare, len(metrics))
"""


def write_runs(folder: Path, models: int, cases: int, actions: int) -> None:
    """Write the cases, and for each model a run folder that holds a reply to each of them."""
    from medhelm.config import BenchmarkChoice, Job
    from medhelm.plugins.registry import load_registry
    from medhelm.prompts.messages import render_prompt
    from medhelm.runs.planning import plan_runs
    from medhelm.schema.episode import Episode, Response, Usage
    from medhelm.schema.model import ModelSpec
    from medhelm.store.records import Plan, write_struct
    from medhelm.store.runlog import RunFolder
    from tests.benchmarks.noharm.making import drawn_case, drawn_reply

    made = {c.code: c for c in (drawn_case(n, actions) for n in range(cases))}
    data = folder / "data" / "noharm"
    data.mkdir(parents=True)
    (data / "cases.jsonl").write_bytes(
        b"".join(msgspec.json.encode(c) + b"\n" for c in made.values())
    )
    jobs = [
        Job(
            model=ModelSpec(
                name=f"perf/model-{n}", model=f"m{n}", base_url="http://127.0.0.1:9/v1"
            ),
            benchmarks=(BenchmarkChoice(name="noharm"),),
            data_dir=str(folder / "data"),
            results_dir=str(folder / "results"),
        )
        for n in range(models)
    ]
    for n, run in enumerate(plan_runs(jobs, load_registry(), {}).runs):
        log = RunFolder(run.path)
        log.open()
        for instance in run.dataset.instances():
            messages = render_prompt(run.benchmark, instance)
            response = Response(
                instance_id=instance.id,
                text=drawn_reply(made[instance.id], n),
                usage=Usage(input_tokens=2000, output_tokens=400),
                served_model="m",
            )
            log.append(Episode(instance=instance, messages=messages, response=response))
        log.close()
        plan = Plan(spec=run.spec, request_hash=run.request_hash, instances=cases)
        write_struct(run.path / "spec.json", plan)


def whole(folder: Path, *command: str) -> float:
    """Return the seconds of one command as a user would give it; the best of three.

    An installed package has its modules compiled.
    """
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "medhelm", *command, f"--results-dir={folder / 'results'}"],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=kept | {"MEDHELM_DATA_DIR": str(folder / "data")},
        )
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def main() -> None:
    """Print the rows."""
    args = parser(__doc__, models=9, cases=100, actions=50).parse_args()
    models, cases, actions = args.models, args.cases, args.actions
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_runs(folder, models, cases, actions)
        command = [sys.executable, "-c", WORK, str(folder / "results")]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
        seconds, ratio, metrics = done.stdout.split()
        what = f"{cases} cases x {actions} actions x {models} models"
        print(
            f"| {what}, stored replies read and scored by {metrics} metrics | 2 s | "
            f"{float(seconds):.2f} s, {float(ratio):.1f} x parsing their JSON alone |",
            flush=True,
        )
        graded = whole(folder, "score", "--benchmark=noharm")
        shown = whole(folder, "tables", "--table=harm")
        print(
            f"| the same as commands, whole processes: `medhelm score` (Parquet, summaries); "
            f"the table of harm | | {graded:.1f} s; {shown:.1f} s |"
        )


if __name__ == "__main__":
    main()
