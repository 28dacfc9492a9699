"""The page of one benchmark: what it is, how it is scored, what models reach on it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from medhelm.errors import MedhelmError
from medhelm.grading.grade import AS_FIXED
from medhelm.plugins.registry import Registry
from medhelm.proof.manifest import read_manifest
from medhelm.schema.fields import fields_of
from medhelm.schema.run import MetricRef, RunRecord
from medhelm.schema.score import Scoring
from medhelm.tables import notes
from medhelm.tables.format.table import Table
from medhelm.tables.study.study import Panel, Study
from medhelm_leaderboard import publish
from medhelm_leaderboard.files import SiteFolder
from medhelm_leaderboard.pages import Content, page_table
from medhelm_leaderboard.run_pages import short_hash

_BINS = 20


def write_benchmark(
    site: SiteFolder, study: Study, benchmark: str, scores: Table, registry: Registry
) -> str:
    """Write the page of a benchmark and return its key; `scores` is the whole table of all."""
    panel = study.panels[benchmark]
    records = [cell.record for cell in panel.cells.values()]
    record = next((r for r in records if r.spec.asking is None), records[0])
    own = [r for r in scores.rows if r["benchmark"] == benchmark]
    edges = np.linspace(panel.metric.minimum, panel.metric.maximum, _BINS + 1)
    own_scores = replace(scores, rows=tuple(own), title=f"Scores on {benchmark}")
    page = _page(record, panel) | {
        "embedded": embedded(registry, record),
        "scores": page_table(own_scores),  # of `--table benchmarks --metrics all`
        "bins": edges.tolist(),  # of equal width
        "histograms": [
            {"model": m, "counts": np.histogram(panel.scores(m).values, edges)[0].tolist()}
            for m in panel.cells
        ],
    }
    return site.put_data(f"benchmark-{short_hash(record.grading.scoring, benchmark)}", page)


def _page(record: RunRecord, panel: Panel) -> Content:
    card, spec, terms = record.column_card, record.spec, record.grading.jury
    is_open = card.data_class == "public"
    return {
        **publish.benchmark_line(card),
        **fields_of(card, "description", "licence", "curation", "citation"),
        "source": card.source if is_open else "",
        "version": spec.benchmark_version,
        **fields_of(spec, "split", "dataset_sha256"),
        **fields_of(spec, "prompt_name", "prompt_version", "prompt_sha256"),
        "instruction": publish.instruction(card),
        "cluster": card.cluster,
        "instances": max(c.record.instances for c in panel.cells.values()),
        "max_output_tokens": max(c.record.spec.max_output_tokens for c in panel.cells.values()),
        "metrics": [  # the main one first
            (
                m.name,
                _version(m, record.grading.scoring),
                m.minimum,
                m.maximum,
                m.floor,
                m.higher_is_better,
                m.aggregation,
            )
            for m in record.grading.metrics
        ],
        "jury": notes.jury_name(panel),
        "rubric": [(c.name, c.text) for c in terms.rubric.criteria] if terms and is_open else [],
    }


def _version(metric: MetricRef, scoring: Scoring) -> str:
    """Return a metric's version, and that it is not a published one where that is asked for."""
    return metric.version if metric.scoring == scoring else f"{metric.version} ({AS_FIXED})"


def embedded(registry: Registry, record: RunRecord) -> list[tuple[str, float | None]]:
    """Return what answers without a model score, where the manifest is of the same data."""
    spec, metric = record.spec, record.grading.metrics[0].name
    with suppress(MedhelmError):  # a benchmark whose plugin is not here has no manifest
        facts = read_manifest(registry.benchmark(spec.benchmark), spec.data)
        if facts is None or (facts.version, facts.dataset_sha256) != (
            spec.benchmark_version,
            spec.dataset_sha256,
        ):
            return []
        helm = facts.scores_helm if record.grading.scoring == "helm" else {}
        return [
            (answer, helm.get(answer, {}).get(metric, own[metric]))
            for answer, own in facts.scores.items()
            if metric in own
        ]
    return []
