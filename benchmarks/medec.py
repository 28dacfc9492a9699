"""Medec (MS subset): find the one medical error in a clinical note, if there is one.

Ben Abacha et al., 2024, arXiv 2412.19260.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from medhelm import (
    Benchmark,
    DataError,
    Exposure,
    GitHub,
    Instance,
    LeftOut,
    Phrasings,
    Row,
    hookimpl,
)


def to_instance(row: Row) -> Instance | LeftOut:
    """Return a note as numbered sentences."""
    if not row["Sentences"].strip():
        return LeftOut("a record of empty cells")
    flag = row["Error Flag"].strip()
    if flag not in ("0", "1"):
        raise DataError("Error Flag is neither 0 nor 1")
    sentence = row["Error Sentence ID"].strip()
    corrected = " ".join(row["Corrected Sentence"].split())
    return Instance(
        id=row["Text ID"].strip(),
        context="\n".join(line.strip() for line in row["Sentences"].strip().splitlines()),
        references=(f"{sentence} {corrected}" if flag == "1" else "CORRECT",),
        answer_key={"error_flag": flag, "error_sentence_id": sentence},
        metadata={"error_type": row["Error Type"].strip() if flag == "1" else "none"},
    )


def fields(instance: Instance) -> tuple[Sequence[str], Mapping[str, str]]:
    """Return the fields of replies by which the reading of a verdict on a note is tried."""
    if instance.answer_key["error_flag"] == "0":
        return ("right", "any"), {}
    gold = instance.references[0]
    number, text = gold.split(" ", 1)
    found = {"gold": gold, "number": number, "text": text, "next": str(int(number) + 1)}
    return ("wrong", "any"), found


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    github = GitHub("abachaa/MEDEC", "70268d24e3ce0cd6d0e099ff7bfd4966f2bbcc28")
    return [
        Benchmark(
            name="medec",
            title="Medec",
            description="Clinical notes with at most one medical error, to be found and mended.",
            subcategory="planning_treatments",
            tasks=("match_protocols", "screen_contraindications"),
            dataset=github.dataset(
                "MEDEC-MS/MEDEC-MS-TestSet-with-GroundTruth-and-ErrorType.csv",
                "f35e2c3c1e4d98ca900394c4fcff14c2a84752e48ddc83698401da6a360c707e",
            ),
            to_instance=to_instance,
            prompt="plain",
            instruction=(
                "Check a clinical note for a medical error. Its sentences are numbered from 0; "
                "lines without a number belong to the sentence before. Either the whole note is "
                "right, or exactly one sentence is wrong in its diagnosis, management, treatment, "
                "drug or causal organism.\n"
                "If the note is right, reply with the single word CORRECT. If not, reply with the "
                "number of the wrong sentence, a space and the sentence as it should be, and "
                "nothing else."
            ),
            metrics=["medec_flag_accuracy", "medec_sentence_accuracy"],
            answer="text",
            phrasings=Phrasings(Path(__file__).parent / "phrasings/medec.yaml", fields),
            redistributable=True,
            licence="CC BY 4.0",
            citation="Ben Abacha et al. MEDEC. 2024. arXiv 2412.19260",
            exposure=Exposure(public_since="2024-12-26"),
            expected_instances={"test": 597},
        )
    ]
