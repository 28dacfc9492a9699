"""Find golds that a small judge calls unreasonable, and their effect on results.

(Bedi et al. 2025, MedHELM, appendix D.) Every gold is shown to one judge below the text that models
are given; it decides one criterion, 0 or 1. The judge is asked by a run of its own:

<results>/gold_quality/<benchmark>/<hash>/responses.jsonl    an episode for each gold
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path

import msgspec
import numpy as np

from medhelm.data.dataset import Dataset
from medhelm.data.rubrics import read_rubric
from medhelm.errors import DataError
from medhelm.extract import visible_text
from medhelm.grading.graders.grader import NOT_ASKED
from medhelm.grading.jury.grader import judge_messages, read_reply, repair_message, reply_schema
from medhelm.grading.panels import end_of
from medhelm.models.baselines import open_baseline
from medhelm.models.identity import is_rankable
from medhelm.prompts.messages import render_prompt
from medhelm.protocols.protocol import FinalAnswer
from medhelm.protocols.questions import Question, Readout, asking, followed_by
from medhelm.runs.own_runs import own_run, stored_episodes
from medhelm.runs.run import Run
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import Message
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import JUDGE, JurySpec, JuryTerms
from medhelm.stats.aggregation import Floats, ranks
from medhelm.stats.intervals import share_interval
from medhelm.stats.two_class import kendall
from medhelm.store.records import (
    cluster_key,
    find_gradings,
    instance_key,
    judge_hash,
    order_key,
    read_record,
)
from medhelm.tables import notes
from medhelm.tables.loading import load_results
from medhelm.tables.study.cells import Keys, MetricScores
from medhelm.tables.study.study import Panel

FOLDER = "gold_quality"
_CRITERION = "reasonable"
_RUBRIC = read_rubric(Path(__file__).with_suffix(".yaml").read_bytes(), "gold_quality.yaml")
_ORACLE = ModelSpec(name="baseline/oracle", provider="baseline")
_REPLY = 12
"""Tokens of a reply in the form that is asked for."""
_SCHEMA = reply_schema(_RUBRIC.criteria, 0, 1, reasons=False)


_Marked = dict[str, str | None]
"""Ids of instances with one verdict on their gold, and their cluster."""


def gold_messages(instance: Instance) -> tuple[Message, ...]:
    """Return what the judge is sent: our words, then task and gold fenced as for any judge."""
    _, task = judge_messages(_RUBRIC, instance, instance.references[0])
    return Message("system", _RUBRIC.task), task


def _questions(benchmark: Benchmark, instance: Instance) -> Iterator[Question[int]]:
    (gold,) = instance.references
    yield Question(
        step=_CRITERION,
        messages=gold_messages(instance),
        schema=_SCHEMA,
        read=lambda text: read_reply(text, _RUBRIC.criteria, 0, 1, gold).scores[0],
        repair=followed_by(repair_message),
        expected=_REPLY,
        is_seeded=False,
        ends_when_cut=True,
    )


def _answer(instance: Instance, found: Readout[int]) -> FinalAnswer:
    return found.answer({_CRITERION: found.value})


PROTOCOL = asking(FOLDER, JUDGE, _questions, _answer)


class GoldReview:
    """The golds of one data set (the first `max_instances` in the seeded order) and one judge."""

    def __init__(
        self, dataset: Dataset, judge: ModelSpec, results: Path, max_instances: int | None = None
    ) -> None:
        self._dataset, self._judge, self._results = dataset, judge, results
        jury = JurySpec(name=FOLDER, judges=(judge,), quorum=1, reasons=False)
        terms = JuryTerms(jury=jury, rubric=_RUBRIC, version="gold-1")
        self._decides = "\0".join((dataset.data, dataset.split, dataset.sha256))
        decides = f"{judge_hash(judge, terms)}\0{self._decides}"
        name = hashlib.sha256(decides.encode()).hexdigest()[:16]
        self.folder = results / FOLDER / dataset.benchmark.name / name
        self._cut = self._find_cut(max_instances)

    def _find_cut(self, wanted: int | None) -> int | None:
        """Return the last `order_key` that is taken, as a run with seed 0 takes them; None: all."""
        if wanted is None:
            return None
        keys = sorted(array("Q", (order_key(0, i.id) for i in self._dataset.instances())))
        return keys[wanted - 1] if wanted < len(keys) else None

    def instances(self) -> Iterator[Instance]:
        """Yield the chosen instances."""
        for instance in self._dataset.instances():
            if self._cut is None or order_key(0, instance.id) <= self._cut:
                yield instance

    def golds(self) -> Iterator[tuple[Instance, Instance]]:
        """Yield instances that have a gold, each with what the judge is shown: the task and the gold."""
        benchmark, oracle = self._dataset.benchmark, open_baseline(_ORACLE)
        for instance in self.instances():
            if any(r.strip() for r in instance.references):
                task = render_prompt(benchmark, instance)[-1].content
                gold = oracle.answer(benchmark, instance, 0)
                if visible_text(gold):
                    yield instance, Instance(id=instance.id, context=task, references=(gold,))

    def __iter__(self) -> Iterator[Instance]:
        """Yield what the judge is shown."""
        return (shown for _, shown in self.golds())

    def run(self, environ: Mapping[str, str] | None) -> Run:
        """Return the run that asks the judge; raises UsageError, ModelError and PrivacyRefused."""
        benchmark = self._dataset.benchmark
        return own_run(
            f"golds of {benchmark.name}",
            self,
            PROTOCOL,
            {JUDGE: self._judge},
            self.folder,
            data_class=benchmark.data_class,
            environ=environ,
            decides=self._decides,
        )

    def report(self) -> GoldReport:
        """Return what the log says of the chosen golds, and of models with a graded run on the same data."""
        episodes = stored_episodes(self.folder)
        stored = {e.instance_id: (e.state.get(_CRITERION), end_of(e)) for e in episodes}
        flagged, accepted = marked = _Marked(), _Marked()
        abstained: Counter[str] = Counter()
        golds = 0
        for golds, (instance, _) in enumerate(self.golds(), start=1):  # noqa: B007 - used below
            score, end = stored.get(instance.id, (None, NOT_ASKED))
            if score is None:
                abstained[end] += 1
            else:
                marked[score][instance.id] = instance.cluster
        benchmark, data = self._dataset.benchmark.name, self._dataset.data
        if not golds:
            raise DataError(f"{benchmark}: no instance has a gold, so there is none to judge")
        share, low, high = _share(flagged, accepted)
        report = GoldReport(
            benchmark=benchmark,
            data=data,
            judge=self._judge.name,
            golds=golds,
            without_gold=sum(1 for _ in self.instances()) - golds,
            judged=len(flagged) + len(accepted),
            flagged=len(flagged),
            share=share,
            low=low,
            high=high,
            abstained=dict(abstained),
            flagged_ids=tuple(flagged),
            folder=str(self.folder),
        )
        paths = [p for p in find_gradings(self._results) if p.parents[3].name == benchmark]
        if not any(read_record(p).spec.data == data for p in paths):
            return report
        results = load_results(self._results, data=data, benchmarks=[benchmark], latest=True)
        study = results.study()
        panel = study.panels[benchmark]
        report = msgspec.structs.replace(
            report, metric=panel.metric.name, notes=tuple(notes.common(study))
        )
        return _with_models(report, panel, _keys(flagged), _keys(accepted))


# The report ---------------------------------------------------------------------------------------

CONFIDENCE = 0.95
_LEAST_MODELS = 2


class ModelMeans(msgspec.Struct, frozen=True, kw_only=True):
    """One model's main metric on both kinds of instances; None where there are none."""

    model: str
    flagged: float | None
    flagged_n: int
    accepted: float | None
    accepted_n: int
    rank: int | None = None
    rank_without_flagged: int | None = None


