"""MMLU-Pro, health: questions of eight subjects of MMLU with up to ten options.

Wang et al., 2024, arXiv 2406.01574.
"""

from medhelm import (
    Benchmark,
    Exposure,
    FileDataset,
    Hub,
    Instance,
    LeftOut,
    Row,
    hookimpl,
    text_key,
)


def to_instance(row: Row) -> Instance | LeftOut:
    """Return a question of the category health. Worked reasoning stays out."""
    if row["category"] != "health":
        return LeftOut("of another category than health")
    options = tuple(text.strip() for text in row["options"])
    return Instance(
        id=str(row["question_id"]),
        question=row["question"].strip(),
        choices=options,
        references=(row["answer"],),
        cluster=text_key(row["question"]),
        metadata={"src": row["src"].removeprefix("ori_mmlu-"), "options": str(len(options))},
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    hub = Hub("TIGER-Lab/MMLU-Pro", "b189ec765aa7ed75c8acfea42df31fdae71f97be")
    return [
        Benchmark(
            name="mmlu_pro_health",
            title="MMLU-Pro, health",
            description="Questions of health subjects of MMLU with up to ten options.",
            subcategory="providing_clinical_knowledge_support",
            tasks=("answer_medical_knowledge_questions",),
            dataset=FileDataset(
                files=tuple(
                    hub.file(f"{split}-00000-of-00001.parquet", split)
                    for split in ("test", "validation")
                ),
                splits=("test", "validation"),
                source=str(hub),
            ),
            to_instance=to_instance,
            examples="validation",
            instruction=(
                "This is a question from an examination in a health subject. Choose the best option."
            ),
            metrics=["exact_match"],
            max_output_tokens=64,
            redistributable=True,
            licence="MIT",
            citation="Wang et al. MMLU-Pro. NeurIPS 2024. arXiv 2406.01574",
            expected_instances={"test": 818, "validation": 5},
            cluster="question stem",
            exposure=Exposure(
                public_since="2024-06-03",
                overlaps=(
                    "Made of the source questions of MMLU (mmlu_medical): do not average both.",
                ),
            ),
            unverified=True,
            mended=(
                "131 stems repeat, so that 818 rows are 684 questions: a stem is one cluster.",
                "The authors draw a letter where none is found; here such a reply is unparsed.",
                "The number of options is 3 to 10 and differs by row: chance is 0.119 on average.",
                "Options were added by a model; some of them are right as well, or easy to see.",
            ),
        )
    ]
