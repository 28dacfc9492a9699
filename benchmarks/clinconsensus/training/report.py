"""The report of a training: what was trained on, the loss, and held-out fidelity beside the base's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from medhelm_benchmarks.clinconsensus.training.fine_tuning import Finished
from medhelm_benchmarks.clinconsensus.training.held_out import Fidelity
from medhelm_benchmarks.clinconsensus.training.rows import TrainingRow
from medhelm_benchmarks.clinconsensus.training.settings import TrainingSettings

FILE = "report.json"


class PartReport(msgspec.Struct, frozen=True, kw_only=True):
    """Holds the counts of one part of the rows."""

    rows: int
    left_out: int
    """Rows beyond the limit of tokens."""
    models: dict[str, int]
    """Rows by model."""
    positive: float
    """Share of the labels that are met."""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Holds the loss on tokens of replies."""

    first: float | None
    last: float | None
    """Of the training, over the first and the last ten steps."""
    development: float | None
    """After the training."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Holds what `medhelm judge train` writes beside the weights."""

    schema: Literal["medhelm.judge_report/1"] = "medhelm.judge_report/1"
    settings: TrainingSettings
    fingerprint: str
    packages: dict[str, str]
    training: PartReport
    development: PartReport
    held_out: PartReport
    finished: Finished
    loss: Loss
    base: Fidelity | None
    """The untrained model on the held-out rows; None where that was not asked for."""
    trained: Fidelity


def part_report(rows: Sequence[TrainingRow], left_out: int) -> PartReport:
    """Return the counts of one part."""
    return PartReport(
        rows=len(rows),
        left_out=left_out,
        models=dict(Counter(row.model for row in rows)),
        positive=sum(row.is_met for row in rows) / len(rows),
    )


def loss_of(log: Iterable[Mapping[str, float]]) -> Loss:
    """Return the first and last loss of a log."""
    lines = list(log)
    training = [line["loss"] for line in lines if "loss" in line]
    development = [line["eval_loss"] for line in lines if "eval_loss" in line]
    return Loss(
        first=training[0] if training else None,
        last=training[-1] if training else None,
        development=development[-1] if development else None,
    )


def part_line(name: str, part: PartReport, max_tokens: int) -> str:
    """Return the counts of one part as a line."""
    beyond = f", {part.left_out} of them left out: more than {max_tokens} tokens"
    return (
        f"{name.replace('_', '-')}: {part.rows} rows of {len(part.models)} models, "
        f"{part.positive:.1%} met{beyond * bool(part.left_out)}"
    )


def lines(report: Report) -> list[str]:
    """Return the report as text."""
    parts = {name: getattr(report, name) for name in ("training", "development", "held_out")}
    found = [part_line(name, part, report.settings.max_tokens) for name, part in parts.items()]
    loss = report.loss
    found.append(
        f"loss: {_number(loss.first)} -> {_number(loss.last)}, development {_number(loss.development)}"
    )
    found.append(_trained_line(report))
    for name, own in (("untrained", report.base), ("trained", report.trained)):
        if own is not None:
            found.append(
                f"{name}: MF1 {_number(own.mf1)} on {own.rows} held-out rows, {_number(own.mf1_wrong)} with "
                f"invalid replies wrong; {own.invalid} invalid, {own.positive:.1%} met "
                f"(labels {own.positive_labels:.1%})"
            )
    return found


def _trained_line(report: Report) -> str:
    """Return what was trained, and what it took."""
    done = report.finished
    lora = report.settings.lora
    what = (
        f"LoRA of rank {lora.rank}, alpha {lora.alpha:g}, dropout {lora.dropout:g}: "
        f"{done.trained_share:.2%} of the parameters, merged into the weights"
        if lora
        else "all parameters"
    )
    rate = f", {1000 / done.rows_per_second:.0f} s for 1,000 rows" if done.rows_per_second else ""
    memory = f", {done.gpu_gib:.1f} GiB of the first GPU" if done.gpu_gib is not None else ""
    return f"trained {what}; {done.seconds:.0f} s{rate}{memory}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