class GoldReport(msgspec.Struct, frozen=True, kw_only=True):
    """A judge's findings in the golds of a benchmark."""

    benchmark: str
    data: str
    judge: str
    golds: int
    without_gold: int
    judged: int
    flagged: int
    share: float | None
    low: float | None
    high: float | None
    """Wilson's interval of the share, of effective trials where instances share a cluster."""
    abstained: dict[str, int]
    flagged_ids: tuple[str, ...]
    metric: str = ""
    models: tuple[ModelMeans, ...] = ()
    compared: int = 0
    """Instances that all ranked models share."""
    compared_flagged: int = 0
    tau: float | None = None
    """Kendall's tau-b between the ranks of three models or more with and without flagged instances."""
    notes: tuple[str, ...] = ()
    folder: str = ""


def _share(flagged: _Marked, accepted: _Marked) -> tuple[float | None, float | None, float | None]:
    marks = [(1.0, c) for c in flagged.items()]
    marks += [(0.0, c) for c in accepted.items()]
    if not marks:
        return None, None, None
    values = np.array([value for value, _ in marks])
    keys = np.array([cluster_key(*of) for _, of in marks], dtype=np.uint64)
    _, clusters = np.unique(keys, return_inverse=True)
    ends = share_interval(values, clusters, CONFIDENCE)
    return float(values.mean()), ends.low, ends.high


def _keys(ids: _Marked) -> Keys:
    return np.unique(np.array([instance_key(i) for i in ids], dtype=np.uint64))


def _with_models(report: GoldReport, panel: Panel, flagged: Keys, accepted: Keys) -> GoldReport:
    """Return the report with every model's means, and ranks where two or more can be ranked."""
    scores = {model: panel.scores(model) for model in sorted(panel.cells)}
    ranked = [
        m for m in scores if is_rankable(panel.cells[m].record.spec.model) and len(scores[m].ids)
    ]
    ids = reduce(np.intersect1d, (scores[m].ids for m in ranked)) if ranked else flagged[:0]
    kept = np.setdiff1d(ids, flagged)
    places: dict[str, tuple[int, int]] = {}
    tau = None
    if len(ranked) >= _LEAST_MODELS and len(kept):
        sign = 1.0 if panel.metric.higher_is_better else -1.0
        before, behind = (
            ranks(sign * np.array([_mean(scores[m], some)[0] for m in ranked], dtype=np.float64))
            for some in (ids, kept)
        )
        places = {m: (int(before[i]), int(behind[i])) for i, m in enumerate(ranked)}
        found = kendall(before.astype(np.float64), behind.astype(np.float64))
        tau = found if math.isfinite(found) else None
    models = []
    for model, own in scores.items():
        (bad, bad_n), (good, good_n) = _mean(own, flagged), _mean(own, accepted)
        rank, without = places.get(model, (None, None))
        models.append(
            ModelMeans(
                model=model,
                flagged=bad,
                flagged_n=bad_n,
                accepted=good,
                accepted_n=good_n,
                rank=rank,
                rank_without_flagged=without,
            )
        )
    return msgspec.structs.replace(
        report,
        models=tuple(models),
        compared=len(ids),
        compared_flagged=len(ids) - len(kept),
        tau=tau,
    )


def _mean(scores: MetricScores, wanted: Keys) -> tuple[float | None, int]:
    values: Floats = scores.values[np.isin(scores.ids, wanted)]
    return (float(values.mean()) if len(values) else None), len(values)
