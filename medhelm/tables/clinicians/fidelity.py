"""The tables of fidelity: graders of criteria against experts, and experts against each other.

Macro F1 as in the ClinConsensus paper, section 6 and appendix I (after HealthBench, arXiv
2505.08775): the class met and the class not met count alike.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import msgspec
import numpy as np

from medhelm.stats import two_class
from medhelm.stats.aggregation import Floats, Ints
from medhelm.stats.intervals import cluster_sums, seed_of
from medhelm.stats.measured import Measure, counted
from medhelm.store.kept_fidelity import Agreement, KeptFidelity
from medhelm.tables.clinicians.corrected import Judged, corrected_table
from medhelm.tables.clinicians.decisions import (
    LOST_ROWS,
    Aligned,
    Compared,
    Grader,
    align,
    known_models,
    plain,
    plain_name,
)
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.spreadsheet import guard
from medhelm.tables.format.table import Row, Settings, Table, several

BELOW = 0.6
"""An answer with a macro F1 below this belongs to the tail of low agreement. (The paper, 6.1)"""

TOPS = (3, 5)
LARGEST = 10
_DISPUTED = 3
_ENDING = 12


FIDELITY = form(__file__, "fidelity")

GRADERS = form(__file__, "graders")

LOW = form(__file__, "low_agreement")

ALIGNMENT = form(__file__, "alignment")


class Comparison:
    """Groups of experts and judges, every two of them aligned once."""

    def __init__(
        self,
        experts: Sequence[Grader],
        judges: Sequence[Grader],
        aliases: Mapping[str, str] | None = None,
    ):
        self.experts = tuple(experts)
        self.judges = tuple(judges)
        self.aliases = dict(aliases or {})
        self._models = known_models((*experts, *judges), self.aliases)
        self._aligned: dict[tuple[str, str], Aligned] = {}

    def model(self, key: str) -> str:
        """Return a model's name as the files write it, safe in a spreadsheet."""
        return guard(self._models[key])

    def aligned(self, reference: Grader, grader: Grader) -> Aligned:
        """Return what two graders decided on the same criteria."""
        key = reference.name, grader.name
        if key not in self._aligned:
            self._aligned[key] = align(reference, grader, self.aliases)
        return self._aligned[key]

    def raters(self, grader: Grader, model: str) -> int | None:
        """Return how many people the rows of one model name; None where they name nobody."""
        own = (row for row in grader.rows if row.rater)
        of = {r.rater for r in own if plain_name(self.aliases.get(r.model, r.model)) == model}
        return len(of) or None

    def pairs(self) -> list[Aligned]:
        """Return experts against experts, then every judge against every group."""
        pairs = [*combinations(self.experts, 2)]
        pairs += [(group, judge) for judge in self.judges for group in self.experts]
        return [self.aligned(a, b) for a, b in pairs]


def fidelity_table(compared: Comparison, settings: Settings | None = None) -> Table:
    """Return the agreement of each judge with each group, beside that of the groups."""
    settings = settings or Settings()
    rows: list[Row] = []
    for pair in compared.pairs():
        rows += _levels(pair, compared, settings)
    rows += _means(rows)
    order = {"overall": 0, "mean": 1, "model": 2}
    rows.sort(key=lambda row: order[str(row["level"])])
    return FIDELITY.table(rows, _notes(compared), {**settings.of_draws, "below": BELOW})


def agreements(benchmark: str, table: Table, asked: Mapping[str, Collection[str]]) -> KeptFidelity:
    """Return the rows of all models as they are kept. `asked`: the `grader_hash` of each judge."""
    fields = set(Agreement.__struct_fields__) - {"asked"}
    return KeptFidelity(
        benchmark=benchmark,
        agreements=tuple(
            msgspec.convert(
                {name: row[name] for name in fields}
                | {"asked": sorted(asked.get(str(row["grader"]), ()))},
                Agreement,
            )
            for row in table.rows
            if row["level"] == "overall" and row["decisions"]
        ),
    )


