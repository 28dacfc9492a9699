"""HealthQA-BR: Brazilian examinations of physicians and other health professions, in Portuguese.

D'addario, 2025, arXiv 2506.21578.
"""

import json
import re
from collections.abc import Sequence

from medhelm import Benchmark, DataError, Exposure, FileDataset, Instance, Prompt, Row, hookimpl

_LINE = re.compile(r"^\s*\(?([A-E])\s*[:).]\s*(.*)$")
_OBJECT = re.compile(r"\{.*\}\s*$", re.DOTALL)
_PAIR = re.compile(
    r"""['"]([A-E])['"]\s*:\s*('(?:[^'\\]|\\.|'(?!\s*[,}]))*'|"(?:[^"\\]|\\.|"(?!\s*[,}]))*")""",
    re.DOTALL,
)


def part_options(text: str) -> tuple[str, Sequence[str]]:
    """Return the stem and the options of a question: lettered lines, or pairs in an object.

    An apostrophe within an option ends nothing. Raises DataError where letters are missing.
    """
    if found := _OBJECT.search(text):
        pairs = [(letter, _unquote(value)) for letter, value in _PAIR.findall(found[0])]
        stem = text[: found.start()]
    else:
        stem, pairs = _lettered(text)
    letters = "".join(letter for letter, _ in pairs)
    if len(pairs) < 2 or letters != "ABCDE"[: len(pairs)] or not all(t.strip() for _, t in pairs):
        raise DataError("question does not end with the options A, B, ... in order")
    return stem.strip(), [option.strip() for _, option in pairs]


def _lettered(text: str) -> tuple[str, list[tuple[str, str]]]:
    stem: list[str] = []
    pairs: list[tuple[str, str]] = []
    for line in text.splitlines():
        found = _LINE.match(line)
        if found and found[1] == "ABCDE"[min(len(pairs), 4)]:
            pairs.append((found[1], found[2]))
        elif pairs:  # an option goes on in the next line
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]} {line.strip()}".strip())
        else:
            stem.append(line)
    return "\n".join(stem), pairs


def _unquote(value: str) -> str:
    """Return the text of a quoted value, with its escapes resolved."""
    inner = value[1:-1].replace("\\'", "'").replace('\\"', '"')
    return str(json.loads(json.dumps(inner))).replace("\\n", "\n")


def to_instance(row: Row) -> Instance:
    """Return a question; a row whose options cannot be separated is an error, not left out."""
    stem, options = part_options(row["question"])
    letter = row["answer"].strip().upper()
    if len(letter) != 1 or letter not in "ABCDE"[: len(options)]:
        raise DataError("answer is the letter of no option")
    return Instance(
        id=str(row["id"]),
        question=stem,
        choices=tuple(options),
        references=(letter,),
        metadata={
            "source": row["source"] or "not stated",
            "group": row["group"] or "Revalida",
            "year": str(row["year"] or "not stated"),
        },
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="healthqa_br",
            title="HealthQA-BR",
            description="Questions of Brazilian examinations of health professions, in Portuguese.",
            subcategory="providing_clinical_knowledge_support",
            tasks=("answer_medical_knowledge_questions",),
            dataset=FileDataset.brought(
                "train.parquet",
                source="Larxel/healthqa-br on the Hugging Face hub, split train (the only one)",
            ),
            to_instance=to_instance,
            languages={"": "pt"},
            prompt=Prompt(
                name="multiple_choice_pt",
                version="1",
                text="{instruction}\n\n{question}\n\n{choices}",
                closing=(
                    "Exatamente uma alternativa est\u00e1 correta. Responda apenas com a letra."
                ),
            ),
            instruction=(
                "Esta \u00e9 uma quest\u00e3o de um exame brasileiro para profissionais de sa\u00fade. Escolha a "
                "alternativa correta."
            ),
            metrics=["exact_match"],
            how_to_get=(
                "Download the one Parquet file of the data set Larxel/healthqa-br from the Hugging "
                "Face hub and note its revision: no project that is known to us has pinned one.",
                "Put it as train.parquet into <data dir>/healthqa_br.",
            ),
            max_output_tokens=64,
            licence="CC BY reported by others; the card was not seen",
            citation="D'addario. HealthQA-BR. 2025. arXiv 2506.21578",
            expected_instances={"test": 5632},
            exposure=Exposure(
                public_since="2025-06-16",
                overlaps=("The examinations themselves were public in the year that each names.",),
            ),
            unverified=True,
            mended=(
                "The other harness reads options by a pattern that ends at an apostrophe and leaves "
                "unread rows out without a word; here an apostrophe ends nothing, and a row that "
                "cannot be separated is an error.",
                "The prompt is in Portuguese, and answers in Portuguese are read.",
                "Scores differ much by profession: `--table slices --by group` shows them.",
            ),
        )
    ]
