from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from medhelm.data.dataset import open_dataset
from medhelm.errors import DataError
from medhelm.schema.data import Benchmark, FileDataset, Instance, SourceFile

from .conftest import load, prompt

FILE = "MEDIQA2019-Task3-QA-TestSet-wLabels.xml"
XML = """<?xml version="1.0" encoding="UTF-8"?>
<MEDIQA2019-Task3-QA-TestSet>
  <Question QID="7">
    <QuestionText> whats a hernia &amp; can it heel? </QuestionText>
    <AnswerList>
      <Answer AID="7_Answer1" SystemRank="1" ReferenceRank="2" ReferenceScore="2">
        <AnswerURL>https://a.example</AnswerURL>
        <AnswerText>Hernias are common.</AnswerText>
      </Answer>
      <Answer AID="7_Answer2" SystemRank="2" ReferenceRank="1" ReferenceScore="3">
        <AnswerURL>https://b.example</AnswerURL>
        <AnswerText>A gap in the wall; it won&apos;t
heal alone.</AnswerText>
      </Answer>
    </AnswerList>
  </Question>
</MEDIQA2019-Task3-QA-TestSet>
"""
GOLD = "A gap in the wall; it won't\nheal alone."
ROW = {
    "QID": "7",
    "QuestionText": " whats a hernia & can it heel? ",
    "Answers": [
        {
            "AID": "7_Answer1",
            "SystemRank": "1",
            "ReferenceRank": "2",
            "ReferenceScore": "2",
            "AnswerURL": "https://a.example",
            "AnswerText": "Hernias are common.",
        },
        {
            "AID": "7_Answer2",
            "SystemRank": "2",
            "ReferenceRank": "1",
            "ReferenceScore": "3",
            "AnswerURL": "https://b.example",
            "AnswerText": GOLD,
        },
    ],
}


def unpinned(benchmark: Benchmark) -> Benchmark:
    assert isinstance(benchmark.dataset, FileDataset)
    dataset = replace(benchmark.dataset, files=(SourceFile(name=FILE),))
    return replace(benchmark, dataset=dataset)


def rows(text: str, root: Path) -> list[object]:
    benchmark = unpinned(load("mediqa_qa"))
    path = root / "mediqa_qa" / FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return list(open_dataset(benchmark, "full", root=root).rows())


def test_the_file_is_read_as_it_is(tmp_path: Path) -> None:
    assert rows(XML, tmp_path) == [ROW]


def test_a_question_that_stands_twice_is_one_cluster() -> None:
    """2 of 150 questions repeat an earlier one; blanks and case do not part them."""
    to_instance = load("mediqa_qa").to_instance
    texts = ("Can it heal?", " can it  heal?\n", "Can it hurt?")
    found = [to_instance({**ROW, "QID": text, "QuestionText": text}) for text in texts]
    first, second, other = (i.cluster for i in found if i is not None)
    assert first == second != other


def test_the_answer_that_was_ranked_first_is_the_gold() -> None:
    benchmark = load("mediqa_qa")
    instance = benchmark.to_instance(ROW)
    assert instance is not None
    assert instance == Instance(
        id="7",
        question="whats a hernia & can it heel?",
        references=(GOLD,),
        cluster=instance.cluster,
        metadata={"gold_rating": "right but incomplete"},
    )
    assert prompt(benchmark, instance) == f"{benchmark.instruction}\n\n{instance.question}"


def test_ranks_and_ratings_must_be_what_was_published() -> None:
    to_instance = load("mediqa_qa").to_instance
    first, gold = ROW["Answers"]
    assert isinstance(first, dict) and isinstance(gold, dict)
    for answers, count in (([first], 0), ([gold, gold], 2)):
        with pytest.raises(DataError, match=f"{count} have ReferenceRank 1, expected one"):
            to_instance(ROW | {"Answers": answers})
    with pytest.raises(DataError, match="ReferenceScore: expected one of 4, 3, 2, 1"):
        to_instance(ROW | {"Answers": [gold | {"ReferenceScore": "5"}]})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('<!DOCTYPE a [<!ENTITY b "ha">]><a>&b;</a>', "has a DOCTYPE"),
        ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>', "has a DOCTYPE"),
        ("<a>\n<b></a>", "not XML in line 2"),
        ("<a>&b;</a>", "not XML in line 1"),
        ("", "not XML in line 1"),
    ],
)
def test_a_file_that_could_do_harm_or_is_broken(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(DataError) as caught:
        rows(text, tmp_path)
    assert told in str(caught.value)
    assert str(caught.value).startswith(f"mediqa_qa: {FILE}: ") and "\n" not in str(caught.value)


def test_the_real_file(real_instances: Callable[..., list[Instance]], real_data: Path) -> None:
    instances = real_instances("mediqa_qa")
    ratings = Counter(i.metadata["gold_rating"] for i in instances)
    assert ratings == {"excellent": 118, "right but incomplete": 32}
    words = sorted(len(i.references[0].split()) for i in instances)
    assert (words[0], words[-1], round(sum(words) / len(words))) == (27, 6860, 540)
    assert len({i.question for i in instances}) == 148
    assert len({i.references for i in instances}) == 146
    found = list(open_dataset(load("mediqa_qa"), "full", root=real_data).rows())
    assert sum(len(row["Answers"]) for row in found) == 1107
    listed_first = sum(row["Answers"][0]["ReferenceRank"] == "1" for row in found)
    assert round(listed_first / len(found), 4) == 0.4267
