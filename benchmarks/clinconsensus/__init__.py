"""ClinConsensus as a package: cases with binary criteria, their threshold, and a judge that is trained.

Zheng et al., arXiv 2603.02097. Grading, scores and reports of binary criteria are the core's.
"""

from __future__ import annotations

from medhelm import Benchmark, Page, hookimpl


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    """Return the public cases, and those of one's own."""
    from medhelm_benchmarks.clinconsensus.benchmark import CLINCONSENSUS, OWN

    return [CLINCONSENSUS, OWN]


@hookimpl
def medhelm_pages() -> list[Page]:
    from medhelm_benchmarks.clinconsensus.page.page import COVERAGE

    return [COVERAGE]
