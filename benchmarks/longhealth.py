"""LongHealth: questions about the long records of twenty fictional patients.

Adams et al., 2024, arXiv 2401.14490.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase

from medhelm import Benchmark, DataError, Exposure, FileDataset, Instance, Row, hookimpl

OPTIONS = ("answer_a", "answer_b", "answer_c", "answer_d", "answer_e")
ABSENT = "The question cannot be answered from the documents."
PARTS = ("mixed", "present", "absent")


def read(paths: Sequence[Path], split: str) -> Iterator[Row]:
    """Yield each question three times, with the documents that each part shows."""
    patients = json.loads(paths[0].read_text(encoding="utf-8"))
    keys = list(patients)
    for place, key in enumerate(keys):
        own = _documents(patients[key])
        other = _documents(patients[keys[(place + 1) % len(keys)]])
        shown = {"mixed": _alternate(own, other), "present": own, "absent": other}
        for question in patients[key]["questions"]:
            for part in PARTS:
                yield {**question, "patient": key, "part": part, "documents": shown[part]}


def _documents(patient: Row) -> list[str]:
    texts = patient["texts"]
    return [*texts.values()] if isinstance(texts, Mapping) else [*texts]


def _alternate(own: Sequence[str], other: Sequence[str]) -> list[str]:
    """Return the documents of two patients, in turn, those of another first."""
    found = [text for pair in zip(other, own, strict=False) for text in pair]
    return found + [*own[len(other) :], *other[len(own) :]]


def to_instance(row: Row) -> Instance:
    """Return a question; a patient's questions are one cluster.

    `mixed`: the patient's documents with those of another. `present` and `absent`: the patient's
    alone, or another's alone, and a sixth option that the question cannot be answered.
    """
    part = row["part"]
    choices = [row[column].strip() for column in OPTIONS]
    right = row["correct"].strip()
    if choices.count(right) != 1:
        raise DataError("correct is the text of no single option")
    gold = ascii_uppercase[choices.index(right)]
    if part != "mixed":
        choices.append(ABSENT)
    return Instance(
        id=f"{row['patient']}/{row['No']}/{part}",
        context="\n\n".join(
            f"--- Document {n} ---\n{t}" for n, t in enumerate(row["documents"], 1)
        ),
        question=row["question"].strip(),
        choices=tuple(choices),
        references=("F" if part == "absent" else gold,),
        cluster=str(row["patient"]),
        metadata={"part": part},
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="longhealth",
            title="LongHealth",
            description="Questions about the letters and reports of a patient, of some 6,000 words.",
            subcategory="documenting_patient_visits",
            tasks=("synthesize_external_records", "synthesize_internal_records"),
            dataset=FileDataset.brought(
                "benchmark_v5.json", source="kbressem/LongHealth, data/benchmark_v5.json", read=read
            ),
            to_instance=to_instance,
            instruction=(
                "Below are documents of one or more patients and a question. Answer from the "
                "documents alone. Choose the right option."
            ),
            metrics=["exact_match"],
            parts=PARTS,
            reference_part="present",
            how_to_get=(
                "Download data/benchmark_v5.json from the repository kbressem/LongHealth on GitHub "
                "and note the commit: none is known to us.",
                "Put it as benchmark_v5.json into <data dir>/longhealth.",
            ),
            max_output_tokens=64,
            redistributable=True,
            licence="Apache-2.0; the patients are fictional",
            citation="Adams et al. LongHealth. 2024. arXiv 2401.14490",
            expected_instances={"test": 1200},
            cluster="patient",
            exposure=Exposure(public_since="2024-01-25"),
            unverified=True,
            mended=(
                "A prompt that is too long for a model is refused before it is sent and counted as "
                "oversize; other tools cut it from the right, and with it the question.",
                "20 patients: intervals resample patients, not questions.",
                "The question on documents that hold no answer has its own part, `absent`, so that "
                "invented answers are seen; `--table gaps` compares it with `present`.",
                "Which documents are mixed in is fixed (those of the next patient) and drawn by nobody.",
                "The authors' third task, the order of events, is not a part here.",
            ),
        )
    ]
