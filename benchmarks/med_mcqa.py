"""MedMCQA: questions of Indian entrance examinations, four options.

Pal et al., 2022, arXiv 2203.14371. The labels of the test set are not public, so that everybody
reports the validation set. Its questions of the type single are the split `single`.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from medhelm import Benchmark, DataError, Exposure, FileDataset, GitHub, Instance, Row, hookimpl

_OPTIONS = re.compile(r"\(A\) (.*?) \(B\) (.*?) \(C\) (.*?) \(D\) (.*)", re.DOTALL)
_OF_OTHERS = re.compile(
    r"\b(?:all|none|any|both)\b.*\b(?:above|these|them|options?)\b", re.IGNORECASE
)


def read(paths: Sequence[Path], split: str) -> Iterator[Row]:
    """Yield the questions with their type, which the second file gives by their ids."""
    questions, singles = ([*_lines(path)] for path in paths)
    single = {row["realidx"] for row in singles}
    for row in questions:
        kind = "single" if row["id"] in single else "multi"
        if split != "single" or kind == "single":
            yield {**row, "choice_type": kind}


def _lines(path: Path) -> Iterator[Row]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def to_instance(row: Row) -> Instance:
    """Return a question; the copy has the options in its text. The worked answer stays out."""
    from medhelm_benchmarks.med_qa import picture

    stem, _, listed = row["question"].rpartition("\nAnswer Choices: ")
    found = _OPTIONS.fullmatch(listed)
    if not found:
        raise DataError("question does not end with the options (A) to (D)")
    (letter,) = row["label"]
    choices = tuple(text.strip() for text in found.groups())
    return Instance(
        id=row["id"],
        question=stem.strip(),
        choices=choices,
        references=(letter,),
        metadata={
            "subject": row["subject_name"],
            "choice_type": row["choice_type"],
            "picture": picture(stem),
            "of_others": "yes" if any(map(_OF_OTHERS.search, choices)) else "no",
        },
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    first = GitHub("TsinghuaC3I/MedXpertQA", "f21247d3ccf3b14826ff2aa7fa06e1a46d64058c")
    second = GitHub("gersteinlab/medagents-benchmark", "f5e50b69be8ef617a6de613cc8035929448e2b3b")
    return [
        Benchmark(
            name="med_mcqa",
            title="MedMCQA",
            description="Questions of entrance examinations to postgraduate training in India.",
            subcategory="providing_clinical_knowledge_support",
            tasks=("answer_medical_knowledge_questions",),
            dataset=FileDataset(
                files=(
                    first.file(
                        "eval/data/medmcqa/input/medmcqa_input.jsonl",
                        "fd77b0d05253da74d848dc11e706d74311e871e43ea72e75bfe4b74294781476",
                        "medmcqa_validation.medxpertqa.jsonl",
                    ),
                    second.file(
                        "data/medmcqa/test.jsonl",
                        "06193ed891b1f4ce1b93b3416f52ec731e8c7134b17a000f9219c031a929d716",
                        "medmcqa_validation_single.medagents.jsonl",
                    ),
                ),
                read=read,
                splits=("validation", "single"),
                source=f"medmcqa/medmcqa, validation set, copies in {first} and {second}",
            ),
            to_instance=to_instance,
            instruction=(
                "This is a question from an entrance examination for physicians and dentists. "
                "Choose the best option."
            ),
            metrics=["exact_match"],
            max_output_tokens=64,
            licence="MIT (medmcqa/medmcqa), Apache-2.0 (hub); questions of examinations",
            citation="Pal, Umapathi and Sankarasubbu. MedMCQA. CHIL 2022. arXiv 2203.14371",
            version="2",
            expected_instances={"validation": 4183, "single": 2816},
            exposure=Exposure(
                public_since="2022-03-27",
                overlaps=("Items of Med-HALT are made of it.",),
            ),
            mended=(
                "The key counts from 0 in the hub's copy and from 1 in the original; here it is the "
                "letter, so that no base can be mistaken.",
                "The copy has the options inside the question; they are shown once, as options.",
                "21 questions have two options of the same text; letters are compared, not texts.",
                "Questions of the type multi have a single key all the same: they are kept, and "
                "`choice_type` is a slice.",
                "Options such as all of the above (`of_others`) must stay in their order.",
                "35 questions show something that is not in the file; metadata `picture` says so.",
                "The worked answer is never shown.",
                "The key A is the most frequent: always A scores 0.322, which is the floor to "
                "compare with, not 0.25. 31.5 % of the questions are dental.",
                "The validation set was open to tuning.",
            ),
        )
    ]
