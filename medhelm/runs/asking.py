"""Ask benchmarks otherwise than they declare, where a job says so; what cannot be asked so is refused here."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from pathlib import Path
from typing import Literal

import msgspec

from medhelm.config import Job, data_root
from medhelm.data.dataset import Dataset, open_dataset, open_rows
from medhelm.data.instance_ids import hash64
from medhelm.data.variants import OF_PATIENT, as_shown, varied
from medhelm.errors import DataError, MedhelmError, UsageError
from medhelm.models.access import check_likelihoods
from medhelm.models.baselines import open_baseline
from medhelm.models.providers import known_provider
from medhelm.plugins.registry import Registry
from medhelm.prompts.askings import answer_parts, asked_otherwise, in_form
from medhelm.prompts.messages import render_prompt
from medhelm.protocols.completion import COMPLETION
from medhelm.protocols.protocol import Protocol
from medhelm.schema.asking import Asking, Form
from medhelm.schema.data import Benchmark, Example, Instance, Variant
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import RunSpec
from medhelm.schema.score import Metric
from medhelm.store.records import order_key

EXAMPLES = "examples"
"""The name of the split that a file of the user's is."""


@dataclass(frozen=True)
class Drawn:
    """The examples of a run, in the order in which they are shown."""

    instances: tuple[Instance, ...]
    sha256: str
    """Of what they were drawn from."""


def draw_examples(
    benchmark: Benchmark, asking: Asking, scored: Dataset, seed: int, root: Path
) -> Drawn:
    """Return as many examples as an asking wants: the first in an order decided by the seed.

    `scored`: the data under test. What has its text, or a cluster of it, is left out. `balanced`: gold
    labels take turns. Raises UsageError where no examples are declared, DataError where they are too few.
    """
    pool = _pool(benchmark, asking, scored, root)
    taken = set(_keys(scored.instances()))
    by_label: dict[str, list[tuple[int, Instance]]] = {}
    for instance in pool.instances():
        own = [key for key in _keys([instance]) if key in taken]
        if own or not instance.references:
            continue
        label = instance.references[0] if asking.balanced else ""
        best = by_label.setdefault(label, [])
        entry = (-order_key(seed, instance.id), instance)
        if len(best) < asking.examples:
            heapq.heappush(best, entry)
        elif entry[0] > best[0][0]:
            heapq.heapreplace(best, entry)
    found = [*_in_turns(by_label, seed)][: asking.examples]
    if len(found) < asking.examples:
        raise DataError(
            f"{benchmark.name}: {pool.split} has {len(found)} example(s) that are not in the data under "
            f"test, examples={asking.examples} needs more; take fewer"
        )
    return Drawn(tuple(found), pool.sha256)


def _in_turns(by_label: Mapping[str, list[tuple[int, Instance]]], seed: int) -> Iterator[Instance]:
    """Yield one instance of each label, then the second ones and so on; labels and instances in drawn order."""
    labels = sorted(by_label, key=lambda label: order_key(seed, label))
    rows = (sorted(by_label[label], key=lambda entry: -entry[0]) for label in labels)
    return (entry[1] for entry in chain.from_iterable(zip_longest(*rows)) if entry is not None)


def _pool(benchmark: Benchmark, asking: Asking, scored: Dataset, root: Path) -> Dataset:
    if asking.examples_from:
        return open_rows(benchmark, Path(asking.examples_from).expanduser(), EXAMPLES)
    data: Literal["sample", "full"] = scored.data
    if not benchmark.examples or data == "sample":
        why = "declares none" if data == "full" else "has none among its samples"
        raise UsageError(
            f"examples={asking.examples}: {benchmark.name} {why}; name a file with rows like its own by "
            "ask.examples_from=FILE"
        )
    if scored.split == benchmark.examples:
        raise UsageError(
            f"examples={asking.examples}: the examples of {benchmark.name} are in the split "
            f"{scored.split!r}, which is the one under test; choose another benchmark.split"
        )
    try:
        return open_dataset(benchmark, data, split=benchmark.examples, root=root)
    except DataError as e:
        raise DataError(
            f"{e}; `medhelm data fetch {benchmark.name} --examples` gets the examples"
        ) from None


def _keys(instances: Iterator[Instance] | list[Instance]) -> Iterator[int]:
    """Yield hashes of each instance's text, and of its cluster."""
    for instance in instances:
        shown = "\0".join((instance.context, instance.question, *sorted(instance.choices)))
        yield hash64(" ".join(shown.casefold().split()).encode("utf-8", "replace"))
        if instance.cluster is not None:
            yield hash64(b"cluster\0" + instance.cluster.encode("utf-8", "replace"))


_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_LEAST: dict[Form, int] = {"text": 1, "line": 8, "schema": 16, "logprobs": 1}
"""Output tokens below which no answer of a form can be whole."""
_REASONS = 128
"""Output tokens that reasons need besides, at the least."""
_ORACLE = open_baseline(ModelSpec(name="baseline/oracle", provider="baseline"))


@dataclass(frozen=True)
class AskedBenchmark:
    """A benchmark as a run asks it, and what the run's record holds of it."""

    benchmark: Benchmark
    protocol: Protocol
    drawn: Drawn = Drawn((), "")

    @property
    def asking(self) -> Asking | None:
        """Return how it is asked; None: as it declares."""
        return self.benchmark.asked.asking if self.benchmark.asked else None

    def recorded(self, spec: RunSpec) -> RunSpec:
        """Return the record of a run with its asking; the model's name holds the asking's, so that tables show it."""
        if (asked := self.benchmark.asked) is None:
            return spec
        model = msgspec.structs.replace(spec.model, name=f"{spec.model.name}+{asked.asking.name}")
        return msgspec.structs.replace(
            spec,
            model=model,
            asking=asked.asking,
            answer=self.benchmark.answer,
            examples=tuple(one.id for one in self.drawn.instances),
            examples_sha256=self.drawn.sha256,
        )


