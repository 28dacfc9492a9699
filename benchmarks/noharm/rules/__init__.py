"""Action-level safety: cases whose next steps a model labels one by one, and what its errors weigh.

    cases -> derive -> score -> (metrics of `benchmarks/noharm/metrics.py`)

Wu et al., NOHARM (arXiv 2512.01241), as MedAct replicates it with synthetic cases.
"""
