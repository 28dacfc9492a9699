"""The table `modes`: one criterion a call against all criteria of a case in one, of the same judge.

Both graded the same stored answers, so nothing is matched by text. The strict mode is the reference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from medhelm.errors import UnknownName, UsageError
from medhelm.grading.graders.grader import judgement_key
from medhelm.grading.graders.panel import read_states
from medhelm.grading.rubric.grader import BATCHED, MODE, STRICT
from medhelm.grading.rubric.verdicts import Verdicts, read_verdicts
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import GraderTerms
from medhelm.stats import two_class
from medhelm.stats.aggregation import Ints
from medhelm.stats.intervals import bootstrap, cluster_sums, percentile, seed_of
from medhelm.store.records import grader_folder, grader_hash
from medhelm.tables.clinicians.rated_answers import graded_runs
from medhelm.tables.clinicians.stored_decisions import rubric_terms, stored_episodes
from medhelm.tables.format.column_kinds import count, ends, number, text
from medhelm.tables.format.table import Layout, Row, Settings, Table, make_table
from medhelm.tables.study.selection import Data, is_ranked

MODES = (
    text("judge", "who decided in both modes", "judge"),
    text("model", "whose answers were graded; empty: all models", "model"),
    count("answers", "answers that were graded in both modes", "answers"),
    count("unpaired", "answers that were graded in one mode alone", "unpaired"),
    count("cases", "their cases: the clusters of the intervals"),
    count("decisions", "their criteria", "decisions"),
    count("same", "decisions that are the same, invalid ones as unmet", "same", of="decisions"),
    number("kappa", "Cohen's kappa", "", "kappa", ("kappa_low", "kappa_high")),
    *ends("kappa", "kappa", ""),
    number(
        "mf1",
        "macro F1 of batched against strict, invalid replies as unmet",
        "share",
        "MF1",
        ("mf1_low", "mf1_high"),
        3,
    ),
    *ends("mf1", "mf1", "share"),
    number(
        "mf1_wrong",
        "macro F1 with what is invalid in either mode wrong whatever the other says",
        "share",
        "invalid wrong",
        digits=3,
    ),
    count("strict_only", "criteria that the strict mode alone finds met", "strict only"),
    count("batched_only", "criteria that the batched mode alone finds met", "batched only"),
    number("met_strict", "share met by the strict mode", "share", "strict", None, 1, True),
    number("met_batched", "share met by the batched mode", "share", "batched", None, 1, True),
    count("invalid_strict", "decisions without a valid reply, strict mode", "invalid, strict"),
    count("invalid_batched", "decisions without a valid reply, batched mode", "invalid, batched"),
)


@dataclass(frozen=True)
class _Pair:
    """Holds the decisions of one judge on one answer in both modes."""

    model: str
    case: str
    strict: Verdicts
    batched: Verdicts


@dataclass
class _Judged:
    """The answers of one judge."""

    pairs: list[_Pair]
    unpaired: dict[str, int]
    """By model."""


def modes_table(
    results_dir: Path,
    benchmark: str,
    settings: Settings,
    *,
    data: Data | None = None,
    models: Sequence[str] = (),
) -> Table:
    """Return how the two modes of each judge agree; raises UsageError where none has both."""
    judged = _read(results_dir, benchmark, data, models)
    if not any(own.pairs for own in judged.values()):
        raise UsageError(
            f"no answer to {benchmark} below {results_dir} was graded by one judge in both modes: "
            f"run it with grader.{MODE}={BATCHED} and without, everything else the same"
        )
    rows = [row for judge, own in judged.items() for row in _rows(judge, own, settings)]
    return make_table(
        "modes",
        "Criteria decided on one by one, and all in one call",
        MODES,
        rows,
        [
            "Both modes of a judge on the same stored answers; strict, one criterion a call, is the "
            "reference. Intervals: bootstrap over whole cases.",
            "Where the modes differ this does not say which of them is right.",
        ],
        {
            "draws": settings.draws,
            "bootstrap_seed": settings.bootstrap_seed,
            "confidence": settings.confidence,
        },
        layout=Layout(main=("kappa", "mf1")),
    )


def _read(
    results_dir: Path, benchmark: str, data: Data | None, models: Sequence[str]
) -> dict[str, _Judged]:
    every = graded_runs(results_dir)[0]
    runs = [r for r in every if benchmark in r.record.spec.names]
    if not runs:
        raise UnknownName("benchmark", benchmark, {r.benchmark for r in every})
    if unknown := set(models) - {r.model for r in runs}:
        raise UnknownName("model", min(unknown), {r.model for r in runs})
    if models:
        runs = [r for r in runs if r.model in models]
    else:
        runs = [r for r in runs if is_ranked(r.record.spec.model)] or runs
    kind = data or ("full" if any(r.record.spec.data == "full" for r in runs) else "sample")
    asked: dict[tuple[Path, str, str], dict[str, tuple[ModelSpec, GraderTerms]]] = defaultdict(dict)
    names: dict[Path, str] = {}
    for run in runs:
        terms = rubric_terms(run.record)
        if terms is None or run.record.spec.data != kind:
            continue
        path = run.path.parents[1]
        names[path] = run.model
        own = {name: value for name, value in terms.settings.items() if name != MODE}
        alike = msgspec.structs.replace(terms, settings=own)
        for judge in terms.jury.judges:
            place = path, judge.name, grader_hash(judge, alike)
            asked[place][terms.settings.get(MODE, STRICT)] = judge, terms
    found: dict[str, _Judged] = defaultdict(lambda: _Judged([], defaultdict(int)))
    for (path, judge_name, _), modes in sorted(asked.items()):
        if modes.keys() >= {STRICT, BATCHED}:
            _read_run(path, names[path], modes, found[judge_name])
    return found


def _read_run(
    run: Path, model: str, modes: Mapping[str, tuple[ModelSpec, GraderTerms]], found: _Judged
) -> None:
    """Add the answers of one run."""
    strict, batched = (read_states(grader_folder(run, *modes[mode])) for mode in (STRICT, BATCHED))
    for episode in stored_episodes(run):
        key, case = judgement_key(episode), episode.instance
        if key in strict and key in batched:
            where = f"{model}, {case.id}"
            one, other = (
                read_verdicts(said[key], case.criteria, where) for said in (strict, batched)
            )
            found.pairs.append(_Pair(model, case.id, one, other))
        elif key in strict or key in batched:
            found.unpaired[model] += 1


def _rows(judge: str, own: _Judged, settings: Settings) -> Iterator[Row]:
    """Yield the row of all models, then one of each."""
    yield {
        "judge": judge,
        "unpaired": sum(own.unpaired.values()),
        **_figures(own.pairs, settings, judge),
    }
    for model in sorted({pair.model for pair in own.pairs}):
        pairs = [pair for pair in own.pairs if pair.model == model]
        row = {"judge": judge, "model": model, "unpaired": own.unpaired.get(model, 0)}
        yield row | _figures(pairs, settings, judge, model)


def _figures(pairs: Sequence[_Pair], settings: Settings, *names: str) -> Row:
    if not pairs:
        return {"answers": 0}
    strict = [met for pair in pairs for met in pair.strict.met]
    batched = [met for pair in pairs for met in pair.batched.met]
    one, other = (np.asarray([m is True for m in met], dtype=np.bool_) for met in (strict, batched))
    lacking = [np.asarray([m is None for m in met], dtype=np.bool_) for met in (strict, batched)]
    counts = two_class.confusion(one, other)
    wrong = two_class.confusion(one, np.where(lacking[0] | lacking[1], ~one, other))
    cases = {case: code for code, case in enumerate(dict.fromkeys(p.case for p in pairs))}
    codes: Ints = np.repeat(
        np.asarray([cases[p.case] for p in pairs], dtype=np.int64),
        [len(p.strict.met) for p in pairs],
    )
    total = counts.sum(0)
    rates = two_class.positive_rates(total)
    row: Row = {
        "answers": len(pairs),
        "cases": len(cases),
        "decisions": len(one),
        "same": int((one == other).sum()),
        "kappa": two_class.kappa(total),
        "mf1": two_class.macro_f1(total),
        "mf1_wrong": two_class.macro_f1(wrong.sum(0)),
        "strict_only": int((one & ~other).sum()),
        "batched_only": int((other & ~one).sum()),
        "met_strict": rates[0],
        "met_batched": rates[1],
        "invalid_strict": int(lacking[0].sum()),
        "invalid_batched": int(lacking[1].sum()),
    }
    if len(cases) > 1:
        seed = seed_of(settings.bootstrap_seed, "modes", *names)
        drawn = bootstrap(cluster_sums(counts, codes, len(cases)), settings.draws, seed)
        for name, value in (("mf1", two_class.macro_f1), ("kappa", two_class.kappa)):
            if not np.isnan(float(str(row[name]))):
                found = percentile(value(drawn), settings.confidence, len(cases))
                row |= {f"{name}_low": found.low, f"{name}_high": found.high}
    return row
