"""MTSamples: what comes next in a transcribed clinical note, mostly its treatment plan.

Transcription samples of mtsamples.com in the copy that MedHELM uses. A note ends at the heading
of its gold, and the part under that heading is what is asked for: in 185 of 539 notes the
findings, in 16 the summary.
"""

import re

from medhelm import Benchmark, FileDataset, Instance, Row, SourceFile, cut_section, hookimpl

ASKED = {
    "PLAN": "Write the treatment plan for this patient: what is to be done next, and how.",
    "SUMMARY": "Write the summary of this patient's case, with what is to be done.",
    "FINDINGS": "Write the findings that come next in this note, as far as it lets you tell them.",
}
"""What is asked for by the heading of the gold; the first heading with a text is the gold's."""
NO_GOLD = re.compile(r"see above\.?", re.IGNORECASE)


def to_instance(row: Row) -> Instance | None:
    """Return a note up to its gold; None without a gold or with a heading in another case only."""
    note = row["text"].strip()
    if any(f"{h}:" not in note and f"{h}:" in note.upper() for h in ASKED):
        return None
    if (cut := cut_section(note, tuple(ASKED))) is None:
        return None
    heading, gold, context = cut
    specialty = re.search(r"(?m)^Medical Specialty:(.*)$", note)
    return Instance(
        id=row["name"],
        context=context,
        question=ASKED[heading],
        references=() if NO_GOLD.fullmatch(gold) else (gold,),
        metadata={
            "section": heading.lower(),
            "specialty": (specialty[1].strip() if specialty else "") or "not stated",
        },
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    """Return the benchmark."""
    commit = "52ba5528fd1ff1c6ec4ad1d0850126836404e71f"
    repository = "raulista1997/benchmarkdata"
    return [
        Benchmark(
            name="mtsamples",
            title="MTSamples",
            description="Clinical notes whose treatment plan, summary or findings are to be told.",
            subcategory="planning_treatments",
            tasks=("suggest_clinical_pathways", "match_protocols", "screen_contraindications"),
            dataset=FileDataset(
                files=(
                    SourceFile(
                        name="mtsamples_processed",
                        url=f"https://codeload.github.com/{repository}/zip/{commit}",
                        sha256="e303ab548dcdb9284b19a99eb85255f695072d4ee85990965dfae3f5c1ad2c65",
                        folder="mtsamples_processed",
                    ),
                ),
                source=f"mtsamples.com, copy in {repository} at {commit}",
            ),
            to_instance=to_instance,
            prompt="plain",
            instruction=(
                "Below is a transcribed clinical note that breaks off. Write the part that is "
                "asked for, as the treating clinician would: specific to this patient, in line "
                "with good practice and with what the note says. Reply with the text of that part "
                "alone."
            ),
            metrics=["jury", "rouge_l", "rouge_1", "rouge_2"],
            rubric="accuracy_completeness_clarity",
            answer="text",
            max_output_tokens=1024,
            curation="formulated",
            licence="not stated by the source; see mtsamples.com",
            citation="MTSamples, transcribed medical transcription sample reports. mtsamples.com",
            expected_instances={"test": 539},
        )
    ]
