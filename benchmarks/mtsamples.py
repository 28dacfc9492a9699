"""MTSamples: the treatment plan that a transcribed clinical note ends with.

Transcription samples of mtsamples.com in the copy that MedHELM uses. A note ends at the heading
of its gold, and the plan under that heading is what is asked for. The 201 notes whose only gold is
findings (185) or a summary (16) are left out: a plan is not asked of them, and what an examination
or an operation found cannot be known from the note before it. The split `published` has them, and
its notes end at the plan alone, as in HELM: 202 of its 539 prompts hold their gold.
"""

import re

from medhelm import (
    Benchmark,
    FileDataset,
    Instance,
    LeftOut,
    Row,
    SourceFile,
    cut_section,
    hookimpl,
)

QUESTION = "Write the treatment plan for this patient: what is to be done next, and how."
HEADINGS = ("PLAN", "SUMMARY", "FINDINGS")
"""Of the gold. The first heading with a text is the gold's."""
NO_GOLD = re.compile(r"see above\.?", re.IGNORECASE)


def to_instance(row: Row) -> Instance | LeftOut:
    """Return a note up to its gold; of the split `published` as HELM makes it."""
    note = row["text"].strip()
    if any(f"{h}:" not in note and f"{h}:" in note.upper() for h in HEADINGS):
        return LeftOut("a heading of the gold in another case")
    if (cut := cut_section(note, HEADINGS)) is None:
        return LeftOut("no plan, summary or findings")
    heading, gold, context, _ = cut
    if is_published := row.get("split") == "published":
        context = note.partition("PLAN:")[0].strip()
    elif heading != "PLAN":
        return LeftOut(f"no plan, only {'a summary' if heading == 'SUMMARY' else 'findings'}")
    specialty = re.search(r"(?m)^Medical Specialty:(.*)$", note)
    return Instance(
        id=row["name"],
        context=context,
        question=QUESTION,
        references=() if NO_GOLD.fullmatch(gold) and not is_published else (gold,),
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
            version="2",
            title="MTSamples",
            description="Clinical notes whose treatment plan is to be written.",
            subcategory="planning_treatments",
            tasks=("suggest_clinical_pathways", "match_protocols", "screen_contraindications"),
            dataset=FileDataset(
                files=(
                    SourceFile(
                        name="mtsamples_processed",
                        url=f"https://codeload.github.com/{repository}/zip/{commit}",
                        sha256="e303ab548dcdb9284b19a99eb85255f695072d4ee85990965dfae3f5c1ad2c65",
                        folder="mtsamples_processed",
                        splits=("test", "published"),
                    ),
                ),
                splits=("test", "published"),
                split_column="split",
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
            rubric="note_section",
            answer="text",
            max_output_tokens=1024,
            curation="formulated",
            licence="not stated by the source; see mtsamples.com",
            citation="MTSamples, transcribed medical transcription sample reports. mtsamples.com",
            expected_instances={"test": 338, "published": 539},
        )
    ]
