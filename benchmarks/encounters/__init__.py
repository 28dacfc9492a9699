"""Encounters: the model under test as the clinician of a standardized patient.

`prompts` has what each role is given. MedSP1000 (Liang et al., 2026) and AgentClinic (Schmidgall et al.,
2024) go by it. Each part is imported where it is asked for.
"""

from __future__ import annotations

from medhelm import Benchmark, Metric, ModelSpec, Page, Protocol, Provider, Strategy, hookimpl


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    from medhelm_benchmarks.encounters.agentclinic import AGENTCLINIC
    from medhelm_benchmarks.encounters.data.medsp1000 import MEDSP1000

    return [AGENTCLINIC, MEDSP1000]


@hookimpl
def medhelm_metrics() -> list[Metric]:
    from medhelm_benchmarks.encounters.grading.cast_fidelity import RoleConduct, SimulationFidelity
    from medhelm_benchmarks.encounters.grading.completion import METRICS
    from medhelm_benchmarks.encounters.grading.diagnosis import DiagnosisAccuracy, DiagnosisNamed

    return [DiagnosisAccuracy(), DiagnosisNamed(), *METRICS, RoleConduct(), SimulationFidelity()]


@hookimpl
def medhelm_protocols() -> list[Protocol]:
    from medhelm_benchmarks.encounters.protocol import CONSULTATIONS, ENCOUNTERS
    from medhelm_benchmarks.encounters.rules import with_proofs

    return [with_proofs(ENCOUNTERS), with_proofs(CONSULTATIONS)]


@hookimpl
def medhelm_providers() -> list[Provider]:
    """Return who plays roles by rule, and the sheets of people who judge."""
    from medhelm_benchmarks.encounters.experts.by_hand import RATERS
    from medhelm_benchmarks.encounters.rules import PROVIDERS

    return [*PROVIDERS, RATERS]


@hookimpl
def medhelm_models() -> list[ModelSpec]:
    """Return the rules that play roles."""
    from medhelm_benchmarks.encounters.rules import MODELS

    return [*MODELS.values()]


@hookimpl
def medhelm_strategies() -> list[Strategy]:
    from medhelm_benchmarks.encounters.strategies import STRATEGIES

    return [*STRATEGIES]


@hookimpl
def medhelm_pages() -> list[Page]:
    from medhelm_benchmarks.encounters.page.page import ENCOUNTERS

    return [ENCOUNTERS]
