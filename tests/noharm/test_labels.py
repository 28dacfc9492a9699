"""Labels read out of replies; what is missing or invalid is never an endorsement."""

from __future__ import annotations

import time

import pytest

from medhelm.noharm.labels import Labels, read_labels

MENU = ("a1", "a2", "a3")
PLAIN = '{"labels": {"a1": "Appropriate", "a2": "Inappropriate", "a3": "Appropriate"}}'


def labels(text: str) -> Labels:
    found = read_labels(text, MENU)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        '{"a1": "appropriate", "a2": "INAPPROPRIATE ", "a3": "Appropriate"}',
        f"My labels:\n```json\n{PLAIN}\n```\nDone.",
        '[{"id": "a1", "label": "Appropriate"}, {"id": "a2", "label": "Inappropriate"},'
        ' {"id": "a3", "label": "Appropriate"}]',
        '{"labels": [{"id": "a1", "label": "Appropriate"}, {"id": "a2", "label": "Inappropriate"},'
        ' {"id": "a3", "label": "Appropriate"}]}',
        '{"a1": "Inappropriate"} no, rather ' + PLAIN,
        '{"note": 1} ' + PLAIN + ' {"note": 2}',
    ],
)
def test_forms_that_are_read(text: str) -> None:
    found = labels(text)
    assert found.endorsed == ("a1", "a3") and found.rejected == ("a2",)
    assert not found.missing and not found.invalid and found.unknown == 0


def test_missing_invalid_and_unknown_labels_are_counted() -> None:
    found = labels('{"a1": "Maybe", "a2": 1, "zz": "Appropriate"}')
    assert found == Labels((), (), ("a3",), ("a1", "a2"), 1)


def test_a_name_that_stands_twice_must_agree() -> None:
    assert labels('{"a1": "Appropriate", "a1": "Appropriate"}').endorsed == ("a1",)
    assert labels('{"a1": "Appropriate", "a1": "Inappropriate"}').invalid == ("a1",)


@pytest.mark.parametrize(
    "text",
    [
        '{"labels": {"a1": "Appropriate"}, "labels": {"a1": "Inappropriate"}}',
        '{"labels": {"a1": "Appropriate"}, "labels": [{"id": "a1", "label": "Inappropriate"}]}',
        '[{"id": "a1", "label": "Appropriate"}, {"id": "a1", "label": "Inappropriate"}]',
        '[{"id": "a1", "label": "Appropriate", "label": "Inappropriate"}]',
    ],
)
def test_no_way_to_say_both_of_one_action(text: str) -> None:
    assert labels(text).invalid == ("a1",) and not labels(text).endorsed


@pytest.mark.parametrize(
    "text", ["", "a1: Appropriate", "[]", '{"zz": "Appropriate"}', '{"a1": "Appropriate"', "[1, 2]"]
)
def test_what_is_no_object_of_labels(text: str) -> None:
    assert read_labels(text, MENU) is None


@pytest.mark.slow
def test_hostile_brackets_take_no_long_time() -> None:
    started = time.perf_counter()
    long = '[{"x":1},[' * 200 + '{"y":2},' * 120_000  # every beginning reads all that follows
    for text in (
        *("[" * 60_000, '{"' * 500_000, '[{"a":' * 150_000, '{"a1": ' * 140_000),
        *('{"a":"' * 160_000, long, "{" + " " * 1_000_000),
    ):
        assert read_labels(text, MENU) is None
    assert time.perf_counter() - started < 5
