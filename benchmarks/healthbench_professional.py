"""HealthBench Professional: conversations of clinicians with criteria of their own, with points.

Soskin Hicks et al., 2026, arXiv 2604.27470.
"""

from medhelm import (
    Benchmark,
    DataError,
    Exposure,
    FileDataset,
    Hub,
    Instance,
    Row,
    hookimpl,
    weighted_rubric_instance,
)

SLICES = ("use_case", "type", "difficulty", "specialty")
"""Columns that tables slice by."""


def to_instance(row: Row) -> Instance:
    """Return a conversation; what a physician answered is shown to neither model nor judge."""
    conversation, items = row["conversation"], row["rubric_items"]
    if not isinstance(conversation, dict) or not isinstance(items, list):
        raise DataError("conversation is not an object, or rubric_items is not a list")
    return weighted_rubric_instance(
        {
            "prompt_id": row["id"],
            "prompt": conversation.get("messages"),
            "rubrics": [
                {"criterion": item.get("criterion_text"), "points": item.get("points")}
                for item in items
            ],
            "example_tags": [f"{name}:{row[name]}" for name in SLICES if row.get(name)],
        }
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    from medhelm_benchmarks.healthbench import RULES

    hub = Hub("openai/healthbench-professional", "349962fd46dd02343a0d8a606491baf59154ea1a")
    name = "healthbench_professional_eval.jsonl"
    return [
        Benchmark(
            name="healthbench_professional",
            title="HealthBench Professional",
            description="Conversations of clinicians about care, writing and research, each with "
            "criteria that have points, some below zero.",
            subcategory="providing_clinical_knowledge_support",
            tasks=("apply_guidelines", "apply_best_practices"),
            dataset=FileDataset(
                files=(
                    hub.file(
                        name,
                        path=name,
                        sha256="d44b08e6e952e04c945e2c406f02533d9e7a989a84e35820ee7efdff20c9e4e2",
                    ),
                ),
                source=str(hub),
            ),
            to_instance=to_instance,
            prompt="plain",
            answer="text",
            metrics=[
                "rubric_score",
                "rubric_score_by_length",
                "rubric_invalid",
                "rubric_score_lowest",
                "rubric_score_highest",
                "answer_characters",
            ],
            criteria_rules=RULES,
            max_output_tokens=4096,
            licence="MIT; the authors ask that its text is on no page",
            citation="Soskin Hicks et al. HealthBench Professional. arXiv 2604.27470, 2026",
            expected_instances={"test": 525},
            exposure=Exposure(
                public_since="2026-04-30",
                overlaps=("HealthBench is of the same makers, not of its rows.",),
            ),
            unverified=True,
            mended=(
                "Published figures take the length of the answer into account: less 0.0147 for each "
                "500 characters beyond 2,000, and more below. No code for it was released. Here the "
                "score is without it and `rubric_score_by_length` is with it, answer by answer; an "
                "answer without text gets nothing for being short.",
                "What a physician answered is not a gold: an audit from outside doubts claims in 76 "
                "of these answers. It is no part of the score.",
                "Another harness uses the grades of its first judge for all judges, and averages in "
                "a mark for likeness to the physician; here each judge decides on each criterion.",
                "A judge goes by the words of the criterion alone, as for HealthBench.",
                "Published figures use one grader, GPT-5.4 with low effort: name the jury beside the score.",
                "The three use cases are reported as 256, 142 and 78, which are 476 of 525 rows.",
            ),
        )
    ]
