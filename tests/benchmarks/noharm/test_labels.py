"""Labels read out of replies: what is plain counts in whatever form, what is not is no label."""

from __future__ import annotations

import json
import random
import time

import pytest

from medhelm_benchmarks.noharm.rules.labels import Labels, read_labels, read_word
from tests.cases import cases

MENU = {
    "a1": "Give aspirin 300 mg",
    "a2": "Start appropriate antibiotics: ceftriaxone",
    "a3": "Admit - monitored bed",
}


def labels(text: str, *, is_cut: bool = False) -> Labels:
    found = read_labels(text, MENU, is_cut=is_cut)
    assert found is not None
    return found


@pytest.mark.parametrize("text", cases(__file__, "read"))
def test_forms_that_are_read(text: str) -> None:
    """Each says: a1 and a3 appropriate, a2 not, in words that nobody misunderstands."""
    found = labels(text)
    assert found.endorsed == ("a1", "a3") and found.rejected == ("a2",)
    assert not found.missing and not found.invalid


@pytest.mark.parametrize("text", cases(__file__, "not_read"))
def test_other_forms_are_lost_and_never_misread(text: str) -> None:
    found = read_labels(text, MENU)
    assert found is None or (set(found.endorsed) <= {"a1", "a3"} and set(found.rejected) <= {"a2"})


@pytest.mark.parametrize(("text", "word"), cases(__file__, "words"))
def test_words(text: str, word: str) -> None:
    assert read_word(text) == word


def test_missing_invalid_and_unknown_labels_are_counted() -> None:
    found = labels('{"a1": "Maybe", "a2": "Appropriate", "zz": "Appropriate", "note": "x"}')
    assert found == Labels(("a2",), (), ("a3",), ("a1",), 1)
    assert labels('{"a1": "Appropriate", "a2": 7, "a3": null}').invalid == ("a2", "a3")


def test_a_name_that_stands_twice_must_agree() -> None:
    assert labels('{"a1": "Appropriate", "a1": "Appropriate"}').endorsed == ("a1",)


@pytest.mark.parametrize("text", cases(__file__, "no_way_to_say_both_of_one_action"))
def test_no_way_to_say_both_of_one_action(text: str) -> None:
    assert labels(text).invalid == ("a1",) and labels(text).endorsed == ("a3",)


@pytest.mark.parametrize("text", cases(__file__, "what_holds_no_label"))
def test_what_holds_no_label(text: str) -> None:
    assert read_labels(text, MENU) is None


@pytest.mark.parametrize(
    ("text", "missing"),
    cases(__file__, "of_a_cut_reply_whole_labels_count_and_the_cut_one_does_not"),
)
def test_of_a_cut_reply_whole_labels_count_and_the_cut_one_does_not(
    text: str, missing: list[str]
) -> None:
    found = labels(text, is_cut=True)
    assert (found.missing, found.rejected, found.invalid) == (tuple(missing), ("a2",), ())
    assert found.endorsed == (("a1",) if missing else ("a1", "a3"))


def test_ids_that_differ_in_case_alone_are_told_apart() -> None:
    menu = {"x": "Wait", "X": "Operate"}
    found = read_labels('{"x": "Appropriate", "X": "Inappropriate"}', menu)
    assert found is not None and (found.endorsed, found.rejected) == (("x",), ("X",))


def damaged(drawn: random.Random, text: str) -> str:
    """Return a reply with one to three slips: a character lost, doubled or replaced, or an end cut."""
    for _ in range(drawn.choice([1, 1, 2, 3])):
        at = drawn.randrange(len(text))
        text = drawn.choice(
            [
                text[:at] + text[at + 1 :],
                text[:at] + text[at] + text[at:],
                text[:at] + drawn.choice("'\"`,;:{}[]x \n") + text[at + drawn.randrange(2) :],
                text[: max(at, len(text) // 2)],
                text.replace('"', drawn.choice(["'", "", "\u201c"])),
                text.replace(",", ", // next\n"),
                f"Sure! {text}\nI hope this helps.",
            ]
        )
    return text


@pytest.mark.slow
def test_damaged_replies_are_read_or_lost_and_never_misread() -> None:
    drawn, read = random.Random(1), 0
    for _ in range(600):
        gold = {f"a{n}": drawn.choice(["Appropriate", "Inappropriate"]) for n in range(1, 31)}
        items = [{"id": name, "label": word} for name, word in gold.items()]
        objects = {name: {"label": word, "reason": "QT"} for name, word in gold.items()}
        rows = "\n".join(f"{name}: {word}" for name, word in gold.items())
        form = drawn.choice([{"labels": gold}, gold, items, objects, rows])
        text = form if isinstance(form, str) else json.dumps(form, indent=drawn.choice([None, 1]))
        found = read_labels(damaged(drawn, text), {name: f"Step {name}" for name in gold})
        if found is not None:
            assert {gold[name] for name in found.endorsed} <= {"Appropriate"}
            assert {gold[name] for name in found.rejected} <= {"Inappropriate"}
            read += len(found.missing) + len(found.invalid) <= 1
    assert read >= 380


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        *("[" * 60_000, '{"' * 500_000, '[{"a":' * 150_000, '{"a1": ' * 140_000),
        *('{"a":"' * 160_000, "{" + " " * 1_000_000, '{"labels":' * 100_000),
        *('[{"x":1},[' * 200 + '{"y":2},' * 120_000, '{"labels":{"a1":"x",' * 60_000),
        *('{"' + '\n\\"' * 300_000, "a1:" * 300_000, "a1 - " * 200_000, '{"a1":"x"} ' * 90_000),
        *("[[" * 300_000, "(" * 1_000_000, '{"a1":"' + "(" * 500_000, "a1" + "-" * 1_000_000),
        *("{" + "1." * 400_000 + "}", '{"a1":"x","a2":"x"}' + "1." * 400_000 + "!"),
    ],
)
def test_hostile_replies_take_no_long_time(text: str) -> None:
    started = time.process_time()
    assert read_labels(text, MENU) is None
    assert time.process_time() - started < 5
