"""MedCaseReasoning: name the diagnosis of a published case report.

Wu et al., 2025, arXiv 2505.11733.
"""

from medhelm import (
    Benchmark,
    Exposure,
    FileDataset,
    HubSource,
    Instance,
    Prompt,
    Row,
    SourceFile,
    hookimpl,
)


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
    revision, repository = "469a5365bc534b5b2b9cfbc52b2ef2a10f43a339", "zou-lab/MedCaseReasoning"
    return [
        Benchmark(
            name="medcasereasoning",
            title="MedCaseReasoning",
            description="Published case reports: which diagnosis is it, and why?",
            subcategory="supporting_diagnostic_decisions",
            tasks=("generate_differential_diagnoses",),
            dataset=FileDataset(
                files=tuple(
                    SourceFile(
                        name=f"{short}-00000-of-00001.parquet",
                        hub=HubSource(
                            repo=repository,
                            revision=revision,
                            split=split,
                            file=f"data/{short}-00000-of-00001.parquet",
                        ),
                        splits=(split,),
                    )
                    for short, split in (("test", "test"), ("val", "validation"))
                ),
                splits=("test", "validation"),
                source=f"{repository} at revision {revision}",
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
