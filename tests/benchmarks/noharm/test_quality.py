"""Quality control: each check at its limit and beside it, rates, raters, the summary."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from medhelm.tables.format.formats import to_csv, to_markdown
from medhelm_benchmarks.noharm.rules.cases import Case, read_cases
from medhelm_benchmarks.noharm.rules.judging import Judged, MenuReply, Telling, control
from medhelm_benchmarks.noharm.rules.quality import (
    CHECKS,
    FIVE,
    LEAKY,
    Check,
    Rate,
    check_case,
    check_cases,
    is_discordant,
    is_near_identical,
)
from medhelm_benchmarks.noharm.tables.quality import flags, quality_tables
from tests.benchmarks.noharm.making import SAMPLES, case, changed
from tests.cases import cases


def menu(appropriate: int = 0, uncertain: int = 0, inappropriate: int = 0) -> Case:
    """Return a case with so many actions rated 7, 5 and 3, none of them strong."""
    ratings = {f"a{i}": 7 for i in range(appropriate)}
    ratings |= {f"u{i}": 5 for i in range(uncertain)}
    return case(ratings | {f"i{i}": 3 for i in range(inappropriate)})


ORDINAL, INTERVAL = "alpha of the ratings, ordinal", "alpha of the ratings, interval"


def rates(cases: Sequence[Case]) -> dict[str, Rate]:
    return {rate.measure: rate for rate in check_cases(cases).rates()}


def check(made: Case, name: str) -> Check:
    (found,) = (c for c in check_case(made).checks if c.name == name)
    return found


@pytest.mark.parametrize(
    ("appropriate", "uncertain", "inappropriate", "passes"), cases(__file__, "the_mix_of_classes")
)
def test_the_mix_of_classes(
    appropriate: int, uncertain: int, inappropriate: int, passes: bool
) -> None:
    assert check(menu(appropriate, uncertain, inappropriate), "mix").passed is passes


@pytest.mark.parametrize(("medians", "passes"), cases(__file__, "strong_actions_on_both_sides"))
def test_strong_actions_on_both_sides(medians: tuple[int, ...], passes: bool) -> None:
    made = case({f"a{i}": (m, m, 5) for i, m in enumerate(medians)})  # the median decides
    assert check(made, "strong").passed is passes


@pytest.mark.parametrize(("n", "of", "passes"), [(1, 20, True), (1, 19, False), (2, 40, True)])
def test_implausible_actions(n: int, of: int, passes: bool) -> None:
    ids = [f"a{i}" for i in range(n)]
    found = check(changed(menu(of), ids, is_implausible=True), "implausible")
    assert found.passed is passes
    assert found.actions == tuple((i,) for i in ids)
    assert check(menu(of), "implausible").passed


@pytest.mark.parametrize(("n", "of", "passes"), [(3, 20, True), (3, 19, False), (4, 20, False)])
def test_substantial_disagreement(n: int, of: int, passes: bool) -> None:
    ids = [f"a{i}" for i in range(n)]
    found = check(changed(menu(of), ids, ratings=(3, 5, 7)), "agreement")
    assert found.passed is passes
    assert found.actions == tuple((i,) for i in ids)
    (measure,) = found.measures
    assert (measure.count, measure.of, float(measure.limit)) == (n, of, 0.15)


@pytest.mark.parametrize(
    ("ratings", "near", "discordant"), cases(__file__, "how_three_ratings_agree")
)
def test_how_three_ratings_agree(
    ratings: tuple[int, int, int], near: bool, discordant: bool
) -> None:
    (action,) = case({"a": ratings}).actions
    assert (is_near_identical(action), is_discordant(action)) == (near, discordant)


def test_every_strong_action_needs_a_reference_of_its_own() -> None:
    made = case({"a1": 8, "a2": 9, "a3": 2, "a4": 7, "a5": 3, "a6": 5}, references=["ESC 2024"])
    assert check(made, "references").actions == (("a1",), ("a2",), ("a3",))
    cited = changed(made, ["a1", "a2", "a3"], references=("ESC 2024",))
    assert check(cited, "references").passed
    blank = changed(cited, ["a2"], references=("  ", ""))
    assert check(blank, "references").actions == (("a2",),)


def twins(**more: object) -> Case:
    made = case({"a1": 8, "a2": 8, "a3": 5, "a10": 2}, **more)
    for name, text in (("a1", "Obtain ECG now"), ("a2", "Weigh her")):
        made = changed(made, [name], text=text)
    return changed(made, ["a10"], text="obtain an ECG now.")


def test_near_duplicates_outside_one_group() -> None:
    found = check(twins(), "duplicates")
    assert (found.passed, found.actions) == (False, (("a1", "a10"),))
    assert check(twins(alternatives=[["a2", "a1", "a10"]]), "duplicates").passed
    assert not check(twins(alternatives=[["a1", "a2"], ["a10", "a3"]]), "duplicates").passed
    for one, other in (("a1", "a10"), ("a10", "a1")):
        assert check(twins(broad={one: [other]}), "duplicates").passed
    # two specifics of one broad action are not said to be the same
    assert not check(twins(broad={"a2": ["a1", "a10"]}), "duplicates").passed


def test_what_a_judge_finds_is_added_and_its_error_stands_beside_it() -> None:
    texts = {text: name for name, text in control().menu().items()}
    told = [name for text, name in texts.items() if "drug of choice" in text or "Stop" in text]
    pair = tuple(name for text, name in texts.items() if "carotid" in text or "bruits" in text)
    seen = MenuReply(telling=tuple(Telling(id=i, words="x") for i in told), same=(pair,))
    made = twins(alternatives=[["a1", "a10"]])
    found = MenuReply(telling=(Telling(id="a3", words="odd"),), same=(("a3", "a2"),))
    judged = Judged("test/judge", {made.code: found}, seen)
    quality = check_cases([made], judged=judged)
    assert {c.name: c for c in quality.cases[0].checks}["duplicates"].actions == (("a2", "a3"),)
    assert [(i, x.kind, x.phrase) for i, x in quality.cases[0].leaks] == [("a3", "judge", "odd")]
    said = quality_tables(quality, judged=judged)["checks"].notes[-1]
    for part in (
        "1 of 1 menus",
        "1 of 8 wordings",
        "1 of 2 pairs",
        "1 of 14 other",
        "0 other pairs",
    ):
        assert part in said
    assert "No judge was asked" in quality_tables(quality)["checks"].notes[-1]


def test_embeddings_add_to_the_words() -> None:
    made = changed(twins(alternatives=[["a1", "a10"]]), ["a3"], text="Put her on the scales")

    def embed(texts: Sequence[str]) -> NDArray[np.float64]:
        return np.array([[1.0, 0.0] if " her" in t else [0.0, 1.0] for t in texts])

    assert check_case(made).flags[-1] != "duplicates"
    found = {c.name: c for c in check_case(made, embed).checks}
    assert found["duplicates"].actions == (("a2", "a3"),)


def test_flags_stand_beside_cases_and_none_is_left_out() -> None:
    good, poor = read_cases(SAMPLES)[0], twins(code="NOHARM-CARD-BAD-001")
    quality = check_cases([good, poor])
    assert [c.code for c in quality.cases] == [good.code, poor.code]
    assert quality.cases[0].flags == ()
    assert quality.cases[1].flags == ("references", "duplicates")
    assert (quality.passing(FIVE), quality.passing(CHECKS)) == (1, 1)
    assert quality.passing(("strong",)) == 2
    assert [(f.check, f.actions) for f in flags(quality)] == [
        ("references", (("a1",), ("a2",), ("a10",))),
        ("duplicates", (("a1", "a10"),)),
    ]


def test_a_case_with_nothing_but_duplicates_passes_five_and_not_six() -> None:
    good = read_cases(SAMPLES)[0]
    poor = changed(good, [good.actions[1].id], text=good.actions[0].text)
    quality = check_cases([poor])
    assert (quality.passing(FIVE), quality.passing(CHECKS)) == (1, 0)


def test_an_id_that_tells_the_intent_is_a_leak() -> None:
    made = changed(case({"a1": 9, "trap_1": 2, "aspirin": 5}), ["trap_1"], text="Give oxygen")
    found = check_cases([made])
    assert [(i, x.phrase) for i, x in found.cases[0].leaks] == [("trap_1", "trap_1")]


def test_the_rate_of_leaks_counts_actions_not_wordings() -> None:
    made = changed(menu(20), ["a3"], text="Start the drug of choice as indicated")
    made = changed(made, ["a11"], text="Give it, contraindicated or not")
    quality = check_cases([made])
    assert [(i, x.phrase) for i, x in quality.cases[0].leaks] == [
        ("a3", "drug of choice"),
        ("a3", "as indicated"),
        ("a11", "contraindicated"),
    ]
    # exact interval of 2 of 20 (tables of Clopper and Pearson: 1.2 % to 31.7 %)
    leaky = rates([made])[LEAKY]
    assert (leaky.count, leaky.actions, leaky.value) == (2, 20, 0.1)
    assert leaky.low == pytest.approx(0.012, abs=5e-4) and leaky.high == pytest.approx(
        0.317, abs=5e-4
    )
    none = rates([menu(30)])[LEAKY]
    assert (none.low, none.method) == (0.0, "exact, one-sided")
    assert none.high == pytest.approx(1 - 0.05 ** (1 / 30))


def test_the_agreement_of_raters_by_hand() -> None:
    found = rates([case({"a": (9, 9, 8)}), case({"b": (2, 1, 2)})])
    assert found["nearly identical ratings"].count == 2
    assert found["discordant ratings"].count == 0
    # interval: observed 4/6; expected 2 (6 x 235 - 31^2) / 30
    assert found[INTERVAL].value == pytest.approx(1 - (4 / 6) / (898 / 30))
    # ordinal: mean ranks 0.5, 2, 3.5, 5; observed 9/6; expected 2 (6 x 70.5 - 18^2) / 30
    assert found[ORDINAL].value == pytest.approx(1 - 1.5 / 6.6)
    alike = rates([case({"a": 5, "b": 5})])
    assert (alike[ORDINAL].value, alike[INTERVAL].value) == (None, None)


def test_the_summary_is_the_papers_table_1() -> None:
    one = changed(menu(6, 2, 2), ["a0", "a1", "a2"], category="medication")
    one = changed(one, ["a3"], category="lifestyle")
    two = case(
        {"x": 9, "y": 9, "z": 1, "w": 5, "v": 5},
        code="NOHARM-DERM-ACN-001",
        specialty="Dermatology",
        alternatives=[["x", "y"], ["z", "w"]],
        best_alternatives=[["x"]],
    )
    table = quality_tables(check_cases([one, two]))["summary"]
    assert [(row["statistic"], row["value"]) for row in table.rows] == [
        ("Cases", "2"),
        ("Specialties", "2"),
        ("Total actions", "15"),
        ("Mean actions per case", "7.5"),
        ("Median actions per case", "7.5"),
        ("Range", "5–10"),
        ("Appropriate (%)", "53.3"),  # 8 of 15
        ("Uncertain (%)", "26.7"),  # 4
        ("Inappropriate (%)", "20.0"),  # 3
        ("Medication (%)", "20.0"),
        ("Diagnostic (%)", "0.0"),
        ("Procedure (%)", "0.0"),
        ("Monitoring (%)", "0.0"),
        ("Referral (%)", "0.0"),
        ("Other categories (%)", "80.0"),
        ("Alternative groups", "2"),
        ("Best-alternative groups", "1"),
    ]


def test_the_tables_say_what_was_found_and_how_the_paper_was_read() -> None:
    tables = quality_tables(check_cases([twins()]), "some/encoder")
    checks = {row["check"]: (row["passed"], row["cases"]) for row in tables["checks"].rows}
    assert checks == {
        "mix": (1, 1),
        "strong": (1, 1),
        "implausible": (1, 1),
        "agreement": (1, 1),
        "references": (0, 1),
        "duplicates": (0, 1),
        "five": (0, 1),
        "six": (0, 1),
        "copies": (1, 1),
        "words": (None, 1),
        "all": (None, 1),
    }
    said = " ".join(tables["checks"].notes)
    assert "median below 3" in said and "at a limit passes" in said
    assert "some/encoder" in said
    said = " ".join(tables["rates"].notes)
    assert all(word in said for word in ("at most 1 apart", "1 to 3", "7 to 9"))
    assert "a1 + a10" in to_csv(tables["flags"])
    assert "a1 + a10" in to_markdown(tables["flags"]).replace("\\", "")
    assert len(tables["measures"].rows) == 10  # 3 + 2 + 1 + 1 + 1 + 1 + 1


RATED = st.tuples(*[st.integers(1, 9)] * 3)


@pytest.mark.slow
@given(st.lists(RATED, min_size=2, max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_actions_cases_and_raters_changes_nothing(
    ratings: list[tuple[int, int, int]], dice: np.random.Generator
) -> None:
    made = case({f"a{i}": r for i, r in enumerate(ratings)})
    made = changed(made, ["a0", "a1"], text="Give aspirin despite asthma")
    actions = list(made.actions)
    dice.shuffle(actions)  # type: ignore[arg-type]
    turned = tuple(msgspec.structs.replace(a, ratings=a.ratings[::-1]) for a in actions)
    other = msgspec.structs.replace(made, actions=turned)
    assert check_case(other) == check_case(made)
    one, two = check_cases([made, menu(3)]), check_cases([menu(3), other])
    assert one.cases == two.cases[::-1]
    for ours, theirs in zip(one.rates(), two.rates(), strict=True):
        assert (ours.count, ours.low) == (theirs.count, theirs.low)
        assert ours.value == pytest.approx(theirs.value)
