"""MMLU, three clinical subjects in English and eleven African languages, by human translators.

Alhanai et al. (Institute for Disease Modeling), 2024, arXiv 2412.12417; MMLU: Hendrycks et al., 2020.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from string import ascii_uppercase

from medhelm import (
    Benchmark,
    DataError,
    Exposure,
    FileDataset,
    GitHub,
    Instance,
    Row,
    hookimpl,
)

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

_DOTS = re.compile(r"^(?:(?:\.\s?){2,}|\u2026)\s*")
_THETA = re.compile(r"(?<=\bsin )\?|(?<=\bcos )\?")

SHA256 = {
    "clinical_knowledge_test.csv": "06a1ea973000d5ef5d2664c4ac1c68d0423f1cab6b3b682be7942633740811f1",
    "clinical_knowledge_test_af.csv": "c845c3897a2851167e828118049475b2547018db899478ab7eca551e0f0234a2",
    "clinical_knowledge_test_zu.csv": "e4ce3ce9f9356f9d5adff2dc91a4aff514fe862af9bda76ba284918d7cb21d5e",
    "clinical_knowledge_test_xh.csv": "0eb1222991597d7adce6eb2ea3a3c5b3f2ef41a179fca3ae5c36debfd7896cea",
    "clinical_knowledge_test_am.csv": "d1bba30e6475c90788b82c29a0d43076492364c16a670f16eff25c32bea0e849",
    "clinical_knowledge_test_bm.csv": "3474cc810b510685e3348724eaadc5d9ac0eb689987a258f31be8e3d68ab3a53",
    "clinical_knowledge_test_ig.csv": "e3099707093c7a79656ac733678f92465ca5aee0a665c904c70928d779090a88",
    "clinical_knowledge_test_nso.csv": "8fb6a1bb4044c1125034803c3c6470b80ca96d1eb25f882e700105e1f0dcbb45",
    "clinical_knowledge_test_sn.csv": "254076cae7955b504010f6d78169e4f10f0d99d67b970a155e7c1538add23668",
    "clinical_knowledge_test_st.csv": "a6463be16482b705a040733ea05286b0fce39d9a614a119103d93df16f3f03d7",
    "clinical_knowledge_test_tn.csv": "15213983f41991846a4739d5b1cb840fc72283dbb2a29d7ccb4fe779c7e14aa9",
    "clinical_knowledge_test_ts.csv": "6e6b2056b2bf09097e477709444bd128170b59c70301eb48545fe058b517d803",
    "college_medicine_test.csv": "9c533cfff89edaa317b2e79bbabcdd5e2e522e019679cb4a6475e5f2a1861b1e",
    "college_medicine_test_af.csv": "ca96998088d4d1fa153155c9d22a28cc2e1408664f4ddae7c46f2f904e5dd82b",
    "college_medicine_test_zu.csv": "b65c46b8c56bccea79e229ceb36687083a0578531f109d0fc673df01284e2737",
    "college_medicine_test_xh.csv": "26f4a78fe915c1a1c77e4258224c430ff9b3bc566b4fce89a44976d20b66a147",
    "college_medicine_test_am.csv": "57166bf8a939ec38a4e0fcf179c5a1d05b97a14dbde0b04db193a53110da9cd9",
    "college_medicine_test_bm.csv": "6afc33da8a6eeddc1f402b01ce4fc06d6d9e1da3ddb00055783514b1afed38e5",
    "college_medicine_test_ig.csv": "676adcfd3048ec8103cf15cff8308ed01dce864fac9bf94287c0c2733ac8e20b",
    "college_medicine_test_nso.csv": "4c1df45ef893e6d66e10567e7ee90857a52bc14577e995f7c6da57e13c711a22",
    "college_medicine_test_sn.csv": "042a105b00bd4db918744b448f0ddac179060f56e1d3166564673d04d1013a93",
    "college_medicine_test_st.csv": "ebb52937eda5739a6f6b9456fa2fc1455d1b70392318f1947ef01691f3dfcebe",
    "college_medicine_test_tn.csv": "6287867619e5a801ebfdd07b98fbba6dbdc98282642a0a9fece342c66dd51595",
    "college_medicine_test_ts.csv": "cd7afe5d616fe6f2b6259ba349dffeb35a1b00452ecf39f6d374ad904b239877",
    "virology_test.csv": "4355b9d79142da0e44a767a495a277733fd89ad67236cbbe3f42ff3a6d46b483",
    "virology_test_af.csv": "6a70358dc1aa301f49637c946cffdb9aae9e231a3593dde464334e7b08a50094",
    "virology_test_zu.csv": "82ada151c4c7fba2ec10d273f5b443e3bfaa115bfaa3dc868e782c5cca74bf38",
    "virology_test_xh.csv": "33dc5498b13d06138f266376264269526a39ac5829985e4b0465fb02ebb6e5f1",
    "virology_test_am.csv": "fa9daed87cce71e2aa3416ee2c4e4cc325d9e50bed742a991f798a6011974f02",
    "virology_test_bm.csv": "2d5face8e9e72f6d1efdc5db90b5bc0aa3ef20736b4ef6881409805412653f0a",
    "virology_test_ig.csv": "54eb4d1ff48445cf9f92397f437ef9e8b71684a15154bf7d2023f14b4e980233",
    "virology_test_nso.csv": "d1407f789c88a93a4d67ecc4010eb763eb15350c06c20cfc810509f93548f14c",
    "virology_test_sn.csv": "a2d4ca50c160f27b7ba6fd75a305aae6ee653058f5227afeea7370724b80cdd2",
    "virology_test_st.csv": "f8586224972d044e9eebd02572e4655729f391b5a276beb2861a48dfc9f2f027",
    "virology_test_tn.csv": "cef2770bb2da87c3435dba42d1d5bf013f52373277b31a1580b8d12169107f3a",
    "virology_test_ts.csv": "1fb2139ccf1664bfd6899bbadf122314469ac2b933d3d9baef4f0c4611c348d8",
}


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


def clean(option: str) -> str:
    """Return an option without leading dots, and with the angle that was lost in one question."""
    return _DOTS.sub("", _THETA.sub("\u03b8", option)).strip()


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
                files=tuple(
                    github.file(
                        f"data/evaluation_benchmarks_afr_release/mmlu_cm_ck_vir/{name}", sha256
                    )
                    for name, sha256 in SHA256.items()
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
