"""YAML benchmarks on a user's own file: fixed options, questions by value, parts, columns."""

import hashlib
from pathlib import Path

import pytest

from medhelm import text_key
from medhelm.data.dataset import open_dataset
from medhelm.errors import DataError, PluginError
from medhelm.plugins.yaml_benchmark import read_yaml_benchmark
from medhelm.schema.data import Instance, LeftOut

YAML = """
name: own_notes
subcategory: planning_treatments
dataset: {files: [{name: own_notes.csv}]}
columns: {id: key, condition: what is asked for, note: the note, label: the answer, patient: key}
instance:
  id: id
  context: note
  question: condition
  questions: {asthma: Is it asthma?, gout: Is it gout?}
  reference: label
  options: {"no": "no", "yes": "yes, it is", open: open}
  part: condition
  cluster: patient
  optional: [patient]
parts: [asthma, gout]
metrics: [exact_match]
"""
HEADER = "id,condition,note,label,patient\n"


NOTE = hashlib.sha256(b"Toe.").hexdigest()[:16]
"""The cluster of rows with this note and without a patient."""


def instances(folder: Path, table: str, text: str = YAML, ending: str = "csv") -> list[Instance]:
    folder.mkdir(exist_ok=True)
    path = folder / "own_notes.yaml"
    path.write_text(text)
    place = folder / "own_notes" / f"own_notes.{ending}"
    place.parent.mkdir(exist_ok=True)
    place.write_text(table, encoding="utf-8")
    return list(open_dataset(read_yaml_benchmark(path), "full", root=folder).instances())


def refusal(folder: Path, table: str, ending: str = "csv") -> str:
    with pytest.raises(DataError) as caught:
        instances(folder, table, ending=ending)
    message = str(caught.value)
    assert "\n" not in message and "secret" not in message, "no text of the data"
    assert f"own_notes.{ending}" in message
    return message


def test_a_row_becomes_an_instance(tmp_path: Path) -> None:
    (instance,) = instances(tmp_path, HEADER + "7,gout,Toe is red.,yes,p1\n")
    assert instance == Instance(
        id="7",
        context="Toe is red.",
        question="Is it gout?",
        choices=("no", "yes, it is", "open"),
        references=("B",),
        cluster="p1",
        metadata={"part": "gout"},
    )


def test_case_and_blanks_of_a_label_do_not_matter(tmp_path: Path) -> None:
    table = HEADER + "1,Asthma ,Wheeze.,NO,\n2, gout,Toe., Open ,\n"
    found = instances(tmp_path, table)
    assert [i.references for i in found] == [("A",), ("C",)]
    assert [i.metadata["part"] for i in found] == ["asthma", "gout"]


def test_optional_columns_may_be_empty_or_absent_and_order_is_free(tmp_path: Path) -> None:
    (empty,) = instances(tmp_path, HEADER + "1,gout,Toe.,no,\n")
    (absent,) = instances(tmp_path, "note,label,condition,id\nToe.,no,gout,1\n")
    assert empty == absent


def test_rows_of_one_note_belong_together_where_no_patient_is_given(tmp_path: Path) -> None:
    table = HEADER + "1,gout,Toe.,no,\n2,gout, Toe. ,yes,\n3,gout,Knee.,no,\n"
    one, two, other = (i.cluster for i in instances(tmp_path, table))
    assert one == two != other and None not in (one, other)


def test_blanks_around_keys_do_not_make_other_patients(tmp_path: Path) -> None:
    table = HEADER + "1 ,gout,Toe.,no, p1\n 2,gout,Toe.,no,p1 \n3,gout,Toe.,no,  \n"
    found = instances(tmp_path, table)
    assert [(i.id, i.cluster) for i in found] == [("1", "p1"), ("2", "p1"), ("3", NOTE)]


def lines(folder: Path, text: str) -> list[Instance]:
    """Read the rows from a file of JSON lines."""
    return instances(folder, text, ending="jsonl")


def test_json_lines_are_read_in_place_of_csv(tmp_path: Path) -> None:
    """A number is text, null an empty cell; an optional key may be absent."""
    full = '{"id": 7, "condition": "gout", "note": "Toe.", "label": "yes", "patient": 12}\n'
    bare = '{"id": "8", "condition": "gout", "note": "Toe.", "label": "no"}\n'
    null = '{"id": "9", "condition": "gout", "note": "Toe.", "label": "no", "patient": null}\n'
    first, *others = lines(tmp_path, full + "\n" + bare + null)
    (same,) = instances(tmp_path / "csv", HEADER + "7,gout,Toe.,yes,12\n")
    assert first == same
    assert [(i.id, i.cluster) for i in others] == [("8", NOTE), ("9", NOTE)]


