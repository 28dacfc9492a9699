"""Proves a benchmark on its own instances, without a model and without network.

    survey (first reading) -> grade embedded answers (second reading) -> compare with the manifest

Both readings stream. A finding shows text of bundled samples and public data only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from medhelm.data.dataset import Dataset, find_duplicate_ids, open_dataset
from medhelm.data.instance_ids import copies_note
from medhelm.data.rubrics import load_rubric
from medhelm.errors import MedhelmError
from medhelm.grading.answer_form import stated
from medhelm.grading.grade import MEAN_OF_PARTS, grade, in_parts, metric_ref
from medhelm.grading.graders.grader import GradedMetric
from medhelm.grading.jury.metric import NAME as JURY
from medhelm.grading.panels import with_stand_ins
from medhelm.grading.scoring import Tally
from medhelm.grading.survey import Answer, Survey, embedded_answers, survey
from medhelm.plugins.registry import Registry
from medhelm.prompts.messages import render_prompt
from medhelm.proof.checks import (
    LONG_GOLD,
    SHOWN,
    Finding,
    Findings,
    best_value,
    declaration_faults,
    holds_gold,
    is_data_present,
    jury_fault,
    plain,
    prompt_fault,
    shown_text,
)
from medhelm.proof.manifest import Facts, compare, read_manifest, write_manifest
from medhelm.proof.reading_trial import ReadingTrial
from medhelm.runs.asking import as_proved, gold_reply
from medhelm.schema.aggregation import MEAN
from medhelm.schema.asking import Asking
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import Episode, Response
from medhelm.schema.run import MetricRef
from medhelm.schema.score import Metric, Score, Scoring

Data = Literal["sample", "full"]
ManifestState = Literal["agrees", "differs", "absent", "written", ""]

_TOLERANCE = 1e-9


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The findings on one benchmark on one kind of data."""

    benchmark: str
    data: Data
    state: Literal["passed", "failed", "no data"]
    facts: Facts | None = None
    manifest: ManifestState = ""
    findings: tuple[Finding, ...] = ()
    """At most ten of each check and level; `counts` has them all."""
    counts: dict[str, int] = {}
    """Number of findings by '<level>: <check>'."""


def validate(
    benchmark: Benchmark,
    data: Data,
    registry: Registry,
    root: Path,
    *,
    update: bool = False,
    ask: Asking | None = None,
) -> Report:
    """Return what is found wrong with a benchmark, and what its embedded answers score.

    `update` writes the manifest instead of comparing with it; with `ask` there is none. Raises
    nothing that a plugin or its data can cause.
    """
    if data == "full" and not is_data_present(benchmark, root):
        return Report(benchmark=benchmark.name, data=data, state="no data")
    findings = Findings()
    facts: Facts | None = None
    manifest: ManifestState = ""
    try:
        facts = _measure(benchmark, data, registry, root, findings, ask)
        if facts is not None and ask is None and not update:
            manifest = _compare(benchmark, data, facts, findings)
        elif facts is not None and ask is None and not findings.has_failed:
            write_manifest(benchmark, data, facts)
            manifest = "written"
    except MedhelmError as e:
        findings.add("failure", "data", str(e))
    return Report(
        benchmark=benchmark.name,
        data=data,
        state="failed" if findings.has_failed else "passed",
        facts=facts,
        manifest=manifest,
        findings=tuple(findings.kept),
        counts=dict(findings.counts),
    )


def _compare(benchmark: Benchmark, data: Data, facts: Facts, findings: Findings) -> ManifestState:
    stored = read_manifest(benchmark, data)
    if stored is None or (data == "full" and stored.split != facts.split):
        return "absent"
    differences = compare(stored, facts)
    for key, (then, now) in differences.items():
        findings.add(
            "failure",
            "manifest",
            f"{key} differs from the manifest; where it is meant to, raise the version and "
            f"run `medhelm validate {benchmark.name} --data {data} --update`",
            expected=then,
            got=now,
        )
    return "differs" if differences else "agrees"


# Second reading ----------------------------------------------------------------------------


_Key = tuple[str, Scoring]


