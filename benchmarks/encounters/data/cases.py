"""Cases from a folder of packets and the rubrics beside it: rows, instances, and what there is of both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from medhelm import DataError, Instance, LeftOut, Row, RowFinding
from medhelm_benchmarks.encounters.data.layout import Scenario, read_scenarios
from medhelm_benchmarks.encounters.data.rubrics import (
    FrozenRubric,
    items_of_markdown,
    read_rubrics,
)
from medhelm_benchmarks.encounters.packets import (
    COMPETENCIES,
    ControllerPacket,
    EvaluatorPacket,
    Packets,
    PatientPacket,
    RubricItem,
    case_instance,
)

CASES, RUBRICS, SUBSET = "cases", "rubrics.jsonl", "subset.json"
"""Names in the folder of a benchmark of cases: a folder, and two files."""


def read_rows(paths: Sequence[Path], split: str) -> Iterator[Row]:
    """Yield a row of each scenario: `paths` are the folder of cases, the rubrics and, for a split that
    is a part of the cases, the list of its scenarios.

    Rubrics whose scenario is not in the folder are passed over. Raises DataError where no scenario
    has a rubric, and for one of the list that is not there.
    """
    folder, rubrics = paths[0], read_rubrics(paths[1])
    wanted = read_subset(paths[2]) if len(paths) > 2 else None
    missing = dict.fromkeys(wanted or ())
    for scenario in read_scenarios(folder):
        if wanted is not None and scenario.id not in wanted:
            continue
        missing.pop(scenario.id, None)
        yield row_of(scenario, rubrics.get(scenario.id))
    if missing:
        raise DataError(
            f"split {split!r}: {len(missing)} of its {len(wanted or ())} scenarios are not in "
            f"{folder}, the first is {next(iter(missing))}"
        )


def row_of(scenario: Scenario, rubric: FrozenRubric | None) -> dict[str, Any]:
    """Return the row of a scenario."""
    packets = Packets(
        patient=PatientPacket(text=scenario.texts["patient"]),
        controller=ControllerPacket(text=scenario.texts["controller"]),
        evaluator=EvaluatorPacket(
            items=items_of_scenario(scenario, rubric),
            text=scenario.texts["evaluator"],
            rubric_version=rubric.version if rubric else "from the packet",
        ),
    )
    return {
        "case": scenario.id,
        "article": scenario.case,
        "clinician": scenario.texts["clinician"],
        "packets": msgspec.to_builtins(packets),
        "metadata": dict(scenario.metadata),
        "unread": list(scenario.unread),
    }


def items_of_scenario(scenario: Scenario, rubric: FrozenRubric | None) -> tuple[RubricItem, ...]:
    """Return the items of a scenario: those of its frozen rubric, else those of its packet."""
    return rubric.items if rubric else items_of_markdown(scenario.texts["evaluator"])


def row_findings(row: Row) -> Iterator[RowFinding]:
    """Yield the files of a case that no role is shown."""
    for name in row.get("unread", ()):
        yield RowFinding("file_not_read", unread_text(row["case"], name), is_failure=False)


def unread_text(scenario: str, name: str) -> str:
    """Return what there is to say of a file that is not a text."""
    return f"{scenario}/{name} is not read; save what it holds as Markdown, or move it away"


def to_instance(row: Row) -> Instance | LeftOut:
    """Return the instance of a row. A case whose rubric holds no item is left out."""
    try:
        packets = msgspec.convert(row["packets"], Packets)
    except msgspec.ValidationError as e:
        raise DataError(f"packets: {e}") from None
    if not packets.evaluator.items:
        return LeftOut("its rubric holds no item")
    return case_instance(
        row["case"],
        row["clinician"],
        packets,
        cluster=row["article"],
        metadata=row["metadata"],
    )


def read_subset(path: Path) -> frozenset[str]:
    """Return the scenarios of a list, as `case/scenario`."""
    try:
        return frozenset(msgspec.json.decode(path.read_bytes(), type=_Subset).scenarios)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise DataError(
            f'{path}: not JSON of the form {{"scenarios": ["case/scenario", ...]}}'
        ) from None


class _Subset(msgspec.Struct, frozen=True):
    scenarios: tuple[str, ...]


def count_rubrics(rubrics: Iterable[tuple[str, str, Sequence[RubricItem]]]) -> dict[str, Any]:
    """Return counts of rubrics, each (article, `case/scenario`, items), by name.

    `shared`: rubrics whose items another scenario has, too, letter by letter, in so many groups.
    """
    found = list(rubrics)
    scorable = [(article, tuple(items)) for article, _, items in found if items]
    groups = [n for n in Counter(items for _, items in scorable).values() if n > 1]
    codes = Counter(item.competency for _, items in scorable for item in items)
    return {
        "rubrics": len(found),
        "articles": len({article for article, _, _ in found}),
        "scorable": len(scorable),
        "scorable_articles": len({article for article, _ in scorable}),
        "without_items": [name for _, name, items in found if not items],
        "items": {code: codes[code] for code in COMPETENCIES},
        "shared_rubrics": sum(groups),
        "groups_of_shared_rubrics": len(groups),
    }