LINE = '{"id": "1", "condition": "gout", "note": "secret", "label": "no"}\n'
IN_LINES = {
    "\n" + LINE.replace('"secret"', '["secret"]'): "row 2: column 'note' holds a list",
    LINE.replace('"secret"', "null"): "row 1: column 'note' is empty",
    LINE.replace('"no"', "true"): "row 1: column 'label' must hold one of: no, yes, open",
    LINE.replace('"note": "secret", ', ""): "row 1: there is no column 'note'",
}


def test_mistakes_in_json_lines_are_named(tmp_path: Path) -> None:
    for text, words in IN_LINES.items():
        assert words in refusal(tmp_path, text, "jsonl")


def test_both_forms_at_once_are_refused(tmp_path: Path) -> None:
    instances(tmp_path, HEADER + "1,gout,Toe.,no,p1\n")
    with pytest.raises(DataError) as caught:
        lines(tmp_path, '{"id": "2"}')
    message = str(caught.value)
    assert "own_notes.csv and own_notes.jsonl" in message and str(tmp_path) in message


def test_a_file_without_rows_is_named(tmp_path: Path) -> None:
    for table in ("", "\n\n", HEADER):
        assert "no row of data" in refusal(tmp_path, table)
    assert "no row of data" in refusal(tmp_path / "lines", "\n", "jsonl")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("id,note\n1,caf\u00e9".encode("latin-1"), "not UTF-8 at byte 13; it is in line 2; save"),
        ((HEADER + "1,gout,secret,no,\n").encode("utf-16-le"), "header: holds a NUL character"),
        ((HEADER + "1,gout,sec\0ret,no,\n").encode(), "row 1: holds a NUL character; save the"),
    ],
)
def test_another_encoding_is_told_with_its_place(data: bytes, message: str, tmp_path: Path) -> None:
    instances(tmp_path, HEADER + "1,gout,Toe.,no,p1\n")
    (tmp_path / "own_notes" / "own_notes.csv").write_bytes(data)
    with pytest.raises(DataError, match=message) as caught:
        benchmark = read_yaml_benchmark(tmp_path / "own_notes.yaml")
        list(open_dataset(benchmark, "full", root=tmp_path).rows())
    assert "secret" not in str(caught.value)


KNOWN = "the columns are id, condition, note, label, patient"
IN_TABLE = {
    "id,condition,text,label\n1,gout,secret,no\n": f"row 1: there is no column 'note'; {KNOWN}; "
    "the file has id, condition, label and 1 other",
    "secret one,secret two\n1,gout\n": f"row 1: there is no column 'id'; {KNOWN}; "
    "the file has none of them and 2 others",
    "id,condition,note,label,patinet\n1,gout,secret,no,p1\n": "row 1: unknown column 'patinet'",
    HEADER + "1,gout, ,no,p1\n": "row 1: column 'note' is empty",
    HEADER + "1,gout,secret,,p1\n": "row 1: column 'label' is empty",
    HEADER + "1,gout,Toe.,no,p1\n2,gout,Toe.,secret,p1\n": "row 2: column 'label' must hold one of",
    HEADER + "1,gout,secret,1.0,\n": "row 1: column 'label' must hold one of: no, yes, open",
    HEADER + "1,secret,Toe.,no,p1\n": "row 1: column 'condition' must hold one of: asthma, gout",
}


def test_a_file_with_a_mistake_is_refused_by_column(tmp_path: Path) -> None:
    for table, words in IN_TABLE.items():
        assert words in refusal(tmp_path, table)


def test_a_number_that_is_0_is_not_empty(tmp_path: Path) -> None:
    path = tmp_path / "own_notes.yaml"
    path.write_text(YAML.replace('"no": "no"', '"0": "no"'))
    row = {"id": 0, "condition": "gout", "note": "Toe.", "label": 0}
    instance = read_yaml_benchmark(path).to_instance(row)
    assert instance is not None
    assert (instance.id, instance.references) == ("0", ("A",))
    with pytest.raises(DataError, match="column 'note' is empty"):
        read_yaml_benchmark(path).to_instance({**row, "note": None})


