"""MEDIQA-QA: consumers' questions about health, with answers that experts ranked.

Ben Abacha et al., 2019, ACL W19-5039 (task 3). The gold is the answer that was ranked first; in
32 of 150 questions it was rated right but incomplete. Equal questions are one cluster.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from medhelm import Benchmark, DataError, Exposure, GitHub, Instance, Row, hookimpl, text_key

RATINGS = {"4": "excellent", "3": "right but incomplete", "2": "related", "1": "wrong"}


def read(paths: Sequence[Path], split: str) -> Iterator[Row]:
    """Yield each question with its answers, attributes and texts as they are."""
    for question in parse(paths[0]).iter("Question"):
        yield {
            "QID": question.get("QID", ""),
            "QuestionText": question.findtext("QuestionText", ""),
            "Answers": [
                {**answer.attrib, **{part.tag: part.text or "" for part in answer}}
                for answer in question.iter("Answer")
            ],
        }


def parse(path: Path) -> Element:
    """Return the root of an XML file. A document type, which can declare entities, is refused."""

    def refuse(*declaration: object) -> None:
        raise DataError(f"{path.name}: has a DOCTYPE, which the published file has not")

    builder, parser = TreeBuilder(), expat.ParserCreate()
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(path.read_bytes(), True)
    return builder.close()


def to_instance(row: Row) -> Instance:
    """Return a question with the answer that was ranked first."""
    golds = [a for a in row["Answers"] if a["ReferenceRank"] == "1"]
    if len(golds) != 1:
        raise DataError(f"Answers: {len(golds)} have ReferenceRank 1, expected one")
    rating = golds[0]["ReferenceScore"]
    if rating not in RATINGS:
        raise DataError(f"ReferenceScore: expected one of {', '.join(RATINGS)}")
    question = row["QuestionText"].strip()
    return Instance(
        id=row["QID"],
        question=question,
        references=(golds[0]["AnswerText"].strip(),),
        cluster=text_key(question),
        metadata={"gold_rating": RATINGS[rating]},
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    github = GitHub("abachaa/MEDIQA2019", "ae5d3826d6c841923b9db831159fef0f1b893593")
    return [
        Benchmark(
            name="mediqa_qa",
            version="2",
            title="MEDIQA-QA",
            description="Questions of consumers about health, to be answered in plain words.",
            subcategory="enhancing_patient_understanding_and_accessibility_in_health_communication",
            tasks=("make_content_accessible",),
            dataset=github.dataset(
                "MEDIQA_Task3_QA/MEDIQA2019-Task3-QA-TestSet-wLabels.xml",
                "df9bca894d252279f200ee78e85d871b57a94b224d75467b7fa38a4a0952cc1d",
                read,
            ),
            to_instance=to_instance,
            prompt="plain",
            instruction=(
                "Someone without medical training asks the question below about health. Answer "
                "it correctly and fully, in words that this person understands."
            ),
            metrics=["jury", "rouge_l", "rouge_1", "rouge_2"],
            rubric="health_answer",
            answer="text",
            max_output_tokens=2048,
            licence="not stated by the source",
            citation="Ben Abacha et al. MEDIQA 2019 shared task. BioNLP 2019. ACL W19-5039",
            exposure=Exposure(public_since="2019"),
            expected_instances={"test": 150},
            cluster="question",
        )
    ]
