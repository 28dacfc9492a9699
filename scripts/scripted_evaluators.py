"""Shows what the tables say of evaluators that are bad in a known way.

    python scripts/scripted_evaluators.py [FOLDER]

Plays the bundled encounters with clinicians by rule, lets each evaluator below judge them over a loopback server,
and prints the scores of the clinicians beside the evaluator's errors on controls. Runs are kept in FOLDER.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import medhelm
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import JurySpec
from medhelm_benchmarks.encounters.grading.evaluator import parts_of

CLINICIANS = ("encounter/silent", "encounter/asks_everything", "encounter/oracle")
Item, Turn = Mapping[str, Any], Mapping[str, Any]


def _deeds(turn: Turn) -> list[str]:
    return [
        text for text in (turn.get("clinician_says", ""), *turn.get("clinician_does", ())) if text
    ]


def _quotes(turns: list[Turn]) -> list[dict[str, Any]]:
    """Return words of the first turn in which the clinician says or does something."""
    found = ((turn["turn"], text) for turn in turns for text in _deeds(turn))
    return [{"turn": n, "quote": " ".join(text.split()[:15])} for n, text in found][:1]


def _words(text: str) -> set[str]:
    plain = "".join(c if c.isalnum() else " " for c in text.casefold())
    return {word for word in plain.split() if len(word) > 3}


def by_words(item: Item, turns: list[Turn]) -> list[dict[str, Any]]:
    """Met in the deed that holds most of an item's words, if it holds half of them."""
    own = _words(item["item"])
    deeds = [
        (len(own & _words(text)), turn["turn"], text) for turn in turns for text in _deeds(turn)
    ]
    most, n, text = max(deeds, default=(0, 0, ""))
    return (
        [{"turn": n, "quote": " ".join(text.split()[:15])}] if own and 2 * most >= len(own) else []
    )


def by_chance(item: Item, turns: list[Turn]) -> list[dict[str, Any]]:
    """Met in half of the encounters."""
    digest = hashlib.sha256(json.dumps([item, turns]).encode()).digest()
    return _quotes(turns) if digest[0] % 2 else []


EVALUATORS: Mapping[str, Callable[[Item, list[Turn]], list[dict[str, Any]]]] = {
    "by-words": by_words,
    "yes-with-turn-1": lambda item, turns: [{"turn": 1, "quote": item["item"]}],
    "yes-with-quotes": lambda item, turns: _quotes(turns),
    "never": lambda item, turns: [],
    "random": by_chance,
}


def judge(name: str, asked: str) -> str:
    """Return the reply of an evaluator."""
    found = parts_of(asked)
    assert found is not None
    body, items = found
    turns = [json.loads(line) for line in body.splitlines() if line.startswith("{")]
    said = []
    for item in items:
        shown = EVALUATORS[name](item, turns)
        is_met = bool(shown) or name.startswith("yes")
        said.append({**item, "met": is_met, "evidence": shown})
    return json.dumps({"items": said}, ensure_ascii=False)


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        text = judge(body["model"], body["messages"][1]["content"])
        choice = {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": text},
        }
        sent = sum(len(message["content"]) for message in body["messages"]) // 3
        usage = {"prompt_tokens": sent, "completion_tokens": len(text) // 3, "total_tokens": sent}
        reply = json.dumps({"model": body["model"], "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@contextmanager
def served() -> Iterator[str]:
    """Yield the address of the evaluators."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()


def main(folder: Path) -> None:
    """Run all evaluators and print what the tables say."""
    with served() as address:
        for name in EVALUATORS:
            evaluator = ModelSpec(
                name=f"scripted/{name}", model=name, base_url=address, endpoint_class="local"
            )
            jury = JurySpec(name=name, judges=(evaluator,), quorum=1)
            found = medhelm.evaluate(
                list(CLINICIANS),
                "medsp1000",
                data="sample",
                jury=jury,
                results_dir=folder / name,
                progress=False,
            )
            scores = {row["model"]: row for row in rows(found, "benchmarks")}
            errors = {row["what"]: row for row in rows(found, "controls")}
            row = scores[CLINICIANS[0]]
            print(
                f"| {name} |",
                *(f"{shown(scores[model]['score'])} |" for model in CLINICIANS),
                *(f"{error(errors.get(what))} |" for what in ("false positive", "false negative")),
                f"{sum(e['invalid'] for e in errors.values())} | {row['flags']} |",
            )


def rows(found: medhelm.Results, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    return found.table(table).to_dict("records")


def shown(value: Any) -> str:
    """Return a score; a dash where there is none."""
    return "-" if value is None or value != value else f"{value:.3f}"


def error(row: Mapping[str, Any] | None) -> str:
    """Return a share of wrong verdicts with its upper bound."""
    if row is None or not row["verdicts"]:
        return "-"
    return f"{row['share']:.0%} (to {row['share_high']:.0%}) of {row['verdicts']}"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
