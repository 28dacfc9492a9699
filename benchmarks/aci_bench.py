"""ACI-Bench: the note of a visit, written from the dialogue of doctor and patient.

Yim et al., 2023, Scientific Data, doi 10.1038/s41597-023-02487-3. The three test sets together.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from medhelm import Benchmark, Exposure, FileDataset, GitHub, Instance, Row, hookimpl


def read(paths: Sequence[Path], split: str) -> Iterator[Row]:
    """Yield the records of the files one after the other."""
    for path in paths:
        yield from json.loads(path.read_text(encoding="utf-8"))["data"]


def to_instance(row: Row) -> Instance:
    """Return a dialogue. Its key names the sub-corpus behind the hyphen."""
    return Instance(
        id=row["file"],
        context=row["src"].strip(),
        question=(
            "Write the note of this visit under the four headings HISTORY OF PRESENT ILLNESS, "
            "PHYSICAL EXAM, RESULTS, ASSESSMENT AND PLAN."
        ),
        references=(row["tgt"].strip(),),
        metadata={"sub_corpus": row["file"].partition("-")[2]},
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    github = GitHub("wyim/aci-bench", "b909b2bb9cf1d19de08df15cddde7bd0179665e4")
    return [
        Benchmark(
            name="aci_bench",
            title="ACI-Bench",
            description="Visit dialogues of doctor and patient, to be turned into a note.",
            subcategory="documenting_patient_visits",
            tasks=("generate_progress_notes", "generate_consultation_notes"),
            dataset=FileDataset(
                files=github.files(
                    Path(__file__).parent / "hashes/aci_bench.sha256", "data/challenge_data_json"
                ),
                read=read,
                source=str(github),
            ),
            to_instance=to_instance,
            prompt="plain",
            instruction=(
                "Below is what a doctor and a patient said during a visit. Document the visit as "
                "the doctor would in the record. Keep to what was said; where nothing was said "
                "for a heading, state so. Reply with the note alone."
            ),
            metrics=["jury", "rouge_l", "rouge_1", "rouge_2"],
            rubric="visit_note",
            answer="text",
            max_output_tokens=2048,
            redistributable=True,
            licence="CC BY 4.0",
            citation="Yim et al. Aci-bench. Scientific Data 10, 586 (2023)",
            exposure=Exposure(public_since="2023-06-03"),
            expected_instances={"test": 120},
        )
    ]
