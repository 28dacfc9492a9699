"""MedHallu: is an answer to a biomedical question factual or hallucinated?

Pandit et al., 2025, arXiv 2502.14302. Each row of the source gives two instances, its factual
answer and its hallucinated one. Questions, passages and factual answers are those of PubMedQA.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Any

from medhelm import Benchmark, DataError, Exposure, FileDataset, Hub, Instance, Row, hookimpl

ANSWERS = {"true": "Ground Truth", "hallucinated": "Hallucinated Answer"}
"""Names the answer that an instance shows, and the column that holds it."""
GOLDS = {"true": "A", "hallucinated": "B"}
LEVELS = ("easy", "medium", "hard")
_LITERAL = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_PRINTED = re.compile(rf"\[\s*(?:(?:{_LITERAL.pattern})[\s,]*)*\]", re.DOTALL)


def expand(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield each row twice, with its factual and with its hallucinated answer."""
    for number, row in enumerate(rows):
        for shown in ANSWERS:
            yield {**row, "row": number, "shown": shown}


def read_passages(cell: Any) -> list[str]:
    """Return the passages of a Knowledge cell: a list, one plain text, or a printed NumPy array.

    A printed array has no commas between its literals, which Python would join into one text.
    """
    if isinstance(cell, str) and cell.lstrip().startswith(("['", '["')):
        if not _PRINTED.fullmatch(cell.strip()):
            raise DataError("Knowledge is a printed list that is cut off or damaged")
        cell = [_unescape(literal) for literal in _LITERAL.findall(cell)]
    passages = [cell] if isinstance(cell, str) else cell
    if not isinstance(passages, list) or not all(isinstance(p, str) for p in passages):
        raise DataError("Knowledge is neither a text nor a list of texts")
    squeezed = [" ".join(passage.split()) for passage in passages]
    return [passage for passage in squeezed if passage]


def _unescape(literal: str) -> str:
    """Return the text of one Python literal; line breaks in it are kept as they are."""
    try:
        return str(ast.literal_eval(literal.replace("\r", "").replace("\n", "\\n")))
    except (ValueError, SyntaxError):
        raise DataError("Knowledge holds an escape that is none") from None


def _text(row: Row, column: str) -> str:
    """Return a cell in one line, empty where there is none; raises DataError."""
    cell = "" if row[column] is None else row[column]
    if not isinstance(cell, str):
        raise DataError(f"{column} is not text")
    return " ".join(cell.split())


def to_instance(row: Row) -> Instance:
    """Return the passages, the question and the answer that is shown."""
    shown = row["shown"]
    if shown not in ANSWERS:
        raise DataError(f"shown is none of {', '.join(ANSWERS)}")
    level, category = (
        _text(row, name) for name in ("Difficulty Level", "Category of Hallucination")
    )
    if level.lower() not in LEVELS:
        raise DataError(f"Difficulty Level is none of {', '.join(LEVELS)}")
    question, answer = _text(row, "Question"), _text(row, ANSWERS[shown])
    if not question or not answer:
        raise DataError(f"Question or {ANSWERS[shown]} is empty")
    return Instance(
        id=f"{row['row']}-{shown}",
        context="\n".join(read_passages(row["Knowledge"])),
        question=f"Question: {question}\nAnswer to be judged: {answer}",
        choices=("factual", "hallucinated"),
        references=(GOLDS[shown],),
        cluster=str(row["row"]),
        metadata={
            "difficulty": level.lower(),
            "category": (category or "not stated") if shown == "hallucinated" else "none",
        },
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    hub = Hub("UTAustin-AIHealth/MedHallu", "515060458a945c633debc6fd5baac7764416b724")
    return [
        Benchmark(
            name="medhallu",
            version="2",
            title="MedHallu",
            description="Answers to biomedical questions, factual or hallucinated, to be told apart.",
            subcategory="ensuring_clinical_research_quality",
            tasks=("validate_methods",),
            dataset=FileDataset(
                files=(hub.file("pqa_labeled.csv", "train", config="pqa_labeled"),),
                expand=expand,
                splits=("train",),
                source=f"{hub}, pqa_labeled",
            ),
            to_instance=to_instance,
            instruction=(
                "Below are passages of biomedical literature, a question and an answer to it. Is "
                "the answer factual or hallucinated? It is hallucinated where it contradicts the "
                "passages, misreads the question, leaves out what decides it, names a wrong "
                "mechanism or course of disease, or makes up evidence."
            ),
            metrics=["exact_match"],
            how_to_get=(
                "`medhelm data fetch medhallu` has the library `datasets` load it.",
                f"Without network: export the split train of {hub.repository}, configuration "
                f"pqa_labeled, revision {hub.revision}, to CSV, and put it as pqa_labeled.csv into "
                "<data dir>/medhallu.",
            ),
            max_output_tokens=64,
            redistributable=True,
            licence="MIT",
            citation="Pandit et al. MedHallu. 2025. arXiv 2502.14302",
            exposure=Exposure(public_since="2025-02-20"),
            expected_instances={"train": 2000},
            cluster="row of the source",
        )
    ]
