"""MedCaseReasoning: name the diagnosis of a published case report.

Wu et al., 2025, arXiv 2505.11733.
"""

from medhelm import Benchmark, Exposure, FileDataset, Hub, Instance, Prompt, Row, hookimpl


def to_instance(row: Row) -> Instance:
    """Return a case. The authors' reasoning stays out of the prompt and of what judges see."""
    return Instance(
        id=str(row["pmcid"]),
        context=row["case_prompt"].strip(),
        question="What is the most likely diagnosis?",
        references=(row["final_diagnosis"].strip(),),
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    hub = Hub("zou-lab/MedCaseReasoning", "469a5365bc534b5b2b9cfbc52b2ef2a10f43a339")
    test, validation = "test-00000-of-00001.parquet", "val-00000-of-00001.parquet"
    return [
        Benchmark(
            name="medcasereasoning",
            title="MedCaseReasoning",
            description="Published case reports: which diagnosis is it, and why?",
            subcategory="supporting_diagnostic_decisions",
            tasks=("generate_differential_diagnoses",),
            dataset=FileDataset(
                files=(
                    hub.file(test, path=f"data/{test}"),
                    hub.file(validation, "validation", path=f"data/{validation}"),
                ),
                splits=("test", "validation"),
                source=str(hub),
            ),
            to_instance=to_instance,
            examples="validation",
            answer="text",
            prompt=Prompt(
                name="case_diagnosis",
                version="1",
                text="{instruction}\n\n{context}\n\n{instruction}\n\n{question}",
                closing="Give your reasons briefly, then end with one line: Diagnosis: ...",
            ),
            instruction="Below is a clinical case. Reason over it and name one diagnosis.",
            metrics=["jury"],
            rubric="same_diagnosis",
            max_output_tokens=1024,
            licence="MIT or CC BY reported by others; the card was not seen",
            citation="Wu et al. MedCaseReasoning. 2025. arXiv 2505.11733",
            expected_instances={"test": 897, "validation": 500},
            exposure=Exposure(
                public_since="2025-05-16",
                overlaps=("The case reports are open articles of PubMed Central.",),
            ),
            unverified=True,
            mended=(
                "Reports of 500 and of 897 cases are of two splits: validation and test. They are "
                "never one column.",
                "Diagnoses were taken out of articles by a model: a judge may hold another one that "
                "the case supports as well to be right only where it is the same disease.",
                "A judge that fails is an abstention, not a wrong diagnosis.",
            ),
        )
    ]
