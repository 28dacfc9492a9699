"""N2C2-CT: does a patient meet a criterion of a clinical trial, by what the notes say?

Track 1 of the 2018 n2c2 challenge (Stubbs et al., 2019, doi 10.1093/jamia/ocz163): 86 patients,
two to five notes each. Three of its 13 criteria, each a part of the score.
"""

import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree

from medhelm import Benchmark, DataError, FileDataset, Instance, Row, hookimpl

CRITERIA: Mapping[str, str] = {
    "ABDOMINAL": (
        "The patient has had surgery inside the abdomen (a resection of small or large bowel, or "
        "any other operation within the abdominal cavity), or an obstruction of the small bowel."
    ),
    "ADVANCED-CAD": (
        "The patient has advanced coronary artery disease: at least two of (1) two or more drugs "
        "taken for coronary artery disease, (2) a myocardial infarction in the past, (3) angina "
        "at present, (4) ischaemia at present or in the past. Coronary artery disease with only "
        "one of them does not count."
    ),
    "CREATININE": "A serum creatinine of the patient lies above the upper limit of normal.",
}
GOLDS = {"met": "A", "not met": "B"}

_BORDER = re.compile(r"^[ \t]*\*{50,}[ \t]*$", re.MULTILINE)
_DATE = re.compile(r"Record date:\s*(\d{4}-\d{2}-\d{2})")
_GAP = re.compile(r"\n\s*\n\s*")


def read(paths: Sequence[Path], split: str) -> Iterator[Row]:
    """Yield each patient of the archive with each criterion."""
    (path,) = paths
    with zipfile.ZipFile(path) as archive:
        names = sorted(filter(_is_patient, archive.namelist()), key=_patient)
        if not names:
            raise DataError(
                f"{path.name} holds no file test/<patient>.xml; download it again, or pack "
                "the folder test of the release"
            )
        for name in names:
            yield from read_patient(archive.read(name), _patient(name))


def _is_patient(name: str) -> bool:
    """Return whether a member is a patient of the test set, not a shadow file of macOS."""
    path = PurePosixPath(name)
    is_shadow = "__MACOSX" in path.parts or path.name.startswith(".")
    return path.suffix == ".xml" and path.parent.name == "test" and not is_shadow


def _patient(name: str) -> str:
    return PurePosixPath(name).stem


def read_patient(data: bytes, patient: str) -> Iterator[Row]:
    """Yield the rows of one patient's file; raises DataError where it is damaged."""
    where = f"{patient}.xml"
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, ValueError) as e:
        raise DataError(f"{where}: not XML ({type(e).__name__})") from None
    text, tags = root.findtext("TEXT"), root.find("TAGS")
    if text is None or not text.strip():
        raise DataError(f"{where}: there are no notes in TEXT")
    for criterion in CRITERIA:
        tag = None if tags is None else tags.find(criterion)
        if tag is None:
            raise DataError(f"{where}: TAGS holds no {criterion}; use the gold standard files")
        if tag.get("met") not in GOLDS:
            raise DataError(f"{where}: met of {criterion} is none of {', '.join(map(repr, GOLDS))}")
        yield {"patient": patient, "criterion": criterion, "met": tag.get("met"), "text": text}


def to_instance(row: Row) -> Instance:
    """Return a patient's notes, each headed by its date, and one criterion."""
    notes = [note.strip() for note in _BORDER.split(row["text"])]
    notes = [_GAP.sub("\n\n", note) for note in notes if note]
    dates = [match[1] if (match := _DATE.search(note)) else "" for note in notes]
    heads = [
        f"# Note {n} of {len(notes)}, {date or 'without a date'}" for n, date in enumerate(dates, 1)
    ]
    today = f" Today is {max(dates)}, the date of the latest note." if any(dates) else ""
    return Instance(
        id=f"{row['patient']}-{row['criterion']}",
        context="\n\n".join(f"{h}\n{note}" for h, note in zip(heads, notes, strict=True)),
        question=f"Criterion: {CRITERIA[row['criterion']]}{today}\nDoes the patient meet it?",
        choices=("yes", "no"),
        references=(GOLDS[row["met"]],),
        cluster=row["patient"],
        metadata={"part": row["criterion"]},
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    file = "n2c2-t1_gold_standard_test_data.zip"
    return [
        Benchmark(
            name="n2c2_ct",
            title="N2C2-CT Matching",
            description=(
                "Does a patient meet an inclusion criterion (abdominal surgery, advanced coronary "
                "disease, raised creatinine) by two to five notes?"
            ),
            subcategory="managing_research_enrollment",
            tasks=("screen_patients", "match_patients"),
            dataset=FileDataset.brought(
                file,
                source="2018 n2c2 challenge, track 1, gold standard of the test set",
                read=read,
            ),
            to_instance=to_instance,
            instruction=(
                "Below are the clinical notes of one patient. Decide by them whether the patient "
                "meets a criterion for inclusion in a clinical trial."
            ),
            metrics=["exact_match"],
            parts=tuple(CRITERIA),
            how_to_get=(
                "Register at portal.dbmi.hms.harvard.edu and sign the data use agreement of the "
                "n2c2 NLP data sets.",
                f"Download {file} of '2018 (Track 1) Clinical Trial Cohort Selection Challenge'.",
                f"Put it, as it is, into <data dir>/n2c2_ct. If you have only its files, pack "
                f"their folder: zip -r {file} test",
            ),
            max_output_tokens=64,
            data_class="gated",
            licence="n2c2 data use agreement",
            citation=(
                "Stubbs et al. Cohort selection for clinical trials: n2c2 2018 shared task track "
                "1. JAMIA 26, 1163-1171 (2019)"
            ),
            expected_instances={"test": 258},
            cluster="patient",
        )
    ]
