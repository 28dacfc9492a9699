"""Facts of the real files beyond the counts of `mappings/`: leaks, alignments, faults that are mended."""

import csv
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from medhelm.data.dataset import open_dataset
from medhelm.schema.data import Instance

from .conftest import load, prompt

pytestmark = pytest.mark.slow
Read = Callable[..., list[Instance]]


def plain(text: str) -> str:
    return " ".join(text.casefold().split())


def test_aci_bench_is_three_files_of_forty_and_shows_no_note(real_instances: Read) -> None:
    instances = real_instances("aci_bench")
    numbers = [int(i.id[3:6]) for i in instances]
    assert [min(numbers[n : n + 40]) for n in (0, 40, 80)] == [88, 168, 128]
    assert not any(i.references[0] in i.context for i in instances)


def test_a_question_that_stands_twice_is_one_cluster(real_instances: Read) -> None:
    ids = {i.id: i for i in real_instances("headqa")}
    assert ids["Cuaderno_2016_1_Q/114"].cluster == ids["Cuaderno_2017_1_Q/106"].cluster
    for name, parts in (("medbullets", None), ("mmlu_medical", "part")):
        members = defaultdict(list)
        for one in real_instances(name):
            members[one.cluster].append(one)
        twins = [pair for pair in members.values() if len(pair) > 1]
        assert len(twins) == {"medbullets": 10, "mmlu_medical": 78}[name]
        assert all(len({i.references for i in pair}) == 1 for pair in twins)
        if parts:
            assert {frozenset(i.metadata[parts] for i in pair) for pair in twins} == {
                frozenset({"clinical_knowledge", "college_medicine"})
            }


def test_options_of_med_mcqa_are_those_of_the_copy_that_has_them_apart(
    real_instances: Read, real_data: Path
) -> None:
    path = real_data / "med_mcqa" / "medmcqa_validation_single.medagents.jsonl"
    apart = {row["realidx"]: row for row in map(json.loads, path.read_text().splitlines())}
    single = real_instances("med_mcqa", "single")
    assert {i.id for i in single} == set(apart)
    for one in single:
        row = apart[one.id]
        assert (one.question, one.references[0]) == (row["question"].strip(), row["answer_idx"])
        assert list(one.choices) == [text.strip() for text in row["options"].values()]


def test_both_splits_of_med_qa_ask_the_same_and_their_options_are_clean(
    real_instances: Read,
) -> None:
    four, five = real_instances("med_qa"), real_instances("med_qa", "five_options")
    assert [i.question for i in four] == [i.question for i in five]
    assert not any(c != c.strip() or "\n" in c or '"""' in c for i in four for c in i.choices)


def test_translations_of_mmlu_clinical_afr_keep_gold_and_cluster(real_instances: Read) -> None:
    instances = real_instances("mmlu_clinical_afr")
    english = {i.id.removeprefix("en/"): i for i in instances if i.metadata["part"] == "en"}
    subjects = Counter(i.metadata["subject"] for i in english.values())
    assert subjects == {"clinical_knowledge": 265, "college_medicine": 173, "virology": 166}
    others = [i for i in instances if i.metadata["part"] != "en"]
    for one in others:
        own = english[one.id.partition("/")[2]]
        assert (one.references[0], one.cluster) == (own.references[0], own.cluster)
    repeated = [i for place, i in english.items() if i.cluster != place]
    assert len(repeated) == 78
    for one in repeated:
        first = english[str(one.cluster)]
        assert (one.references, one.choices) == (first.references, first.choices)
    assert sum(len(set(i.choices)) < 4 for i in others) == 109
    assert sum(len(i.references) > 1 for i in others) == 62


def test_golds_of_pubmed_qa_are_the_published_ones_and_no_conclusion_is_shown(
    real_data: Path, real_instances: Read
) -> None:
    folder, letters = real_data / "pubmed_qa", {"yes": "A", "no": "B", "maybe": "C"}
    truth = json.loads((folder / "test_ground_truth.json").read_text())
    golds = {i.id: i.references[0] for i in real_instances("pubmed_qa")}
    assert golds == {key: letters[label] for key, label in truth.items()}
    records = json.loads((folder / "ori_pqal.json").read_text())
    benchmark = load("pubmed_qa")
    everything = real_instances("pubmed_qa", "all")
    assert not any(records[i.id]["LONG_ANSWER"] in prompt(benchmark, i) for i in everything)


