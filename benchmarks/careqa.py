"""CareQA: examinations for access to specialised training in Spain, in Spanish and in English.

Arias-Duart et al., 2025, arXiv 2502.06666. The open form, rewritten by a model, is left out.
"""

from string import ascii_uppercase

from medhelm import Benchmark, DataError, Exposure, FileDataset, Instance, Row, SourceFile, hookimpl


def to_instance(row: Row) -> Instance:
    """Return a question; `cop` counts from 1. A question in both languages is one cluster."""
    choices = tuple(str(row[f"op{n}"]).strip() for n in (1, 2, 3, 4))
    if str(row["cop"]) not in ("1", "2", "3", "4"):
        raise DataError("cop is not a number from 1 to 4")
    return Instance(
        id=f"{row['language']}/{row['unique_id']}",
        question=str(row["question"]).strip(),
        choices=choices,
        references=(ascii_uppercase[int(row["cop"]) - 1],),
        cluster=f"{row['year']}/{row['category']}/{row['exam_id']}",
        metadata={
            "part": row["language"],
            "category": str(row["category"]),
            "year": str(row["year"]),
        },
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="careqa",
            title="CareQA, closed",
            description=(
                "Questions of Spain's examinations for specialised training, 2020 to 2024, in "
                "Spanish and English."
            ),
            subcategory="providing_clinical_knowledge_support",
            tasks=("answer_medical_knowledge_questions",),
            dataset=FileDataset(
                files=(
                    SourceFile(name="CareQA_es.json", cells={"language": "es"}),
                    SourceFile(name="CareQA_en.json", cells={"language": "en"}),
                ),
                source="HPAI-BSC/CareQA on the Hugging Face hub",
            ),
            to_instance=to_instance,
            instruction=(
                "This is a question from an examination for health professionals, in Spanish or "
                "English. Choose the right option. / Esta es una pregunta de un examen para "
                "profesionales sanitarios. Elija la opci\u00f3n correcta."
            ),
            metrics=["exact_match"],
            parts=("es", "en"),
            reference_part="es",
            how_to_get=(
                "Download CareQA_es.json and CareQA_en.json of the data set HPAI-BSC/CareQA from "
                "the Hugging Face hub and note the revision: none is known to us.",
                "Put both into <data dir>/careqa.",
            ),
            max_output_tokens=64,
            redistributable=True,
            licence="Apache-2.0",
            citation="Arias-Duart et al. Automatic Evaluation of Healthcare LLMs. 2025. arXiv 2502.06666",
            expected_instances={"test": 11242},
            cluster="question in both languages",
            languages={"es": "es"},
            exposure=Exposure(
                public_since="2025-02-10",
                overlaps=("Later years of the examinations of headqa.",),
            ),
            unverified=True,
            mended=(
                "The key counts from 1; it is a letter here.",
                "English is a translation by a model: `--table gaps` compares it with the Spanish "
                "original, question by question.",
                "The open form was rewritten by a model and scored by likeness of words: left out.",
            ),
        )
    ]
