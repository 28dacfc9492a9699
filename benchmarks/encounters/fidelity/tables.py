"""Tables of fidelity: rates by who plays a role, means without marked encounters, casts, variance."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from medhelm import Column, Layout, Table, make_table
from medhelm.schema.run import GraderTerms
from medhelm.tables.format.column_kinds import count, number, text
from medhelm.tables.study.selection import GradedRun
from medhelm_benchmarks.encounters.fidelity.faults import KINDS, MEANING, ROLES, SHORT, Played
from medhelm_benchmarks.encounters.fidelity.components import Cellkey, components
from medhelm_benchmarks.encounters.fidelity.faults import counted
from medhelm_benchmarks.encounters.fidelity.stored import Checked, CheckedRun, scores_of
from medhelm_benchmarks.encounters.grading.evaluator import RUBRIC

FACTORS = ("case", "run", "patient", "evaluator")


@dataclass(frozen=True)
class Scored:
    """A checked run with the values of its encounters on the main metric."""

    checked: CheckedRun
    metric: str
    values: Mapping[tuple[str, int], float]

    @property
    def run(self) -> GradedRun:
        """The graded run."""
        return self.checked.run

    @property
    def cast(self) -> str:
        """Return the models of patient and surroundings."""
        return " + ".join(self.checked.model(role) for role in ROLES)


def scored(checked: CheckedRun) -> Scored:
    """Return a run with its values."""
    metric = checked.run.record.grading.metrics[0].name
    return Scored(checked, metric, scores_of(checked.run, metric))


def rates_table(runs: Sequence[Scored], *, is_judged: bool) -> Table:
    """Return the rates of each kind of fault by who played the role."""
    groups: dict[tuple[str, Played, str], list[Checked]] = defaultdict(list)
    for scored_run in runs:
        for role in ROLES:
            key = (scored_run.run.benchmark, role, scored_run.checked.model(role))
            groups[key] += scored_run.checked.encounters
    rows = [_rates(key, encounters) for key, encounters in sorted(groups.items())]
    kinds = [
        number(k, f"lines per line of the role: {MEANING[k]}", "share", SHORT[k], is_percent=True)
        for k in KINDS
    ]
    columns: list[Column] = [
        text("benchmark", "name of the benchmark", "benchmark"),
        text("role", "who is played", "role"),
        text("model", "by which model", "model"),
        count("encounters", "encounters in which the role was played", "enc."),
        count("judged", "encounters with a usable reply of the judge", "judged"),
        count("lines", "lines that the role said", "lines"),
        *kinds,
        number("clean", "lines without a fault", "share", "clean", is_percent=True),
    ]
    notes = [f"{kind}: {MEANING[kind]}." for kind in KINDS]
    if not is_judged:
        notes.append(
            "By rule alone: contradictions are told by a judge only, and the rates of the other "
            "kinds are lower bounds. Add --judge MODEL."
        )
    layout = Layout(leaving=("benchmark", "judged"), main=("role", "model", "clean"))
    return make_table(
        "simulation",
        "Faults of the roles, by who played them",
        columns,
        rows,
        notes,
        {},
        layout=layout,
    )


def _rates(key: tuple[str, Played, str], encounters: Sequence[Checked]) -> dict[str, object]:
    benchmark, role, model = key
    lines = sum(counted(e.lines, role) for e in encounters)
    judged = sum(e.by_judge is not None for e in encounters)
    faults = Counter(f.kind for e in encounters for f in e.faults if f.role == role)
    faulty = sum(len({f.line for f in e.faults if f.role == role}) for e in encounters)
    row: dict[str, object] = {
        "benchmark": benchmark,
        "role": role,
        "model": model,
        "encounters": len(encounters),
        "judged": judged,
        "lines": lines,
    }
    if lines:
        row |= {kind: faults[kind] / lines for kind in KINDS}
        row["clean"] = 1 - faulty / lines
        if not judged:
            row["contradiction"] = None
    return row


def marked_table(runs: Sequence[Scored], least: float) -> Table:
    """Return each clinician's mean with and without the encounters below a fidelity."""
    columns = [
        text("benchmark", "name of the benchmark", "benchmark"),
        text("clinician", "the model under test", "clinician"),
        text("cast", "who plays patient and surroundings", "cast"),
        text("metric", "the main metric", "metric"),
        count("encounters", "encounters with a score", "enc."),
        count("marked", f"of them below a fidelity of {least:g}", "marked"),
        number("mean", "mean over encounters with a score", "metric", "mean"),
        number("mean_unmarked", "mean without those that are marked", "metric", "unmarked"),
        number("difference", "mean without them minus mean", "metric", "diff."),
    ]
    rows = []
    for run in runs:
        marked = {(e.case, e.repeat) for e in run.checked.encounters if is_marked(e, least)}
        kept = [v for key, v in run.values.items() if key not in marked]
        mean, without = _mean(run.values.values()), _mean(kept)
        row: dict[str, object] = {
            "benchmark": run.run.benchmark,
            "clinician": run.run.model,
            "cast": run.cast,
            "metric": run.metric,
            "encounters": len(run.values),
            "marked": len(marked & set(run.values)),
            "mean": mean,
            "mean_unmarked": without,
        }
        if mean is not None and without is not None:
            row["difference"] = without - mean
        rows.append(row)
    notes = [
        f"An encounter is marked where less than {least:g} of the lines of patient and surroundings are "
        "without a fault. The means are over encounters, not weighted by case."
    ]
    layout = Layout(leaving=("benchmark", "metric"), main=("clinician", "mean"))
    return make_table(
        "marked", "Scores without marked encounters", columns, rows, notes, {}, layout=layout
    )


