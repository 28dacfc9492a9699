"""MMLU, three clinical subjects in English and eleven African languages, by human translators.

Alhanai et al. (Institute for Disease Modeling), 2024, arXiv 2412.12417; MMLU: Hendrycks et al., 2020.
"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import ascii_uppercase

from medhelm import Benchmark, DataError, Exposure, FileDataset, GitHub, Instance, Row, hookimpl
from medhelm_benchmarks.mmlu_medical import clean

LANGUAGES = {
    "en": "English",
    "af": "Afrikaans",
    "zu": "Zulu",
    "xh": "Xhosa",
    "am": "Amharic",
    "bm": "Bambara",
    "ig": "Igbo",
    "nso": "Sepedi",
    "sn": "Shona",
    "st": "Sesotho",
    "tn": "Setswana",
    "ts": "Tsonga",
}
COLUMNS = ("question", "A", "B", "C", "D", "answer")
"""The files have no header."""


def read(paths: Sequence[Path], split: str) -> Iterator[Row]:
    """Yield the questions with the subject and language of their file, and their place in it.

    `first` is the first place of the same English question with the same options.
    """
    firsts: dict[str, str] = {}
    of_place: dict[str, str] = {}
    for row in _rows(paths):
        place = f"{row['subject']}/{row['number']}"
        if row["language"] == "en":
            words = " ".join("\n".join(row[column] for column in COLUMNS[:5]).split()).casefold()
            of_place[place] = firsts.setdefault(words, place)
    for row in _rows(paths):
        place = f"{row['subject']}/{row['number']}"
        yield {**row, "first": of_place.get(place, place)}


def _rows(paths: Sequence[Path]) -> Iterator[Row]:
    for path in paths:
        subject, _, language = path.stem.partition("_test")
        with path.open(encoding="utf-8", newline="") as file:
            for number, cells in enumerate(csv.reader(file, strict=True)):
                if len(cells) != len(COLUMNS):
                    raise DataError(
                        f"{path.name}, row {number + 1}: {len(cells)} cells, expected 6"
                    )
                place = {
                    "subject": subject,
                    "language": language.strip("_") or "en",
                    "number": number,
                }
                yield place | dict(zip(COLUMNS, cells, strict=True))


def to_instance(row: Row) -> Instance:
    """Return a question; a question in all its languages is one cluster.

    Where a translation has made another option equal to the right one, both letters are right.
    """
    choices = tuple(clean(row[letter]) for letter in ascii_uppercase[:4])
    key = row["answer"].strip()
    if key not in COLUMNS[1:5]:
        raise DataError("the key is not one of A to D")
    right = choices[ascii_uppercase.index(key)]
    twins = [x for x, text in zip(ascii_uppercase, choices, strict=False) if text == right]
    question = f"{row['subject']}/{row['number']}"
    return Instance(
        id=f"{row['language']}/{question}",
        question=row["question"].strip(),
        choices=choices,
        references=(key, *(letter for letter in twins if letter != key)),
        cluster=row.get("first", question),
        metadata={"part": row["language"], "subject": row["subject"]},
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    github = GitHub(
        "InstituteforDiseaseModeling/Bridging-the-Gap-Low-Resource-African-Languages",
        "9af6ce2f5df8171a64d58ced2032761396bfb2ad",
    )

    return [
        Benchmark(
            name="mmlu_clinical_afr",
            title="MMLU, clinical subjects in African languages",
            description=(
                "Questions of clinical knowledge, college medicine and virology in English and "
                f"eleven African languages: {', '.join(list(LANGUAGES.values())[1:])}."
            ),
            subcategory="enhancing_patient_understanding_and_accessibility_in_health_communication",
            tasks=("translate_content", "make_content_accessible"),
            dataset=FileDataset(
                files=github.files(
                    Path(__file__).parent / "hashes/mmlu_clinical_afr.sha256",
                    "data/evaluation_benchmarks_afr_release/mmlu_cm_ck_vir",
                ),
                read=read,
                source=str(github),
            ),
            to_instance=to_instance,
            instruction="This is a question from a medical examination. Choose the right option.",
            metrics=["exact_match"],
            parts=tuple(LANGUAGES),
            reference_part="en",
            max_output_tokens=64,
            redistributable=True,
            licence="MIT",
            citation=(
                "Alhanai et al. Bridging the Gap: Enhancing LLM Performance for Low-Resource African Languages. "
                "AAAI 2025. arXiv 2412.12417"
            ),
            expected_instances={"test": 7248},
            cluster="question in all its languages",
            version="2",
            languages={code: code for code in LANGUAGES},
            exposure=Exposure(
                public_since="2024-12-16",
                overlaps=(
                    "The English questions are public since 2020 (MMLU).",
                    "Those of clinical_knowledge and college_medicine are in mmlu_medical.",
                ),
            ),
            mended=(
                "109 translated questions have two equal options. In 62 of them the right option's "
                "text occurs twice, and both letters are right.",
                "Dots that lead into an option are cut off, and the letter theta, which one question "
                "lost, is put back in its options: both end a sentence where there is none.",
                "Letters are compared, not texts of options.",
                "The score is the mean of the twelve languages, each counted once; "
                "`--table gaps` compares each with English, question by question.",
                "The other harness reads the moving branch; here every file is pinned.",
                "A question in twelve languages is one cluster, not twelve questions; 78 questions of "
                "college_medicine are those of clinical_knowledge once more, and of their clusters, too.",
            ),
        )
    ]
