"""EHRSQL as a package: the benchmark, its metrics, and the sandbox that runs what a model wrote."""

from medhelm_benchmarks.ehrsql.benchmark import medhelm_benchmarks
from medhelm_benchmarks.ehrsql.metrics import medhelm_metrics

__all__ = ["medhelm_benchmarks", "medhelm_metrics"]
