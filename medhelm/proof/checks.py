"""Check a metric's declaration, a prompt, a gold, a jury and a data folder for each possible fault."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Literal

import msgspec

from medhelm.data.sources import default_split, has_files
from medhelm.extract.json_reply import BadReply
from medhelm.grading.graders.grader import GraderVerdict
from medhelm.grading.jury.grader import judge_messages, read_reply
from medhelm.grading.jury.metric import jury_metrics
from medhelm.prompts.messages import letter_choices, render_prompt
from medhelm.schema.data import Benchmark, Instance, Rubric
from medhelm.schema.episode import Episode, Response
from medhelm.schema.score import Metric

Level = Literal["failure", "warning"]
Check = Literal[
    "data",
    "declared",
    "ids",
    "prompt",
    "gold in prompt",
    "metric",
    "oracle",
    "baseline",
    "reading",
    "jury",
    "rubric",
    "rows",
    "manifest",
]

LONG_GOLD = 8
"""Words from which on a free-text gold must not occur in its own prompt."""
SHOWN = 10
"""Findings of one kind that are kept. The rest is counted."""
_LEADING_NUMBER = re.compile(r"^\W*\d+\W*\s")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong (failure) or worth a look (warning)."""

    level: Level
    check: Check
    message: str
    instance: str = ""
    metric: str = ""
    expected: str = ""
    got: str = ""


@dataclass
class Findings:
    """The first findings of each kind, and the number of all."""

    kept: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, level: Level, check: Check, message: str, **more: str) -> None:
        """Add a finding; `more` holds instance, metric, expected and got."""
        kind = f"{level}: {check}"
        self.counts[kind] += 1
        if self.counts[kind] <= SHOWN:
            self.kept.append(Finding(level=level, check=check, message=message, **more))

    @property
    def has_failed(self) -> bool:
        """Return whether anything found is a failure."""
        return any(kind.startswith("failure") for kind in self.counts)


def best_value(metric: Metric) -> float:
    """Return the value of a perfect answer."""
    return metric.maximum if metric.higher_is_better else metric.minimum


def declaration_faults(metric: Metric) -> list[str]:
    """Return what is wrong with the range or floor that a metric declares."""
    floor = metric.minimum if metric.floor is None else metric.floor
    numbers = (metric.minimum, metric.maximum, floor)
    where = f"metric {metric.name} ({metric.scoring})"
    if not all(math.isfinite(n) for n in numbers):
        return [f"{where}: minimum, maximum and floor must be finite"]
    faults = []
    if not metric.minimum < metric.maximum:
        faults.append(f"{where}: minimum {metric.minimum:g} is not below {metric.maximum:g}")
    if not metric.minimum <= floor <= metric.maximum:
        faults.append(f"{where}: the floor {floor:g} is outside its range")
    if metric.floor == best_value(metric):
        faults.append(f"{where}: the floor is the best value, so no answer would be a right one")
    return faults


def prompt_fault(benchmark: Benchmark, instance: Instance, prompt: str) -> str:
    """Return what is wrong with a rendered prompt; empty where nothing is.

    The instance is rendered a second time with a marker in place of each part, so that a part
    is found by its place and not by its text, which may occur elsewhere by chance.
    """
    marked = msgspec.structs.replace(
        instance,
        context=_marker("context", instance.context),
        question=_marker("question", instance.question),
        choices=tuple(_marker(f"choice {n}", c) for n, c in enumerate(instance.choices)),
    )
    probe = render_prompt(benchmark, marked)[-1].content
    parts = [("the context", marked.context, instance.context)]
    parts.append(("the question", marked.question, instance.question))
    lines = zip(letter_choices(marked.choices).splitlines(), marked.choices, strict=True)
    parts += [
        (f"option {line[0]}", line, f"{line[0]}. {text}")
        for (line, _), text in zip(lines, instance.choices, strict=True)
    ]
    for name, marker, text in parts:
        if not marker.strip():
            continue
        times = probe.count(marker)
        if times != 1:
            return f"{name} is {times} times in the prompt, expected once"
        probe = probe.replace(marker, text)
    return "" if probe == prompt else "the prompt does not show the instance's text as it is"


def _marker(name: str, text: str) -> str:
    """Return a stand-in as long as the text, since the layout depends on the length."""
    return f"\x00{name}\x00".ljust(len(text), "\x01") if text.strip() else text


def holds_gold(prompt: str, reference: str) -> bool:
    """Return whether a gold of eight or more words occurs verbatim in a plain prompt."""
    gold = plain(_LEADING_NUMBER.sub("", reference))
    return len(gold.split()) >= LONG_GOLD and gold in prompt


def shown_text(text: str | None, benchmark: Benchmark, is_open: bool) -> str:
    """Return the beginning of a text as a finding quotes it; withheld where it is not open."""
    if not is_open:
        return f"[withheld: {benchmark.data_class} data]"
    return "nothing" if text is None else repr(text[:60])


def plain(text: str) -> str:
    """Return a text with case and white space evened out."""
    return " ".join(text.casefold().split())


def is_data_present(benchmark: Benchmark, root: Path, split: str | None = None) -> bool:
    """Return whether a split of the full data (None: the default) lies on this machine."""
    split = split or default_split(benchmark, root)
    return has_files(benchmark, benchmark.dataset.needed(split), root)


_RATED = Instance(id="check", context="A case.", question="A question?", references=("A gold.",))


class _Scripted:
    """Judges that give the scores set here; None abstains."""

    def __init__(self, scores: dict[str, tuple[int, ...] | None]) -> None:
        self.judges = tuple(scores)
        self._scores = scores

    def verdicts(self, instance: Instance, episode: Episode) -> tuple[GraderVerdict, ...]:
        said = ((j, {"scores": [*s]} if s else None) for j, s in self._scores.items())
        return tuple(GraderVerdict(judge=j, state=state) for j, state in said)


def jury_fault(rubric: Rubric) -> str:
    """Return what is wrong with a jury by this rubric; empty if scripted judges are heard."""
    names = [c.name for c in rubric.criteria]
    low, high = rubric.minimum, rubric.maximum
    if not all(name in judge_messages(rubric, _RATED, "An answer.")[0].content for name in names):
        return f"rubric {rubric.name}: a judge is not told of every criterion"
    judged: dict[str, tuple[int, ...] | None] = {"abstains": None}
    for said, form in ((low, {"score": low, "reason": "So it is."}), (high, high)):
        reply = json.dumps(dict.fromkeys(names, form))
        try:
            judged[f"says {said}"] = read_reply(reply, rubric.criteria, low, high).scores
        except BadReply as e:
            return f"rubric {rubric.name}: a reply in the form that is asked for is not read: {e}"
    score = jury_metrics(rubric, _Scripted(judged), 2)[0].score(
        _RATED, Episode(instance=_RATED, response=Response(instance_id="check", text="An answer."))
    )
    if score.value != fmean((low, high)):
        return f"rubric {rubric.name}: {low} and {high} of two judges give {score.value}"
    return ""
