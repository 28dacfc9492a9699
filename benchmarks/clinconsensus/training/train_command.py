"""`medhelm judge train CONFIG`: a causal model, fine-tuned on experts' decisions."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from medhelm.errors import ModelError, UsageError
from medhelm_benchmarks.clinconsensus.training.adapters import with_adapters
from medhelm_benchmarks.clinconsensus.training.fine_tuning import (
    FINAL,
    Finished,
    load_model,
    load_tokenizer,
    open_output,
    read_finished,
    require_packages,
    train,
)
from medhelm_benchmarks.clinconsensus.training.held_out import Fidelity, decide, drawn, fidelity
from medhelm_benchmarks.clinconsensus.training.report import (
    FILE,
    Report,
    lines,
    loss_of,
    part_line,
    part_report,
)
from medhelm_benchmarks.clinconsensus.training.rows import read_rows, split
from medhelm_benchmarks.clinconsensus.training.settings import (
    FSDP,
    PAPER,
    TrainingSettings,
    read_settings,
)
from medhelm_benchmarks.clinconsensus.training.tokens import encode_within

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from medhelm_benchmarks.clinconsensus.training.rows import Parts, TrainingRow

_PACKAGES = ("torch", "transformers", "accelerate")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "config", nargs="?", metavar="CONFIG", help="YAML with rows, output, held_out, and changes"
    )
    parser.add_argument(
        "--show-defaults", action="store_true", help="print the paper's settings, train nothing"
    )
    parser.add_argument(
        "--check", action="store_true", help="read and split the rows, count tokens, train nothing"
    )
    parser.add_argument("--no-base", action="store_true", help="do not measure the untrained model")
    parser.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="train with N processes, a GPU each, with FSDP through Accelerate",
    )


def run(args: argparse.Namespace) -> int:
    """Train, write weights and report, and return the exit code."""
    if args.show_defaults:
        print(PAPER.read_text(encoding="utf-8"), end="")
        return 0
    if args.config is None:
        raise UsageError("name a config: medhelm judge train CONFIG; --show-defaults has its keys")
    if args.processes is not None and (args.processes < 1 or args.check):
        raise UsageError("--processes N takes a number from 1, and does not go with --check")
    settings = read_settings(Path(args.config))
    parts = split(
        read_rows(settings.rows), settings.held_out, settings.development_share, settings.seed
    )
    require_packages(with_lora=settings.lora is not None)
    if args.check:
        return _check(settings, parts)
    finished = read_finished(settings)
    if finished is None and args.processes is not None and "WORLD_SIZE" not in os.environ:
        code = subprocess.run(_launched(args, settings), check=False).returncode
        finished = read_finished(settings)
        if code or finished is None:
            return code or 1
    if finished is None:
        finished = _train(settings, parts)
    if os.environ.get("WORLD_SIZE", "1") != "1":  # the one that launched them reports
        return 0
    report = _report(settings, parts, finished, with_base=not args.no_base)
    path = Path(settings.output) / FILE
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1))
    weights = Path(settings.output) / FINAL
    print("\n".join((*lines(report), f"weights: {weights}", f"report: {path}")))
    print(f"\nNext: medhelm judge serve {weights}")
    return 0


def _launched(args: argparse.Namespace, settings: TrainingSettings) -> list[str]:
    """Return this command in several processes."""
    precision = "bf16" if settings.precision == "bfloat16" else "no"
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(FSDP)]
    count = ["--num_processes", str(args.processes), "--mixed_precision", precision]
    return [*launch, *count, "-m", "medhelm", "judge", "train", args.config]


def _check(settings: TrainingSettings, parts: Parts) -> int:
    """Print the parts of the rows, with those beyond the limit of tokens."""
    tokenizer = _opened(settings.model, load_tokenizer)
    for name, rows in parts.by_name().items():
        left_out = len(encode_within(tokenizer, rows, settings.max_tokens)[1])
        print(part_line(name, part_report(rows, left_out), settings.max_tokens))
    return 0


def _train(settings: TrainingSettings, parts: Parts) -> Finished:
    tokenizer = _opened(settings.model, load_tokenizer)
    kept, left_out = {}, {}
    for name, rows in parts.by_name().items():
        kept[name], beyond = encode_within(tokenizer, rows, settings.max_tokens)
        left_out[name] = len(beyond)
        if not kept[name]:
            raise UsageError(f"no {name} row has {settings.max_tokens} tokens or fewer")
    checkpoint = open_output(settings)
    model = _opened(settings.model, lambda place: load_model(place, settings))
    if settings.lora:
        model = with_adapters(model, settings.lora, settings.seed)
    return train(
        model, tokenizer, kept["training"], kept["development"], settings, left_out, checkpoint
    )


def _report(
    settings: TrainingSettings, parts: Parts, finished: Finished, *, with_base: bool
) -> Report:
    """Return the report; the trained model is read from the files that were written."""
    asked = drawn(parts.held_out, settings.max_held_out, settings.seed)
    final = str(Path(settings.output) / FINAL)
    base = _fidelity(settings.model, asked, settings) if with_base else None
    counts = {n: part_report(r, finished.left_out[n]) for n, r in parts.by_name().items()}
    return Report(
        settings=settings,
        fingerprint=settings.fingerprint,
        packages={n: version(n) for n in (*_PACKAGES, *("peft",) * bool(settings.lora))},
        training=counts["training"],
        development=counts["development"],
        held_out=counts["held_out"],
        finished=finished,
        loss=loss_of(finished.log),
        base=base,
        trained=_fidelity(final, asked, settings),
    )


def _fidelity(place: str, rows: Sequence[TrainingRow], settings: TrainingSettings) -> Fidelity:
    """Return the fidelity of a model on rows, all of those that fit the limit."""
    tokenizer = _opened(place, load_tokenizer)
    model = _opened(place, lambda name: load_model(name, settings))
    asked, decisions = decide(
        model,
        tokenizer,
        rows,
        max_tokens=settings.max_tokens,
        new_tokens=settings.new_tokens,
        batch_size=settings.evaluation_batch,
    )
    if not asked:
        raise UsageError(f"no held-out row has fewer than {settings.max_tokens} tokens")
    return fidelity(asked, decisions, len(rows) - len(asked))


def _opened(place: str, load: Callable[[str], Any]) -> Any:
    try:
        return load(place)
    except UsageError:
        raise
    except Exception as error:  # a boundary: whatever a file or the hub makes the library raise
        first = str(error).strip().partition("\n")[0][:200]
        raise ModelError(
            f"model {place} cannot be loaded ({type(error).__name__}: {first})"
        ) from None
