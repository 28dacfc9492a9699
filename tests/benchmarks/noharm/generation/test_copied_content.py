"""What a letter may not take over from the guideline by rule: words in a row, limits, its name."""

from __future__ import annotations

import pytest

from medhelm_benchmarks.noharm.commands.generate import UNJUDGED
from medhelm_benchmarks.noharm.generation.checks import scene_faults
from medhelm_benchmarks.noharm.generation.guideline import Guideline
from medhelm_benchmarks.noharm.generation.stages import SceneReply
from medhelm_benchmarks.noharm.rules.cases import read_cases
from tests.benchmarks.noharm.making import SAMPLES
from tests.cases import cases

GUIDELINES, LEAKS, FRESH, HONEST = (
    cases(__file__, name) for name in ("guidelines", "leaks", "fresh", "honest")
)
KNOWN = {name: Guideline(text.split("\n")[0], text) for name, text in GUIDELINES.items()}
FILLED = " ".join(f"word{n}" for n in range(80))


def faults(text: str, name: str, asked: tuple[str, ...] = ()) -> list[str]:
    reply = SceneReply(
        vignette=f"{FILLED}. {text}",
        question="What next?",
        knowns=("one", "two", "three"),
        unknowns=("four", "five"),
        red_flags=(),
    )
    own = scene_faults(reply, KNOWN[name], asked)
    return [fault for fault in own if not fault.startswith("red_flags")]


def test_rules_find_what_is_copied_and_a_judge_is_needed_for_the_rest() -> None:
    for leaks, found in ((LEAKS, (13, 35)), (FRESH, (0, 20))):
        texts = [(name, text) for name, own in leaks.items() for text in own]
        assert (sum(bool(faults(text, name)) for name, text in texts), len(texts)) == found
    assert "13 of 55" in UNJUDGED
    assert not [text for name, own in HONEST.items() for text in own if faults(text, name)]


@pytest.mark.parametrize("name", KNOWN)
def test_the_bundled_cases_pass_beside_a_guideline_on_their_subject(name: str) -> None:
    assert not [c.code for c in read_cases(SAMPLES) if faults(c.vignette, name)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Do it when ketones are above 3 mmol/L.", "'above 3 mmol/L' is a limit"),
        ("His ketones are 3 mmol/L.", ""),
        ("They were above 4 mmol/L.", ""),
    ],
)
def test_a_limit_of_the_guideline_is_named(text: str, said: str) -> None:
    (name,) = [name for name, text_ in GUIDELINES.items() if "above 3 mmol/L" in text_]
    found = faults(text, name)
    assert any(said in fault for fault in found) if said else not found


def test_words_of_the_setting_are_no_fault() -> None:
    (name,) = [name for name, text in GUIDELINES.items() if "above 3 mmol/L" in text]
    assert not faults("Her ketones are above 3 mmol/L.", name, ("ketones are above 3 mmol/L",))
