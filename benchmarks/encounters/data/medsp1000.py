"""MedSP1000: standardized-patient cases of medical education with frozen rubrics (Liang et al., 2026).

The bundled cases are ours, synthetic, and not validated by any clinician.
"""

from __future__ import annotations

from pathlib import Path

from medhelm import Benchmark, FileDataset, SourceFile
from medhelm_benchmarks.encounters.data.cases import (
    CASES,
    RUBRICS,
    SUBSET,
    read_rows,
    row_findings,
    to_instance,
)
from medhelm_benchmarks.encounters.protocol import ENCOUNTER

_COMMIT = "2806984cb331d6fedc2c0555e3c1c4a54171c77a"

MEDSP1000 = Benchmark(
    name="medsp1000",
    title="MedSP1000",
    description="A clinician manages a standardized patient over clinical states; the items of a "
    "frozen rubric are ticked on what it said and did. 86 of the 1,634 readable rubrics hold no item "
    "and are left out. The bundled cases are synthetic and not validated by clinicians.",
    subcategory="planning_treatments",
    tasks=("suggest_clinical_pathways", "match_protocols"),
    dataset=FileDataset(
        files=(
            SourceFile(name=CASES, folder=CASES),
            SourceFile(name=RUBRICS),
            SourceFile(name=SUBSET, splits=("verified",)),
        ),
        read=read_rows,
        splits=("test", "verified"),
        source=f"MAGIC-AI4Med/MedSP1000 at {_COMMIT}; packets: hub data set byrLLCC/MedSP1000",
    ),
    to_instance=to_instance,
    row_findings=row_findings,
    protocol=ENCOUNTER,
    prompt="plain",
    answer="text",
    metrics=[
        "encounter_completion",
        "encounter_pooled",
        "encounter_competency_mean",
        "encounter_competency_case_mean",
        "simulation_fidelity",
    ],
    max_output_tokens=2048,
    reasoning_output_tokens=16_384,
    how_to_get=(
        "Put the packets into the folder cases, as <case>/<scenario>/<role>/ with the roles examinee, "
        "sp_actor, environment_controller and evaluator, or as a table with a column of each "
        "(the hub data set byrLLCC/MedSP1000, once it is there).",
        "Put the rubrics into rubrics.jsonl, a scenario a line (case_id, scenario, rubric_version, and "
        "the lists PC, MK, SBP, ICS, PBLI, PROF), and the verified subset into subset.json, both from "
        "the repository MAGIC-AI4Med/MedSP1000.",
        "`medhelm qc encounters DIR` counts and checks what is in the folder; `medhelm curate DIR` "
        "makes cases from teaching packets of your own.",
        "They count as public. Cases of real patients need a plugin of their own with "
        'data_class="private".',
    ),
    curation="new",
    licence="rubrics CC BY-NC-SA 4.0, code MIT; Apache-2.0 for the bundled cases",
    citation="Liang et al., MedSP1000, 2026",
    expected_instances={"test": 1_548, "verified": 100},
    cluster="source article",
    samples=Path(__file__).parent.parent / "samples" / "medsp1000.jsonl",
)
