"""Shows the agreement of judges with experts, as it was measured and kept beside the runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from medhelm.store.kept_fidelity import Agreement
from medhelm.tables.format.column_kinds import count, measured, number, share, text
from medhelm.tables.format.table import Table, make_table

_COLUMNS = (
    text("benchmark", "name of the benchmark"),
    text("reference", "the group of experts that is compared with", "against"),
    text("grader", "the judge behind the scores, or a second group of experts", "grader"),
    text("kind", "judge, or experts: two groups against each other", "kind"),
    count("decisions", "criteria that both decided on", "decisions"),
    count("answers", "answers that they belong to", "answers"),
    count("cases", "cases of these answers"),
    *measured(
        "mf1",
        "macro F1 of all decisions, invalid replies as unmet",
        "share",
        "MF1",
        3,
        prefix="mf1",
    ),
    number("mf1_wrong", "macro F1 with invalid replies wrong", "share", "invalid wrong", None, 3),
    number("kappa", "Cohen's kappa", "", "kappa", None, 3),
    share("positive_reference", "share met by the reference", "met by it", 1),
    share("positive", "share met by the grader", "met", 1),
    count("invalid", "decisions of the grader that could not be read", "invalid"),
)


def fidelity_table(measured: Mapping[str, Iterable[Agreement]]) -> Table:
    """Return a row for each judge and group, by benchmark."""
    rows = [
        {
            **{k: v for k, v in msgspec.structs.asdict(own).items() if k != "asked"},
            "benchmark": benchmark,
            "kind": "judge" if own.asked else "experts",
        }
        for benchmark, found in measured.items()
        for own in found
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
