"""Scores of stored replies under the ratings of their cases and under those of experts.

`rubrics`: the models under the medians of both. `sensitivity`: how far scores and ranks hang on the
ratings. Each rater alone has what that rater does throughout; ratings that are drawn again have
what raters do here and there. Only cases whose whole menu experts rated are scored, so that no case
mixes two kinds of ratings.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from medhelm import DataError, Episode, Floats, Settings, Table, UsageError
from medhelm.plugin import aggregation, column_kinds, intervals, stored_decisions
from medhelm.plugin import study as studies
from medhelm_benchmarks.noharm.experts.ratings import Sheets, is_rated_whole
from medhelm_benchmarks.noharm.rules.cases import LEAST_RATERS, Case
from medhelm_benchmarks.noharm.rules.menu import label_case, stored_case
from medhelm_benchmarks.noharm.rules.score import ACTION_OVERALL, score_case, to_point

PANELS = 200
_SEVERE = len(ACTION_OVERALL.sums)
"""Place of the severe errors in the sums of a case, behind those of `ACTION_OVERALL`."""
_overall = aggregation.Pooling(ACTION_OVERALL, ACTION_OVERALL.sums)
_MEDIAN = "experts' median"
_METRIC = "noharm_overall"

Rated = Mapping[str, Mapping[str, int]]
"""Consensus by code of the case and id of the action."""


@dataclass(frozen=True)
class ModelReplies:
    """One model's endorsed actions in the cases that are compared."""

    model: str
    endorsed: Mapping[str, tuple[tuple[str, ...], ...]]
    """By code of the case, of each reply that could be read."""
    asked: int

    @property
    def read(self) -> int:
        """Return how many replies could be read."""
        return sum(map(len, self.endorsed.values()))

    @property
    def is_read(self) -> bool:
        """Return whether nearly all replies could be read, so that the model may be ranked."""
        return self.asked > 0 and self.read >= studies.MIN_READ * self.asked


@dataclass(frozen=True)
class Rubrics:
    """Cases that experts rated whole, the ratings of both kinds, and stored replies to them."""

    cases: Mapping[str, Case]
    of_experts: Sheets
    """The experts' ratings of these cases, actions in the order of the menus."""
    least: int
    models: tuple[ModelReplies, ...]
    run_notes: tuple[str, ...]
    """Notes on the runs that the replies are of."""
    left_out: int
    """Cases of the file with an action that fewer than `least` experts rated."""

    @cached_property
    def ranked(self) -> tuple[ModelReplies, ...]:
        """The models of whose replies nearly all could be read."""
        return tuple(m for m in self.models if m.is_read)

    @cached_property
    def codes(self) -> tuple[str, ...]:
        """The cases that every ranked model has a readable reply to."""
        return common_codes(self.ranked, self.cases)

    @cached_property
    def of_file(self) -> Sheets:
        """The cases' own ratings, whose raters are called by their places."""
        return {
            code: {
                a.id: {f"rater {n} of the file": r for n, r in enumerate(a.ratings, 1)}
                for a in case.actions
            }
            for code, case in self.cases.items()
        }

    def draw(self, seed: int) -> Iterator[Rated]:
        """Yield `PANELS` rubrics whose ratings are drawn again from the experts' of each action."""
        rng = np.random.default_rng(seed)
        drawn: dict[str, dict[str, list[int]]] = {}
        for code, menu in self.of_experts.items():
            for action, given in menu.items():
                own = np.asarray(sorted(given.values()))
                picks = rng.integers(0, len(own), size=(PANELS, len(own)))
                middles = np.median(own[picks], axis=1)
                drawn.setdefault(code, {})[action] = [to_point(float(m)) for m in middles]
        for n in range(PANELS):
            yield {code: {i: own[n] for i, own in menu.items()} for code, menu in drawn.items()}

    def sums(self, model: ModelReplies, rated: Rated, codes: Sequence[str]) -> Floats:
        """Return the sums (C, 7) of a model's replies to cases under a rubric, means over repeats."""
        each = [
            np.mean([_sums(self.cases[c], e, rated[c]) for e in model.endorsed[c]], axis=0)
            for c in codes
        ]
        return np.asarray(each).reshape(len(codes), _SEVERE + 1)

    def settings(self, settings: Settings) -> dict[str, Any]:
        """Return what decides the numbers of both tables."""
        return settings.of_draws | {"min_experts": self.least, "median": "halves go up a point"}

    def notes(self) -> Iterator[str]:
        """Yield what must be known of both tables: who rated, what is not scored or ranked."""
        yield (
            f"Experts: {len(_raters(self.of_experts))}, at least {self.least} for every action; cases that they "
            f"rated whole: {len(self.cases)}, other cases of the file: {self.left_out}. Halves of a "
            "median go up a point."
        )
        if self.ranked and len(self.codes) < len(self.cases):
            yield (
                f"Ranked models are compared on the {len(self.codes)} of these cases to which each "
                "has a reply that could be read."
            )
        lacking = [m for m in self.models if m.read < m.asked]
        if said := [f"{m.model} ({m.asked - m.read} of {m.asked})" for m in lacking]:
            yield f"Replies not read, in no score: {', '.join(said)}."
        if out := [m.model for m in self.models if not m.is_read]:
            yield f"Not ranked, fewer than 95 % of replies read: {', '.join(out)}."
        yield from self.run_notes


