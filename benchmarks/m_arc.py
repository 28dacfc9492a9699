"""M-ARC: questions that mislead who answers by a fixed pattern of thought.

Kim et al., 2025, arXiv 2502.04381; Scientific Reports 2025, s41598-025-22940-0.
"""

import json

from medhelm import Benchmark, Exposure, GitHub, Instance, Row, hookimpl, text_key


def to_instance(row: Row) -> Instance:
    """Return a question; its options are a JSON list."""
    options = tuple(text.strip() for text in json.loads(row["options"]))
    return Instance(
        id=row["question_id"],
        question=row["question"].strip(),
        choices=options,
        references=(row["answer"].strip(),),
        cluster=text_key(row["question"]),
        metadata={"src": row["src"]},
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    github = GitHub("dbernardo05/medARC-QA", "4e64daab5c884b0754f8cbd42fc8f22d05436369")
    return [
        Benchmark(
            name="m_arc",
            title="M-ARC",
            description="Clinical questions that mislead who answers by a fixed pattern of thought.",
            subcategory="supporting_diagnostic_decisions",
            tasks=("recognize_disease_patterns_from_symptoms",),
            dataset=github.dataset(
                "data_medARCv1/test_medARCv1.csv",
                "73885009ac6709bbc3596ca2968826ee1c92e5f799fbe9bb0d59f6cf59ca4867",
            ),
            to_instance=to_instance,
            instruction=(
                "This is a clinical question. Choose the best option; it may be that more must be "
                "known first."
            ),
            metrics=["exact_match"],
            max_output_tokens=64,
            redistributable=True,
            licence="Apache-2.0",
            citation="Kim et al. Limitations of LLMs in Clinical Problem-Solving. 2025. arXiv 2502.04381",
            expected_instances={"test": 100},
            cluster="question stem",
            exposure=Exposure(public_since="2025-02-05"),
            mended=(
                "The longest option is right in 40 of 100 questions and D is the key of 33: compare "
                "with both, not with chance.",
                "Two stems occur twice: a stem is one cluster. One question has two equal options; "
                "letters are compared.",
                "100 questions separate models of today little.",
            ),
        )
    ]
