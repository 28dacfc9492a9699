"""Medbullets: vignettes in the style of USMLE Steps 2 and 3, five options.

Chen et al., 2024, arXiv 2402.18060. Ten questions occur twice in the file: each pair is one
cluster. Some refer to a figure that the file lacks; metadata `figure` says so.
"""

import re

from medhelm import Benchmark, Exposure, GitHub, Instance, Row, hookimpl, text_key

COLUMNS = ("opa", "opb", "opc", "opd", "ope")


def to_instance(row: Row) -> Instance:
    """Return a question. Its explanation, which gives the answer away, stays out."""
    choices = tuple(row[column].strip() for column in COLUMNS)
    figure = "referenced" if re.search(r"\bFigures? [A-Z]\b", row["question"]) else "none"
    if choices == ("A", "B", "C", "D", "E"):
        figure = "only_letters"
    return Instance(
        id=row["link"].strip(),
        question=row["question"].strip(),
        choices=choices,
        references=(row["answer_idx"].strip(),),
        cluster=text_key(row["question"]),
        metadata={"figure": figure},
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    github = GitHub("HanjieChen/ChallengeClinicalQA", "ef3c9da03fc17f46fbd95ce860e0a55c51ed3606")
    return [
        Benchmark(
            name="medbullets",
            title="Medbullets",
            description="Clinical vignettes in the style of USMLE Steps 2 and 3, five options.",
            subcategory="providing_clinical_knowledge_support",
            tasks=("answer_medical_knowledge_questions",),
            dataset=github.dataset(
                "medbullets/medbullets_op5.csv",
                "7da4b1397418b4bd15074066ea6a377ac44a599794a959cd8ebc76937ea597e6",
            ),
            to_instance=to_instance,
            instruction=(
                "This is a clinical case with a question about it. Choose the best option."
            ),
            metrics=["exact_match"],
            max_output_tokens=64,
            licence="not stated by the source",
            citation=(
                "Chen et al. Benchmarking Large Language Models on Answering and Explaining "
                "Challenging Medical Questions. arXiv 2402.18060"
            ),
            exposure=Exposure(public_since="2024-02-28"),
            expected_instances={"test": 308},
            cluster="question",
        )
    ]
