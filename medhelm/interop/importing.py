"""Answers of other harnesses as run folders of ours.

A run that did not send our prompt is another asking, `MODEL+TOOL`, which tables mark.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import msgspec

from medhelm.data.dataset import Dataset, open_dataset
from medhelm.data.sources import file_sha256
from medhelm.errors import DataError, UnknownName, UsageError
from medhelm.interop.recorded import Log, Matched, Matches, Questions, skeleton
from medhelm.models.catalogue import find_model
from medhelm.models.tokens import output_budget
from medhelm.plugins.registry import Registry
from medhelm.prompts.messages import prompt_sha256, render_prompt, resolve_prompt
from medhelm.schema.asking import Asking
from medhelm.schema.data import Benchmark
from medhelm.schema.episode import Episode
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import RunSpec, fields_of
from medhelm.store.imported import IMPORTED, Imported, TheirAnswer, read_imported
from medhelm.store.loglines import episode_keys
from medhelm.store.records import Plan, request_hash, run_path, write_struct
from medhelm.store.runlog import RunFolder

_TOOLS = {"inspect": "Inspect", "lm_eval": "lm-evaluation-harness", "helm": "HELM"}


@dataclass(frozen=True)
class Brought:
    """The answers of one model to one benchmark as they came in."""

    logs: Sequence[Log]
    matches: Matches
    available: int
    """Questions of the benchmark."""
    spec: RunSpec | None
    """None: no answer is to a question of a benchmark, and nothing was written."""


@dataclass
class Importer:
    """The choices of an import, and the benchmarks that it has opened."""

    registry: Registry
    results: Path
    data: Literal["sample", "full"]
    root: Path
    benchmark: str = ""
    """Benchmark of all answers; empty: the one that the task is named after, else by their texts."""
    model: str = ""
    """The model's name here; empty: the tool's."""
    _opened: dict[str, tuple[Dataset, Questions]] = field(default_factory=dict)

    def bring(self, logs: Iterable[Log]) -> Iterator[Brought]:
        """Write a run folder for the answers of each model to each benchmark, and yield what became of them.

        Raises UsageError where a folder holds other answers already, DataError without data.
        """
        cells: dict[tuple[str, str, bool], list[Log]] = {}
        for log in logs:
            is_rated = any(answer.continuations for answer in log.answers)
            cells.setdefault((self._benchmark_of(log), log.model, is_rated), []).append(log)
        for (name, *_), own in cells.items():
            many = len(own) > 1  # tasks number their questions from 0, each
            answers = [
                replace(a, key=f"{log.task}/{a.key}" if many else a.key)
                for log in own
                for a in log.answers
            ]
            questions = self._open(name)[1] if name else Questions(())
            matches, spec = questions.match(answers), None
            if matches.found:
                spec = self._spec(own, matches.found, self._open(name)[0], questions.count)
                _write(run_path(self.results, spec), spec, own, matches)
            yield Brought(own, matches, questions.count, spec)

    def _open(self, name: str) -> tuple[Dataset, Questions]:
        if name not in self._opened:
            dataset = open_dataset(self.registry.benchmark(name), self.data, root=self.root)
            self._opened[name] = (dataset, Questions(dataset.instances()))
        return self._opened[name]

    def _benchmark_of(self, log: Log) -> str:
        """Return the benchmark whose questions a task asks; empty where none has any of them.

        Raises UsageError where two have as many of them.
        """
        names = [self.benchmark] if self.benchmark else [*self.registry.benchmarks]
        fit = [n for n in names if self.registry.benchmark(n).protocol == "completion"]
        if self.benchmark:
            if not fit:
                raise UsageError(
                    f"{self.benchmark} asks more than one question, so no answer is imported"
                )
            return self.benchmark
        for name in fit:
            if _bare(name) == _bare(log.task) and self._count(name, log):
                return name
        counts = {name: self._count(name, log) for name in fit}
        most = max(counts.values(), default=0)
        best = [name for name, n in counts.items() if n == most and n]
        if len(best) > 1:
            raise UsageError(
                f"{log.path}: {', '.join(best)} hold {most:,} of its questions each; say which one is "
                "meant with --benchmark NAME"
            )
        return best[0] if best else ""

    def _count(self, name: str, log: Log) -> int:
        with suppress(DataError, UnknownName):  # its data are not here
            return sum(map(self._open(name)[1].holds, log.answers))
        return 0

    def _spec(
        self, logs: Sequence[Log], found: Sequence[Matched], dataset: Dataset, available: int
    ) -> RunSpec:
        """Return what decided the requests, as far as the files tell it."""
        first, benchmark = logs[0], dataset.benchmark
        model = msgspec.structs.replace(
            self._model(self.model or first.model),
            sampling=first.sampling,
            max_output_tokens=first.max_output_tokens,
        )
        prompt, sha256 = resolve_prompt(benchmark), prompt_sha256(benchmark)
        name, version = prompt.name, prompt.version
        if (asking := _asking(first, found, benchmark)) is not None:
            model = msgspec.structs.replace(model, name=f"{model.name}+{asking.name}")
            name, version, sha256 = asking.name, asking.version, _digest(found)
        asked = len({own.instance.id for own in found})
        return RunSpec(
            benchmark=benchmark.name,
            benchmark_version=benchmark.version,
            **fields_of(dataset, "data", "split"),
            dataset_sha256=dataset.sha256,
            prompt_name=name,
            prompt_version=version,
            prompt_sha256=sha256,
            model=model,
            max_output_tokens=output_budget(benchmark, model),
            repeats=1 + max(own.answer.response.repeat for own in found),
            max_instances=asked if asked < available else None,
            asking=asking,
            answer=benchmark.answer if asking else None,
        )

    def _model(self, name: str) -> ModelSpec:
        """Return a model without the settings that a file of ours gives it: the tool had its own."""
        try:
            found = find_model(name, self.registry.models)
        except (UnknownName, UsageError):
            return ModelSpec(name=name, model=name.rpartition("/")[2])
        return msgspec.structs.replace(
            found, extra_body={}, system_prompt=None, headers={}, serve=""
        )


def _bare(name: str) -> str:
    return "".join(c for c in name.rpartition("/")[2].lower() if c.isalnum())


def _asking(log: Log, found: Sequence[Matched], benchmark: Benchmark) -> Asking | None:
    """Return the way in which a tool asked; None where every message is ours."""
    is_rated = bool(found[0].answer.continuations)
    is_ours = (m.answer.messages == render_prompt(benchmark, m.instance) for m in found)
    if not is_rated and all(is_ours):
        return None
    if len({own.are_texts for own in found}) > 1:
        raise UsageError(f"{log.path}: it rates labels of some options and texts of others")
    return Asking(
        name=log.tool + "_logprobs" * is_rated,
        version=_digest(found)[:12],
        form="logprobs" if is_rated else "text",
        candidates="texts" if found[0].are_texts else "labels",
        asked_by=f"{_TOOLS[log.tool]} {log.version}".strip(),
    )


def _digest(found: Sequence[Matched]) -> str:
    return hashlib.sha256(msgspec.json.encode(skeleton(found))).hexdigest()


def _write(path: Path, spec: RunSpec, logs: Sequence[Log], matches: Matches) -> None:
    """Write the folder of a run; nothing where it holds these very answers."""
    answers = [(own.instance, own.answer) for own in matches.found]
    origin = Imported(
        **fields_of(logs[0], "tool", "version"),
        files={log.path: file_sha256(Path(log.path)) for log in logs},
        tasks=tuple(log.task for log in logs),
        unmatched=matches.unmatched,
        answers=tuple(
            TheirAnswer(instance.id, a.response.repeat, a.target, a.scores)
            for instance, a in answers
        ),
    )
    if (path / "spec.json").exists():
        stored = read_imported(path)
        if stored is None or sorted(stored.files.values()) != sorted(origin.files.values()):
            raise UsageError(
                f"{path} holds other answers of {spec.model.name} to {spec.benchmark}: import into "
                "another --results-dir, or take them away with `medhelm runs remove`"
            )
    instances = len({instance.id for instance, _ in answers})
    plan = Plan(spec=spec, request_hash=request_hash(spec), instances=instances)
    with closing(RunFolder(path)) as folder:
        scan = folder.open()
        write_struct(path / IMPORTED, origin)
        write_struct(path / "spec.json", plan)
        for instance, answer in answers:
            if (
                episode_keys(instance, answer.response.repeat + 1)[-1]
                in scan.answered | scan.failed
            ):
                continue
            response = msgspec.structs.replace(answer.response, instance_id=instance.id)
            messages = answer.messages or ()
            folder.append(Episode(instance=instance, messages=messages, response=response))
        folder.sync()
