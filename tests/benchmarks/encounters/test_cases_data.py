"""Cases from folders, tables and rubrics; the real rubrics where they are."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from medhelm import DataError, Instance
from medhelm.data.dataset import open_dataset
from medhelm_benchmarks.encounters.data.layout import read_scenarios, without_struck
from medhelm_benchmarks.encounters.data.medsp1000 import (
    MEDSP1000,
    read_rows,
    to_instance,
)
from medhelm_benchmarks.encounters.data.rubrics import (
    is_failure,
    items_of_markdown,
    read_rubrics,
    rubric_record,
)
from medhelm_benchmarks.encounters.matches import copied_share, folded
from medhelm_benchmarks.encounters.packets import COMPETENCIES, packets_of
from tests.cases import cases
from tests.shell import Shell

TEXTS = {"examinee": "Who you are", "sp_actor": "Pain", "environment_controller": "ECG"}


@pytest.fixture(scope="module")
def real(real_data: Path) -> Path:
    return real_data / "medsp1000"


def write_scenario(root: Path, scenario: str = "c1/scenario1", **folders: str) -> Path:
    """Write a scenario, with a file of the given text in each folder."""
    named = folders if folders else {**TEXTS, "evaluator": "## PC\n- Looks"}
    for folder, text in named.items():
        place = root / scenario / folder
        place.mkdir(parents=True)
        (place / "case.md").write_text(text, encoding="utf-8")
    return root


def table_of(rubrics: Path) -> Iterator[str]:
    """Yield a line of packets for each real rubric."""
    for line in rubrics.read_text().splitlines():
        row = json.loads(line)
        own = {"case_id": row["case_id"], "scenario": row["scenario"], "evaluator": "x"}
        yield json.dumps({**own, **TEXTS, "specialty": "Cardiology", "patient_age": None})


@pytest.mark.slow
def test_all_real_rubrics_load(real: Path, tmp_path: Path) -> None:
    rubrics = read_rubrics(real / "rubrics.jsonl")
    raw = [json.loads(line) for line in (real / "rubrics.jsonl").read_text().splitlines()]
    assert [rubric_record(r) for r in rubrics.values()] == raw

    (tmp_path / "cases").mkdir()
    lines = table_of(real / "rubrics.jsonl")
    (tmp_path / "cases" / "packets.jsonl").write_text("\n".join(lines))
    paths = [tmp_path / "cases", real / "rubrics.jsonl"]
    rows = list(read_rows(paths, "test"))
    instances = [i for row in rows if isinstance(i := to_instance(row), Instance)]
    assert (len(rows), len(instances)) == (1_634, 1_548)
    assert len({i.cluster for i in instances}) == 595
    items = {i.id: packets_of(i).evaluator.items for i in instances}
    assert sum(map(len, items.values())) == 24_602
    texts = [i.text for i in items["mededportal_10009/scenario1"]]
    assert texts == [text for code in COMPETENCIES for text in raw[0][code]]
    assert instances[0].metadata == {"specialty": "Cardiology"}
    verified = list(read_rows([*paths, real / "subset.json"], "verified"))
    assert len([i for row in verified if to_instance(row)]) == 100


@pytest.mark.parametrize(
    "names",
    [
        ("examinee", "sp_actor", "environment_controller", "evaluator"),
        ("Examinee", "SP", "Environment", "EVALUATOR"),
        ("受试者材料", "SP 扮演者", "环境控制材料", "评分标准"),
        ("受试者", "SP角色", "环境控制", "评估者资料"),
        ("scenario_initialization", "Standardized-Patient Actor", "环境控制者", "评估者"),
    ],
)
def test_folders_of_both_languages(tmp_path: Path, names: tuple[str, ...]) -> None:
    write_scenario(tmp_path, **dict(zip(names, ("a", "b ~~c~~ d", "e", "~~f~~"), strict=True)))
    (scenario,) = read_scenarios(tmp_path)
    assert scenario.id == "c1/scenario1"
    due = {"clinician": "a", "patient": "b  d", "controller": "e", "evaluator": "~~f~~"}
    assert scenario.texts == {role: f"# case.md\n\n{text}" for role, text in due.items()}


def test_files_of_a_role_are_joined_by_name_and_metadata_is_read(tmp_path: Path) -> None:
    place = write_scenario(tmp_path) / "c1" / "scenario1" / "sp_actor"
    for name, text in {"a.TXT": "first", ".b.md": "hidden", "z.pdf": "%PDF"}.items():
        (place / name).write_text(text)
    meta: dict[str, Any] = {"scenario_id": "scenario1", "department": "Ward", "patient_age": 61}
    meta["urgency_level"] = None
    (tmp_path / "c1" / "phase1_scenarios_meta.json").write_text(json.dumps({"scenarios": [meta]}))
    (scenario,) = read_scenarios(tmp_path)
    assert scenario.texts["patient"] == "# a.TXT\n\nfirst\n\n# case.md\n\nPain"
    assert scenario.metadata == {"department": "Ward", "patient_age": "61"}
    (rubrics := tmp_path.parent / f"{tmp_path.name}.jsonl").write_text("")
    (row,) = read_rows([tmp_path, rubrics], "test")
    instance = to_instance(row)
    assert instance is not None and instance.cluster == "c1"
    (item,) = packets_of(instance).evaluator.items
    assert (item.competency, item.text) == ("PC", "Looks")
    assert "Looks" not in instance.context


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sp_actor": "a"}, "no folder or column of the clinician"),
        ({**TEXTS}, "no folder or column of the evaluator"),
        ({**TEXTS, "evaluador": "a"}, r"evaluator .*; 'evaluador' \(rename it to 'evaluator'\?\)"),
        ({**TEXTS, "evaluator": " \n"}, "packet of the evaluator is empty"),
        ({**TEXTS, "evaluator": "a", "SP": "b"}, "are both the folder of the patient"),
        ({**TEXTS, "sp_actor": "~~all~~", "evaluator": "a"}, "empty|missing"),
    ],
)
def test_what_is_missing_or_twice_is_named(
    tmp_path: Path, change: dict[str, str], message: str
) -> None:
    write_scenario(tmp_path, **change)
    with pytest.raises(DataError, match=message) as caught:
        list(read_scenarios(tmp_path))
    assert "c1/scenario1" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("files", "message"), cases(__file__, "a_scenario_of_unknown_names_is_not_passed_over")
)
def test_a_scenario_of_unknown_names_is_not_passed_over(
    tmp_path: Path, files: list[str], message: str
) -> None:
    write_scenario(tmp_path)
    (scenario,) = read_scenarios(tmp_path)
    others = ("figures/ecg/one.png", "source/evaluator.md", "source/appendix/notes.md")
    for path in (*(tmp_path / "c1" / n for n in others), *(tmp_path / n for n in files)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    with pytest.raises(DataError, match=message) as caught:
        list(read_scenarios(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_a_text_is_named(tmp_path: Path, shell: Shell) -> None:
    write_scenario(tmp_path / "medsp1000" / "cases")
    role = tmp_path / "medsp1000" / "cases" / "c1" / "scenario1" / "sp_actor"
    (role / "script.docx").write_bytes(b"PK")
    (role / ".hidden.pdf").write_bytes(b"%PDF")
    (tmp_path / "medsp1000" / "rubrics.jsonl").write_text("")
    said = "c1/scenario1/sp_actor/script.docx is not read; save what it holds as Markdown, or move it away"
    assert "flag file_not_read: 1" in shell("qc", "encounters", tmp_path / "medsp1000")
    assert shell.err == f"medhelm: {said}\n"
    shell("validate", "medsp1000", "--data", "full", "--data-dir", tmp_path, code=1)
    assert f"file_not_read: row 1: {said}" in " ".join((shell.out + shell.err).split())


def test_a_folder_without_scenarios_a_list_that_names_another_and_a_table_without_a_case(
    tmp_path: Path,
) -> None:
    with pytest.raises(DataError, match="no scenario.* <case>/<scenario>/<role>/"):
        list(read_scenarios(tmp_path))
    write_scenario(tmp_path / "cases")
    (tmp_path / "rubrics.jsonl").write_text("")
    (tmp_path / "subset.json").write_text('{"scenarios": ["c9/scenario1"]}')
    paths = [tmp_path / name for name in ("cases", "rubrics.jsonl", "subset.json")]
    with pytest.raises(DataError, match="1 of its 1 .*c9/scenario1"):
        list(read_rows(paths, "verified"))

    (tmp_path / "t").mkdir()
    (tmp_path / "t/t.jsonl").write_text(json.dumps({**TEXTS, "evaluator": "x", "name": "n"}))
    with pytest.raises(DataError, match="row 1: .*'case_id' or 'case'"):
        list(read_scenarios(tmp_path / "t"))


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a ~~b~~ c ~~d~~", "a  c "),
        ("~~two\nlines~~!", "!"),
        ("~~a\n\nb~~", "~~a\n\nb~~"),
        ("~~~\ncode\n~~~", "~~~\ncode\n~~~"),
        ("~5 to ~~ 6", "~5 to ~~ 6"),
    ],
)
def test_struck_out_text(text: str, left: str) -> None:
    assert without_struck(text) == left


def test_items_of_markdown_are_outermost_entries_below_a_competency() -> None:
    text = (
        "# Rubric\n- before\n## Patient care\n- [ ] Takes a history\n  - onset\n\n  and more\n"
        "- [x] Examines\n\nProse\n   deeper prose\n## ICS: communication\n1. Greets\n2) Listens\n"
        "### Part two\n* Thanks\n## Notes\n- after\n"
    )
    patient_care = [("PC", "Takes a history\n  - onset\n\n  and more"), ("PC", "Examines")]
    found = [(i.competency, i.text) for i in items_of_markdown(text)]
    assert found == patient_care + [("ICS", text) for text in ("Greets", "Listens", "Thanks")]
    assert items_of_markdown("- no heading\n") == ()


def test_a_damaged_rubric_names_its_row_and_field(tmp_path: Path) -> None:
    path = tmp_path / "rubrics.jsonl"
    good: dict[str, Any] = {"case_id": "c", "scenario": "s", "rubric_version": "v1"}
    good |= {code: [] for code in COMPETENCIES}
    texts = "row 1: 'MK' is not a list of texts"
    for rows, message in (
        ([good, good], "row 2: c/s has a rubric already"),
        ([good | {"MK": "text"}], texts),
        ([good | {"MK": [" "]}], texts),
        ([good | {"MK": [{"text": "a", "weight": 0}]}], texts),
        ([good | {"MK": [["a"]]}], texts),
        ([good | {"case_id": 3}], "row 1: 'case_id' is not a text"),
        ([good | {"PCC": ["Looks"]}], "row 1: 'PCC' is not a competency; they are PC, MK"),
        ([{k: v for k, v in good.items() if k != "SBP"}], "row 1: there is no 'SBP'; write"),
    ):
        path.write_text("\n".join(map(json.dumps, rows)))
        with pytest.raises(DataError, match=message):
            read_rubrics(path)


@pytest.mark.parametrize(("text", "failure"), cases(__file__, "items_that_are_worded_as_failures"))
def test_items_that_are_worded_as_failures(text: str, failure: bool) -> None:
    assert is_failure(text) is failure


def test_a_rubric_has_texts_or_items_with_weights(tmp_path: Path) -> None:
    heavy = {"text": "Gives oxygen", "weight": 2, "critical": True}
    rubric = {"case_id": "c", "scenario": "s", "PC": ["Greets", heavy]}
    (tmp_path / "rubrics.jsonl").write_text(json.dumps(rubric))
    (found,) = read_rubrics(tmp_path / "rubrics.jsonl", is_whole=False).values()
    marks = [(i.text, i.weight, i.critical) for i in found.items]
    assert marks == [("Greets", 1.0, False), ("Gives oxygen", 2.0, True)]


@pytest.mark.slow
def test_qc_counts_real_rubrics(real: Path, shell: Shell) -> None:
    found = shell.json("qc", "encounters", real)
    assert (found["rubrics"], found["articles"]) == (1_634, 613)
    assert (found["scorable"], found["scorable_articles"]) == (1_548, 595)
    assert len(found["without_items"]) == 86 and sum(found["items"].values()) == 24_602
    assert (found["shared_rubrics"], found["groups_of_shared_rubrics"]) == (124, 37)
    failures = found["worded_as_failures"]  # read one by one: 11 of them describe no failure
    assert (len(failures), len({f["scenario"] for f in failures})) == (327, 117)
    out = shell("qc", "encounters", real)
    assert "327 in 117 rubrics" in out
    assert "mededportal_10061/scenario1, item 6" in out


def test_qc_flags_what_needs_a_look(tmp_path: Path, shell: Shell) -> None:
    item = "Asks whether the pain began before or after the meal"
    write_scenario(
        tmp_path / "cases",
        examinee=f"You are the doctor on duty tonight. {item.lower()}. The patient sits before you.",
        sp_actor="word " * 20,
        environment_controller="short",
        evaluator=f"word word word word word word word word\n{item}\nAspirin",
    )
    rubric = {"case_id": "c1", "scenario": "scenario1", "rubric_version": "v1", "PC": [item]}
    rubric |= {"MK": ["Aspirin"], "SBP": [item.upper()], "ICS": ["Greets with great warmth"]}
    (tmp_path / "rubrics.jsonl").write_text(json.dumps(rubric | {"PBLI": [], "PROF": []}))
    flags = tmp_path / "flags.jsonl"
    shown = shell("qc", "encounters", tmp_path, "--flags", flags, "--strict", code=1)
    found = [json.loads(line) for line in flags.read_text().splitlines()]
    assert [(f["kind"], f.get("where")) for f in found] == [
        ("packet_too_short", "controller"),
        ("leak_by_overlap", "item 1"),
        ("item_too_short", "item 2"),
        ("leak_by_overlap", "item 3"),
        ("duplicate_item", "item 3"),
        ("item_not_in_source", "item 4"),
    ]
    assert "flagged scenarios: 1 of 1" in shown and "only a model can tell" in shown
    assert item not in flags.read_text()


@pytest.mark.parametrize(
    ("text", "other", "share"),
    [
        ("one two three four five six", "x one two three four five six y", 1.0),
        ("one two three four five six", "one two three four five", 0.5),
        ("One, two THREE", "- one two three", 1.0),
        ("one two", "one two", 0.0),
        ("one two three four five", "five four three two one", 0.0),
    ],
)
def test_the_share_that_is_copied(text: str, other: str, share: float) -> None:
    assert copied_share(text, other) == share


@pytest.fixture(scope="module")
def bundled() -> list[Instance]:
    return list(open_dataset(MEDSP1000, "sample", root=Path("none")).instances())


def test_no_item_stands_in_the_packet_of_the_clinician(bundled: list[Instance]) -> None:
    for instance in bundled:
        packets = packets_of(instance)
        shown = folded(instance.context)
        hidden = [item.text for item in packets.evaluator.items]
        hidden += [fact.answer for fact in packets.patient.facts]
        hidden += [r.text for s in packets.controller.states for r in s.results]
        assert not [text for text in hidden if folded(text) in shown], instance.id


def test_packets_for_models_hold_what_rules_answer(bundled: list[Instance]) -> None:
    for instance in bundled:
        packets = packets_of(instance)
        assert all(fact.answer in packets.patient.text for fact in packets.patient.facts)
        for state in packets.controller.states:
            assert all(change in packets.controller.text for change in state.changes)
            assert all(result.text in packets.controller.text for result in state.results)
        assert all(item.text in packets.evaluator.text for item in packets.evaluator.items)
