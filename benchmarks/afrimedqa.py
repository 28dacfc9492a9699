"""AfriMed-QA: multiple-choice questions by experts of African medical schools.

Olatunji et al., 2024, arXiv 2411.15640. Its licence forbids commercial use.
"""

import re
from collections.abc import Mapping
from string import ascii_uppercase

from medhelm import Benchmark, DataError, Exposure, GitHub, Instance, LeftOut, Row, hookimpl

LETTERS = ascii_uppercase[:5]
EMPTY = ("n/a", "na", "none", "nan", "null")
"""The words for an empty cell at the end of the options."""
_LABEL = re.compile(r"([A-Ea-e])\s?[.)][\s\u200b]*(?=[^\s\u200b])")
_GENUS = re.compile(r"[A-E]\.\s?[a-z]")
_DOT = re.compile(r"^\.\s*(?=[^\s\d])")


def to_instance(row: Row) -> Instance | LeftOut:
    """Return a question; the three rows whose right option has no text are left out.

    An empty cell may come before the options: those after it move up, and the key with them.
    Columns of a results file beside these (a model's prompt and answer) and the rationale stay out.
    """
    letter = row["answer"].strip()
    if len(letter) != 1 or letter not in LETTERS:
        raise DataError("answer is not one of A to E")
    texts = clean({key: row[key].strip() for key in LETTERS})
    options = [(key, text) for key, text in texts.items() if text]
    while len(options) > 2 and options[-1][1].casefold() in EMPTY:
        options.pop()
    keys = [key for key, _ in options]
    if letter not in keys:
        return LeftOut("the right option has no text")
    return Instance(
        id=row["sample_id"],
        question=row["question"].strip(),
        choices=tuple(text for _, text in options),
        references=(LETTERS[keys.index(letter)],),
        metadata={"options": str(len(options))},
    )


def clean(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options without the labels that some carry in their text, and leading dots.

    `E. coli` alone has no label. Where two options begin with the letter of their column, each
    such beginning is one.
    """
    own = [
        key
        for key, text in options.items()
        if (found := _LABEL.match(text)) and found[1].upper() == key
    ]
    if len(own) == 1 and _GENUS.match(options[own[0]]):
        own = []
    labelled = options if len(own) > 1 else own
    return {
        key: _DOT.sub(
            "", _LABEL.sub("", text, count=1) if key in labelled and _LABEL.match(text) else text
        )
        for key, text in options.items()
    }


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    """Return the benchmark. Its questions are in the results of each model that was asked."""
    github = GitHub("intron-innovation/AfriMed-QA", "9bb0ffc03ef41a0568c3f47223a23997922afb52")
    return [
        Benchmark(
            name="afrimedqa",
            title="AfriMed-QA, expert multiple choice",
            description="Questions by experts of medical schools in sixteen African countries.",
            subcategory="providing_clinical_knowledge_support",
            tasks=("answer_medical_knowledge_questions",),
            dataset=github.dataset(
                "results/Meta-Llama-3-8B/afrimed-qa-v2_Meta-Llama-3-8B_mcq_base-prompt__no_exp_0-shot_score_0.4724_3910.csv",
                "4e1efd37bf8a479bdff062799f2b5e1d1183ffcd62b86cf762d07190fadcf631",
                name="afrimedqa_expert_mcq.csv",
                source=f"{github}, expert multiple choice, version 2",
            ),
            to_instance=to_instance,
            instruction=(
                "This is a question from an examination for physicians. Choose the best option."
            ),
            metrics=["exact_match"],
            max_output_tokens=64,
            licence="CC BY-NC-SA 4.0: not for commercial use, never bundled or shown",
            citation="Olatunji et al. AfriMed-QA. ACL 2025. arXiv 2411.15640",
            expected_instances={"test": 3907},
            exposure=Exposure(public_since="2024-11-23"),
            version="2",
            mended=(
                "Three questions whose right option is empty are left out, of 3,910.",
                "The key A is the most frequent (0.233), and the longest option is right in 0.245 of "
                "the questions: compare with both, not with chance.",
                "59 questions have equal options, 21 of them the right one's text twice: letters are "
                "compared.",
                "Unused options are empty or a word for none, and are not shown. In eight questions the "
                "first one is empty: the others move up, and the key with them.",
                "In one question of eight, options begin with a letter of their own (`b) Measles`), "
                "some with a dot: both are cut off, since a reader of replies takes them for a choice.",
                "The file holds a model's prompt and answer, and a rationale: none of them is read.",
            ),
        )
    ]
