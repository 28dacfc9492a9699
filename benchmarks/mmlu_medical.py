"""MMLU, six medical subjects: anatomy to professional medicine, four options.

Hendrycks et al., 2020, arXiv 2009.03300. The subjects are those of MultiMedQA (Singhal et al.,
2022); some papers report nine.
"""

import re
from string import ascii_uppercase

from medhelm import Benchmark, Exposure, FileDataset, GitHub, Hub, Instance, Row, hookimpl, text_key

SUBJECTS = (
    "anatomy",
    "clinical_knowledge",
    "college_biology",
    "college_medicine",
    "medical_genetics",
    "professional_medicine",
)
_DOTS = re.compile(r"^(?:(?:\.\s?){2,}|\u2026)\s*")
_THETA = re.compile(r"(?<=\bsin )\?|(?<=\bcos )\?|(?<=angle of incline, )\?")


def to_instance(row: Row) -> Instance:
    """Return a question; the same question with the same options is one cluster."""
    question = _THETA.sub("\u03b8", row["question"]).strip()
    if "choices" in row:  # on the hub, whose rows have no number
        texts, key, number = row["choices"], ascii_uppercase[row["answer"]], text_key(question)
    else:
        texts = [row["options"][letter] for letter in ascii_uppercase[:4]]
        key, number = row["answer_idx"], row["realidx"]
    options = [clean(text) for text in texts]
    return Instance(
        id=f"{row['subject']}/{number}",
        question=question,
        choices=tuple(options),
        references=(key,),
        cluster=text_key("\n".join([question, *options])),
        metadata={"part": row["subject"]},
    )


def clean(option: str) -> str:
    """Return an option without leading dots, and with the angle that was lost in one question."""
    return _DOTS.sub("", _THETA.sub("\u03b8", option)).strip()


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    hub = Hub("cais/mmlu", "c30699e8356da336a370243923dbaf21066bb9fe")
    github = GitHub("gersteinlab/medagents-benchmark", "f5e50b69be8ef617a6de613cc8035929448e2b3b")
    return [
        Benchmark(
            name="mmlu_medical",
            title="MMLU, six medical subjects",
            description="Questions of examinations in six medical subjects of MMLU, four options.",
            subcategory="providing_clinical_knowledge_support",
            tasks=("answer_medical_knowledge_questions",),
            dataset=FileDataset(
                files=(
                    github.file(
                        "data/mmlu/test.jsonl",
                        "d1ac8949044ccd412b883b90ba918933531f5eaefb40166673c4989fa1bbf1b9",
                        name="mmlu_medical_test.medagents.jsonl",
                        splits=("test",),
                    ),
                    *(
                        hub.file(
                            f"{subject}_dev.parquet",
                            "dev",
                            config=subject,
                            cells={"subject": subject},
                        )
                        for subject in SUBJECTS
                    ),
                ),
                splits=("test", "dev"),
                source=f"hendrycks/test, copy in {github}",
            ),
            to_instance=to_instance,
            examples="dev",
            instruction="This is a question from a medical examination. Choose the right option.",
            metrics=["exact_match"],
            parts=SUBJECTS,
            max_output_tokens=64,
            redistributable=True,
            licence="MIT",
            citation=(
                "Hendrycks et al. Measuring Massive Multitask Language Understanding. ICLR 2021. "
                "arXiv 2009.03300"
            ),
            expected_instances={"test": 1089, "dev": 30},
            cluster="question with its options",
            exposure=Exposure(
                public_since="2020-09-07",
                overlaps=(
                    "MMLU-Pro (mmlu_pro_health) is made of the same source questions.",
                    "clinical_knowledge and college_medicine are, translated, in mmlu_clinical_afr.",
                ),
            ),
            mended=(
                "78 questions of college_medicine are those of clinical_knowledge once more, with "
                "the same options and key: each pair is one cluster, so that intervals do not take "
                "them for two.",
                "The score is the mean of the six subjects, each counted once; a mean over all rows "
                "counts professional_medicine 2.7 times as much as medical_genetics. `--table slices "
                "--by part` shows the subjects.",
                "The five worked examples that lie beside the copy are of MMLU-Pro, with ten "
                "options; none is shown.",
                "In one question the letter theta was lost and a question mark is in its place; it "
                "is put back. Dots that lead from the question into an option are cut off, since "
                "both end a sentence where there is none.",
                "Letters are compared, not texts of options.",
                "Some keys are wrong (MMLU-Redux, arXiv 2406.04127).",
            ),
        )
    ]