class _Sums(NamedTuple):
    """One answer under one metric."""

    metric: Metric
    ref: MetricRef
    tally: Tally

    def value(self) -> float | None:
        value = self.tally.value(self.ref)
        return None if value is None else round(value, 6)

    def of_parts(self, parts: Iterable[str]) -> dict[str, float | None]:
        """Return the mean of each part."""
        sums = self.tally.sums()
        counted = {part: sums.get(f"count/{part}", 0.0) for part in parts}
        return {p: round(sums[f"sum/{p}"] / n, 6) if n else None for p, n in counted.items()}


def _measure(
    benchmark: Benchmark,
    data: Data,
    registry: Registry,
    root: Path,
    findings: Findings,
    ask: Asking | None,
) -> Facts | None:
    dataset = open_dataset(benchmark, data, root=root)
    if ask is not None:
        benchmark = as_proved(benchmark, ask, dataset, registry, root)
    names = [n for n in benchmark.metrics if not n.startswith("evaluate:") and n != JURY]
    for name in set(benchmark.metrics) - {*names, JURY}:
        findings.add("warning", "declared", f"{name} is not checked: it may need network")
    _check_rows(benchmark, dataset, findings)
    protocol = registry.protocol(benchmark.protocol)
    own = protocol.proofs
    if own is None:  # what judges decide has no gold by which it, or a metric beside it, is proven
        if isinstance(registry.metric(benchmark.metrics[0]), GradedMetric):
            names = []
        names = [n for n in names if not isinstance(registry.metric(n), GradedMetric)]
    if JURY in benchmark.metrics and (fault := jury_fault(load_rubric(benchmark))):
        findings.add("failure", "jury", fault, metric=JURY)
    fixed = [registry.metric(name).prepare(dataset.folder) for name in names]
    if own is not None:  # they are whole episodes, which a grader's rule can read
        fixed = with_stand_ins(benchmark, fixed, protocol)
    published = (registry.metrics.get((name, "helm")) for name in names)
    helm = [m.prepare(dataset.folder) for m in published if m is not None]
    for metric in (*fixed, *helm):
        for fault in declaration_faults(metric):
            findings.add("failure", "declared", fault, metric=metric.name)
    if findings.has_failed:
        return None  # a score in no declared range says nothing
    known = survey(dataset)
    _check_counts(benchmark, dataset, known, root, findings)
    grader = _Grader(benchmark, data, fixed, findings, known.instances)
    proofs: _Proofs = (
        partial(own, benchmark)
        if own
        else partial(_answered, benchmark, embedded_answers(benchmark, dataset, known), fixed)
    )
    tallies = grader.grade_all(dataset, proofs, [*fixed, *helm], has_prompt=own is None)
    if grader.digest != known.digest:
        findings.add("failure", "ids", "two readings of the data give different instances")
    facts = Facts(
        version=benchmark.version,
        split=dataset.split,
        dataset_sha256=dataset.sha256,
        instances=known.instances,
        left_out=dict(known.rows.left_out),
        unscored=grader.unscored,
        metrics={m.name: m.version for m in fixed},
        scores=_values(tallies, fixed),
        parts=_of_parts(tallies, fixed[0], benchmark.parts) if fixed else {},
        scores_helm=_values(tallies, helm) if helm else {},
        readings=grader.trial.readings(),
    )
    _check_values(facts, fixed, grader.informed, findings, data)
    return facts


def _check_rows(benchmark: Benchmark, dataset: Dataset, findings: Findings) -> None:
    """Add what the benchmark's own check says of each row, each under its name."""
    if benchmark.row_findings is None:
        return
    for number, row in enumerate(dataset.rows(), 1):
        for found in benchmark.row_findings(row):
            level: Literal["failure", "warning"] = "failure" if found.is_failure else "warning"
            findings.add(level, "rows", f"{found.check}: row {number}: {found.text}")


_Proofs = Callable[[Instance], Iterable[tuple[str, Episode]]]
"""Named episodes of an instance by rule: the oracle's, and those without a right answer."""


def _answered(
    benchmark: Benchmark,
    answers: Mapping[str, Answer],
    metrics: Sequence[Metric],
    instance: Instance,
) -> Iterator[tuple[str, Episode]]:
    """Yield an episode of one call for each embedded answer, in the form that is asked for."""
    asking = benchmark.asked.asking if benchmark.asked else None
    main = metrics[0] if metrics else None
    for name, answer in answers.items():
        text = answer(instance)
        if asking is not None and main is not None and text:
            text = gold_reply(benchmark, asking, main, instance, text)
        episode = Episode(instance=instance, response=Response(instance_id=instance.id, text=text))
        if asking is not None and asking.form != "logprobs":  # for which no text can stand
            episode = stated(episode, asking, main, benchmark.answer)
        yield name, episode


