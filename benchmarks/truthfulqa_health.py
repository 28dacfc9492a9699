"""TruthfulQA, health and nutrition: which of two answers to a question is true?

Lin et al., 2021, arXiv 2109.07958; in the form of two answers that the authors advise since 2025.
"""

import hashlib

from medhelm import Benchmark, DataError, Exposure, FileDataset, Instance, LeftOut, Row, hookimpl

CATEGORIES = ("Health", "Nutrition")


def to_instance(row: Row) -> Instance | LeftOut:
    """Return a question with two answers, in an order drawn by the question."""
    if row["Category"] not in CATEGORIES:
        return LeftOut("of another category than health and nutrition")
    question = row["Question"].strip()
    right, wrong = row["Best Answer"].strip(), row["Best Incorrect Answer"].strip()
    if not right or not wrong or right == wrong:
        raise DataError("Best Answer and Best Incorrect Answer must be two texts")
    is_first = hashlib.sha256(question.encode()).digest()[0] % 2 == 0
    longer = "true" if len(right) > len(wrong) else "false"
    return Instance(
        question=question,
        choices=(right, wrong) if is_first else (wrong, right),
        references=("A" if is_first else "B",),
        metadata={"category": row["Category"], "type": row["Type"], "longer_answer": longer},
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="truthfulqa_health",
            title="TruthfulQA, health and nutrition",
            description="Questions on which people believe what is false: which answer is true?",
            subcategory="providing_patient_education_resources",
            tasks=("simplify_disease_info", "simplify_treatment"),
            dataset=FileDataset.brought(
                "TruthfulQA.csv",
                source="sylinrl/TruthfulQA, TruthfulQA.csv of January 2025 (790 rows)",
            ),
            to_instance=to_instance,
            instruction="Which of the two answers to the question is true?",
            metrics=["exact_match"],
            how_to_get=(
                "Download TruthfulQA.csv from the repository sylinrl/TruthfulQA, in the form of "
                "January 2025 or later, which has the column Best Incorrect Answer.",
                "Put it as TruthfulQA.csv into <data dir>/truthfulqa_health.",
            ),
            max_output_tokens=64,
            redistributable=True,
            licence="Apache-2.0",
            citation="Lin, Hilton and Evans. TruthfulQA. ACL 2022. arXiv 2109.07958",
            expected_instances={"test": 71},
            exposure=Exposure(public_since="2021-09-08"),
            unverified=True,
            mended=(
                "In the older form of one answer of many the right one comes first; here two "
                "answers are in an order drawn by the question.",
                "The true answer is the longer one in 69 % of the rows: always the longer one "
                "scores 0.690, and `longer_answer` is a slice.",
                "71 questions: an interval of some ten points to either side. No ranking by this alone.",
                "Some facts are of the United States and of 2021.",
            ),
        )
    ]
