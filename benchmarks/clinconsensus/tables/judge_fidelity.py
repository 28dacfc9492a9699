"""Shows the agreement of judges with experts, as it was measured and kept beside the runs."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from medhelm import PublishedRuns, Table, make_table
from medhelm.plugin import column_kinds as kinds

_COLUMNS = (
    kinds.text("benchmark", "name of the benchmark"),
    kinds.text("reference", "the group of experts that is compared with", "against"),
    kinds.text("grader", "the judge behind the scores, or a second group of experts", "grader"),
    kinds.text("kind", "judge, or experts: two groups against each other", "kind"),
    kinds.count("decisions", "criteria that both decided on", "decisions"),
    kinds.count("answers", "answers that they belong to", "answers"),
    kinds.count("cases", "cases of these answers"),
    *kinds.measured(
        "mf1",
        "macro F1 of all decisions, invalid replies as unmet",
        "share",
        "MF1",
        3,
        prefix="mf1",
    ),
    kinds.number(
        "mf1_wrong", "macro F1 with invalid replies wrong", "share", "invalid wrong", None, 3
    ),
    kinds.number("kappa", "Cohen's kappa", "", "kappa", None, 3),
    kinds.share("positive_reference", "share met by the reference", "met by it", 1),
    kinds.share("positive", "share met by the grader", "met", 1),
    kinds.count("invalid", "decisions of the grader that could not be read", "invalid"),
)


def fidelity_table(runs: PublishedRuns, benchmarks: Iterable[str]) -> Table:
    """Return a row for each judge and group of the benchmarks."""
    rows = [
        {
            **{k: v for k, v in msgspec.structs.asdict(own).items() if k != "asked"},
            "benchmark": benchmark,
            "kind": "judge" if own.asked else "experts",
        }
        for benchmark in benchmarks
        for own in runs.fidelity.get(benchmark, ())
    ]
    return make_table(
        "judge_fidelity",
        "Fidelity of the judges behind the scores",
        _COLUMNS,
        rows,
        [
            "Of judges that were asked in just the way that gave the scores: same model, mode, "
            "budget and repairs. Macro F1 counts the class met and the class not met alike."
        ],
        {},
    )
