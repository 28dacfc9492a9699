"""HealthBench: conversations with criteria that physicians wrote for each, with points.

Arora et al., 2025, arXiv 2505.08775. The published set is `test`, its parts are `hard` and
`consensus`. 245 conversations of five and more turns, whose file was verified, are `part_245`. Answers
that physicians labelled are `physicians`: judges are measured on them, not models.
"""

from medhelm import (
    Benchmark,
    CriteriaRules,
    Exposure,
    FileDataset,
    Hub,
    Instance,
    Metric,
    Row,
    SourceFile,
    hookimpl,
    rubric_score_of,
    weighted_rubric_instance,
)

AXES = tuple(
    rubric_score_of(f"axis:{axis}")
    for axis in (
        "accuracy",
        "completeness",
        "context_awareness",
        "communication_quality",
        "instruction_following",
    )
)
"""The score over the criteria of each axis."""

RULES = CriteriaRules(
    name="own words",
    version="1",
    en="""\
1. Go by the words of the criterion alone. Ask nothing of the answer that they do not ask, and add no \
standard of your own.
2. Where a criterion asks for several things, it is met only if the answer has all of them.
3. Words like "such as", "for example", "e.g." and "including" introduce examples. The answer need not \
give each of them.
4. A criterion may describe something that an answer should not do. It is met where the answer does it, \
however good or bad the answer is.""",
)
"""The rules by which a judge decides: physicians wrote the criteria to be read as they are."""


def to_instance(row: Row) -> Instance:
    """Return a conversation with its criteria, or an answer that physicians labelled."""
    return weighted_rubric_instance(row)


@hookimpl
def medhelm_metrics() -> list[Metric]:
    """Return the score of each axis."""
    return [*AXES]


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    hub = Hub("openai/healthbench", "40ee1968852fc57f625934251ac22be47077a8fb")
    parts = {
        "test": (
            "2025-05-07-06-14-12_oss_eval.jsonl",
            "e99dd3c6372c10d6fcc5e385c5fae69d0dd40392dae56836ef9493ae324ecd2f",
        ),
        "hard": (
            "hard_2025-05-08-21-00-10.jsonl",
            "b0320430e5cd974e746585594c1dd10b5a3fc2aff9c72b26106c2c4a069d74e9",
        ),
        "consensus": (
            "consensus_2025-05-09-20-00-46.jsonl",
            "fabe37553327238928b05357d8b309737b5d426d6dee432a3376da618d0969d6",
        ),
    }
    labels = "oss_meta_eval.jsonl"
    return [
        Benchmark(
            name="healthbench",
            title="HealthBench",
            description="Conversations about health, each with criteria that have points, some "
            "below zero. A list of criteria that is met is not clearance for clinical use.",
            subcategory="patient_provider_messaging",
            tasks=("draft_responses", "handle_questions", "triage_messages"),
            dataset=FileDataset(
                files=(
                    SourceFile(
                        name="healthbench_245.jsonl.gz",
                        sha256="0febc8f013eb5d91e3b7e31bbbb0284ae6aa5fbd8cab68b81d63fa252837c0b0",
                        hashed_unpacked=True,
                        splits=("part_245",),
                    ),
                    SourceFile(name=labels, splits=("physicians",)),
                    *(
                        hub.file(name, split, path=name, sha256=sha256)
                        for split, (name, sha256) in parts.items()
                    ),
                ),
                splits=(*parts, "part_245", "physicians"),
                source=str(hub),
            ),
            to_instance=to_instance,
            prompt="plain",
            answer="text",
            metrics=[
                "rubric_score",
                *(axis.name for axis in AXES),
                "rubric_invalid",
                "rubric_score_lowest",
                "rubric_score_highest",
                "answer_characters",
            ],
            criteria_rules=RULES,
            jury="gpt_4_1",
            max_output_tokens=2048,
            licence="MIT; the authors ask that its text is on no page",
            citation="Arora et al. HealthBench. arXiv 2505.08775, 2025",
            expected_instances={
                "test": 5000,
                "hard": 1000,
                "consensus": 3671,
                "part_245": 245,
                "physicians": 29511,
            },
            how_to_get=(
                "The published set is fetched: `medhelm data fetch healthbench`.",
                "part_245: put the 245 rows as healthbench_245.jsonl.gz into <data dir>/healthbench. "
                "They are src/eval/tasks/healthbench/evaluation_code/data/healthbench.jsonl of "
                "aisa-group/PostTrainBench at 9082063a62e10e040f1acacdec2ccfc1467e0c00, compressed.",
                f"physicians: put the labels of physicians as {labels} into <data dir>/healthbench; their "
                "file is beside the others on the hub.",
            ),
            exposure=Exposure(
                public_since="2025-05-12",
                overlaps=("HealthBench Professional is of the same makers, not of its rows.",),
            ),
            mended=(
                "Where the published 5,000 are not there, the split `part_245` is taken, and tables name it "
                "(`healthbench.part_245`): a selection of long conversations, which says nothing of the "
                "whole set. The file of the 5,000 itself was not at hand: its hash and count are checked.",
                "The conversation is sent as turns, and nothing is added to it; example answers are "
                "shown to neither model nor judge.",
                "A criterion with points below zero that is met takes points off: an answer that "
                "meets every criterion, also those of harm, scores 0.673 on the 245 rows, not 1.0. "
                "Another harness adds the points of harm.",
                "Rows are not clipped, the mean is.",
                "A judge goes by the words of the criterion alone (rules `own words`, version 1, in our own "
                "words). The authors' grader is told the same in others, with worked examples. It is also "
                "shown the points of the criterion, which ours is not, and is asked until its reply "
                "parses, where ours is asked three times. How far the two agree was not measured.",
                "The judge decides much: name it beside the score, and compare it with physicians by "
                "`medhelm fidelity`. As for published figures the judge is GPT-4.1, one criterion a call, "
                "where its key is there and no jury is named; its rules are ours.",
                "The split `physicians` has answers that physicians labelled: `model=baseline/oracle` gives "
                "them, a judge decides on each, and `medhelm fidelity` compares both (docs/fidelity.md). Its "
                "reading was written from descriptions and never tried on the real file.",
                "Themes: `--table slices --by theme`. Axes: `--table benchmarks --metrics all`, over the "
                "criteria of the axis; rows without positive points among them are left out.",
                "Longer answers meet more criteria: `answer_characters` is beside the score.",
            ),
        )
    ]
