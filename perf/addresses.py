"""One model at four addresses, of which one is lost in the middle of a run, as a Markdown table.

    python perf/addresses.py [--requests 3000] [--rounds 3]

Each server is a process of its own that answers in 200 ms; 16 requests are in flight at each. The
ideal is that of three of them from the first request on. The median of the rounds counts.
"""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from measuring import parser, print_row, process_of_server
from pipeline import SERVER, fresh, quiet_environment, run_command, sending_seconds, write_data

LATENCY_S = 0.2
IN_FLIGHT = 16


def run(folder: Path, n: int, lost: signal.Signals | None, servers: int = 4) -> tuple[float, int]:
    """Return the seconds while sending, and how many of the answers are missing.

    `lost`: the signal that the last server gets once half of the answers are there.
    """
    fresh(folder)
    with ExitStack() as stack:
        words = (SERVER, "--latency", str(LATENCY_S))
        started = [stack.enter_context(process_of_server(*words)) for _ in range(servers)]
        urls = ",".join(url for _, url in started)
        command = [*run_command(folder, f"[{urls}]", IN_FLIGHT), "model.timeout_s=3"]
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=quiet_environment(),
        )
        while lost is not None and process.poll() is None:
            if sum(map(lines_of, (folder / "results").glob("runs/*/*/*/responses.jsonl"))) > n / 2:
                started[-1][0].send_signal(lost)
                break
            time.sleep(0.05)
        _, said = process.communicate()
        if process.returncode:
            raise SystemExit(f"the run failed: {said}")
    (log,) = (folder / "results").glob("runs/*/*/*/responses.jsonl")
    answered = {
        line["instance"]["id"]
        for line in map(json.loads, log.read_text().splitlines())
        if line["response"]["text"] == "A"
    }
    return sending_seconds(folder), n - len(answered)


def lines_of(log: Path) -> int:
    """Return how many lines a log has."""
    return log.read_bytes().count(b"\n")


def main() -> int:
    """Print the table."""
    args = parser(__doc__, requests=3000, rounds=3).parse_args()
    print("| what | target | measured |\n|---|---|---|")
    ideal = args.requests * LATENCY_S / (3 * IN_FLIGHT)
    for what, target, lost, servers in (
        ("three addresses", "", None, 3),
        ("four, one killed in the middle", "at most 1.2 x", signal.SIGKILL, 4),
        ("four, one silent from the middle on (`timeout_s` 3)", "", signal.SIGSTOP, 4),
    ):
        with tempfile.TemporaryDirectory() as name:
            write_data(Path(name), args.requests)
            rounds = [run(Path(name), args.requests, lost, servers) for _ in range(args.rounds)]
        took = statistics.median(seconds for seconds, _ in rounds)
        missing = sum(n for _, n in rounds)
        print_row(
            f"{args.requests:,} requests, 200 ms, 16 in flight at each of {what}, while sending",
            target and f"{target} the ideal of three ({ideal:.1f} s), nothing lost",
            f"{took / ideal:.2f} x, {missing} lost",
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