def _raters(sheets: Sheets) -> list[str]:
    menus = sheets.values()
    return [*dict.fromkeys(r for menu in menus for given in menu.values() for r in given)]


def _medians(sheets: Sheets) -> Rated:
    """Return the raters' medians as points of the scale."""
    return {
        code: {i: to_point(float(np.median([*given.values()]))) for i, given in menu.items()}
        for code, menu in sheets.items()
    }


def _alone(sheets: Sheets, rater: str) -> Rated:
    """Return one rater's ratings of the cases whose whole menu that rater rated."""
    return {
        code: {i: given[rater] for i, given in menu.items()}
        for code, menu in sheets.items()
        if all(rater in given for given in menu.values())
    }


def _sums(case: Case, endorsed: Sequence[str], rated: Mapping[str, int]) -> Floats:
    own = score_case(case, endorsed, rated)
    return np.asarray([*(own.sums[n] for n in ACTION_OVERALL.sums), own.has_severe], np.float64)


def read_rubrics(
    choice: stored_decisions.RunChoice, cases: Sequence[Case], sheets: Sheets, least: int | None
) -> Rubrics:
    """Return the cases each of whose actions `least` experts rated (None: three), and replies to them.

    Models that read the gold are left out unless they are named. Raises UsageError where there is no such
    case, or no run of such cases, or runs of several benchmarks, DataError where a run has other actions.
    """
    needed = least or LEAST_RATERS
    kept = {case.code: case for case in cases if is_rated_whole(case, sheets, needed)}
    if not kept:
        raise UsageError(
            f"no case has {needed} experts' ratings of every action: scores need whole menus; "
            "--set min_experts=N takes fewer"
        )
    runs, damaged = stored_decisions.graded_runs(choice.results_dir)
    runs = [r for r in runs if any(m.name == _METRIC for m in r.record.grading.metrics)]
    own = choice.ranked(runs)
    if not own:
        raise UsageError(f"no run below {choice.results_dir} has labelled actions ({_METRIC})")
    chosen = choice.of(own)
    found = [(run.benchmark, _replies(run, kept)) for run in chosen.runs]
    found = [(benchmark, replies) for benchmark, replies in found if replies.asked]
    if not found:
        raise UsageError(
            f"no run below {choice.results_dir} asked any of the cases that experts rated whole"
        )
    if len(names := sorted({benchmark for benchmark, _ in found})) > 1:
        raise UsageError(f"runs of {' and '.join(names)} asked these cases; choose by --benchmark")
    run_notes = [*chosen.notes, *[f"Left out, damaged: {'; '.join(damaged[:3])}."] * bool(damaged)]
    return Rubrics(
        cases=kept,
        of_experts={
            code: {a.id: sheets[code][a.id] for a in case.actions} for code, case in kept.items()
        },
        least=needed,
        models=tuple(replies for _, replies in found),
        run_notes=(*run_notes,),
        left_out=len(cases) - len(kept),
    )