def why_not(asking: Asking, benchmark: Benchmark, dataset: Dataset) -> str:
    """Return why a benchmark cannot be asked so; empty where it can."""
    if benchmark.protocol != COMPLETION.name:
        return f"it is conducted by the protocol {benchmark.protocol}"
    first = next(iter(dataset.instances()))
    if first.turns:
        return "its instances bring the turns of a conversation"
    if asking.form == "logprobs" and not first.choices:
        return "it has no options"
    return ""


def ask_benchmark(
    job: Job, benchmark: Benchmark, dataset: Dataset, registry: Registry
) -> AskedBenchmark:
    """Return a benchmark as a job asks a model that reads prompts; of rules nothing changes.

    Raises UsageError for a budget that is too small for the form, a second system text or a template that
    does not show what an instance has, and DataError where there are too few examples.
    """
    protocol = registry.protocol(benchmark.protocol)
    asking, provider = job.ask, known_provider(job.model.provider)
    if asking is None or (provider is not None and not provider.reads_prompt):
        return AskedBenchmark(benchmark, protocol)
    if asking.system and job.model.system_prompt:
        raise UsageError(
            f"{asking.name} has a system text, and {job.model.name} has one of its own "
            "(model.system_prompt); leave one out"
        )
    if asking.form == "logprobs" and asking.reasons:
        raise UsageError(f"ask={asking.name}: form=logprobs asks for no text, so for no reasons")
    if asking.form == "logprobs":
        check_likelihoods(job.model, are_letters=asking.candidates == "labels")
    elif asking.candidates != "labels":
        raise UsageError(f"ask.candidates={asking.candidates} is for form=logprobs alone")
    metric = registry.metric(benchmark.metrics[0])
    drawn = Drawn((), "")
    if asking.examples:
        drawn = draw_examples(benchmark, asking, dataset, job.seed, data_root(job.data_dir))
    asked = as_asked_by(benchmark, asking, metric, drawn.instances)
    _check_budget(asking, asked, job.model)
    try:
        render_prompt(asked, next(iter(dataset.instances())))
    except MedhelmError as e:
        raise UsageError(f"ask={asking.name}: {e}") from None
    return AskedBenchmark(asked, replace(protocol, sends_schema=asking.form == "schema"), drawn)


def in_variant(asked: Benchmark, how: Variant, seed: int, registry: Registry) -> Benchmark:
    """Return a benchmark whose worked examples are in the form in which its questions are asked again."""
    own = asked.asked
    if own is None or not own.examples or how in OF_PATIENT:
        return asked
    metric, examples = registry.metric(asked.metrics[0]), []
    for example in own.examples:
        one = varied(example.instance, how, seed, asked.languages) or example.instance
        reply = gold_reply(asked, own.asking, metric, one, as_shown(one, one.references[0]))
        examples.append(Example(one, reply))
    return replace(asked, asked=replace(own, examples=tuple(examples)))


def as_asked_by(
    benchmark: Benchmark,
    asking: Asking,
    metric: Metric,
    drawn: tuple[Instance, ...] = (),
) -> Benchmark:
    """Return a benchmark as an asking has it, shown with these examples."""
    if not _NAME.fullmatch(asking.name):
        raise UsageError(
            f"ask.name={asking.name!r} stands behind models' names in tables: small letters, digits, "
            "_ . and - alone"
        )
    examples = [Example(one, gold_reply(benchmark, asking, metric, one)) for one in drawn]
    return asked_otherwise(benchmark, asking, examples, metric.answer_schema)


def gold_reply(
    benchmark: Benchmark,
    asking: Asking,
    metric: Metric,
    instance: Instance,
    gold: str | None = None,
) -> str:
    """Return the gold of an instance, or another answer, as a reply in the form of an asking."""
    answer = _ORACLE.answer(benchmark, instance, 0) if gold is None else gold
    if metric.answer_schema is not None:
        return in_form(asking, answer, metric.answer_parts(answer))
    return in_form(asking, answer, answer_parts(benchmark, instance, answer))


def _check_budget(asking: Asking, benchmark: Benchmark, model: ModelSpec) -> None:
    least = _LEAST[asking.form] + _REASONS * asking.reasons
    own = benchmark.reasoning_output_tokens if model.reasoning else benchmark.max_output_tokens
    budget, where = own, "ask.max_output_tokens"
    if model.max_output_tokens is not None:
        budget, where = model.max_output_tokens, "model.max_output_tokens"
    if budget < least:
        raise UsageError(
            f"{benchmark.name}: {budget} output tokens are too few for the answer that "
            f"ask={asking.name} wants; give {where} at least {least}"
        )


def as_proved(
    benchmark: Benchmark, ask: Asking, dataset: Dataset, registry: Registry, root: Path
) -> Benchmark:
    """Return a benchmark as an asking has it, with the examples that a run with seed 0 is shown.

    Of samples without a file of examples there are none. Raises UsageError where it cannot be asked so.
    """
    if why := why_not(ask, benchmark, dataset):
        raise UsageError(f"it cannot be asked otherwise: {why}")
    drawn: tuple[Instance, ...] = ()
    if ask.examples and (dataset.data == "full" or ask.examples_from):
        drawn = draw_examples(benchmark, ask, dataset, 0, root).instances
    return as_asked_by(benchmark, ask, registry.metric(benchmark.metrics[0]), drawn)
