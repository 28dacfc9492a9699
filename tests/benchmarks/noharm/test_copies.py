"""Cases that repeat each other, in vignette, menu or whole."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from medhelm_benchmarks.noharm.rules.cases import Action, Case, read_cases
from medhelm_benchmarks.noharm.rules.quality import check_cases, find_copies
from tests.benchmarks.noharm.making import SAMPLES

BUNDLED = read_cases(SAMPLES)
ONE, OTHER = BUNDLED[:2]
COPY = msgspec.structs.replace(ONE, code="NOHARM-CARD-COPY-001")
OLDER = msgspec.structs.replace(
    COPY, vignette=ONE.vignette.replace("74-year-old", "79-year-old").replace("136/82", "128/70")
)
TURNED = msgspec.structs.replace(COPY, actions=COPY.actions[::-1])


def with_menu(made: Case, actions: Iterable[Action], **more: str) -> Case:
    """Return a case with other actions, which have nothing to do with each other."""
    none = {"alternatives": (), "best_alternatives": (), "broad": ()}
    return msgspec.structs.replace(made, actions=tuple(actions), **none, **more)


SPELT = with_menu(
    OTHER,
    (
        msgspec.structs.replace(a, text=a.text.replace("Measure", "Check").upper())
        for a in ONE.actions[:30]
    ),
    code="NOHARM-CARD-COPY-001",
)


@pytest.mark.parametrize(
    ("cases", "found"),
    [
        ((ONE, OTHER), []),
        ((ONE, OTHER, COPY), [(0, 2, "case")]),
        ((ONE, TURNED), [(0, 1, "case")]),  # the order of a menu makes no other case
        ((ONE, OLDER), [(0, 1, "menu"), (0, 1, "vignette")]),
        ((ONE, SPELT), [(0, 1, "menu")]),  # 30 of 39 actions, in another spelling
        (BUNDLED, []),
    ],
)
def test_what_repeats(cases: tuple[object, ...], found: list[tuple[int, int, str]]) -> None:
    assert [(c.one, c.other, c.what) for c in find_copies(cases)] == found  # type: ignore[arg-type]


def test_half_in_common_is_not_a_copy_and_more_is() -> None:
    halves = [ONE.actions[:20] + OTHER.actions[:20], OTHER.actions[:20] + BUNDLED[2].actions[:5]]
    for menu, is_copy in ((halves[0], False), (halves[1], True)):
        ids = (msgspec.structs.replace(a, id=f"b{n}") for n, a in enumerate(menu))
        made, short = with_menu(BUNDLED[5], ids), with_menu(OTHER, OTHER.actions[:20])
        # 20 of 40 in common; 20 of 25
        assert bool(find_copies([short, made])) is is_copy


def test_both_are_flagged_and_name_each_other() -> None:
    quality = check_cases([ONE, OTHER, OLDER])
    assert [c.flags for c in quality.cases] == [("copies",), (), ("copies",)]
    (said,) = quality.cases[0].checks[-1].others
    # 186 runs; "79" changes two of them, "128" and "70" four: 180 of 192
    assert said == "NOHARM-CARD-COPY-001: menu 100% the same, vignette 94% the same"
    assert quality.passing(("copies",)) == 1
