"""Commands of a judge that is trained on experts' decisions: its weights with a report, and how it is served."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any, Literal

import msgspec
import numpy as np

from medhelm import UsageError
from medhelm.plugin import decision_of, two_class
from medhelm_benchmarks.clinconsensus.training.recipe import (
    FINAL,
    FSDP,
    PAPER,
    Finished,
    Settings,
    default_settings,
    encode_within,
    load_model,
    load_tokenizer,
    prompt_text,
    read_finished,
    read_settings,
    require_packages,
    train,
)
from medhelm_benchmarks.clinconsensus.training.rows import TrainingRow, read_rows, split


class Fidelity(msgspec.Struct, frozen=True, kw_only=True):
    """Holds the agreement of a model with the labels of held-out rows."""

    rows: int
    oversize: int
    """Rows left out: prompt and reply are longer than the limit."""
    mf1: float | None
    """Macro F1 with invalid replies as unmet; None where a class has none."""
    mf1_wrong: float | None
    """The same with invalid replies wrong whatever the label is."""
    invalid: int
    positive: float
    positive_labels: float


def drawn(rows: Sequence[TrainingRow], most: int, seed: int) -> list[TrainingRow]:
    """Return at most that many rows, drawn by the seed, in their order; 0: all."""
    count = min(most or len(rows), len(rows))
    return [rows[n] for n in sorted(Random(seed).sample(range(len(rows)), count))]


def measure(place: str, rows: Sequence[TrainingRow], settings: Settings) -> Fidelity:
    """Return the fidelity of the model in a place on the rows that fit the limit of tokens."""
    import torch

    tokenizer, model = load_tokenizer(place), load_model(place, settings)
    model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
    prompts = [prompt_text(tokenizer, row.messages) for row in rows]
    tokens = [tokenizer.encode(text, add_special_tokens=False) for text in prompts]
    kept = [n for n, own in enumerate(tokens) if len(own) < settings.max_tokens]
    if not kept:
        raise UsageError(f"no held-out row has fewer than {settings.max_tokens} tokens")
    by_length = sorted(kept, key=lambda n: len(tokens[n]))  # rows of one length waste no padding
    replies: dict[int, bool | None] = {}
    for start in range(0, len(by_length), settings.evaluation_batch):
        batch = by_length[start : start + settings.evaluation_batch]
        padded = tokenizer.pad(  # on the left: the reply follows the prompt
            {"input_ids": [tokens[n] for n in batch]}, padding_side="left", return_tensors="pt"
        ).to(model.device)
        with torch.inference_mode():
            out = model.generate(
                **_greedy(padded), max_new_tokens=settings.new_tokens,
                pad_token_id=tokenizer.pad_token_id,
            )  # fmt: skip
        width = padded["input_ids"].shape[1]
        texts = tokenizer.batch_decode(out[:, width:], skip_special_tokens=True)
        replies |= {n: decision_of(text) for n, text in zip(batch, texts, strict=True)}
    return fidelity([rows[n] for n in kept], [replies[n] for n in kept], len(rows) - len(kept))


def _greedy(padded: Any) -> dict[str, Any]:
    free = dict.fromkeys(("temperature", "top_p", "top_k"))
    asked = {name: padded[name] for name in ("input_ids", "attention_mask")}
    return {**asked, "do_sample": False, **free}


def fidelity(
    rows: Sequence[TrainingRow], decisions: Sequence[bool | None], oversize: int = 0
) -> Fidelity:
    """Return the agreement of decisions with the labels of their rows."""
    labels = np.asarray([row.is_met for row in rows], dtype=np.bool_)
    met = np.asarray([decision is True for decision in decisions], dtype=np.bool_)
    invalid = np.asarray([decision is None for decision in decisions], dtype=np.bool_)
    counts = two_class.confusion(labels, met).sum(0)
    wrong = two_class.confusion(labels, np.where(invalid, ~labels, met)).sum(0)
    mf1, mf1_wrong = (float(two_class.macro_f1(own)) for own in (counts, wrong))
    return Fidelity(
        rows=len(rows),
        oversize=oversize,
        mf1=None if np.isnan(mf1) else mf1,
        mf1_wrong=None if np.isnan(mf1_wrong) else mf1_wrong,
        invalid=int(invalid.sum()),
        positive=float(met.mean()),
        positive_labels=float(labels.mean()),
    )


_Parts = Mapping[str, Sequence[TrainingRow]]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Holds the counts of one part of the rows."""

    rows: int
    left_out: int
    """Rows beyond the limit of tokens."""
    models: dict[str, int]
    """Rows by model."""
    positive: float
    """Share of the labels that are met."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Holds what the command writes beside the weights."""

    schema: Literal["medhelm.judge_report/2"] = "medhelm.judge_report/2"
    settings: Settings
    packages: dict[str, str]
    training: Part
    development: Part
    held_out: Part
    finished: Finished
    loss: dict[str, float | None]
    """On tokens of replies: of the first and the last steps, and on the development rows."""
    base: Fidelity | None
    """The untrained model on the held-out rows; None where that was not asked for."""
    trained: Fidelity


def run(args: argparse.Namespace) -> int:
    """`medhelm judge train CONFIG`: train a causal model, write weights and report, and return the exit code."""
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
    require_packages(settings)
    if args.check:
        tokenizer = load_tokenizer(settings.model)
        for name, rows in parts.items():
            print(_line(name, _part(rows, encode_within(tokenizer, rows, settings.max_tokens)[1])))
        return 0
    finished = read_finished(settings)
    if finished is None and args.processes is not None and "WORLD_SIZE" not in os.environ:
        code = subprocess.run(_launched(args, settings), check=False).returncode
        finished = read_finished(settings)
        if code or finished is None:
            return code or 1
    if finished is None:
        finished = train(settings, parts)
    if os.environ.get("WORLD_SIZE", "1") != "1":  # the one that launched them reports
        return 0
    report = _report(settings, parts, finished, with_base=not args.no_base)
    path = Path(settings.output) / "report.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1))
    weights = Path(settings.output) / FINAL
    print("\n".join((*_lines(report), f"weights: {weights}", f"report: {path}")))
    print(f"\nNext: medhelm judge serve {weights}")
    return 0


