"""Write one row of each answer and metric as CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from medhelm.exports.finished import Answer, Finished
from medhelm.files.durable import write_whole
from medhelm.tables.format.formats import clean
from medhelm.tables.format.spreadsheet import csv_text

_OF_RUN = ("benchmark", "model", "scoring", "run")
_OF_ANSWER = ("instance_id", "repeat", "cluster", "metric", "value", "outcome")
_TEXTS = ("reason", "read", "reply", "references", "finish")
_USAGE = ("input_tokens", "output_tokens", "latency_s")


def write(runs: Iterable[Finished], out: Path) -> list[Path]:
    """Write all runs to one file, and return it."""
    lines = [line for run in runs for answer in run.answers for line in _lines(run, answer)]
    content = csv_text((*_OF_RUN, *_OF_ANSWER, *_TEXTS, *_USAGE), lines)
    write_whole(out, content.encode())
    return [out]


def _lines(run: Finished, answer: Answer) -> Iterator[list[object]]:
    spec, texts = run.record.spec, answer.texts or {}
    of_run = (run.name, spec.model.name, run.record.grading.scoring, run.folder)
    for metric, outcome in answer.outcomes.items():
        reason = (texts.get("reasons") or {}).get(metric)
        references = " | ".join(texts.get("references") or ()) or None
        said = (reason, texts.get("read"), texts.get("reply"), references, texts.get("finish"))
        own = (answer.id, answer.repeat, answer.cluster, metric, answer.scores[metric], outcome)
        cells = (*of_run, *own, *said, *(texts.get(name) for name in _USAGE))
        yield [clean(c, "\n\r\t") if isinstance(c, str) else c for c in cells]