def test_medcalc_bench_shows_no_worked_solution(real_data: Path, real_instances: Read) -> None:
    instances = real_instances("medcalc_bench")
    assert [i.id for i in instances] == [str(n) for n in range(1, 1048)]
    assert {i.answer_key["calculator_id"] for i in instances if "weeks" in i.references[0]} == {
        "69"
    }
    with (real_data / "medcalc_bench" / "test_data.csv").open(newline="") as file:
        explanations = [row["Ground Truth Explanation"] for row in csv.DictReader(file)]
    benchmark = load("medcalc_bench")
    for instance, explanation in zip(instances, explanations, strict=True):
        assert explanation not in prompt(benchmark, instance)


def test_one_note_of_medec_holds_its_corrected_sentence(real_instances: Read) -> None:
    benchmark, verbatim = load("medec"), []
    for instance in real_instances("medec"):
        if instance.answer_key["error_flag"] == "0":
            assert instance.references == ("CORRECT",)
            continue
        number, corrected = instance.references[0].split(maxsplit=1)
        assert number == instance.answer_key["error_sentence_id"]
        assert re.search(rf"(?m)^{number} ", instance.context), instance.id
        if corrected in " ".join(prompt(benchmark, instance).split()):
            verbatim.append(instance.id)
    assert verbatim == ["ms-test-153"]


def test_the_gold_of_mediqa_qa_is_seldom_the_answer_that_is_listed_first(real_data: Path) -> None:
    found = list(open_dataset(load("mediqa_qa"), "full", root=real_data).rows())
    assert sum(len(row["Answers"]) for row in found) == 1107
    listed_first = sum(row["Answers"][0]["ReferenceRank"] == "1" for row in found)
    assert round(listed_first / len(found), 4) == 0.4267


def test_no_note_of_mtsamples_shows_its_plan(real_instances: Read) -> None:
    benchmark = load("mtsamples")
    for instance in real_instances("mtsamples"):
        assert len(instance.context.split()) >= 20, instance.id
        for gold in map(plain, instance.references):
            assert len(gold.split()) < 4 or gold not in plain(prompt(benchmark, instance))
        half = ("ASSESSMENT AND", "IMPRESSION AND", "GROSS", "ASSESSMENT/")
        assert not instance.context.endswith(half), instance.id
    published = real_instances("mtsamples", "published")
    assert len(published) == 539
    assert sum(plain(i.references[0]) in plain(i.context) for i in published) == 202


def test_the_question_alone_tells_much_of_race_bias(real_instances: Read) -> None:
    instances = real_instances("race_bias")
    assert max(int(i.id) for i in instances) == 181
    models = {i.metadata["model"] for i in instances}
    assert models == {"Bard", "Claude", "GPT 3.5", "GPT-4"}
    by_question: defaultdict[str | None, Counter[str]] = defaultdict(Counter)
    for instance in instances:
        by_question[instance.cluster][instance.references[0]] += 1
    assert by_question["egfr_black_woman"] == {"A": 19, "B": 1}
    assert "A" not in by_question["lung_capacity"] | by_question["brain_size"]
    best = sum(max(counts.values()) for counts in by_question.values())
    assert round(best / 173, 4) == 0.8613


def test_votes_and_letters_of_sct_bench(real_instances: Read) -> None:
    instances = real_instances("sct_bench")
    votes = [{v: float(n) for v, n in i.answer_key.items()} for i in instances]
    assert sum([*v.values()].count(max(v.values())) > 1 for v in votes) == 12
    for value, share in {"-2": 0.277, "-1": 0.303, "0": 0.236, "+1": 0.423, "+2": 0.396}.items():
        assert round(sum(v[value] / max(v.values()) for v in votes) / 174, 3) == share
    text = "".join(i.context + i.question for i in instances)
    assert not any(mark in text for mark in "\u00c2\u00cb\u00e2\x80\x9a")