def _levels(pair: Aligned, compared: Comparison, settings: Settings) -> Iterator[Row]:
    head: Row = {
        "reference": pair.reference.name,
        "grader": pair.grader.name,
        "kind": "judge" if pair.grader.is_judge else "experts",
        "raters_reference": pair.reference.raters or None,
        "raters": pair.grader.raters or None,
    }
    names = ("fidelity", pair.reference.name, pair.grader.name)
    yield {**head, "level": "overall", **figures(pair, settings, (*names, ""))}
    models = np.asarray([answer.model for answer in pair.answers])
    for model in dict.fromkeys(models.tolist()):
        own = figures(pair, settings, (*names, model), (models == model)[pair.answer_of])
        raters = {
            f"raters{ending}": compared.raters(grader, model)
            for grader, ending in ((pair.reference, "_reference"), (pair.grader, ""))
        }
        yield {**head, "level": "model", "model": compared.model(model), **own, **raters}


_MEASURES: Mapping[str, Measure] = {
    "mf1": two_class.macro_f1,
    "f1_met": two_class.met_f1,
    "f1_unmet": two_class.unmet_f1,
    "positive_reference": lambda counts: two_class.positive_rates(counts)[0],
    "positive": lambda counts: two_class.positive_rates(counts)[1],
    "kappa": two_class.kappa,
}


def figures(
    pair: Compared,
    settings: Settings,
    names: Sequence[str],
    some: two_class.Bools | slice = slice(None),
) -> Row:
    """Return the figures of what two graders decided, or of some of it; `names` decide the draws."""
    rows = np.arange(len(pair.found))[some]
    row: Row = {"decisions": len(rows), "answers": len(np.unique(pair.answer_of[rows]))}
    if not len(rows):
        return row | {"mf1_method": "none (no decision in common)"}
    counts = pair.counts()[rows]
    own = two_class.macro_f1(_sums(counts, pair.answer_of[rows]))
    known = own[~np.isnan(own)]
    found = counted(
        counts,
        pair.clusters[rows],
        _MEASURES,
        with_interval=("mf1", "kappa"),
        draws=settings.draws,
        seed=seed_of(settings.bootstrap_seed, *names),
        confidence=settings.confidence,
    )
    row |= {
        "cases": found.clusters,
        **found.row,
        "mf1_wrong": two_class.macro_f1(pair.counts(is_invalid_wrong=True)[rows].sum(0)),
        "mf1_of_answers": known.mean() if len(known) else None,
        "answers_defined": len(known),
        "answers_undefined": len(own) - len(known),
        "answers_below": int((known < BELOW).sum()),
        "below_share": (known < BELOW).mean() if len(known) else None,
        "invalid": int(pair.invalid[rows].sum()),
        "absent": int(pair.absent[rows].sum()),
    }
    if np.isnan(found.values["mf1"]):
        return row | {"mf1_method": "none (a class that nobody finds)"}
    return row | {"mf1_method": found.intervals["mf1"].method}


def _sums(counts: Floats, numbers: Ints) -> Floats:
    codes = np.unique(numbers, return_inverse=True)[1].astype(np.int64)
    return cluster_sums(counts, codes, int(codes.max()) + 1)


