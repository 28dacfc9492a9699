"""MIMIC-IV-BHC: summarise a discharge note as a brief hospital course.

Aali et al., 2024, JAMIA, doi 10.1093/jamia/ocae312. The split `test` is the CSV file of release 1.1.0
and later; `release_1_0` is the JSON lines file of the first release, which names no note.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from medhelm import (
    Benchmark,
    DataError,
    FileDataset,
    Instance,
    LeftOut,
    Row,
    SourceFile,
    hookimpl,
    read_table,
)
from medhelm.plugin import readers

COLUMNS = ("note_id", "input", "target")


def read(paths: Sequence[Path], split: str) -> Iterator[Row]:
    """Yield the pairs of note and hospital course, one at a time."""
    if split != "test":
        yield from read_lines(paths[0])
        return
    for _, row in read_table(paths[0], COLUMNS):
        yield {name: row[name] for name in COLUMNS}


def read_lines(path: Path) -> Iterator[Row]:
    """Yield the objects of the JSON lines release, without a note_id; raises DataError."""
    for number, row in readers.read_jsonl(path):
        texts = {name: row.get(name) or "" for name in COLUMNS[1:]}
        for name, text in texts.items():
            if not isinstance(text, str):
                raise DataError(f"{path.name}, row {number}: {name} is not text")
        yield {"note_id": "", **texts}


def to_instance(row: Row) -> Instance | LeftOut:
    """Return a note to be summarised; pairs with an empty side are left out."""
    note, target = row["input"].strip(), row["target"].strip()
    if not note or not target:
        return LeftOut("a side of the pair is empty")
    patient, _, _ = row["note_id"].partition("-")  # 10000032-DS-21: patient, kind, number
    return Instance(
        id=row["note_id"],
        context=note,
        question="Write the brief hospital course of this stay.",
        references=(target,),
        cluster=patient or None,
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="mimic_bhc",
            title="MIMIC-IV-BHC",
            description="Discharge notes to be summarised as a brief hospital course.",
            subcategory="documenting_patient_visits",
            tasks=("summarize_clinical_documents",),
            dataset=FileDataset(
                files=(
                    SourceFile(name="mimic-iv-bhc.csv", splits=("test",)),
                    SourceFile(name="mimic_iv_bhc.json", splits=("release_1_0",)),
                ),
                read=read,
                splits=("test", "release_1_0"),
                source="MIMIC-IV-Ext-BHC 1.1.0 (test) and 1.0.0 (release_1_0), PhysioNet",
            ),
            to_instance=to_instance,
            prompt="plain",
            instruction=(
                "Below is the discharge note of a hospital stay without its hospital course; names "
                "of sections stand in angle brackets, three underscores for what was removed to "
                "protect the patient. Write the brief hospital course: why the patient came, what "
                "was found and done, how it went, and how the patient left. Reply with the "
                "hospital course alone."
            ),
            metrics=["jury", "rouge_l", "rouge_1", "rouge_2"],
            rubric="hospital_course",
            answer="text",
            how_to_get=(
                "Become a credentialed user of physionet.org and sign the data use agreement of "
                "MIMIC-IV-Ext-BHC (labelled-notes-hospital-course).",
                "Download mimic-iv-bhc.csv, version 1.1.0 or later, and put it into "
                "<data dir>/mimic_bhc.",
                "Of version 1.0.0, mimic_iv_bhc.json in the same place is the split release_1_0.",
            ),
            max_output_tokens=2048,
            data_class="gated",
            licence="PhysioNet Credentialed Health Data License 1.5.0",
            citation=(
                "Aali et al. A dataset and benchmark for hospital course summarization with "
                "adapted large language models. JAMIA 32, 3 (2025). doi 10.1093/jamia/ocae312"
            ),
            expected_instances={"test": 270033, "release_1_0": 270033},
            cluster="patient",
        )
    ]
