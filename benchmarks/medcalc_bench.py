"""MedCalc-Bench v1.0: a value to be calculated from a patient note.

Khandekar et al., 2024, arXiv 2406.12036. The worked solution (Ground Truth Explanation)
and the extracted entities stay out of the prompt.
"""

import hashlib

from medhelm import Benchmark, Exposure, GitHub, Instance, Row, hookimpl

ONE_NAME = {"lab test": "lab", "dosage conversion": "dosage"}
"""Spellings of other releases."""


def to_instance(row: Row) -> Instance:
    """Return a question with its note; limits and output type are for the metric only."""
    category = row["Category"].strip()
    note = row["Patient Note"].strip()
    return Instance(
        id=row["Row Number"],
        context=note,
        question=row["Question"].strip(),
        references=(row["Ground Truth Answer"],),
        answer_key={
            "output_type": row["Output Type"],
            "category": category,
            "lower_limit": row["Lower Limit"],
            "upper_limit": row["Upper Limit"],
            "calculator_id": row["Calculator ID"],
        },
        cluster=hashlib.sha256(note.encode()).hexdigest()[:16],
        metadata={
            "category": ONE_NAME.get(category, category),
            "calculator": row["Calculator Name"],
            "output_type": row["Output Type"],
            "note_type": row["Note Type"],
        },
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    github = GitHub("KoyenaPal/MedCalc-Bench", "7c71a45aa6db4118ea29aa2b0df45b6c9736f0f7")
    return [
        Benchmark(
            name="medcalc_bench",
            version="2",
            title="MedCalc-Bench",
            description="Values of 55 medical calculators, to be computed from patient notes.",
            subcategory="supporting_diagnostic_decisions",
            tasks=("perform_medical_calculations",),
            dataset=github.dataset(
                "dataset/test_data.csv",
                "c2d23097f8bdb7ae4a77dbf4a5a767335df7303998d7c7664a73a29fd8e2b31a",
                source=f"ncbi-nlp/MedCalc-Bench v1.0, copy in {github}",
            ),
            to_instance=to_instance,
            prompt="short_answer",
            instruction=(
                "Take what you need from the patient note and work out the value that the "
                "question asks for. Give decimals to three places."
            ),
            metrics=["medcalc_accuracy"],
            answer="number",
            max_output_tokens=64,
            redistributable=True,
            licence="CC BY-SA 4.0",
            citation="Khandekar et al. MedCalc-Bench. NeurIPS 2024. arXiv 2406.12036",
            exposure=Exposure(public_since="2024-06-17"),
            expected_instances={"test": 1047},
            cluster="patient note",
        )
    ]
