"""ClinConsensus: open-ended cases with thirty binary criteria each (Zheng et al., 2026)."""

from __future__ import annotations

from dataclasses import replace

from medhelm import Benchmark, FileDataset, Prompt, SourceFile
from medhelm_benchmarks.clinconsensus.cases import TIER, case_findings, public_findings, to_instance

_HUB = "https://huggingface.co/datasets/skylenage/ClinConsensus/resolve/main/data"
_METRICS = (
    "rubric_coverage",
    "rubric_accuracy",
    "rubric_pass_at_k",
    "rubric_hits",
    "rubric_invalid",
    "rubric_coverage_highest",
    "answer_characters",
)
_LEVELS = ("low", "medium", "high")

CLINCONSENSUS = Benchmark(
    name="clinconsensus",
    title="ClinConsensus",
    description="Open-ended cases for lay people and professionals, each with thirty binary "
    "criteria; the score is coverage from the tenth criterion on (CACS@10). Coverage is not "
    "clearance for clinical use. The bundled cases are synthetic and their criteria are not "
    "validated by clinicians.",
    subcategory="patient_education_resources",
    tasks=("simplify_disease_info", "simplify_treatment"),
    dataset=FileDataset(
        files=tuple(
            SourceFile(
                name=f"clinconsensus_{level}.jsonl",
                url=f"{_HUB}/clinconsensus_low.jsonl" if level == "low" else "",
                splits=(level,),
                cells={TIER: level},
                redistributable=level == "low",
            )
            for level in _LEVELS
        ),
        splits=_LEVELS,
        source="Hugging Face data set skylenage/ClinConsensus, tier low; the others are not public",
    ),
    to_instance=to_instance,
    row_findings=public_findings,
    prompt=Prompt(name="case", version="1", text="{context}\n\n{question}"),
    answer="text",
    metrics=list(_METRICS),
    jury="criteria_2026_11",
    max_output_tokens=4096,
    reasoning_output_tokens=16_384,
    expected_instances={"low": 900, "medium": 800, "high": 800},
    how_to_get=(
        "The tiers medium and high are not public: put clinconsensus_medium.jsonl and "
        "clinconsensus_high.jsonl beside the file of the tier low, if you have them.",
    ),
    redistributable=True,
    curation="new",
    licence="CC BY 4.0; Apache-2.0 for the bundled cases",
    citation="Zheng et al., ClinConsensus: a physician-calibrated benchmark for evaluating "
    "clinical rubric coverage in Chinese medical LLMs, arXiv 2603.02097, 2026",
)

OWN = replace(
    CLINCONSENSUS,
    name="clinconsensus_own",
    title="ClinConsensus, cases of one's own",
    dataset=FileDataset.brought("cases.jsonl", source="cases of one's own; never published"),
    row_findings=case_findings,
    jury="",  # whoever judges has to be local
    data_class="private",
    redistributable=False,
    expected_instances={},
    how_to_get=(
        "Write cases into cases.jsonl, one JSON object a line, as `medhelm schema clinconsensus` "
        "describes them. They are private: only models that are declared local see them.",
    ),
    licence="the owner's; Apache-2.0 for the bundled cases",
)
