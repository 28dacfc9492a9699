"""What is read of a reply whose form was asked for: strictly, and never another answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from medhelm import Episode, Instance
from medhelm.grading.answer_form import stated
from medhelm.grading.grade import grade
from medhelm.plugins.registry import load_registry
from medhelm.schema.asking import Asking
from medhelm.schema.data import AnswerKind
from medhelm.schema.episode import Response
from tests.cases import cases

OPTIONS = Instance(
    id="1",
    question="What now?",
    choices=("Start heparin", "Stop aspirin", "Wait"),
    references=("B",),
)
NUMBER = Instance(id="1", question="How much?", references=("12.5",))
REPLIES = yaml.safe_load((Path(__file__).parent / "replies.yaml").read_text(encoding="utf-8"))
LINE, SCHEMA = Asking(name="line", form="line"), Asking(name="schema", form="schema")


def read(
    text: str,
    asking: Asking,
    instance: Instance = OPTIONS,
    finish: Any = "stop",
    kind: AnswerKind = "choice",
) -> Episode:
    response = Response(instance_id=instance.id, text=text, finish=finish)
    return stated(Episode(instance=instance, response=response), asking, None, kind)


@pytest.mark.parametrize("form", ["line", "schema"])
def test_replies_give_the_marked_answer_or_none(form: Any) -> None:
    asking = Asking(name=form, form=form)
    for case in REPLIES[form]:
        found = read(case["text"], asking, finish=case.get("finish", "stop"))
        got = None if found.unread else found.text
        assert got == case["read"], case
        assert bool(found.unread) == (case["read"] is None), case


@pytest.mark.parametrize(
    ("kind", "text", "said"), cases(__file__, "values_labels_and_texts_become_what_metrics_read")
)
def test_values_labels_and_texts_become_what_metrics_read(
    kind: Any, text: str, said: str | None
) -> None:
    found = read(text, SCHEMA, NUMBER, kind=kind)
    assert (None if found.unread else found.text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Answer: 12.5", "12.5"),
        ("So 7 + 13.\nAnswer: **20 mEq/L**", "20 mEq/L"),
        ("Answer: -6.0", "-6.0"),
        ("Answer: 08/31/2023", "08/31/2023"),
        ("Answer: 5 weeks 1 day", "5 weeks 1 day"),
        ("Answer: ('5 weeks', '1 days')", "('5 weeks', '1 days')"),
        ("Answer: 20\nor maybe 21", None),
        ("Answer: 20 mEq/L, since 140-100-20", None),
        ("Answer: about 20", None),
        ("Answer: 20 or 21", None),
    ],
)
def test_a_value_stands_alone_on_the_last_line(text: str, said: str | None) -> None:
    found = read(text, LINE, NUMBER, kind="number")
    assert (None if found.unread else found.text) == said


def test_a_text_goes_on_to_the_end_behind_its_mark() -> None:
    found = read("Let me think.\nAnswer: Take it\nwith food.\n", LINE, NUMBER, kind="text")
    assert found.text == "Take it\nwith food."
    twice = "Answer: Two parts.\nQ: With food?\nAnswer: yes"
    assert read(twice, LINE, NUMBER, kind="text").text.startswith("Two parts.")
    reasoned = Asking(name="cot", form="line", reasons=True)
    assert read(twice, reasoned, NUMBER, kind="text").unread


def test_medec_is_answered_in_parts() -> None:
    metric = load_registry().metric("medec_flag_accuracy")
    note = Instance(
        id="1", context="0 A.\n1 B.", references=("1 C.",),
        answer_key={"error_flag": "1", "error_sentence_id": "1"},
    )  # fmt: skip
    for parts, value in (
        ({"is_correct": False, "sentence": 1, "correction": "C."}, 1.0),
        ({"is_correct": True, "sentence": None, "correction": ""}, 0.0),
        ({"is_correct": False, "sentence": "one", "correction": ""}, None),
        ({"is_correct": True, "sentence": 3, "correction": "x"}, None),
    ):
        response = Response(instance_id="1", text=json.dumps({"answer": parts}))
        score = grade(
            metric, stated(Episode(instance=note, response=response), SCHEMA, metric, "text")
        )
        assert (score.value if score.outcome == "scored" else None) == value


def test_what_is_in_no_form_counts_with_the_floor_under_its_name() -> None:
    metric = load_registry().metric("exact_match")
    outcomes = {}
    for text, finish in (
        ("I choose B.", "stop"),
        ("It is", "length"),
        ("", "stop"),
        ("B", "refusal"),
    ):
        score = grade(metric, read(text, LINE, finish=finish))
        assert score.value == 0.0
        outcomes[text] = score.outcome
    assert outcomes == {
        "I choose B.": "unparsed",
        "It is": "truncated",
        "": "empty",
        "B": "refused",
    }


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=60)


@given(reasons=TEXT, letter=st.sampled_from("ABC"))
def test_what_stands_before_the_last_line_changes_nothing(reasons: str, letter: str) -> None:
    marks = ("<", ">", "[", "\u25c1", "\u25b7")  # they open thoughts
    said = "".join(c for c in reasons if c not in marks)
    assert read(f"{said}\nAnswer: {letter}", LINE).text == letter
    assert read(json.dumps({"reasons": said, "answer": letter}), SCHEMA).text == letter


@given(TEXT)
def test_without_a_mark_nothing_is_read(text: str) -> None:
    found = read(text.replace(":", "").replace("\uff1a", ""), LINE)
    assert found.unread or not found.text.strip()


def test_the_log_of_a_run_holds_no_field_of_the_reading() -> None:
    from medhelm.store.loglines import encode_line

    episode = read("no mark", LINE)
    assert episode.unread and b"unread" not in encode_line(episode)
    assert msgspec.json.decode(msgspec.json.encode(episode), type=Episode) == episode
