"""The table `failures`: types of failure over unmet criteria, by model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from medhelm import Part, Settings, Table, make_table
from medhelm.plugin import column_kinds as kinds
from medhelm.plugin import intervals
from medhelm_benchmarks.clinconsensus.failures.labels import Answer, Name, failure_types

UNLABELLED = "unlabelled"

_COLUMNS = (
    kinds.text("level", "overall: all models; model: one of them"),
    kinds.text("model", "whose answers these are", "model"),
    kinds.text("type", "id of the type, or unlabelled"),
    kinds.text("title", "the type in words", "type"),
    kinds.count("criteria", "unmet criteria of this type", "criteria"),
    kinds.count("labelled", "unmet criteria with a label, of which the share is"),
    kinds.number(
        "share", "share of the labelled", "share", "share", ("share_low", "share_high"), 1, True
    ),
    *kinds.ends("share", "the share", "share"),
    kinds.text("share_method", "how that interval was made, or why there is none"),
    kinds.count("unmet", "all unmet criteria, labelled or not", "unmet"),
)


def failures_table(
    answers: Sequence[Answer], labels: Mapping[Name, str], by: str, settings: Settings
) -> Table:
    """Return how often each type is the reason. `by`: who labelled."""
    rows = [*_rows(answers, labels, settings, level="overall")]
    for model in sorted({a.model for a in answers}):
        own = [a for a in answers if a.model == model]
        rows += _rows(own, labels, settings, model, level="model")
    return make_table(
        "failures",
        "Types of failure over unmet criteria",
        _COLUMNS,
        rows,
        [
            f"Labelled by {by}. Shares are of the labelled criteria; what has no label is counted apart. "
            "Intervals: bootstrap over whole cases.",
            "The types say what to look at. They are not rates of failures in practice.",
        ],
        {
            "draws": settings.draws,
            "bootstrap_seed": settings.bootstrap_seed,
            "confidence": settings.confidence,
        },
        parts=(
            Part(level="overall", title="All models", columns=("title", "criteria", "share")),
            Part(
                level="model",
                title="By model",
                columns=("title", "criteria", "share"),
                group=("model",),
            ),
        ),
    )


def _rows(
    answers: Sequence[Answer],
    labels: Mapping[Name, str],
    settings: Settings,
    model: str | None = None,
    *,
    level: str,
) -> Iterator[dict[str, object]]:
    names = [(a.name(u.criterion.name), a.episode.instance.id) for a in answers for u in a.unmet]
    given = [(labels[name], case) for name, case in names if name in labels]
    types = list(failure_types())
    cases = {case: code for code, case in enumerate(dict.fromkeys(case for _, case in given))}
    ones = np.zeros((len(given), len(types) + 1))
    ones[:, -1] = 1
    for place, (label, _) in enumerate(given):
        ones[place, types.index(label)] = 1
    codes = np.asarray([cases[case] for _, case in given], dtype=np.int64)
    drawn = None
    if len(cases) > 1:
        seed = intervals.seed_of(settings.bootstrap_seed, "failures", model or "")
        drawn = intervals.bootstrap(
            intervals.cluster_sums(ones, codes, len(cases)), settings.draws, seed
        )
    head: dict[str, object] = {
        "level": level,
        "model": model,
        "labelled": len(given),
        "unmet": len(names),
    }
    for place, own in enumerate(failure_types().values()):
        hits = int(ones[:, place].sum())
        row: dict[str, object] = {**head, "type": own.id, "title": own.title, "criteria": hits}
        if given:
            row["share"] = hits / len(given)
            row["share_method"] = "none (one case)"
        if drawn is not None:
            found = intervals.percentile(
                drawn[:, place] / drawn[:, -1], settings.confidence, len(cases)
            )
            row |= {"share_low": found.low, "share_high": found.high, "share_method": found.method}
        yield row
    yield {
        **head,
        "type": UNLABELLED,
        "title": "No label",
        "criteria": len(names) - len(given),
    }