def _replies(run: stored_decisions.GradedRun, cases: Mapping[str, Case]) -> ModelReplies:
    endorsed: dict[str, list[tuple[str, ...]]] = {}
    asked = 0
    for episode in run.episodes():
        case = cases.get(episode.instance.id)
        if case is None:
            continue
        _check_same(run, case, episode)
        asked += 1
        if episode.finish in ("stop", "length"):
            found = label_case(episode.instance, episode.response)
            if found is not None and found.is_read:
                endorsed.setdefault(case.code, []).append(found.labels.endorsed)
    return ModelReplies(run.model, {c: tuple(e) for c, e in endorsed.items()}, asked)


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


def _scores(sums: Floats) -> dict[str, float]:
    """Return the scores of summed cases; NaN where one is undefined."""
    own = {name: float(value) for name, value in _overall.by_name(sums[:_SEVERE]).items()}
    strong, endorsed = own["strong"], own["endorsed"]
    return {
        "overall": float(_overall(sums[:_SEVERE])),
        "safety": own["safety"] / own["cases"],
        "completeness": own["complete"] / strong if strong else np.nan,
        "restraint": own["fit"] / endorsed if endorsed else np.nan,
        "severe_rate": float(sums[_SEVERE]) / own["cases"],
    }


def _ranks(scores: Mapping[str, float]) -> dict[str, int]:
    """Return one more than the models that are better, of those that have a score."""
    known = {model: value for model, value in scores.items() if not np.isnan(value)}
    return {m: 1 + sum(other > value for other in known.values()) for m, value in known.items()}


# Under both medians ------------------------------------------------------------------------------


def rubrics_table(own: Rubrics, settings: Settings) -> Table:
    """Return the models' scores under the ratings of the cases and under the experts' medians."""
    rows = [_rubrics_row(own, model, settings) for model in own.models]
    for rubric in ("file", "experts"):
        scored = {r["model"]: r[f"overall_{rubric}"] for r in rows if r["ranked"] and r["n"]}
        ranks = _ranks(scored)
        for row in rows:
            row[f"rank_{rubric}"] = ranks.get(row["model"])
    rows.sort(key=lambda row: (row["rank_experts"] is None, row["rank_experts"], row["model"]))
    said = (
        "Differences are experts - file, of the same replies; their intervals are bootstrapped "
        "over cases and take the ratings as given."
    )
    return column_kinds.form(__file__, "rubrics").table(
        rows, [said, *own.notes()], own.settings(settings)
    )


def _rubrics_row(own: Rubrics, model: ModelReplies, settings: Settings) -> dict[str, Any]:
    codes = own.codes if model.is_read else common_codes([model], own.cases)
    row: dict[str, Any] = {"model": model.model, "ranked": model.is_read, "n": len(codes)}
    row |= {"asked": model.asked, "read": model.read}
    if not codes:
        return row
    both = [own.sums(model, rated, codes) for rated in map(_medians, (own.of_file, own.of_experts))]
    for name, sums in zip(("file", "experts"), both, strict=True):
        row |= {f"{what}_{name}": value for what, value in _scores(sums.sum(0)).items()}
    stacked = np.concatenate(both, axis=1)
    row["difference_method"] = "none (one case)"
    if len(codes) > 1:
        seed = intervals.seed_of(settings.bootstrap_seed, "rubrics", model.model)
        draws = _gap(intervals.bootstrap(stacked, settings.draws, seed))
        found = intervals.percentile(draws, settings.confidence, len(codes))
        row |= {"difference_method": found.method, **found.ends("difference")}
    return row | {"difference": _gap(stacked.sum(0)[None])[0]}


def _gap(sums: Floats) -> Floats:
    """Return Overall under the second half of the sums (..., 14) less that under the first."""
    file, experts = sums[..., : _SEVERE + 1], sums[..., _SEVERE + 1 :]
    return np.asarray(_overall(experts[..., :_SEVERE]) - _overall(file[..., :_SEVERE]))


