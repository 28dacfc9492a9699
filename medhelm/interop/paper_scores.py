"""The scores of the MedHELM paper's nine models, from the authors' public analysis repository."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from medhelm.data.sources import file_sha256
from medhelm.errors import UsageError
from medhelm.files.durable import why
from medhelm.plugins.registry import Registry
from medhelm.store.as_published import PublishedScore, PublishedScores, write_published

_SOURCE = "MedHELM (arXiv 2505.23802), som-shahlab/medhelm"
_MODEL, _BETWEEN = "Model", " - "


def bring_paper(paths: Sequence[Path], registry: Registry, results: Path) -> str:
    """Write the scores of the authors' table beside the runs, and return what was read, in a sentence.

    Raises UsageError for another file.
    """
    (path, *more) = paths
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as e:
        raise UsageError(f"{path} cannot be read: {why(e)}") from None
    except (UnicodeDecodeError, csv.Error):
        rows = []
    heads = [head for head in (rows[0] if rows else {}) if head and _BETWEEN in head]
    if more or not heads or _MODEL not in rows[0]:
        raise UsageError(
            f"{path} is not the authors' table of scores (data/leaderboard.csv of som-shahlab/medhelm): a "
            f"column {_MODEL}, and of each benchmark a column like 'MedQA{_BETWEEN}EM'"
        )
    found, unknown = [], []
    for head in heads:
        title, _, metric = head.rpartition(_BETWEEN)
        if not (name := _benchmark(title, registry)):
            unknown.append(title)
            continue
        for row in rows:
            if not (cell := row[head]):
                continue
            try:
                score = float(cell)
            except ValueError:
                raise UsageError(
                    f"{path}: {row[_MODEL]!r} has {cell!r} on {title}, no score"
                ) from None
            found.append(
                PublishedScore(benchmark=name, model=row[_MODEL], metric=metric, score=score)
            )
    scores = PublishedScores(source=_SOURCE, sha256=file_sha256(path), scores=tuple(found))
    write_published(results, "medhelm_paper", scores)
    named = f"; of no benchmark here: {', '.join(unknown)}" if unknown else ""
    return (
        f"{len(found):,} scores of {len(rows)} models on {len(heads) - len(unknown)} benchmarks{named}. "
        "`medhelm tables --table as_published` shows them beside runs"
    )


def _benchmark(title: str, registry: Registry) -> str:
    """Return the benchmark that has a title, or the only one whose name begins with it; empty where none does."""
    bare = _bare(title)
    for name, benchmark in registry.benchmarks.items():
        if bare in (_bare(name), _bare(benchmark.title)):
            return name
    longer = [name for name in registry.benchmarks if _bare(name).startswith(bare)]
    return longer[0] if len(longer) == 1 else ""


def _bare(name: str) -> str:
    return "".join(c for c in name.lower() if c.isalnum())
