"""NOHARM as a package: cases whose next steps are labelled one by one, and what errors weigh.

`rules` has the form of a case and the arithmetic, `generation` writes cases from a guideline, `experts`
compares those who rate them. Wu et al., NOHARM (arXiv 2512.01241), as MedAct replicates it. Each
part is imported where it is asked for. `rules.menu` has what a benchmark of labelled actions of one's own needs.
"""

from __future__ import annotations

from medhelm import Benchmark, Metric, Page, Protocol, hookimpl


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    from medhelm_benchmarks.noharm.benchmark import NOHARM

    return [NOHARM]


@hookimpl
def medhelm_metrics() -> list[Metric]:
    from medhelm_benchmarks.noharm.metrics import METRICS

    return [*METRICS]


@hookimpl
def medhelm_protocols() -> list[Protocol]:
    from medhelm_benchmarks.noharm.benchmark import ACTION_LABELS

    return [ACTION_LABELS]


@hookimpl
def medhelm_pages() -> list[Page]:
    from medhelm_benchmarks.noharm.page.page import HARM

    return [HARM]
