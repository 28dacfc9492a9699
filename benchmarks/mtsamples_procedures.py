"""MTSamples Procedures: the missing part of a procedure note.

Procedure notes of mtsamples.com in the copy that MedHELM uses. Each note asks for the part that its
gold is. A note ends at a plan or summary that is asked for. Of a note that is asked for its findings
the section alone is taken out, so that they can be told from the description of the procedure behind
it. The 45 notes that go on with fewer than 30 words are left out, as nothing shows the findings.
In the split `published` all 131 notes are asked for a plan and end at the first of the headings, as
in HELM.
"""

import re

from medhelm import Benchmark, Instance, LeftOut, Row, hookimpl
from medhelm_benchmarks.mtsamples import cut_note, notes_of, slices

ASKED = {
    "PLAN": "Write the plan of this procedure note: what is to be done next, and how.",
    "SUMMARY": "Write the summary of this procedure note: what was done and with what result.",
    "FINDINGS": (
        "Write the section FINDINGS of this procedure note, which was taken out at the mark [...]: "
        "what was seen, by what the rest of the note says of the case and the procedure."
    ),
}
"""Map the gold's heading to the request. The first heading with a text is the gold's."""
BEHIND = 30
"""Words of the note behind the findings, without which they could only be made up."""


def to_instance(row: Row) -> Instance | LeftOut:
    """Return a note without its gold; of the split `published` as HELM makes it."""
    if isinstance(cut := cut_note(row, tuple(ASKED)), LeftOut):
        return cut
    (heading, gold, context, behind), note = cut, row["text"].strip()
    if is_published := row.get("split") == "published":
        context = re.split("|".join(f"{h}:" for h in ASKED), note)[0].strip()
    elif heading == "FINDINGS":
        lines = behind.splitlines()
        behind = "\n".join(line for line in lines if not line.startswith("Keywords:")).strip()
        if len(behind.split()) < BEHIND:
            return LeftOut(f"fewer than {BEHIND} words that show the findings")
        context = f"{context}\n[...]\n{behind}"
    return Instance(
        id=row["name"],
        context=context,
        question=ASKED["PLAN" if is_published else heading],
        references=(gold,),
        metadata=slices(note, heading),
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="mtsamples_procedures",
            version="2",
            title="MTSamples Procedures",
            description="Procedure notes whose findings, plan or summary are to be written.",
            subcategory="recording_procedures",
            tasks=(
                "generate_or_notes",
                "generate_bedside_procedure_notes",
                "generate_specialized_procedure_notes",
            ),
            dataset=notes_of(
                "mtsample_procedure",
                commit="c4c252443fa9c52afb6960f53e51be278639bea2",
                sha256="34b0f540534bcfb9483b014e80a66ceff0924a82fdffa1044520a9628e37a240",
            ),
            to_instance=to_instance,
            prompt="plain",
            instruction=(
                "Below is the note of a procedure, of which a part is missing. Write the part that "
                "is asked for, as the one who did the procedure would document it: specific, in the usual "
                "order, and without anything that the note speaks against. Reply with the text of "
                "that part alone."
            ),
            metrics=["jury", "rouge_l", "rouge_1", "rouge_2"],
            rubric="procedure_note",
            answer="text",
            max_output_tokens=1024,
            curation="formulated",
            licence="not stated by the source; see mtsamples.com",
            citation="MTSamples, transcribed medical transcription sample reports. mtsamples.com",
            expected_instances={"test": 86, "published": 131},
        )
    ]
