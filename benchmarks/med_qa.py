"""MedQA: questions of the style of the United States licensing examination.

Jin et al., 2020, arXiv 2009.13081. The US test set with four options is the default; the same
questions with five options are the split `five_options`.
"""

import re

from medhelm import Benchmark, Exposure, FileDataset, GitHub, Hub, Instance, Row, hookimpl

_STRAY = re.compile(r"\s*\n\"?\s*$")
_QUOTES = re.compile(r"^\"{3}|\"{3}$")
_PICTURE = re.compile(
    r"(?<!mitotic )\bfig(?:ure)?s?\b|\bimage\b|\bimages? (?:[a-d]|\d)\b|\bphotographs?\b"
    r"|\b(?:in|see|following|given) (?:the )?(?:diagram|picture|photo|images)\b|\bdiagrammatic\b"
    r"|\b(?:is|was|been|done and|performed and) (?:as )?shown below\b|\bas shown[.,?]|\bvideo[- ]based\b"
    r"|\b(?:case|condition|instrument|device|lesion) shown\b|\bwhich shown the following\b"
    r"|\bshown in (?:the )?(?:radiograph|x[ -]*ray|scan|colou?r plate|slide)\b"
    r"|\b(?:marked|shown) \(?(?:with|by) (?:an )?arrow|\bmarked (?:arrow|structure|muscles?|area)\b"
    r"|\b(?:x[ -]*ray|scan|curve|slide|radiograph)\b[^.?]*\b(?:given|provided|depicted) below\b"
    r"|\b(?:the given below|depicted below)\b",
    re.IGNORECASE,
)
"""Words for a picture that a question needs; values that stand below it are none."""


def to_instance(row: Row) -> Instance:
    """Return a question. The file with five options has no key; its ids are hashes."""
    number = row.get("realidx")
    letters = sorted(row["options"])
    return Instance(
        id="" if number is None else f"test-{int(number):05d}",
        question=row["question"].strip(),
        choices=tuple(clean(row["options"][letter]) for letter in letters),
        references=(row["answer_idx"],),
        metadata={
            "step": row["meta_info"],
            "picture": picture(row["question"]),
        },
    )


def picture(question: str) -> str:
    """Return whether a question names a picture, which is not in the file: named or none."""
    return "named" if _PICTURE.search(question) else "none"


def clean(option: str) -> str:
    """Return an option without the quote and line break that a table left at its end."""
    return _QUOTES.sub('"', _STRAY.sub("", option)).strip()


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    hub = Hub("GBaker/MedQA-USMLE-4-options", "0fb93dd23a7339b6dcd27e241cb9b5eca62d4d18")
    github = GitHub("gersteinlab/medagents-benchmark", "f5e50b69be8ef617a6de613cc8035929448e2b3b")
    return [
        Benchmark(
            name="med_qa",
            title="MedQA",
            description="Vignettes in the style of the US licensing examination, four options.",
            subcategory="providing_clinical_knowledge_support",
            tasks=("answer_medical_knowledge_questions",),
            dataset=FileDataset(
                files=(
                    github.file(
                        "data/medqa/test.jsonl",
                        "b0536be0ff396be91eb0cf61a42056b0abef06a23e7e8be491d62fd959b77b72",
                        name="medqa_4options_test.medagents.jsonl",
                        splits=("test",),
                    ),
                    github.file(
                        "data/medqa_5options/test.jsonl",
                        "cfa75cbcc53c29b023752b0a395ff49d8202121041392735ae44771a5ec734a3",
                        name="medqa_5options_test.medagents.jsonl",
                        splits=("five_options",),
                    ),
                    hub.file("train.jsonl", "train"),
                ),
                splits=("test", "five_options", "train"),
                source=f"jind11/MedQA, copy in {github}",
            ),
            to_instance=to_instance,
            examples="train",
            instruction=(
                "This is a clinical case with a question, as in a licensing examination for "
                "physicians. Choose the best option."
            ),
            metrics=["exact_match"],
            max_output_tokens=64,
            licence="MIT (jind11/MedQA); the owner of the examination questions was not asked",
            citation=(
                "Jin et al. What Disease does this Patient Have? A Large-scale Open Domain Question "
                "Answering Dataset from Medical Exams. arXiv 2009.13081"
            ),
            version="2",
            expected_instances={"test": 1273, "five_options": 1273, "train": 10178},
            exposure=Exposure(
                public_since="2020-09-28",
                overlaps=("Encounters of AgentClinic (MedQA) and many rewrites are made of it.",),
            ),
            mended=(
                "47 questions have a stray quote, line break or space at an end of an option, which "
                "is cut off.",
                "62 questions name a figure, image or photograph, or show something that is not in the "
                "file; metadata `picture` says so.",
                "Phrases that the source tagged for retrieval are not shown.",
                "Four and five options are splits of their own and never one column.",
                "Published runs allowed one output token; a short sentence has room here.",
                "Models of today are near the ceiling, and physicians found labels that are wrong "
                "or not settled in several per cent of the questions: small differences say little.",
            ),
        )
    ]