DECLARED = [
    ('"no": "no", "yes": "yes, it is"', "no: n, yes: y", '("yes", not yes)'),
    ("reference: label", "gold_index: label", "gold_index needs instance.choices"),
    ("reference: label", "reference: label\n  choices: [id]", "and no choices"),
    ("question: condition\n", "\n", "instance.questions needs instance.question"),
    ("parts: [asthma, gout]", "", "instance.part needs parts"),
    ("part: condition", "", "parts need instance.part"),
    ("open: open}", '"NO": n}', "instance.options: two keys differ in case"),
    ("gout: Is it gout?", "Asthma: x", "instance.questions: two keys differ in case"),
    ("parts: [", "published: {columns: {text: x}}\nparts: [", "published.columns names 'text'"),
    ("metrics:", "published: {labels: {A: maybe}}\nmetrics:", "labels names 'maybe'"),
    ("metrics:", "published: {skip_empty: [note]}\nmetrics:", "skip_empty names 'note'"),
    ("metrics:", "published: {column: {}}\nmetrics:", "did you mean 'published.columns'?"),
    ("optional: [patient]", "optional: [patinet]", "'patinet', which columns do not"),
    ("context: note", "context: text", "'text', which columns do not declare"),
    ("options: {", "option: {", "did you mean 'instance.options'?"),
]


def test_a_declaration_with_a_mistake_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own_notes.yaml"
    for old, new, reason in DECLARED:
        assert YAML.count(old) == 1, old
        path.write_text(YAML.replace(old, new))
        with pytest.raises(PluginError) as caught:
            read_yaml_benchmark(path)
        assert reason in str(caught.value) and str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_no_more_options_than_letters(tmp_path: Path) -> None:
    path = tmp_path / "own_notes.yaml"
    many = ", ".join(f"k{n}: o{n}" for n in range(27))
    path.write_text(YAML.replace('{"no": "no", "yes": "yes, it is", open: open}', f"{{{many}}}"))
    with pytest.raises(PluginError, match="more than 26 labels"):
        read_yaml_benchmark(path)


BROUGHT = """
name: own_notes
subcategory: planning_treatments
dataset: {files: [{name: own_notes.jsonl}]}
instance:
  id: [ward, number]
  ask: Which drug?
  choices: options
  gold_index: right
  index_from: 1
  cluster_text: stem
  skip_empty: [stem]
  strip: true
metrics: [exact_match]
"""
BROUGHT_ROW = {"ward": "er", "number": 7, "stem": " Pain ", "options": [" a", "b "], "right": "2"}


def test_choices_of_one_column_keys_of_several_and_one_question(tmp_path: Path) -> None:
    path = tmp_path / "own_notes.yaml"
    path.write_text(BROUGHT)
    to_instance = read_yaml_benchmark(path).to_instance
    found = to_instance(BROUGHT_ROW)
    assert found == to_instance({**BROUGHT_ROW, "options": '["a", "b"]', "right": 2.0})
    assert found == Instance(
        id="er/7",
        question="Which drug?",
        choices=("a", "b"),
        references=("B",),
        cluster=text_key("pain"),
    )
    assert to_instance({**BROUGHT_ROW, "stem": " "}) == LeftOut("column stem is empty")
    for cells, words in (
        ({"right": "0"}, "column 'right'.* not in 1..2"),
        ({"options": "a, b"}, "column 'options' holds no list"),
        ({"options": "[]"}, "column 'options' holds no list"),
    ):
        with pytest.raises(DataError, match=words):
            to_instance({**BROUGHT_ROW, **cells})
    renamed = {"option" if name == "options" else name: v for name, v in BROUGHT_ROW.items()}
    with pytest.raises(DataError, match="'options'.* 'option'"):
        to_instance(renamed)


def test_rows_without_what_they_share_are_not_one_cluster(tmp_path: Path) -> None:
    path = tmp_path / "own_notes.yaml"
    for key in ("cluster: [ward, number]", "cluster_text: stem"):
        path.write_text(BROUGHT.replace("cluster_text: stem", key).replace("[stem]", "[]"))
        row = {**BROUGHT_ROW, "ward": None, "number": "", "stem": " "}
        found = read_yaml_benchmark(path).to_instance(row)
        assert isinstance(found, Instance) and not found.cluster


def test_a_metadata_column_may_name_the_part(tmp_path: Path) -> None:
    text = YAML.replace("part: condition", "metadata: [part]").replace("what is asked for", "x")
    text = text.replace("columns: {", "columns: {part: its part, ")
    (instance,) = instances(tmp_path, "part," + HEADER + "asthma,1,gout,Toe.,no,p1\n", text)
    assert instance.metadata == {"part": "asthma"}