def is_marked(encounter: Checked, least: float) -> bool:
    """Return whether an encounter's fidelity is below a threshold."""
    return encounter.fidelity is not None and encounter.fidelity < least


def cast_table(runs: Sequence[Scored]) -> Table:
    """Return the means and ranks of clinicians under each cast, on the cases that all have."""
    columns = [
        text("benchmark", "name of the benchmark", "benchmark"),
        text("clinician", "the model under test", "clinician"),
        text("cast", "who plays patient and surroundings", "cast"),
        count("cases", "cases that all these runs have a score of", "cases"),
        number("mean", "mean over these cases", "metric", "mean"),
        count("rank", "rank among the clinicians with this cast", "rank"),
        count("moved", "ranks between the best and the worst under any cast", "moved"),
    ]
    rows: list[dict[str, object]] = []
    for benchmark, group in _by_benchmark(runs):
        rows += _ranks(benchmark, _crossed(_graded_alike(group)))
    notes = [
        "Clinicians that were run with every one of several casts, on common cases. A ranking that moves "
        "with the cast is one of the cast, too. All by one evaluator: the one that most of these runs have."
    ]
    return make_table("cast", "Sensitivity of ranks to the cast", columns, rows, notes, {})


def _graded_alike(runs: Sequence[Scored]) -> list[Scored]:
    """Return the runs by the evaluator that most of them have, the newer one where two have as many."""
    by_evaluator: dict[tuple[str, ...], list[Scored]] = defaultdict(list)
    for run in runs:
        key = _evaluator_of(run.run), *_rubrics_of(run.run)
        by_evaluator[key] = [*by_evaluator.pop(key, []), run]
    folders = [{run.run.path.parents[1] for run in own} for own in by_evaluator.values()]
    most = max(map(len, folders), default=0)
    alike = [
        own for own, names in zip(by_evaluator.values(), folders, strict=True) if len(names) == most
    ]
    return alike[-1] if alike else []


def _crossed(runs: Sequence[Scored]) -> list[Scored]:
    """Return one run for each clinician and cast, of those that have all casts."""
    newest = {(r.run.model, r.cast): r for r in runs}
    casts = {cast for _, cast in newest}
    whole = [m for m in {m for m, _ in newest} if all((m, c) in newest for c in casts)]
    return [r for (m, _), r in sorted(newest.items()) if m in whole] if len(casts) > 1 else []


def _ranks(benchmark: str, runs: Sequence[Scored]) -> list[dict[str, object]]:
    if not runs:
        return []
    by_case = [_case_means(r.values) for r in runs]
    common = set(by_case[0]).intersection(*by_case[1:])
    means = {
        (r.run.model, r.cast): _mean(m[c] for c in common)
        for r, m in zip(runs, by_case, strict=True)
    }
    ranks: dict[tuple[str, str], int] = {}
    for key, mean in means.items():
        rivals = [v for (_, cast), v in means.items() if cast == key[1] and v is not None]
        if mean is not None:
            ranks[key] = 1 + sum(v > mean for v in rivals)
    rows: list[dict[str, object]] = []
    for (model, cast), mean in means.items():
        own = [rank for (m, _), rank in ranks.items() if m == model]
        rows.append(
            {
                "benchmark": benchmark,
                "clinician": model,
                "cast": cast,
                "cases": len(common),
                "mean": mean,
                "rank": ranks.get((model, cast)),
                "moved": max(own) - min(own) if own else None,
            }
        )
    return rows


