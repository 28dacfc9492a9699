"""MTSamples: the treatment plan that a transcribed clinical note ends with.

Transcription samples of mtsamples.com in the copy that MedHELM uses. A note ends at the heading
of its gold, and the plan under that heading is what is asked for. The 201 notes whose only gold is
findings (185) or a summary (16) are left out: a plan is not asked of them, and what an examination
or an operation found cannot be known from the note before it. The split `published` has them, and
its notes end at the plan alone, as in HELM: 202 of its 539 prompts hold their gold.
"""

import re
from collections.abc import Sequence

from medhelm import Benchmark, FileDataset, Instance, LeftOut, Row, SourceFile, hookimpl

QUESTION = "Write the treatment plan for this patient: what is to be done next, and how."
HEADINGS = ("PLAN", "SUMMARY", "FINDINGS")
"""Of the gold. The first heading with a text is the gold's."""
NO_GOLD = re.compile(r"see above\.?", re.IGNORECASE)
_HALF_HEADING = re.compile(r"[A-Z][A-Z /&'-]*[A-Z/]$")
"""Matches the rest of a heading whose last word was cut off: `ASSESSMENT AND`."""
_SENTENCE = 5
"""Words from which on a section that occurs in the note a second time is removed there too."""


def cut_note(row: Row, headings: Sequence[str]) -> tuple[str, str, str, str] | LeftOut:
    """Return (heading, gold, note before it, note behind it) of a note; why there is no gold."""
    note = row["text"].strip()
    if any(f"{h}:" not in note and f"{h}:" in note.upper() for h in headings):
        return LeftOut("a heading of the gold in another case")
    return cut_section(note, headings) or LeftOut("no plan, summary or findings")


def cut_section(note: str, headings: Sequence[str]) -> tuple[str, str, str, str] | None:
    """Return (heading, section, note before it, note behind it), or None without a section.

    A section is the rest of the line behind the first `HEADING:`; the first of `headings` whose
    section is not empty counts. Neither part of the note holds the section's text.
    """
    for heading in headings:
        match = re.search(rf"{re.escape(heading)}:(.*)", note)
        if match and (section := match[1].strip()):
            before = _HALF_HEADING.sub("", note[: match.start()].rstrip()).rstrip()
            behind = note[match.end() :].strip()
            return heading, section, _without(before, section), _without(behind, section)
    return None


def _without(note: str, section: str) -> str:
    words = section.split()
    if len(words) < _SENTENCE or _folded(section) not in _folded(note):
        return note
    pattern = r"\s+".join(map(re.escape, words))
    return re.sub(pattern, "", note, flags=re.IGNORECASE).rstrip()


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def slices(note: str, heading: str) -> dict[str, str]:
    """Return the metadata of a note."""
    specialty = re.search(r"(?m)^Medical Specialty:(.*)$", note)
    named = (specialty[1].strip() if specialty else "") or "not stated"
    return {"section": heading.lower(), "specialty": named}


def notes_of(folder: str, commit: str, sha256: str) -> FileDataset:
    """Return a folder of notes of one commit."""
    repository = "raulista1997/benchmarkdata"
    splits = ("test", "published")
    url = f"https://codeload.github.com/{repository}/zip/{commit}"
    return FileDataset(
        files=(SourceFile(name=folder, url=url, sha256=sha256, folder=folder, splits=splits),),
        splits=splits,
        split_column="split",
        source=f"mtsamples.com, copy in {repository} at {commit}",
    )


def to_instance(row: Row) -> Instance | LeftOut:
    """Return a note up to its gold; of the split `published` as HELM makes it."""
    if isinstance(cut := cut_note(row, HEADINGS), LeftOut):
        return cut
    (heading, gold, context, _), note = cut, row["text"].strip()
    if is_published := row.get("split") == "published":
        context = note.partition("PLAN:")[0].strip()
    elif heading != "PLAN":
        return LeftOut(f"no plan, only {'a summary' if heading == 'SUMMARY' else 'findings'}")
    return Instance(
        id=row["name"],
        context=context,
        question=QUESTION,
        references=() if NO_GOLD.fullmatch(gold) and not is_published else (gold,),
        metadata=slices(note, heading),
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="mtsamples",
            version="2",
            title="MTSamples",
            description="Clinical notes whose treatment plan is to be written.",
            subcategory="planning_treatments",
            tasks=("suggest_clinical_pathways", "match_protocols", "screen_contraindications"),
            dataset=notes_of(
                "mtsamples_processed",
                commit="52ba5528fd1ff1c6ec4ad1d0850126836404e71f",
                sha256="e303ab548dcdb9284b19a99eb85255f695072d4ee85990965dfae3f5c1ad2c65",
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
