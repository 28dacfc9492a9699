"""AfriMed-QA: multiple-choice questions by experts of African medical schools.

Olatunji et al., 2024, arXiv 2411.15640. Its licence forbids commercial use.
"""

from string import ascii_uppercase

from medhelm import Benchmark, DataError, Exposure, FileDataset, Instance, Row, SourceFile, hookimpl

LETTERS = ascii_uppercase[:5]
EMPTY = ("", "n/a", "na", "none", "nan", "null")
"""The cells without an option in the columns D and E of a question with fewer."""


def to_instance(row: Row) -> Instance | None:
    """Return a question; None for the three rows whose right option has no text.

    Columns of a results file beside these (a model's prompt and answer) and the rationale stay out.
    """
    texts = [row[letter].strip() for letter in LETTERS]
    while len(texts) > 2 and texts[-1].casefold() in EMPTY:
        texts.pop()
    letter = row["answer"].strip()
    if len(letter) != 1 or letter not in LETTERS:
        raise DataError("answer is not one of A to E")
    if letter not in LETTERS[: len(texts)] or not texts[LETTERS.index(letter)]:
        return None
    return Instance(
        id=row["sample_id"],
        question=row["question"].strip(),
        choices=tuple(texts),
        references=(letter,),
        metadata={"options": str(len(texts))},
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    """Return the benchmark."""
    return [
        Benchmark(
            name="afrimedqa",
            title="AfriMed-QA, expert multiple choice",
            description="Questions by experts of medical schools in sixteen African countries.",
            subcategory="providing_clinical_knowledge_support",
            tasks=("answer_medical_knowledge_questions",),
            dataset=FileDataset(
                files=(SourceFile(name="afrimedqa_expert_mcq.csv"),),
                source="intron-innovation/AfriMed-QA on GitHub, expert multiple choice, version 2",
            ),
            to_instance=to_instance,
            prompt="multiple_choice",
            instruction=(
                "This is a question from an examination for physicians. Choose the best option."
            ),
            metrics=["exact_match"],
            how_to_get=(
                "The columns sample_id, question, answer and A to E of the 3,910 expert questions are "
                "in each file NAME_3910.csv below afri_results/ of intron-innovation/AfriMed-QA on "
                "GitHub (commit 0cc60c74513f9d6b579045c1f30b4075aea811ad); other columns are passed over.",
                "Put one of them as afrimedqa_expert_mcq.csv into <data dir>/afrimedqa.",
                "The licence (CC BY-NC-SA 4.0) forbids commercial use.",
            ),
            max_output_tokens=64,
            redistributable=False,
            licence="CC BY-NC-SA 4.0: not for commercial use, never bundled or shown",
            citation="Olatunji et al. AfriMed-QA. ACL 2025. arXiv 2411.15640",
            expected_instances={"test": 3907},
            exposure=Exposure(public_since="2024-11-23"),
            unverified=True,
            mended=(
                "Three questions whose right option is empty are left out.",
                "60 questions have equal options, 22 of them the right one's text twice: letters are "
                "compared.",
                "Unused options are empty or a word for none, and are not shown.",
                "The file holds a model's prompt and answer, and a rationale: none of them is read.",
            ),
        )
    ]
