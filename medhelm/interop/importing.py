"""Answers of other harnesses as run folders of ours, graded by the metrics of today.

A run that did not send our prompt is another asking, `MODEL+TOOL`, which tables mark.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from medhelm.data.dataset import Dataset, open_dataset
from medhelm.data.sources import file_sha256
from medhelm.errors import DataError, MedhelmError, UnknownName, UsageError
from medhelm.interop.recorded import Log, Matches, Questions, skeleton
from medhelm.models.catalogue import find_model
from medhelm.plugins.registry import Registry
from medhelm.prompts.messages import prompt_sha256, render_prompt, resolve_prompt
from medhelm.runs.planning import output_budget
from medhelm.schema.asking import Asking
from medhelm.schema.data import Benchmark
from medhelm.schema.episode import Episode
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import RunSpec
from medhelm.store.imported import Imported, TheirAnswer, imported_path, read_imported
from medhelm.store.records import Plan, request_hash, run_path, write_struct
from medhelm.store.runlog import RunFolder, episode_keys

TOOLS = {"inspect": "Inspect", "lm_eval": "lm-evaluation-harness", "helm": "HELM"}


@dataclass(frozen=True)
class Choice:
    """The choices of a user in an import."""

    results: Path
    data: Literal["sample", "full"]
    root: Path
    benchmark: str = ""
    """Benchmark of all answers; empty: the one that the task is named after, else by their texts."""
    model: str = ""
    """The model's name here; empty: the tool's."""


@dataclass(frozen=True)
class Brought:
    """The answers of one model to one benchmark as they came in; of none where no benchmark has them."""

    logs: Sequence[Log]
    matches: Matches
    path: Path | None
    spec: RunSpec | None
    available: int = 0
    """Questions of the benchmark."""


def bring(logs: Iterable[Log], registry: Registry, choice: Choice) -> Iterator[Brought]:
    """Write a run folder for the answers of each model to each benchmark, and yield what became of them.

    Raises UsageError where a folder holds other answers already, DataError without data.
    """
    finder = _Finder(registry, choice)
    cells: dict[tuple[str, str], list[Log]] = {}
    for log in logs:
        name = finder.benchmark_of(log)
        if not name:
            why = dict.fromkeys((a.key for a in log.answers), "no benchmark has its text")
            yield Brought([log], Matches([], why), None, None)
            continue
        cells.setdefault((name, log.model), []).append(log)
    for (name, _), own in cells.items():
        benchmark, dataset, questions = finder.opened(name)
        answers = [answer for log in own for answer in log.answers]
        if len(own) > 1:  # tasks number their questions from 0, each
            answers = [replace(a, key=f"{log.task}/{a.key}") for log in own for a in log.answers]
        matches = questions.match(answers)
        if not matches.found:
            yield Brought(own, matches, None, None, questions.count)
            continue
        if len({own.are_texts for own in matches.found}) > 1 or _kinds(matches) > 1:
            raise UsageError(
                f"{own[0].path}: replies and log-probabilities of one model on {name} are two "
                "ways of asking; import their files one by one"
            )
        spec = _spec(own, matches, benchmark, dataset, registry, choice, questions.count)
        path = run_path(choice.results, spec)
        _write(path, spec, own, matches)
        yield Brought(own, matches, path, spec, questions.count)


def _kinds(matches: Matches) -> int:
    return len({bool(own.answer.continuations) for own in matches.found})


class _Finder:
    """Finds the benchmark that a task asks, and holds the questions of those that were opened."""

    def __init__(self, registry: Registry, choice: Choice) -> None:
        self._registry, self._choice = registry, choice
        self._opened: dict[str, tuple[Benchmark, Dataset, Questions]] = {}

    def opened(self, name: str) -> tuple[Benchmark, Dataset, Questions]:
        """Return a benchmark, its data and its questions; raises DataError."""
        if name not in self._opened:
            benchmark, choice = self._registry.benchmark(name), self._choice
            dataset = open_dataset(benchmark, choice.data, root=choice.root)
            self._opened[name] = (benchmark, dataset, Questions(dataset.instances()))
        return self._opened[name]

    def benchmark_of(self, log: Log) -> str:
        """Return the name of the benchmark whose questions a task asks; empty where none has any of them.

        Raises UsageError where two have as many of them.
        """
        if self._choice.benchmark:
            return self._choice.benchmark
        alike = [name for name in self._registry.benchmarks if _bare(name) == _bare(log.task)]
        if alike and self._count(alike[0], log):
            return alike[0]
        counts = {name: self._count(name, log) for name in self._registry.benchmarks}
        most = max(counts.values(), default=0)
        best = [name for name, n in counts.items() if n == most and n]
        if len(best) > 1:
            raise UsageError(
                f"{log.path}: {', '.join(best)} hold {most:,} of its questions each; say which one is "
                "meant with --benchmark NAME"
            )
        return best[0] if best else ""

    def _count(self, name: str, log: Log) -> int:
        if self._registry.benchmark(name).protocol != "completion":
            return 0
        with suppress(DataError, UnknownName):  # its data are not here
            return sum(map(self.opened(name)[2].holds, log.answers))
        return 0


def _bare(name: str) -> str:
    return "".join(c for c in name.rpartition("/")[2].lower() if c.isalnum())


def _spec(
    logs: Sequence[Log],
    matches: Matches,
    benchmark: Benchmark,
    dataset: Dataset,
    registry: Registry,
    choice: Choice,
    available: int,
) -> RunSpec:
    """Return what decided the requests, as far as the files tell it."""
    first = logs[0]
    model = _model(choice.model or first.model, registry)
    model = msgspec.structs.replace(
        model, sampling=first.sampling, max_output_tokens=first.max_output_tokens
    )
    asking = _asking(logs, matches, benchmark, model)
    if asking is not None:
        model = msgspec.structs.replace(model, name=f"{model.name}+{asking.name}")
    prompt = resolve_prompt(benchmark)
    asked = len({own.instance.id for own in matches.found})
    return RunSpec(
        benchmark=benchmark.name,
        benchmark_version=benchmark.version,
        data=dataset.data,
        split=dataset.split,
        dataset_sha256=dataset.sha256,
        prompt_name=asking.name if asking else prompt.name,
        prompt_version=asking.version if asking else prompt.version,
        prompt_sha256=_digest(skeleton(matches.found)) if asking else prompt_sha256(benchmark),
        model=model,
        max_output_tokens=output_budget(benchmark, model),
        repeats=1 + max(own.answer.repeat for own in matches.found),
        max_instances=asked if asked < available else None,
        asking=asking,
        answer=benchmark.answer if asking else None,
    )


def _model(name: str, registry: Registry) -> ModelSpec:
    try:
        return find_model(name, registry.models)
    except MedhelmError:
        return ModelSpec(name=name, model=name.rpartition("/")[2])


def _asking(
    logs: Sequence[Log], matches: Matches, benchmark: Benchmark, model: ModelSpec
) -> Asking | None:
    """Return the way in which a tool asked; None where every message is ours."""
    one, is_rated = matches.found[0], bool(matches.found[0].answer.continuations)
    if not is_rated and all(
        own.answer.messages
        == render_prompt(benchmark, own.instance, system_prompt=model.system_prompt)
        for own in matches.found
    ):
        return None
    return Asking(
        name=logs[0].tool + "_logprobs" * is_rated,
        version=_digest(skeleton(matches.found))[:12],
        form="logprobs" if is_rated else "text",
        candidates="texts" if one.are_texts else "labels",
        asked_by=" ".join(filter(None, (TOOLS[logs[0].tool], logs[0].version))),
    )


def _digest(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value)).hexdigest()


def _write(path: Path, spec: RunSpec, logs: Sequence[Log], matches: Matches) -> None:
    """Write the folder of a run; nothing where it holds these very answers."""
    found = Imported(
        tool=logs[0].tool,
        version=logs[0].version,
        files={Path(log.path).name: file_sha256(Path(log.path)) for log in logs},
        tasks=tuple(log.task for log in logs),
        unmatched=matches.unmatched,
        answers=tuple(
            TheirAnswer(
                instance_id=own.instance.id,
                repeat=own.answer.repeat,
                target=own.answer.target,
                scores=own.answer.scores,
            )
            for own in matches.found
        ),
    )
    if (path / "spec.json").exists() and read_imported(path) != found:
        raise UsageError(
            f"{path} holds other answers of {spec.model.name} to {spec.benchmark}: import into "
            "another --results-dir, or take them away with `medhelm runs remove`"
        )
    ids = {own.instance.id for own in matches.found}
    plan = Plan(spec=spec, request_hash=request_hash(spec), instances=len(ids))
    folder = RunFolder(path)
    scan = folder.open()
    try:
        write_struct(imported_path(path), found)
        write_struct(path / "spec.json", plan)
        for own in matches.found:
            repeat = own.answer.repeat
            if episode_keys(own.instance, repeat + 1)[-1] in scan.answered | scan.failed:
                continue
            response = msgspec.structs.replace(
                own.answer.response, instance_id=own.instance.id, repeat=repeat
            )
            folder.append(
                Episode(instance=own.instance, messages=own.answer.messages, response=response)
            )
        folder.sync()
    finally:
        folder.close()