def _means(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the mean over the groups of each judge that has a value against every one of several."""
    by_judge: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["level"] == "overall" and row["kind"] == "judge":
            by_judge[str(row["grader"])].append(row)
    for judge, own in by_judge.items():
        if len(own) > 1:
            means = {
                name: np.mean([float(str(row.get(name, "nan"))) for row in own])
                for name in ("mf1", "mf1_wrong")
            }
            yield {"level": "mean", "grader": judge, "kind": "judge", **means}


def _notes(compared: Comparison) -> list[str]:
    lost = [
        f"{rows} of {len(grader.rows)} of {grader.name} against {other.name}"
        for pair in compared.pairs()
        for side, grader, other in (
            (pair.lost_of_reference, pair.reference, pair.grader),
            (pair.lost_of_grader, pair.grader, pair.reference),
        )
        if (rows := sum(side[why] for why in LOST_ROWS))
    ]
    return FIDELITY.say(
        mf1=True,
        by_answer=BELOW,
        groups=len(compared.experts) > 1,
        lost=several(lost, 3),
    )


def coverage_table(compared: Comparison, settings: Settings | None = None) -> Table:
    """Return each judge's share of criteria met, corrected by each group of experts."""
    groups: list[list[Judged]] = []
    for pair in compared.pairs():
        if pair.grader.is_judge:
            models = (plain_name(compared.aliases.get(r.model, r.model)) for r in pair.grader.rows)
            names = {"judge": pair.grader.name, "reference": pair.reference.name}
            groups.append([])
            for model in dict.fromkeys(m for m in models if m in pair.by_model):
                met, cases, human = zip(*pair.by_model[model], strict=True)
                head = {**names, "model": compared.model(model)}
                groups[-1].append(Judged(head, np.array(met, float), np.array(human), cases))
    title = "Share of criteria met, corrected by experts"
    return corrected_table(title, groups, [], settings or Settings())


def graders_table(compared: Comparison) -> Table:
    """Return for every two graders whether they put the models in one order."""
    graders = (*compared.experts, *compared.judges)
    rows = [_orders(compared.aligned(a, b)) for a, b in combinations(graders, 2)]
    return GRADERS.table(rows)


def _orders(pair: Aligned) -> Row:
    names = [answer.model for answer in pair.answers]
    row: Row = {"a": pair.reference.name, "b": pair.grader.name, "decisions": len(pair.found)}
    if not names:
        return row | {"models": 0}
    models, codes = np.unique(names, return_inverse=True)
    counts = cluster_sums(pair.counts(), codes.astype(np.int64)[pair.answer_of], len(models))
    one, other = two_class.positive_rates(counts)
    return row | {
        "models": len(models),
        "spearman": two_class.spearman(one, other),
        "kendall": two_class.kendall(one, other),
        "difference": (other - one).mean(),
        "absolute": np.abs(other - one).mean(),
        "higher": f"{int((other > one).sum())} of {len(models)}",
        **{f"top_{k}": two_class.top_overlap(one, other, k) for k in TOPS},
    }


def low_agreement_table(
    compared: Comparison, largest: int | None = LARGEST, *, with_text: bool = False
) -> Table:
    """Return the answers on which two graders agree least, `largest` of every two; None: all."""
    rows = [row for pair in compared.pairs() for row in _lowest(pair, compared, largest, with_text)]
    return LOW.table(rows, settings={"largest": largest})


def _lowest(
    pair: Aligned, compared: Comparison, largest: int | None, with_text: bool
) -> Iterator[Row]:
    if not pair.answers:
        return
    counts = _sums(pair.counts(), pair.answer_of)
    values = two_class.macro_f1(counts)
    best: dict[str, int] = {}
    for place, answer in enumerate(pair.answers):
        first = best.setdefault(plain(answer.case), place)
        if not np.isnan(values[place]) and not values[place] <= values[first]:
            best[plain(answer.case)] = place
    known = [p for p in range(len(values)) if not np.isnan(values[p])]
    known.sort(key=lambda p: (values[p], pair.answers[p].model, case_name(pair, p)))
    for place in known[:largest]:
        answer, top = pair.answers[place], best[plain(pair.answers[place].case)]
        disputed = pair.expected[answer.places] != pair.found[answer.places]
        texts = [c for c, is_disputed in zip(answer.criteria, disputed, strict=True) if is_disputed]
        yield {
            "reference": pair.reference.name,
            "grader": pair.grader.name,
            "model": compared.model(answer.model),
            "case": case_name(pair, place),
            "mf1": values[place],
            "decisions": len(answer.criteria),
            "disputed": int(disputed.sum()),
            "met_reference": int(pair.expected[answer.places].sum()),
            "met": int(pair.found[answer.places].sum()),
            "best_model": compared.model(pair.answers[top].model) if top != place else None,
            "best_mf1": values[top] if top != place else None,
            "text": "; ".join(texts[:_DISPUTED]) if with_text else None,
        }


def case_name(pair: Aligned, place: int) -> str:
    """Return the id of an answer's case, or a name that its text gives without showing it."""
    answer = pair.answers[place]
    digest = hashlib.sha256(plain(answer.case).encode()).hexdigest()[:_ENDING]
    return guard(answer.case_id) or f"sha256:{digest}"


def alignment_table(compared: Comparison) -> Table:
    """Return which answers and decisions were matched, which were lost, and why."""
    rows: list[Row] = []
    for pair in compared.pairs():
        for lost, grader in (
            (pair.lost_of_reference, pair.reference),
            (pair.lost_of_grader, pair.grader),
        ):
            names = {"reference": pair.reference.name, "grader": pair.grader.name}
            found = {"of": grader.name, "rows": len(grader.rows), "matched": len(pair.answers)}
            rows.append({**names, **found, **lost})
    return ALIGNMENT.table(rows)
