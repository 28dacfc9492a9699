"""The state machine: one step at a time, on `eos` alone, whatever the controller claims."""

from __future__ import annotations

from itertools import product

import pytest

from medhelm_benchmarks.encounters.packets import State
from medhelm_benchmarks.encounters.states import Place, begin, follow, next_place

TWO = (State(label="a"), State(label="b"))
HERE = Place(0, "a")


@pytest.mark.parametrize(
    ("states", "claim", "place", "overruled"),
    [
        # listed states advance by one, whatever is claimed
        (TWO, Place(1, "b", False), Place(1, "b"), ()),
        (TWO, Place(0, "a", False), Place(1, "b"), ("neither_end_nor_progress",)),
        (TWO, Place(0, "a", True), Place(1, "b"), ("end_before_the_last",)),
        (TWO, Place(3, "d", False), Place(1, "b"), ("jump",)),
        (TWO, Place(0, "b", False), Place(1, "b"), ("label_without_index",)),
        (TWO, Place(1, "a", False), Place(1, "b"), ("index_without_label",)),
        # states in a text are the controller's to tell, within the rules
        ((), Place(1, "b", False), Place(1, "b"), ()),
        ((), Place(0, "a", True), Place(0, "a", is_over=True), ()),
        ((), Place(4, "b", False), Place(1, "b"), ("jump",)),
        ((), Place(1, "b", True), Place(1, "b"), ("end_and_progress",)),
        ((), Place(1, "a", False), HERE, ("index_without_label",)),
        ((), Place(1, "", False), HERE, ("index_without_label",)),
        ((), Place(0, "b", False), HERE, ("label_without_index",)),
        ((), Place(0, "a", False), HERE, ("neither_end_nor_progress",)),
        ((), Place(0, "b", True), Place(0, "a", is_over=True), ("label_without_index",)),
    ],
)
def test_what_becomes_of_a_claim_on_eos(
    states: tuple[State, ...], claim: Place, place: Place, overruled: tuple[str, ...]
) -> None:
    assert follow(states, HERE, claim, eos=True) == (place, overruled)


def test_after_the_last_listed_state_it_is_over() -> None:
    last = Place(1, "b")
    over = Place(1, "b", is_over=True)
    assert next_place(TWO, last, eos=True) == over
    assert follow(TWO, last, Place(1, "b", True), eos=True) == (over, ())
    assert follow(TWO, last, Place(2, "c", False), eos=True) == (over, ("progress_after_the_last",))
    assert follow(TWO, last, Place(1, "b", False), eos=True)[1] == ("neither_end_nor_progress",)


@pytest.mark.parametrize("states", [(), TWO])
def test_without_eos_nothing_moves_and_every_other_claim_is_counted(
    states: tuple[State, ...],
) -> None:
    for index, label, is_over in product((0, 1, 5), ("a", "b", ""), (False, True)):
        place, overruled = follow(states, HERE, Place(index, label, is_over), eos=False)
        assert place == HERE
        expected = ["progress_without_eos"] if (index, label) != (0, "a") else []
        expected += ["end_without_eos"] if is_over else []
        assert list(overruled) == expected


def test_from_any_claims_index_and_label_change_together_by_at_most_one() -> None:
    claims = [Place(i, x, o) for i, x, o in product((0, 1, 2, 9), ("a", "b", "c", ""), (0, 1))]
    for states, first, second in product(((), TWO), claims, claims):
        place = begin(states)
        for claim, eos in ((first, True), (second, True)):
            then, _ = follow(states, place, claim, eos=eos)
            assert then.index - place.index in (0, 1)
            assert (then.index > place.index) == (then.label != place.label)
            place = then
