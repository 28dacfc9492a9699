"""MedicationQA: consumers' questions about medicines, with answers from trusted sources.

Ben Abacha et al., 2019, MEDINFO. Some golds only state that there is no answer: such a question is
asked and judged without a gold. Some questions occur several times in the file: equal ones are one
cluster.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

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
from medhelm.plugin import readers

COLUMNS = ("Question", "Focus (Drug)", "Question Type", "Answer", "Section Title", "URL")
NO_ANSWER = re.compile(r"no (?:known )?answers?(?: found)?|unanswerable|n/?a", re.IGNORECASE)


def read(paths: Sequence[Path], split: str) -> Iterator[Row]:
    """Yield the rows of the sheet with their number. Every cell is a text, n/a too."""
    for number, row in readers.read_file(paths[0]):
        for column in COLUMNS:
            if column not in row:
                raise DataError(f"{paths[0].name}: there is no column {column!r} in the first row")
        yield {**row, "row": str(number - 1)}


def to_instance(row: Row) -> Instance | LeftOut:
    """Return a question; those without an answer are left out."""
    answer = row["Answer"].strip()
    if not answer:
        return LeftOut("without an answer")
    question = row["Question"].strip()
    has_gold = not NO_ANSWER.fullmatch(answer.rstrip(" ."))
    return Instance(
        id=row["row"],
        question=question,
        references=(answer,) if has_gold else (),
        cluster=text_key(question.rstrip(" ?.")),
        metadata={
            "question_type": row["Question Type"].strip().lower() or "not stated",
            "drug": row["Focus (Drug)"].strip() or "not stated",
            "gold": "answer" if has_gold else "no answer",
        },
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    github = GitHub("abachaa/Medication_QA_MedInfo2019", "8756adc5f4bb99f6bcff690a13921337d9f9bb7e")
    return [
        Benchmark(
            name="medication_qa",
            version="2",
            title="MedicationQA",
            description="Questions of consumers about medicines, to be answered in plain words.",
            subcategory="providing_patient_education_resources",
            tasks=("simplify_disease_info", "simplify_risk_factors", "simplify_treatment"),
            dataset=github.dataset(
                "MedInfo2019-QA-Medications.xlsx",
                "4f13d0e3b195bd6a5d72a1872f9118cb5f69fd02c370001695330cfc9e3b5832",
                read,
            ),
            to_instance=to_instance,
            prompt="plain",
            instruction=(
                "Someone without medical training asks the question below about a medicine. "
                "Answer it correctly and fully, in words that this person understands."
            ),
            metrics=["jury", "rouge_l", "rouge_1", "rouge_2"],
            rubric="medication_answer",
            answer="text",
            max_output_tokens=1024,
            licence="not stated by the source",
            citation=(
                "Ben Abacha et al. Bridging the gap between consumers' medication questions and "
                "trusted answers. MEDINFO 2019"
            ),
            exposure=Exposure(public_since="2019"),
            expected_instances={"test": 690},
            cluster="question",
        )
    ]
