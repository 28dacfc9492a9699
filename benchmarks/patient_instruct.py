"""PatientInstruct: write a patient's instructions for the time after a procedure.

Bedi et al., 2025, arXiv 2505.23802.
"""

from medhelm import Benchmark, DataError, FileDataset, Instance, LeftOut, Row, TableLayout, hookimpl

COLUMNS = {
    "id": "unique key of the row",
    "diagnosis": "why the procedure was done; rows without it are left out",
    "procedure": "what was done; rows without it are left out",
    "history_and_physical": "note of the examination before; rows without it are left out",
    "operative_note": "report of the procedure; rows without it are left out",
    "instructions": "what the patient was told for home, the gold; rows without it are left out",
    "qc": "optional; TRUE, or FALSE for cases that failed quality control and are left out",
    "patient": "optional; key of the patient, so that intervals take a patient's cases together",
}
GIVEN = {
    "diagnosis": "Diagnosis",
    "procedure": "Procedure",
    "history_and_physical": "History and physical",
    "operative_note": "Operative note",
}
TEXTS = (*GIVEN, "instructions")
LAYOUT = TableLayout(
    columns=COLUMNS,
    optional=("qc", "patient"),
    published={
        "diagnosis": "Diagnosis",
        "procedure": "ActualProcedure",
        "history_and_physical": "HistoryPhysicalNoteText",
        "operative_note": "OperativeNoteText",
        "instructions": "DischargeInstructionNoteText",
        "qc": "QC",
    },
)


def to_instance(row: Row) -> Instance | LeftOut:
    """Return a case; rows that lack a text or failed quality control are left out."""
    cells = LAYOUT.read(row)
    passed = cells.get("qc", "TRUE").strip().upper()
    if LAYOUT.is_published(row) and not passed:
        return LeftOut("quality control not stated")
    if passed not in ("TRUE", "FALSE"):
        raise DataError("column 'qc' must hold one of: TRUE, FALSE")
    if passed == "FALSE":
        return LeftOut("failed quality control")
    if not all(cells[name].strip() for name in TEXTS):
        return LeftOut("a text is empty")
    if not cells.get("id", "-").strip():
        raise DataError("column 'id' is empty")
    return Instance(
        id=cells.get("id", "").strip(),
        context="\n\n".join(f"{title}:\n{cells[name].strip()}" for name, title in GIVEN.items()),
        question="Write this patient's instructions for home.",
        references=(cells["instructions"].strip(),),
        cluster=cells.get("patient", "").strip() or None,
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="patient_instruct",
            version="2",
            title="PatientInstruct",
            description="Outpatient procedures, for which to write the patient's instructions.",
            subcategory="delivering_personalized_care_instructions",
            tasks=(
                "generate_medication_instructions",
                "generate_procedure_instructions",
                "generate_home_care_instructions",
                "explain_follow_up",
                "explain_recovery",
            ),
            dataset=FileDataset.brought("patient_instruct.csv", source="notes of the institution"),
            to_instance=to_instance,
            prompt="plain",
            instruction=(
                "Below are the notes of an outpatient procedure. Write the instructions that the "
                "patient takes home, in plain words and to the patient: wound and dressing, "
                "activity, food, drugs and pain, what is to be expected, when to call or come at "
                "once, and follow-up, as far as they matter in this case. Take what concerns this "
                "patient from the notes and contradict nothing in them; where they are silent, "
                "give the advice that is usual after this procedure. Reply with the instructions "
                "alone."
            ),
            metrics=["jury", "rouge_l", "rouge_1", "rouge_2"],
            rubric="home_instructions",
            answer="text",
            columns=COLUMNS,
            how_to_get=(
                "The cases are not public; run the task on cases of your own institution.",
                "Export outpatient procedures, with discharge within a day, to a UTF-8 CSV file, "
                "one a row.",
                "The published file is read as it is, under the same name, by its columns "
                f"{', '.join(LAYOUT.published.values())}; the others are passed over, and rows "
                "whose QC is not TRUE are left out.",
                "Name the file patient_instruct.csv; patient_instruct.jsonl with an object a line will do too.",
            ),
            max_output_tokens=1536,
            data_class="private",
            curation="new",
            licence="none: records of the institution",
            citation="Bedi et al. MedHELM. 2025. arXiv 2505.23802",
            cluster="patient",
        )
    ]
