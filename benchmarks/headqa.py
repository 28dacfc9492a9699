"""HeadQA: exams for access to specialised training in Spain's health system, in English.

Vilares and Gomez-Rodriguez, 2019, arXiv 1906.04701. The exams of 2016 and 2017 are the test
split; questions with an image are left out.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import ascii_uppercase

from medhelm import (
    Benchmark,
    DataError,
    Exposure,
    GitHub,
    Instance,
    LeftOut,
    Row,
    hookimpl,
    text_key,
)

TEST_YEARS = ("2016", "2017")


def read(paths: Sequence[Path], split: str) -> Iterator[Row]:
    """Yield the questions of the test exams, each with its exam's name, category and year."""
    exams = json.loads(paths[0].read_text(encoding="utf-8"))["exams"]
    for exam, values in exams.items():
        if values["year"] in TEST_YEARS:
            of_exam = {"exam": exam, "category": values["category"], "year": values["year"]}
            yield from (of_exam | question for question in values["data"])


def to_instance(row: Row) -> Instance | LeftOut:
    """Return a question; `ra` is text and `aid` a number, so both are read as numbers."""
    if row["image"]:
        return LeftOut("with a picture")
    keys = [int(answer["aid"]) for answer in row["answers"]]
    if int(row["ra"]) not in keys:
        raise DataError("ra names no answer")
    stem = " ".join(row["qtext"].split())
    return Instance(
        id=f"{row['exam']}/{row['qid']}",
        question=stem,
        choices=tuple(answer["atext"].strip() for answer in row["answers"]),
        references=(ascii_uppercase[keys.index(int(row["ra"]))],),
        cluster=text_key(stem),
        metadata={"category": row["category"], "year": row["year"]},
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    github = GitHub("raulista1997/benchmarkdata", "52ba5528fd1ff1c6ec4ad1d0850126836404e71f")
    return [
        Benchmark(
            name="headqa",
            title="HeadQA",
            description="Multiple-choice exam questions in six health professions.",
            subcategory="providing_clinical_knowledge_support",
            tasks=("answer_medical_knowledge_questions",),
            dataset=github.dataset(
                "HEAD_EN.json",
                "b7b55188f708a0a78ca0c1711b96890af42c0f528ff4aa6b4a29be47ee3c21c0",
                read,
                source=f"aghie/head-qa, copy in {github}",
            ),
            to_instance=to_instance,
            instruction=(
                "This is a question from an exam for health professionals. Choose the right option."
            ),
            metrics=["exact_match"],
            max_output_tokens=64,
            redistributable=True,
            licence="MIT",
            citation="Vilares and Gomez-Rodriguez. HEAD-QA. ACL 2019. arXiv 1906.04701",
            exposure=Exposure(public_since="2019-06-11"),
            expected_instances={"test": 2675},
            cluster="question stem",
        )
    ]
