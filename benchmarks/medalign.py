"""MedAlign: a clinician's instruction, to be followed with the patient's whole record.

Fleming et al., 2023, arXiv 2308.14089. Instructions, the clinicians' answers and the records come
in separate files and are joined by instruction and patient.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from medhelm import Benchmark, DataError, FileDataset, Instance, LeftOut, Row, hookimpl, read_table

LONGEST = 250_000
"""Bytes of a record that are shown, its end; about 90,000 tokens of XML."""
CUT = "[The earlier part of the record is left out.]\n"
ANNOTATOR = "Annotator_1"
"""Whose answers are the gold."""
INSTRUCTIONS = ("instruction_id", "person_id", "question")
ANSWERS = ("instruction_id", "annotator_num", "clinician_response")
FOLDERS = ("medalign_ehr_xml", "ehrs")
"""Names the folder of the patients' records, beside the instructions."""

_ELEMENT = re.compile(rb"<[A-Za-z]")
_NAME = re.compile(r"[A-Za-z0-9_-]+\.xml")


def read(paths: Sequence[Path], split: str) -> Iterator[Row | LeftOut]:
    """Yield each instruction once, with its answer and the end of the patient's record.

    The file of instructions repeats them, once for each model that was reviewed.
    """
    instructions, answers = paths
    golds = read_golds(answers)
    seen = set()
    for number, row in read_table(instructions, INSTRUCTIONS, "\t", is_strict=False):
        instruction, patient = row["instruction_id"].strip(), row["person_id"].strip()
        gold = golds.get((instruction, patient)) or golds.get((instruction, ""))
        if (instruction, patient) in seen:
            continue
        seen.add((instruction, patient))
        if gold is None:
            yield LeftOut(f"without an answer of {ANNOTATOR}")
            continue
        if not row["question"].strip():
            raise DataError(f"{instructions.name}, row {number}: question is empty")
        path = find_record(instructions.parent, patient, row.get("filename", "").strip())
        if path is None:
            raise DataError(
                f"{instructions.name}, row {number}: the record of its patient is missing; put "
                f"the XML files of the release into {instructions.parent / FOLDERS[0]}"
            )
        yield {
            "instruction_id": instruction,
            "person_id": patient,
            "question": row["question"],
            "clinician_response": gold,
            "ehr": read_record(path),
        }


def read_golds(path: Path) -> dict[tuple[str, str], str]:
    """Return the first annotator's answers by instruction and patient ('' where none is named)."""
    golds: dict[tuple[str, str], str] = {}
    for _, row in read_table(path, ANSWERS, "\t", is_strict=False):
        if row["annotator_num"].strip() == ANNOTATOR and row["clinician_response"].strip():
            key = (row["instruction_id"].strip(), row.get("person_id", "").strip())
            golds.setdefault(key, row["clinician_response"])
    if not golds:
        raise DataError(f"{path.name}: no clinician_response of annotator_num {ANNOTATOR}")
    return golds


def find_record(folder: Path, patient: str, filename: str) -> Path | None:
    """Return the XML file of a patient, named after the key or as the row says."""
    names = (f"{patient}.xml", f"EHR_{patient}.xml", filename)
    paths = (folder / f / name for f in FOLDERS for name in names if _NAME.fullmatch(name))
    return next((path for path in paths if path.is_file()), None)


def read_record(path: Path) -> str:
    """Return the last elements of a patient's record."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - LONGEST))
        data = file.read()
    is_cut = size > LONGEST
    if is_cut and (start := _ELEMENT.search(data)):
        data = data[start.start() :]
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{path.parent.name}: a record is not UTF-8; unpack it again") from None
    return CUT + text if is_cut else text


def to_instance(row: Row) -> Instance:
    """Return an instruction with the record it is about."""
    for name in ("question", "ehr"):
        if not row[name].strip():
            raise DataError(f"{name} is empty; an instruction needs its text and a record")
    return Instance(
        id=f"{row['instruction_id']}-{row['person_id']}",
        context=row["ehr"].strip(),
        question=row["question"].strip(),
        references=(row["clinician_response"].strip(),),
        cluster=row["person_id"],
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="medalign",
            title="MedAlign",
            description="Instructions of clinicians, to be followed with a patient's whole record.",
            subcategory="providing_clinical_knowledge_support",
            tasks=(
                "apply_guidelines",
                "apply_best_practices",
                "track_protocol_compliance",
                "assess_care_quality",
            ),
            dataset=FileDataset.brought(
                "clinician-reviewed-model-responses.tsv",
                "clinician-instruction-responses.tsv",
                source="MedAlign instructions 1.3, Stanford",
                read=read,
            ),
            to_instance=to_instance,
            prompt="plain",
            instruction=(
                "Below is a patient's electronic health record in XML, in the order of time, and "
                "then what a clinician asks for. Do what is asked, from this record alone. Be as "
                "brief as the request allows, and say so where the record does not tell."
            ),
            metrics=["jury", "rouge_l", "rouge_1", "rouge_2"],
            rubric="record_answer",
            answer="text",
            how_to_get=(
                "Apply for MedAlign at medalign.stanford.edu: CITI training and a signed data use "
                "agreement with Stanford are asked for.",
                "Download the instructions (version 1.3) and unpack them.",
                "Put clinician-reviewed-model-responses.tsv and "
                "clinician-instruction-responses.tsv into <data dir>/medalign.",
                "Put the XML records, one a patient and named after person_id, into "
                "<data dir>/medalign/medalign_ehr_xml; the release's own folder ehrs is found too.",
            ),
            max_output_tokens=1024,
            data_class="gated",
            licence="MedAlign Data Use Agreement",
            citation="Fleming et al. MedAlign. AAAI 2024. arXiv 2308.14089",
            cluster="patient",
        )
    ]