def _launched(args: argparse.Namespace, settings: Settings) -> list[str]:
    """Return this command in several processes."""
    precision = "bf16" if settings.training.get("bf16") else "no"
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(FSDP)]
    count = ["--num_processes", str(args.processes), "--mixed_precision", precision]
    return [*launch, *count, "-m", "medhelm", "judge", "train", args.config]


def _part(rows: Sequence[TrainingRow], left_out: int) -> Part:
    return Part(
        rows=len(rows),
        left_out=left_out,
        models=dict(Counter(row.model for row in rows)),
        positive=sum(row.is_met for row in rows) / len(rows),
    )


def _report(settings: Settings, parts: _Parts, finished: Finished, *, with_base: bool) -> Report:
    """Return the report; the trained model is read from the files that were written."""
    counts = {name: _part(rows, finished.left_out[name]) for name, rows in parts.items()}
    asked = drawn(parts["held_out"], settings.max_held_out, settings.seed)
    final = str(Path(settings.output) / FINAL)
    training, development = finished.logged("loss"), finished.logged("eval_loss")
    ends = {"first": training[:1], "last": training[-1:], "development": development[-1:]}
    packages = ("torch", "transformers", "accelerate", *("peft",) * (settings.lora is not None))
    return Report(
        settings=settings,
        packages={name: version(name) for name in packages},
        training=counts["training"],
        development=counts["development"],
        held_out=counts["held_out"],
        finished=finished,
        loss={name: own[0] if own else None for name, own in ends.items()},
        base=measure(settings.model, asked, settings) if with_base else None,
        trained=measure(final, asked, settings),
    )


def _lines(report: Report) -> list[str]:
    """Return the report as text."""
    done, lora = report.finished, report.settings.lora
    form = ", ".join(f"{key} {value}" for key, value in (lora or {}).items())
    adapters = f"LoRA ({form}): {done.trained_share:.2%} of the parameters, merged into the weights"
    seconds, rate = done.logged("train_runtime")[-1], done.logged("train_samples_per_second")[-1]
    each = "" if done.was_resumed else f", {1000 / rate:.0f} s for 1,000 rows"
    memory = f", {done.gpu_gib:.1f} GiB of the first GPU" if done.gpu_gib is not None else ""
    what = "all parameters" if lora is None else adapters
    return [
        *(_line(name, getattr(report, name)) for name in ("training", "development", "held_out")),
        "loss: {first} -> {last}, development {development}".format_map(
            {name: _number(value) for name, value in report.loss.items()}
        ),
        f"trained {what}; {seconds:.0f} s{each}{memory}",
        *(
            f"{name}: MF1 {_number(own.mf1)} on {own.rows} held-out rows, {_number(own.mf1_wrong)} with "
            f"invalid replies wrong; {own.invalid} invalid, {own.positive:.1%} met "
            f"(labels {own.positive_labels:.1%})"
            for name, own in (("untrained", report.base), ("trained", report.trained))
            if own is not None
        ),
    ]


def _line(name: str, part: Part) -> str:
    beyond = f", {part.left_out} of them left out: too many tokens" * bool(part.left_out)
    met = f"{part.positive:.1%} met"
    return f"{name.replace('_', '-')}: {part.rows} rows of {len(part.models)} models, {met}{beyond}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


_NO_THINKING = {"enable_thinking": False}


def serve(args: argparse.Namespace) -> int:
    """`medhelm judge serve FOLDER`: print how a judge is served, and named as the grader of a run."""
    folder = Path(args.folder)
    for name in ("config.json", "tokenizer_config.json"):
        if not (folder / name).is_file():
            raise UsageError(f"{folder} has no {name}: name a folder of weights, as OUTPUT/final")
    if not 0 < args.port < 1 << 16:
        raise UsageError(f"--port {args.port} is not a port")
    settings = default_settings()
    window = settings["max_tokens"] + settings["new_tokens"]
    command = ["vllm", "serve", str(folder.resolve()), "--served-model-name", args.name,
               "--host", "127.0.0.1", "--port", str(args.port), "--max-model-len", str(window),
               "--default-chat-template-kwargs", json.dumps(_NO_THINKING)]  # fmt: skip
    print(
        f"# serve it (greedy decoding and {settings['new_tokens']} new tokens are asked for by medhelm)"
    )
    print(shlex.join(command))
    print(f"\n# conf/model/{args.name}.yaml of a folder that --config-dir names: over this server")
    print(
        _judge_config(args.name, "openai", args.name, f"base_url: http://127.0.0.1:{args.port}/v1")
    )
    print("\n# or without a server, with the extra hf")
    print(_judge_config(args.name, "hf", str(folder.resolve()), f"context_window: {window}"))
    return 0


def _judge_config(name: str, provider: str, model: str, more: str) -> str:
    """Return a config of the judge: greedy, thinking off."""
    return "\n".join(
        (
            f"name: {json.dumps(name)}",
            f"provider: {provider}",
            f"model: {json.dumps(model)}",
            more,
            "sampling: {temperature: 0.0}",
            f"extra_body: {{chat_template_kwargs: {json.dumps(_NO_THINKING)}}}",
        )
    )
