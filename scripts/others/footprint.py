"""Measures what harnesses install and use, side by side in one run, and stores it.

    nice python scripts/others/footprint.py DATA HARNESS=ENV ...

ENV is an environment that holds the harness and what it needs to ask a server of the OpenAI
protocol. Run by hand with this package's own environment, which serves. The harnesses take turns;
the least of the rounds counts, as other work on the machine only ever slows a round down.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
STORED = HERE / "footprint.json"
ROUNDS = 2
CONCURRENCY = 100
ITEMS = 1089

# The packages to install, the command, and whether ask_all.py runs it.
HARNESSES = {
    "medhelm-framework": (("medhelm-framework",), "medhelm", True),
    "crfm-helm": (("crfm-helm",), "helm-run", False),
    "medhelm": (("medhelm",), "medhelm-run", False),
    "lm-eval": (("lm-eval[api]",), "lm-eval", True),
    "inspect": (("inspect-ai", "inspect-evals", "openai"), "inspect", True),
    "evalscope": (("evalscope",), "evalscope", True),
}

# Files as installed, without what Python writes at the first import and without pip itself.
MEASURE = """
import importlib.metadata as m, json
own = [d for d in m.distributions() if d.name not in ("pip", "setuptools")]
paths = [f.locate() for d in own for f in d.files or () if f.suffix != ".pyc"]
size = sum(p.stat().st_size for p in paths if p.is_file())
versions = {d.name.lower().replace("_", "-"): d.version for d in own}
print(json.dumps([len(own), round(size / 2**20), versions]))
"""


def time_command(command: list[str]) -> tuple[float, float]:
    """Return the CPU and wall-clock seconds of a command."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environ = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environ)
    if done.returncode:
        raise SystemExit(f"{command[:3]}: {done.stderr[-2000:]}")
    after, end = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, end - start


def measure(harness: str, environment: Path) -> dict[str, object]:
    """Return what the harness installs."""
    packages, command, _ = HARNESSES[harness]
    python = str(environment / "bin" / "python")
    output = subprocess.run([python, "-c", MEASURE], capture_output=True, text=True, check=True)
    count, mib, versions = json.loads(output.stdout)
    installed = {name: versions[name.partition("[")[0]] for name in packages}
    return {
        "harness": harness,
        "installed": installed,
        "command": f"{command} --help",
        "packages": count,
        "mib": mib,
    }


def main() -> int:
    """Store what the harnesses install and use."""
    data, *pairs = sys.argv[1:]
    environments = {name: Path(path) for name, _, path in (pair.partition("=") for pair in pairs)}
    found = {name: measure(name, path) for name, path in environments.items()}
    spec = importlib.util.spec_from_file_location(
        "throughput", HERE.parent.parent / "perf" / "throughput.py"
    )
    assert spec and spec.loader
    throughput = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(throughput)
    with throughput.server_process(0.0) as url:
        for turn in range(ROUNDS + 1):  # the first of them is not counted: it fills caches
            for name, path in environments.items():
                _, command, is_run = HARNESSES[name]
                timed = {"help": [str(path / "bin" / command), "--help"]}
                if is_run:
                    script = [str(path / "bin" / "python"), str(HERE / "ask_all.py")]
                    timed["run"] = [*script, name, url, data, str(CONCURRENCY)]
                for what, words in timed.items():
                    cpu, wall = time_command(words)
                    for key, value in ((f"{what}_cpu_s", cpu), (f"{what}_wall_s", wall)):
                        least = found[name].get(key)
                        if turn and (not isinstance(least, float) or value < least):
                            found[name][key] = round(value, 2)
                    print(turn, name, what, round(cpu, 2), round(wall, 2), flush=True)
    stored = {"items": ITEMS, "concurrency": CONCURRENCY, "harnesses": list(found.values())}
    STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
