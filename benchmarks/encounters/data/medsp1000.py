"""MedSP1000: standardized-patient cases of medical education with frozen rubrics (Liang et al., 2026).

The bundled cases are ours, synthetic, and not validated by any clinician.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from medhelm import (
    Benchmark,
    DataError,
    FileDataset,
    Instance,
    LeftOut,
    Row,
    RowFinding,
    SourceFile,
)
from medhelm_benchmarks.encounters.data.layout import PacketRole, Scenario, read_scenarios
from medhelm_benchmarks.encounters.data.rubrics import (
    FrozenRubric,
    is_failure,
    items_of_markdown,
    read_rubrics,
)
from medhelm_benchmarks.encounters.matches import copied_share, folded, has_run
from medhelm_benchmarks.encounters.packets import (
    COMPETENCIES,
    ControllerPacket,
    EvaluatorPacket,
    Packets,
    PatientPacket,
    RubricItem,
    case_instance,
)
from medhelm_benchmarks.encounters.protocol import ENCOUNTER

CASES, RUBRICS, SUBSET = "cases", "rubrics.jsonl", "subset.json"
"""Names in the folder of a benchmark of cases: a folder, and two files."""


def read_rows(paths: Sequence[Path], split: str) -> Iterator[Row]:
    """Yield a row of each scenario: `paths` are the folder of cases, the rubrics and, for a split that
    is a part of the cases, the list of its scenarios. Rubrics without a scenario there are passed over.
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
    more = {"cluster": row["article"], "metadata": row["metadata"]}
    return case_instance(row["case"], row["clinician"], packets, **more)


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


LEAKED = 0.6
"""The share of an item's words in a row that is in the clinician's packet, from which it leaks."""
PACKET_WORDS: Mapping[PacketRole, tuple[int, int]] = {
    "clinician": (15, 1_500),
    "patient": (20, 12_000),
    "controller": (10, 20_000),
    "evaluator": (10, 20_000),
}
"""The fewest words that can be played from, and the most that a packet has."""
ITEM_WORDS = (2, 150)
RUBRIC_ITEMS = (3, 120)


class Flag(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something in a scenario that a person should look at."""

    scenario: str
    kind: str
    """`docs/encounters.md` lists them."""
    where: str = ""
    """A role, an item by its number, a document with its line."""
    measure: float | None = None
    """Words, items, or the share that overlaps."""


def scenario_flags(
    scenario: str, texts: Mapping[PacketRole, str], items: Sequence[RubricItem]
) -> Iterator[Flag]:
    """Yield what is flagged in a scenario: lengths, items that leak, repeat or are not in the source."""

    def flag(kind: str, where: str = "", measure: float | None = None) -> Flag:
        return Flag(scenario=scenario, kind=kind, where=where, measure=measure)

    def outside(what: str, count: int, limits: tuple[int, int], where: str = "") -> Iterator[Flag]:
        least, most = limits
        if not least <= count <= most:
            yield flag(f"{what}_too_{'short' if count < least else 'long'}", where, count)

    for role, text in texts.items():
        yield from outside("packet", len(text.split()), PACKET_WORDS[role], role)
    if items:
        yield from outside("rubric", len(items), RUBRIC_ITEMS)
    first: dict[str, int] = {}
    for number, item in enumerate(items, 1):
        where, words = f"item {number}", folded(item.text)
        if (share := copied_share(item.text, texts["clinician"])) >= LEAKED:
            yield flag("leak_by_overlap", where, round(share, 3))
        if not has_run(texts["evaluator"], item.text):
            share = copied_share(item.text, texts["evaluator"])
            yield flag("item_not_in_source", where, round(share, 3))
        if (other := first.setdefault(words, number)) != number:
            yield flag("duplicate_item", where, other)
        yield from outside("item", len(words.split()), ITEM_WORDS, where)
        if is_failure(item.text):
            yield flag("worded_as_failure", where)


_COMMIT = "2806984cb331d6fedc2c0555e3c1c4a54171c77a"

MEDSP1000 = Benchmark(
    name="medsp1000",
    title="MedSP1000",
    description="A clinician manages a standardized patient over clinical states; the items of a "
    "frozen rubric are ticked on what it said and did. 86 of the 1,634 readable rubrics hold no item "
    "and are left out. The bundled cases are synthetic and not validated by clinicians.",
    subcategory="planning_treatments",
    tasks=("suggest_clinical_pathways", "match_protocols"),
    dataset=FileDataset(
        files=(
            SourceFile(name=CASES, folder=CASES),
            SourceFile(name=RUBRICS),
            SourceFile(name=SUBSET, splits=("verified",)),
        ),
        read=read_rows,
        splits=("test", "verified"),
        source=f"MAGIC-AI4Med/MedSP1000 at {_COMMIT}; packets: hub data set byrLLCC/MedSP1000",
    ),
    to_instance=to_instance,
    row_findings=row_findings,
    protocol=ENCOUNTER,
    prompt="plain",
    answer="text",
    metrics=[
        "encounter_completion",
        "encounter_completion_highest",
        "encounter_pooled",
        "encounter_competency_mean",
        "encounter_competency_case_mean",
        "encounter_completion_turned",
        "encounter_completion_left_out",
        "simulation_fidelity",
        "role_conduct",
    ],
    max_output_tokens=2048,
    reasoning_output_tokens=16_384,
    how_to_get=(
        "Put the packets into the folder cases, as <case>/<scenario>/<role>/ with the roles examinee, "
        "sp_actor, environment_controller and evaluator, or as a table with a column of each "
        "(the hub data set byrLLCC/MedSP1000, once it is there).",
        "Put the rubrics into rubrics.jsonl, a scenario a line (case_id, scenario, rubric_version, and "
        "the lists PC, MK, SBP, ICS, PBLI, PROF), and the verified subset into subset.json, both from "
        "the repository MAGIC-AI4Med/MedSP1000.",
        "`medhelm qc encounters DIR` counts and checks what is in the folder; `medhelm curate DIR` "
        "makes cases from teaching packets of your own.",
        "They count as public. Cases of real patients need a plugin of their own with "
        'data_class="private".',
    ),
    curation="new",
    licence="rubrics CC BY-NC-SA 4.0, code MIT; Apache-2.0 for the bundled cases",
    citation="Liang et al., MedSP1000, 2026",
    expected_instances={"test": 1_548, "verified": 100},
    cluster="source article",
    samples=Path(__file__).parent.parent / "samples" / "medsp1000.jsonl",
)
