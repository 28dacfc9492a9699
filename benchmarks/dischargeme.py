"""DischargeMe: write a section that is missing from a discharge note.

Xu et al., 2024, shared task Discharge Me! of BioNLP at ACL 2024. Each stay is asked for twice, for
its brief hospital course and for its discharge instructions. Only the section that is asked for
is taken out of the note, as in MedHELM.
"""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from medhelm import Benchmark, DataError, FileDataset, Instance, LeftOut, Row, hookimpl, read_table

QUESTIONS = {
    "brief_hospital_course": (
        "Write the section 'Brief Hospital Course' of this note: what happened in hospital and "
        "why, problem by problem, for the clinicians who go on with the care."
    ),
    "discharge_instructions": (
        "Write the section 'Discharge Instructions' of this note: a letter to the patient, in "
        "plain words, on why they were in hospital, what was done and what they are to do now."
    ),
}
NOTES = ("note_id", "subject_id", "hadm_id", "text")
REPORTS = ("note_id", "hadm_id", "charttime", "text")
TARGETS = ("hadm_id", *QUESTIONS)


def read(paths: Sequence[Path], split: str) -> Iterator[Row | LeftOut]:
    """Yield two rows a stay that has a note, a radiology report and the targets.

    Of several reports the earliest is given, of several notes the first. Notes are streamed; what
    they are joined with lies in a temporary database on disk, so that no table needs to fit into
    memory.
    """
    notes, targets, reports = paths
    with closing(sqlite3.connect("")) as database:
        _store(database, targets, reports)
        ask = (
            "select course, instructions, reports.text from targets join reports using (stay) "
            "where stay = ?"
        )
        for number, row in read_table(notes, NOTES):
            stay = key(row)
            found = database.execute(ask, (stay,)).fetchone()
            if found is None:
                yield LeftOut(
                    "a note without targets or radiology report, or a second one of a stay"
                )
                continue
            if not row["text"].strip():
                raise DataError(f"{notes.name}, row {number}: text is empty")
            database.execute("delete from targets where stay = ?", (stay,))
            *sections, report = found
            kept = {**{name: row[name] for name in NOTES}, "hadm_id": stay, "radiology": report}
            for document, target in zip(QUESTIONS, sections, strict=True):
                yield {**kept, "document": document, "target": target}


def key(row: Row) -> str:
    """Return the key of a stay, also where a table was written with it as a decimal."""
    return str(row["hadm_id"]).strip().removesuffix(".0")


def _store(database: sqlite3.Connection, targets: Path, reports: Path) -> None:
    """Fill a database with the targets of each stay and its earliest radiology report."""
    database.execute("create table targets (stay text primary key, course text, instructions text)")
    database.executemany(
        "insert or ignore into targets values (?, ?, ?)",
        ((key(row), *(row[name] for name in QUESTIONS)) for _, row in read_table(targets, TARGETS)),
    )
    database.execute(
        "create table reports (stay text primary key, time text, note text, text text)"
    )
    database.executemany(
        "insert into reports values (?, ?, ?, ?) on conflict (stay) do update "
        "set time = excluded.time, note = excluded.note, text = excluded.text "
        "where (excluded.time, excluded.note) < (time, note)",
        (
            (key(row), row["charttime"], row["note_id"], row["text"])
            for _, row in read_table(reports, REPORTS)
            if key(row) and row["text"].strip()
        ),
    )


def to_instance(row: Row) -> Instance | LeftOut:
    """Return a note without the section that is asked for; stays without that section are out."""
    document, target = row["document"], row["target"].strip()
    if not row["text"].strip():
        raise DataError("text is empty; a note of a stay must hold its text")
    if not target:
        return LeftOut("the section that is asked for is empty")
    note = cut(row["text"], target).strip()
    return Instance(
        id=f"{row['hadm_id']}-{document}",
        context=f"Discharge note:\n{note}\n\nRadiology report:\n{row['radiology'].strip()}",
        question=QUESTIONS[document],
        references=(target,),
        cluster=row["subject_id"],
        metadata={"document": document},
    )


def cut(note: str, section: str) -> str:
    """Return the note without a section, whatever the white space between its words is."""
    if section in note:
        return note.replace(section, "")
    return re.sub(r"\s+".join(map(re.escape, section.split())), "", note)


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="dischargeme",
            title="DischargeMe",
            description=(
                "Discharge notes with a radiology report: write the hospital course, or the "
                "instructions for the patient."
            ),
            subcategory="documenting_patient_visits",
            tasks=("generate_discharge_notes", "summarize_clinical_documents"),
            dataset=FileDataset.brought(
                "test_phase_1/discharge.csv.gz",
                "test_phase_1/discharge_target.csv.gz",
                "test_phase_1/radiology.csv.gz",
                source="Discharge Me! 1.3, test phase 1, PhysioNet",
                read=read,
            ),
            to_instance=to_instance,
            prompt="plain",
            instruction=(
                "Below are the discharge note of a hospital stay, from which one section was taken "
                "out, and the report of an imaging study of the stay. Write that section, as it "
                "is asked for at the end, from what stands here. Three underscores stand for what "
                "was removed to protect the patient. Reply with the section alone."
            ),
            metrics=["jury", "rouge_l", "rouge_1", "rouge_2"],
            rubric="discharge_section",
            answer="text",
            how_to_get=(
                "Become a credentialed user of physionet.org and sign the data use agreement of "
                "Discharge Me! (discharge-me), version 1.3.",
                "Download discharge.csv.gz, discharge_target.csv.gz and radiology.csv.gz of its "
                "folder test_phase_1; the other files are not needed.",
                "Put the folder test_phase_1 with these files, packed as they are, into "
                "<data dir>/dischargeme.",
            ),
            max_output_tokens=2048,
            data_class="gated",
            licence="PhysioNet Credentialed Health Data License 1.5.0",
            citation=(
                "Xu et al. Discharge Me!: BioNLP ACL'24 shared task on streamlining discharge "
                "documentation. PhysioNet 2024. doi 10.13026/4a0k-4360"
            ),
            expected_instances={"test": 29404},
            cluster="patient",
        )
    ]
