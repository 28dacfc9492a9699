"""ROUGE of 10,000 pairs: one process, and processes on all cores, one after the other.

    python perf/rouge.py [--pairs 10000]

Starting the processes is in the time; reading a log is not.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Sequence

from measuring import parser, print_row

from medhelm.grading.slow_metrics import score_all
from medhelm.plugins.registry import load_registry
from medhelm.processes.workers import Workers
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode, Response
from medhelm.schema.score import Metric

WORDS = [
    f"{a}{b}" for a in ("card", "neur", "ren", "derm", "hepat") for b in ("ology", "itis", "al")
]
METRICS = ("rouge_l", "rouge_1", "rouge_2")


def make_episodes(n: int) -> list[Episode]:
    """Return n pairs of a gold and an answer of 40 words each."""
    draw = random.Random(0)
    return [
        Episode(
            instance=Instance(id=f"i{i}", references=(" ".join(draw.choices(WORDS, k=40)),)),
            response=Response(instance_id=f"i{i}", text=" ".join(draw.choices(WORDS, k=40))),
        )
        for i in range(n)
    ]


def measure(
    episodes: Sequence[Episode], metrics: Sequence[Metric], processes: int = 0
) -> tuple[float, list[float | None]]:
    """Return the seconds and all values."""
    started = time.perf_counter()
    scored = score_all(episodes, metrics, len(episodes), workers=Workers(processes))
    values = [score.value for _, scores in scored for score in scores]
    return time.perf_counter() - started, values


def main() -> None:
    """Print one line of a Markdown table."""
    episodes = make_episodes(parser(__doc__, pairs=10_000).parse_args().pairs)
    registry = load_registry()
    metrics = [registry.metric(name) for name in METRICS]
    alone, expected = measure(episodes, metrics, 1)
    spread, values = measure(episodes, metrics)
    assert values == expected
    print_row(
        f"ROUGE-1, -2 and -L of {len(episodes):,} pairs, processes against one",
        f"{alone / spread:.2f} x as fast on {len(os.sched_getaffinity(0))} cores "
        f"({spread:.1f} s, one process {alone:.1f} s)",
    )


if __name__ == "__main__":
    main()