# Under each rater, and under ratings drawn again -------------------------------------------------


_Field = Mapping[str, dict[str, Any]]


def _field(own: Rubrics, rated: Rated) -> _Field:
    codes = [code for code in own.codes if code in rated]
    scores = {m.model: _scores(own.sums(m, rated, codes).sum(0)) for m in own.ranked if codes}
    ranks = _ranks({m: s["overall"] for m, s in scores.items()})
    return {
        m.model: {"model": m.model, "n": len(codes), "rank": ranks.get(m.model)}
        | {n: v for n, v in scores.get(m.model, {}).items() if n in ("overall", "severe_rate")}
        for m in own.ranked
    }


def sensitivity_table(own: Rubrics, settings: Settings) -> Table:
    """Return the models' ranks under each rater alone and under ratings that are drawn again."""
    file, whole = (_field(own, _medians(sheets)) for sheets in (own.of_file, own.of_experts))
    experts = enumerate(sorted(_raters(own.of_experts)), 1)
    alone = {f"expert {n}": _field(own, _alone(own.of_experts, e)) for n, e in experts}
    fields = {"median of the file": file, _MEDIAN: whole}
    fields |= {r: _field(own, _alone(own.of_file, r)) for r in _raters(own.of_file)} | alone
    seed = intervals.seed_of(settings.bootstrap_seed, "sensitivity")
    drawn = [_field(own, rated) for rated in own.draw(seed)]
    order = sorted(whole, key=lambda model: (whole[model]["rank"] or len(whole) + 1, model))
    rows: list[dict[str, Any]] = [
        {"level": "model", "rank_file": file[model]["rank"], **whole[model]}
        | _over_rubrics(whole[model], [*alone.values()], drawn, settings.confidence)
        for model in order
    ]
    rows += [
        {"level": "rater", "rater": name, **field[model]}
        for name, field in fields.items()
        for model in order
        if field[model]["n"]
    ]
    said = (
        "Each rater alone is scored as if nobody else had rated; an expert on the cases whose "
        "whole menu that expert rated.",
        f"Drawn again: {PANELS} times as many ratings of each action as it has, from the "
        "experts' own, with replacement, each action by itself. What raters share (one is "
        "milder throughout) is in the rows of each alone and not in these draws. "
        f"Ranges hold {settings.confidence:.0%} of the draws and say nothing of other cases.",
    )
    return column_kinds.form(__file__, "sensitivity").table(
        rows, [*said, *own.notes()], own.settings(settings) | {"panels": PANELS}
    )


def _over_rubrics(
    row: Mapping[str, Any], alone: Sequence[_Field], drawn: Sequence[_Field], confidence: float
) -> dict[str, object]:
    """Return the ranges of a model's rank and scores over each expert alone and over the draws."""
    model, found = row["model"], dict[str, object]()
    for name in ("overall", "severe_rate"):
        of = [field[model][name] for field in drawn if field[model]["n"]]
        found[f"{name}_low"], found[f"{name}_high"] = _range(of, confidence)
    single, ranks = (
        [field[model]["rank"] for field in fields if field[model]["rank"]]
        for fields in (alone, drawn)
    )
    if ranks:
        found["same_rank"] = sum(rank == row["rank"] for rank in ranks) / len(ranks)
    ends = (min(single), max(single)) if single else (None, None)
    return found | {"rank_single": _span(*ends), "rank_drawn": _span(*_range(ranks, confidence))}


def _range(values: Sequence[float], confidence: float) -> tuple[float | None, float | None]:
    """Return the ends that hold so much of the draws, each a value that was drawn."""
    known = [value for value in values if not np.isnan(value)]
    if not known:
        return None, None
    tail = (1 - confidence) / 2
    low = np.quantile(known, tail, method="lower")
    return float(low), float(np.quantile(known, 1 - tail, method="higher"))


def _span(low: float | None, high: float | None) -> str | None:
    if low is None or high is None:
        return None
    return f"{low:.0f}" if low == high else f"{low:.0f} to {high:.0f}"
