"""MedXpertQA, text: questions of specialty boards, ten options.

Zuo et al., 2025, arXiv 2501.18362. The published set is `test`. The authors' own sample of 244
questions, whose file is the one that was verified, is `part_244`.
"""

from collections.abc import Mapping

from medhelm import Benchmark, Exposure, FileDataset, GitHub, Hub, Instance, Row, hookimpl


def to_instance(row: Row) -> Instance:
    """Return a question without the options that its text repeats.

    In the sample, options are a list and the key is a list of one letter; on the hub, options are
    an object and the key is the letter.
    """
    options = row["options"]
    if isinstance(options, Mapping):
        texts = [options[letter] for letter in sorted(options)]
    else:
        texts = [option["content"] for option in sorted(options, key=lambda o: o["letter"])]
    (letter,) = row["label"]
    return Instance(
        id=row["id"],
        question=row["question"].partition("\nAnswer Choices:")[0].strip(),
        choices=tuple(text.strip() for text in texts),
        references=(letter,),
        metadata={
            "medical_task": row["medical_task"],
            "body_system": row["body_system"],
            "question_type": row["question_type"],
        },
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    github = GitHub("TsinghuaC3I/MedXpertQA", "f21247d3ccf3b14826ff2aa7fa06e1a46d64058c")
    hub = Hub(github.repository, "7e7c465a68eb2b866926bfa59c8c9d17a8daba65")
    return [
        Benchmark(
            name="medxpert_qa_text",
            title="MedXpertQA, text",
            description="Questions at the level of specialty boards, ten options.",
            subcategory="supporting_diagnostic_decisions",
            tasks=("recognize_disease_patterns_from_symptoms", "generate_differential_diagnoses"),
            dataset=FileDataset(
                files=(
                    github.file(
                        "eval/data/medxpertqa_sampled/input/medxpertqa_sampled_text_input.jsonl",
                        "f8dc8c041501352c3788296f7916cebc1cb01463374696c24efb60d37a7ddbf9",
                        name="medxpertqa_text_sampled.jsonl",
                        splits=("part_244",),
                    ),
                    hub.file("test.jsonl", config="Text"),
                    hub.file("dev.jsonl", "dev", config="Text"),
                ),
                splits=("test", "part_244", "dev"),
                source=f"{github}; on the hub at revision {hub.revision}",
            ),
            to_instance=to_instance,
            examples="dev",
            instruction=(
                "This is a difficult case or question from a specialty board. Choose the best of "
                "the options."
            ),
            metrics=["exact_match"],
            max_output_tokens=64,
            licence="MIT; the authors ask to keep the text off web pages",
            citation="Zuo et al. MedXpertQA. ICML 2025. arXiv 2501.18362",
            expected_instances={"test": 2450, "part_244": 244, "dev": 5},
            exposure=Exposure(
                public_since="2025-01-30",
                overlaps=("1,449 of its questions are in UCSC-VLAA/MedReason as well.",),
            ),
            mended=(
                "The file has the options in the question and beside it; they are shown once.",
                "The authors' sample of 244 questions is the split `part_244`. It is taken where the "
                "published set is not there, and is a column of its own, `medxpert_qa_text.part_244`.",
                "No hash of the published set's file is known; that of the first fetch holds.",
                "Published runs allowed one output token; a short sentence has room here.",
                "Most of the ten options were written by a model, and the questions rewritten by "
                "one: a hard option may be a poor one.",
            ),
        )
    ]