def _case_means(values: Mapping[tuple[str, int], float]) -> dict[str, float]:
    """Return the mean over the repeats of each case."""
    by_case: dict[str, list[float]] = defaultdict(list)
    for (case, _), value in values.items():
        by_case[case].append(value)
    return {case: sum(own) / len(own) for case, own in by_case.items()}


def variance_table(runs: Sequence[Scored]) -> Table:
    """Return the variance of each clinician's scores by case, run, patient's run and evaluator."""
    columns = [
        text("benchmark", "name of the benchmark", "benchmark"),
        text("clinician", "the model under test", "clinician"),
        text("others", "who plays the surroundings, and settings of the protocol", "surroundings"),
        text("factor", "what varies", "factor"),
        count("levels", "levels of the factor; of the rest its degrees of freedom", "levels"),
        number("variance", "estimated variance", "metric", "variance", digits=4),
        number("sd", "its root, where it is above 0", "metric", "SD", digits=3),
    ]
    rows: list[dict[str, object]] = []
    for benchmark, group in _by_benchmark(runs):
        for model, others in sorted({(r.run.model, _others_of(r.run)) for r in group}):
            values: dict[Cellkey, float] = {}
            for run in (r for r in group if (r.run.model, _others_of(r.run)) == (model, others)):
                patient, evaluator = _patient_of(run.run), _evaluator_of(run.run)
                for (case, repeat), value in run.values.items():
                    values[case, str(repeat), patient, evaluator] = value
            for part in components(values, FACTORS):
                row: dict[str, object] = {"benchmark": benchmark, "clinician": model}
                row |= {"others": others, "factor": part.factor, "levels": part.levels}
                row["variance"] = part.variance
                if part.variance is not None and part.variance > 0:
                    row["sd"] = part.variance**0.5
                rows.append(row)
    notes = [
        "Random effects without interactions, on the cases that have every combination (mean squares). "
        "run: `repeats`, all roles seeded anew. patient: the cast's patient and "
        "`protocol.patient_seed`. Where a role is sent no seed (temperature 0 without `send_seed: always`), "
        "both show what the server alone varies. evaluator: gradings by different evaluators. A factor with one level "
        "has no estimate; an estimate below 0 says that it is too small to be seen."
    ]
    return make_table("variance", "Where the variance comes from", columns, rows, notes, {})


def _patient_of(run: GradedRun) -> str:
    spec = run.record.spec
    return f"{spec.cast['patient'].name} {spec.settings.get('patient_seed', 0)}"


def _others_of(run: GradedRun) -> str:
    """Return what else decides an encounter: runs that differ in it are not pooled."""
    spec = run.record.spec
    settings = [f"{k}={v}" for k, v in sorted(spec.settings.items()) if k != "patient_seed"]
    settings += [f"rubric={rubric}" for rubric in _rubrics_of(run)]
    return ", ".join((spec.cast["controller"].name, *settings, spec.data, spec.benchmark_version))


def _rubrics_of(run: GradedRun) -> list[str]:
    """Return the files of rubrics in place of the cases' own."""
    graders = run.record.grading.graders
    return [str(terms.settings[RUBRIC]) for terms in graders if RUBRIC in terms.settings]


def _evaluator_of(run: GradedRun) -> str:
    """Return who judged, and how: gradings that differ in other metrics alone are by one evaluator."""
    terms = [(t.grader, t.version, t.jury, _without_rubric(t)) for t in run.record.grading.graders]
    return msgspec.json.encode(terms, order="sorted").decode()


def _without_rubric(terms: GraderTerms) -> dict[str, Any]:
    return {name: value for name, value in terms.settings.items() if name != RUBRIC}


def _by_benchmark(runs: Iterable[Scored]) -> Iterator[tuple[str, list[Scored]]]:
    found: dict[str, list[Scored]] = defaultdict(list)
    for run in runs:
        found[run.run.benchmark].append(run)
    yield from sorted(found.items())


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return sum(found) / len(found) if found else None
