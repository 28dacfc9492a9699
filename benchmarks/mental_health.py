"""MentalHealth: what does the counsellor say next in a counselling dialogue?

Bedi et al., 2025, arXiv 2505.23802. The turns of a dialogue are not independent: the published data
have seven dialogues, so the dialogue is the cluster.
"""

from medhelm import Benchmark, FileDataset, Instance, Row, TableLayout, hookimpl

COLUMNS = {
    "id": "unique key of the row, a turn of the counsellor",
    "dialogue": "key of the dialogue that the turn belongs to; intervals take its turns together",
    "topic": "what the dialogue is about, such as anxiety",
    "dialogue_type": "kind of the dialogue, such as first session; may be empty",
    "context": "the dialogue before the turn, a line a turn; empty before the first",
    "response": "what the counsellor said, the gold",
}
LAYOUT = TableLayout(
    columns=COLUMNS,
    filled=("id", "dialogue", "topic", "response"),
    published={
        "topic": "topic",
        "dialogue_type": "dialogue_type",
        "context": "context",
        "response": "gold_counselor_response",
    },
)


def to_instance(row: Row) -> Instance:
    """Return a dialogue up to a turn of the counsellor."""
    cells = LAYOUT.read(row)
    topic, kind, before = (cells[name].strip() for name in ("topic", "dialogue_type", "context"))
    heading = [f"Topic: {topic}", *([f"Kind of dialogue: {kind}"] if kind else [])]
    return Instance(
        id=cells.get("id", "").strip(),
        context="\n".join(heading) + "\n\nDialogue so far:\n" + (before or "(not begun)"),
        question="What does the counsellor say next?",
        references=(cells["response"].strip(),),
        cluster=cells.get("dialogue", f"{topic}/{kind}").strip(),
        metadata={"topic": topic, "dialogue_type": kind},
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="mental_health",
            title="MentalHealth",
            description="Counselling dialogues, in which to give the counsellor's next turn.",
            subcategory="facilitating_patient_engagement_and_support",
            tasks=("support_counseling", "support_groups"),
            dataset=FileDataset.brought("mental_health.csv", source="dialogues of the institution"),
            to_instance=to_instance,
            prompt="plain",
            instruction=(
                "Below is a dialogue of a counsellor and a client up to a turn of the counsellor. "
                "Give that turn: take up what the client has said, with empathy and without "
                "judging, by sound counselling technique, and see to safety where there is a "
                "risk. Reply with the counsellor's words alone."
            ),
            metrics=["jury", "rouge_l", "rouge_1", "rouge_2"],
            rubric="counselling_turn",
            answer="text",
            columns=COLUMNS,
            how_to_get=(
                "The dialogues are not public; run the task on dialogues of your own institution.",
                "Make a UTF-8 CSV file with one row for each turn of a counsellor.",
                "The published file is read as it is, under the same name, by its columns "
                f"{', '.join(LAYOUT.published.values())}. It does not say which dialogue a turn "
                "is of: turns of one topic and type are taken together, unless you add a column "
                "dialogue.",
                "Name the file mental_health.csv; mental_health.jsonl with an object a line will do too.",
            ),
            max_output_tokens=1024,
            data_class="private",
            curation="new",
            licence="none: records of the institution",
            citation="Bedi et al. MedHELM. 2025. arXiv 2505.23802",
            cluster="dialogue",
        )
    ]
