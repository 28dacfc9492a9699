"""What judges are sent by each rubric, and that a change of it is never taken for the old one."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from medhelm.data.dataset import open_dataset
from medhelm.data.rubrics import known_rubrics, load_rubric
from medhelm.grading.jury.grader import PROMPT_VERSION, judge_messages
from medhelm.plugins.registry import load_registry
from medhelm.schema.data import Instance, Rubric
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import JurySpec, JuryTerms
from medhelm.store.records import judge_hash
from tests.cases import cases
from tests.shell import Shell

REGISTRY = load_registry()
JUDGED = {b.name: b for b in REGISTRY.benchmarks.values() if b.rubric}
RUBRICS = known_rubrics(())
WITHOUT_GOLD = {"note_extract"}
CASE = Instance(id="i", context="A case.", question="A question?", references=("A gold.",))


def test_each_benchmark_with_a_jury_has_a_rubric_of_its_own() -> None:
    users = Counter(b.rubric for b in JUDGED.values())
    assert len(JUDGED) == len(users) == 15 and set(users.values()) == {1}
    assert set(RUBRICS) <= set(users) | {"accuracy_completeness_clarity"}


@pytest.mark.parametrize(
    ("benchmark", "words"), cases(__file__, "a_rubric_says_what_counts_in_its_task")
)
def test_a_rubric_says_what_counts_in_its_task(benchmark: str, words: tuple[str, ...]) -> None:
    rubric = load_rubric(JUDGED[benchmark])
    rules, _ = judge_messages(rubric, CASE, "An answer.", "Do it.")
    for word in words:
        assert word in rules.content, word


@pytest.mark.parametrize("name", JUDGED)
def test_the_prompt_of_a_rubric_on_its_first_sample(name: str, tmp_path: Path) -> None:
    benchmark = JUDGED[name]
    rubric = load_rubric(benchmark)
    instance = next(open_dataset(benchmark, "sample", root=tmp_path).instances())
    rules, body = judge_messages(rubric, instance, "An answer.", benchmark.instruction)
    for criterion in rubric.criteria:
        assert f"- {criterion.name}: " in rules.content
        low, high = rubric.minimum, rubric.maximum
        for end in {
            low,
            (low + high) // 2,
            high,
        }:  # what the ends of the scale mean, and the middle
            assert f" {end}: " in criterion.text
        form = f'"{criterion.name}": {{"score": <{low} to {high}>, "reason": "<why>"}}'
        assert form in rules.content
    has_gold = name not in WITHOUT_GOLD
    assert bool(rubric.reference) == bool(instance.references) == has_gold
    assert ("- <reference>: " in rules.content) == ("<reference " in body.content) == has_gold
    assert ("Consult it where you need it" in rules.content) == has_gold
    for tag in ("task", "case", "question", "answer"):
        assert (f"- <{tag}>: " in rules.content) == (f"<{tag} " in body.content)
    assert benchmark.instruction[:40] in body.content


def test_a_gold_that_is_not_to_be_shown_is_not() -> None:
    hidden = msgspec.structs.replace(RUBRICS["visit_note"], reference="")
    rules, body = judge_messages(hidden, CASE, "An answer.")
    assert "reference" not in rules.content + body.content and "A gold." not in body.content


# A change of a prompt needs a new version ------------------------------------------------------

PROMPTS = {
    "prompt": "3",
    "sha256": {
        "accuracy_completeness_clarity 2": "f1a2f7bcf4ac",
        "counselling_turn 2": "2822099ab66a",
        "dialogue_summary 2": "9630609b17cb",
        "discharge_section 2": "3dfac3325640",
        "health_answer 2": "25add56e0247",
        "history_form 2": "f60fe8a97b7d",
        "home_instructions 2": "18cd84c45d15",
        "hospital_course 2": "69cb855d9f85",
        "medication_answer 2": "c2d00b774af1",
        "note_section 3": "b8e849fc1590",
        "procedure_note 2": "c420a1706f4d",
        "radiology_impression 2": "7c07df451f79",
        "record_answer 2": "5441df25f5b7",
        "visit_note 2": "e66175a4df1f",
    },
}


def prompt_sha256(rubric: Rubric) -> str:
    """Return the hash of what judges are sent, without and with reasons."""
    sent = [judge_messages(rubric, CASE, "An answer.", "Do it.", reasons=r) for r in (False, True)]
    return hashlib.sha256(msgspec.json.encode(sent)).hexdigest()[:12]


def test_what_is_sent_is_that_of_the_stated_versions() -> None:
    """Where this fails, raise the version of the rubric, or PROMPT_VERSION for all of them, then
    write the new hash: stored verdicts are kept apart by these versions."""
    assert PROMPTS["prompt"] == PROMPT_VERSION
    assert {f"{n} {r.version}": prompt_sha256(r) for n, r in RUBRICS.items()} == PROMPTS["sha256"]


@pytest.mark.parametrize("what", ["rubric", "version", "reasons", "instruction", "reference"])
def test_verdicts_of_another_prompt_have_another_folder(what: str) -> None:
    def terms(changed: str = "") -> JuryTerms:
        rubric = RUBRICS["visit_note"]
        if changed == "reference":
            rubric = msgspec.structs.replace(rubric, reference="another")
        return JuryTerms(
            jury=JurySpec(name="j", reasons=changed != "reasons"),
            rubric=RUBRICS["hospital_course"] if changed == "rubric" else rubric,
            version="9" if changed == "version" else PROMPT_VERSION,
            instruction="Other." if changed == "instruction" else "Do it.",
        )

    judge = ModelSpec(name="j/a", model="a")
    assert judge_hash(judge, terms()) == judge_hash(judge, terms())
    assert judge_hash(judge, terms(what)) != judge_hash(judge, terms())


# The command line ------------------------------------------------------------------------------


def test_describe_shows_a_rubric_and_names_it_for_its_benchmark(
    shell: Shell,
) -> None:
    out = shell("describe", "counselling_turn")
    assert out.startswith("rubric counselling_turn\n") and "benchmarks: mental_health" in out
    assert "empathy: Does it sound warm" in out and "reference: what the counsellor said" in out
    assert "rubric: counselling_turn" in shell("describe", "mental_health")
    facts = shell.json("describe", "history_form")
    assert facts["kind"] == "rubric" and list(facts["criteria"]) == [
        "accuracy",
        "structure",
        "clarity",
    ]
    assert facts["reference"] == "" and "<reference>" not in facts["rules"]
