"""NoteExtract: fill a history form from a community health worker's note.

Bedi et al., 2025, arXiv 2505.23802. There is no gold: the jury sees the note and the form.
"""

from medhelm import Benchmark, DataError, FileDataset, Instance, LeftOut, Row, TableLayout, hookimpl

COLUMNS = {
    "id": "unique key of the row",
    "note": "the note of a visit in free text; rows without one are left out",
    "patient": "optional; key of the patient, so that intervals take a patient's notes together",
}
LAYOUT = TableLayout(columns=COLUMNS, optional=("patient",), published={"note": "MO Note"})
FORM = """\
Chief complaint:
Onset:
What makes it worse or better:
Quality:
Region and radiation:
Severity:
Timing:
Related symptoms:"""


def to_instance(row: Row) -> Instance | LeftOut:
    """Return a note and the form to fill."""
    cells = LAYOUT.read(row)
    if not cells["note"].strip():
        return LeftOut("without a note")
    if not cells.get("id", "-").strip():
        raise DataError("column 'id' is empty")
    return Instance(
        id=cells.get("id", "").strip(),
        context=cells["note"].strip(),
        question=f"Fill in this form from the note:\n{FORM}",
        cluster=cells.get("patient", "").strip() or None,
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="note_extract",
            title="NoteExtract",
            description=(
                "Visit notes of community health workers, from which to fill a history form in "
                "the words of the note."
            ),
            subcategory="documenting_care_plans",
            tasks=("document_treatment_plans", "document_care_protocols"),
            dataset=FileDataset.brought("note_extract.csv", source="notes of the institution"),
            to_instance=to_instance,
            prompt="plain",
            instruction=(
                "Below is a community health worker's note of a visit, and then a history form. "
                "Fill in the form with what the note says and nothing else: infer, interpret and "
                "correct nothing, and keep the patient's own words where the note gives them. "
                "Write 'Not mentioned' where the note is silent. Reply with the filled form alone, "
                "all its lines in their order."
            ),
            metrics=["jury"],
            rubric="history_form",
            answer="text",
            columns=COLUMNS,
            how_to_get=(
                "The notes are not public; run the task on notes of your own institution.",
                "Export visit notes in free text to a UTF-8 CSV file, one a row; no labels are "
                "needed.",
                "The published file is read as it is, under the same name: the note is in its "
                "column 'MO Note', its other columns are passed over.",
                "Name the file note_extract.csv; note_extract.jsonl with an object a line will do too.",
            ),
            max_output_tokens=1536,
            data_class="private",
            curation="new",
            licence="none: records of the institution",
            citation="Bedi et al. MedHELM. 2025. arXiv 2505.23802",
            cluster="patient",
        )
    ]