def _values(
    tallies: Mapping[str, Mapping[_Key, _Sums]], metrics: list[Metric]
) -> dict[str, dict[str, float | None]]:
    return {
        answer: {m.name: own[m.name, m.scoring].value() for m in metrics}
        for answer, own in tallies.items()
    }


def _of_parts(
    tallies: Mapping[str, Mapping[_Key, _Sums]], main: Metric, parts: Sequence[str]
) -> dict[str, dict[str, float | None]]:
    """Return what each answer gets in each part, where the main metric is the mean of theirs."""
    if not parts or metric_ref(main, parts).aggregation != MEAN_OF_PARTS:
        return {}
    return {a: own[main.name, main.scoring].of_parts(parts) for a, own in tallies.items()}


def _check_counts(
    benchmark: Benchmark, dataset: Dataset, known: Survey, root: Path, findings: Findings
) -> None:
    for name in find_duplicate_ids(dataset)[:SHOWN]:
        findings.add("failure", "ids", "the id is more than once in the data", instance=name)
    if note := copies_note(known.rows.copies):
        findings.add("warning", "ids", note)
    elif known.repeated:
        findings.add(
            "warning",
            "rows",
            f"{known.repeated:,} row(s) show the same text as an earlier one, this the first; each "
            "counts as an instance that is independent of the others: give them a common cluster, or "
            "remove them",
            instance=known.repeating,
        )
    if dataset.data == "sample":
        return
    # How many rows a user's own file has, nobody can declare.
    is_private = benchmark.data_class == "private" and not benchmark.expected_instances
    is_own = bool(benchmark.columns) or is_private
    if dataset.split not in benchmark.expected_instances and not is_own:
        findings.add(
            "warning", "declared", f"expected_instances says nothing of split {dataset.split!r}"
        )
    for split, expected in benchmark.expected_instances.items():
        got = known.instances
        if split != dataset.split:
            if not is_data_present(benchmark, root, split):
                continue
            other = open_dataset(benchmark, "full", split=split, root=root)
            got = sum(1 for _ in other.instances())
        if got != expected:
            findings.add(
                "failure",
                "data",
                f"split {split!r} has another number of instances than expected_instances says",
                expected=str(expected),
                got=str(got),
            )


def _check_values(
    facts: Facts, metrics: list[Metric], informed: Collection[str], findings: Findings, data: Data
) -> None:
    """Check the means: the oracle is best on every metric, an empty or constant answer is not.

    `informed`: the metrics that have something to measure in the oracle's episodes.
    """
    is_judged = data == "full" and isinstance(next(iter(metrics), None), GradedMetric)
    if is_judged and facts.unscored == facts.instances:
        findings.add("warning", "oracle", "only a judge can score these; all else was checked")
        return
    for metric in metrics:
        if metric is not metrics[0] and metric.name not in informed:
            continue
        best = best_value(metric)
        got = facts.scores.get("oracle", {}).get(metric.name)
        if got is None or abs(got - best) > _TOLERANCE:
            findings.add(
                "failure" if metric is metrics[0] else "warning",
                "oracle",
                "the gold itself does not score the best value",
                metric=metric.name,
                expected=f"{best:g}",
                got="no value" if got is None else f"{got:g}",
            )
    for answer, values in facts.scores.items() if metrics else ():
        main = metrics[0]
        value = values[main.name]
        if answer == "oracle" or value is None or abs(value - best_value(main)) > _TOLERANCE:
            continue
        findings.add(
            "failure" if answer == "empty" else "warning",
            "baseline",
            f"the answer '{answer}' scores as well as the gold",
            metric=main.name,
            got=f"{value:g}",
        )


def _is_above_floor(metric: Metric, score: Score) -> bool:
    """Return whether a score is better than what an unreadable answer counts."""
    if score.value is None or metric.floor is None:
        return False
    gain = score.value - metric.floor
    return (gain if metric.higher_is_better else -gain) > _TOLERANCE


