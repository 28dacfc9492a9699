"""Stored replies of models to cases: which actions each of them endorsed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from medhelm import DataError, Episode
from medhelm.plugin import UsageError, runlog, stored_decisions
from medhelm_benchmarks.noharm.rules.cases import Case
from medhelm_benchmarks.noharm.rules.menu import label_case, stored_case

LEAST_READ = 0.95
"""A model is ranked where at least this share of its replies could be read."""
_METRIC = "noharm_overall"


@dataclass(frozen=True)
class ModelReplies:
    """Holds one model's endorsed actions in the cases that are compared."""

    model: str
    endorsed: Mapping[str, tuple[tuple[str, ...], ...]]
    """By code of the case, of each reply that could be read."""
    asked: int
    read: int

    @property
    def is_read(self) -> bool:
        """Return whether nearly all replies could be read, so that the model may be ranked."""
        return self.asked > 0 and self.read >= LEAST_READ * self.asked


@dataclass(frozen=True)
class StoredReplies:
    """The replies of several models, with what was left out."""

    models: tuple[ModelReplies, ...]
    notes: tuple[str, ...]


def load_replies(choice: stored_decisions.RunChoice, cases: Sequence[Case]) -> StoredReplies:
    """Return the stored replies to these cases, whatever their ratings.

    Models that read the gold are left out unless they are named. Raises UsageError where no run is
    of these cases or runs of several benchmarks are, DataError where a run has other actions.
    """
    runs, damaged = stored_decisions.graded_runs(choice.results_dir)
    own = [r for r in runs if any(m.name == _METRIC for m in r.record.grading.metrics)]
    if not choice.models:
        own = [r for r in own if stored_decisions.is_ranked(r.record.spec.model)]
    if not own:
        raise UsageError(f"no run below {choice.results_dir} has labelled actions ({_METRIC})")
    chosen = choice.of(own)
    by_code = {case.code: case for case in cases}
    found = [(run, _read(run, by_code)) for run in chosen.runs]
    found = [(run, replies) for run, replies in found if replies.asked]
    if not found:
        raise UsageError(
            f"no run below {choice.results_dir} asked any of the cases that experts rated whole"
        )
    if len(names := sorted({run.benchmark for run, _ in found})) > 1:
        raise UsageError(f"runs of {' and '.join(names)} asked these cases; choose by --benchmark")
    notes = [*chosen.notes, *([f"Left out, damaged: {'; '.join(damaged[:3])}."] * bool(damaged))]
    return StoredReplies(tuple(replies for _, replies in found), tuple(notes))


def _read(run: stored_decisions.GradedRun, cases: Mapping[str, Case]) -> ModelReplies:
    path = run.path.parents[1]
    endorsed: dict[str, list[tuple[str, ...]]] = {}
    asked = 0
    for episode in runlog.read_episodes(path, runlog.read_plan(path)):
        case = cases.get(episode.instance.id)
        if case is None:
            continue
        _check_same(run, case, episode)
        asked += 1
        if episode.response.finish in ("stop", "length") and (
            (found := label_case(episode.instance, episode.response)) is not None and found.is_read
        ):
            endorsed.setdefault(case.code, []).append(found.labels.endorsed)
    read = sum(map(len, endorsed.values()))
    return ModelReplies(run.model, {c: tuple(e) for c, e in endorsed.items()}, asked, read)


def _check_same(run: stored_decisions.GradedRun, case: Case, episode: Episode) -> None:
    """Raise DataError where a run asked other actions under the code of a case."""
    try:
        asked = stored_case(episode.instance)
    except (KeyError, msgspec.DecodeError):
        raise DataError(f"{run.folder}: {case.code} has no labelled actions") from None
    if _menu(asked) != _menu(case):
        raise DataError(
            f"{run.folder}: {case.code} was asked with other actions than the file of cases has; "
            "run the model on these cases first"
        )


def _menu(case: Case) -> dict[str, str]:
    return {action.id: action.text for action in case.actions}


def common_codes(models: Iterable[ModelReplies], codes: Collection[str]) -> tuple[str, ...]:
    """Return the codes of the cases of which every model has a reply that could be read."""
    seen = [set(m.endorsed) for m in models]
    return tuple(sorted(set(codes).intersection(*seen)))