class _Grader:
    """Grades the embedded answers on each instance and checks the instance on the way."""

    def __init__(
        self,
        benchmark: Benchmark,
        data: Data,
        fixed: list[Metric],
        findings: Findings,
        instances: int,
    ) -> None:
        self._benchmark, self._findings = benchmark, findings
        self._main = fixed[0] if fixed else None
        is_open = data == "sample" or benchmark.data_class == "public"
        self._shown = partial(shown_text, benchmark=benchmark, is_open=is_open)
        self.trial = ReadingTrial(benchmark, fixed, findings, instances, self._shown)
        self.unscored = 0
        self.informed: set[str] = set()
        self.digest = ""

    def grade_all(
        self, dataset: Dataset, proofs: _Proofs, metrics: list[Metric], *, has_prompt: bool
    ) -> dict[str, dict[_Key, _Sums]]:
        """Return the sums of each proof under each metric."""
        refs = [metric_ref(m, self._benchmark.parts) for m in metrics]
        tallies: dict[str, dict[_Key, _Sums]] = {}
        digest = hashlib.sha256()
        for instance in dataset.instances():
            digest.update(msgspec.json.encode(instance))
            if has_prompt:
                self._check_prompt(instance)
            for name, episode in proofs(instance):
                if name not in tallies:
                    tallies[name] = {
                        (m.name, m.scoring): _Sums(m, ref, Tally(m, has_repeats=False))
                        for m, ref in zip(metrics, refs, strict=True)
                    }
                for sums in tallies[name].values():
                    self._grade(sums, name, episode)
                if has_prompt and name == "oracle" and self._benchmark.asked is None:
                    self.trial.add(instance, episode.text)
        self.digest = digest.hexdigest()
        return tallies

    def _grade(self, sums: _Sums, answer: str, episode: Episode) -> None:
        metric, instance = sums.metric, episode.instance
        try:
            score = grade(metric, episode)
            score = in_parts(score, sums.ref.aggregation, instance, self._benchmark.parts)
        except MedhelmError as e:
            message = f"the answer '{answer}' cannot be graded: {e}"
            self._findings.add(
                "failure", "metric", message, instance=instance.id, metric=metric.name
            )
            return
        sums.tally.add(episode, score)
        if answer == "oracle" and score.outcome != "uninformative":
            self.informed.add(metric.name)
        if answer == "oracle" and metric is self._main:
            self._check_oracle(metric, instance, score)
        if answer == "empty" and metric is self._main and _is_above_floor(metric, score):
            said = "an answer without content scores on this instance"
            self._findings.add(
                "warning",
                "baseline",
                said,
                instance=instance.id,
                metric=metric.name,
                got=f"{score.value:g}",
            )

    def _check_oracle(self, main: Metric, instance: Instance, score: Score) -> None:
        if score.outcome in ("unscored", "uninformative"):
            self.unscored += 1
            return
        best = best_value(main)
        is_best = score.value is not None and abs(score.value - best) <= _TOLERANCE
        if score.outcome == "scored" and (is_best or main.aggregation != MEAN):
            return
        got = "no value" if score.value is None else f"{score.value:g}"
        self._findings.add(
            "failure",
            "oracle",
            f"the gold does not score the best value (outcome {score.outcome})",
            instance=instance.id,
            metric=main.name,
            expected=f"{best:g} for {self._shown(next(iter(instance.references), None))}",
            got=f"{got}, read as {self._shown(score.extracted)}",
        )

    def _check_prompt(self, instance: Instance) -> None:
        prompt = render_prompt(self._benchmark, instance)[-1].content
        fault = prompt_fault(self._benchmark, instance, prompt)
        if fault:
            self._findings.add("failure", "prompt", fault, instance=instance.id)
        if len(set(instance.choices)) < len(instance.choices):
            self._findings.add(
                "warning", "prompt", "two options have the same text", instance=instance.id
            )
        if self._benchmark.answer == "text" and not instance.choices:
            text = plain(prompt)
            if any(holds_gold(text, reference) for reference in instance.references):
                self._findings.add(
                    "warning",
                    "gold in prompt",
                    f"a gold of {LONG_GOLD} or more words is verbatim in the prompt",
                    instance=instance.id,
                )
