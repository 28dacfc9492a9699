"""Shows what the tables say of evaluators that are bad in a known way, and of small real models.

    python scripts/scripted_evaluators.py FOLDER
    python scripts/scripted_evaluators.py FOLDER --rubrics FILE [--cases N] [--evaluator NAME=URL ...]
    python scripts/scripted_evaluators.py [--check]

With a folder, plays encounters with clinicians by rule, lets each evaluator below judge them over a loopback
server, or the model behind each address, and stores the scores of the clinicians beside the evaluator's errors on
controls in scripts/results/scripted_evaluators.json. Runs are kept in FOLDER, so that the same command goes on from
there. The cases are the bundled ones, or with `--rubrics` N of the published rubrics, with stand-ins for their packets.
Always puts what is stored between markers of docs/jury.md; `--check` writes nothing and fails where the page differs.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pages import ROOT, grid, parser, put

import medhelm
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import JurySpec
from medhelm_benchmarks.encounters.grading.evaluator import parts_of

PAGE = ROOT / "docs" / "jury.md"
STORED = ROOT / "scripts" / "results" / "scripted_evaluators.json"
CLINICIANS: tuple[str, ...] = ("encounter/silent", "encounter/asks_everything", "encounter/oracle")
PACKETS = {
    "examinee": "You are the doctor on duty. A patient is waiting for you. Take a history and examine.",
    "sp_actor": "You came since you do not feel well. You answer what you are asked in short sentences.",
    "environment_controller": "An examination room with what is usually there.",
    "evaluator": "The rubric is a file of its own.",
}
"""Stand-ins for the packets of a published rubric."""
STRAIGHT = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")
ROLES = {
    "patient": json.dumps({"speak": ["I cannot say."], "actors_present": {"Patient": "here"}}),
    "controller": json.dumps(
        {
            "feedback": [], "events": [], "actors_present": {}, "action_assessments": [],
            "patient_status": "as before", "progress_index": 0, "state_label": "first",
            "should_end": True, "completion_reason": "done",
        }
    ),
}  # fmt: skip
"""What those say who play the other roles of such a case."""
ERROR = (
    "judge",
    "what",
    "share",
    "share_low",
    "share_high",
    "wrong",
    "verdicts",
    "invalid",
    "empty",
    "other",
    "right",
)
Item = Mapping[str, Any]
Turn = Mapping[str, Any]


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
    "straightens-quotes": by_words,
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
        if name == "straightens-quotes":
            item = {**item, "item": " ".join(item["item"].translate(STRAIGHT).split())}
        said.append({**item, "met": is_met, "evidence": shown})
    return json.dumps({"items": said}, ensure_ascii=False)


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        name = body["model"]
        text = ROLES[name] if name in ROLES else judge(name, body["messages"][1]["content"])
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


def write_cases(rubrics: Path, cases: int, folder: Path) -> None:
    """Write the first rubrics of 8 to 12 items, with stand-ins for their packets, as a data folder."""
    own = folder / "medsp1000"
    own.mkdir(parents=True, exist_ok=True)
    lines = rubrics.read_text(encoding="utf-8").splitlines()
    chosen = [line for line in lines if 8 <= sum(map(len, lists(line))) <= 12][:cases]
    (own / "rubrics.jsonl").write_text("\n".join(chosen) + "\n", encoding="utf-8")
    for row in map(json.loads, chosen):
        for role, text in PACKETS.items():
            place = own / "cases" / row["case_id"] / row["scenario"] / role
            place.mkdir(parents=True, exist_ok=True)
            if (
                role == "environment_controller"
            ):  # it tells whose items they are: nobody reads it out
                text = "\n".join(
                    (text, *(item for items in lists(json.dumps(row)) for item in items))
                )
            (place / "packet.md").write_text(text, encoding="utf-8")


def lists(line: str) -> list[list[str]]:
    """Return the lists of items of a rubric, one for each competency."""
    return [value for value in json.loads(line).values() if isinstance(value, list)]


def measure(
    folder: Path, evaluators: Mapping[str, str], roles: str, data: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield a row of each evaluator, by its address; `roles` is that of those who play the other roles."""
    for name, address in evaluators.items():
        kind = "scripted" if name in EVALUATORS else "model"
        evaluator = ModelSpec(
            name=f"{kind}/{name}", model=name, base_url=address, endpoint_class="local", timeout_s=900,
            max_concurrency=1 if kind == "model" else None,
        )  # fmt: skip
        clinicians, cast = CLINICIANS, {}
        if data["data"] == "full":  # whose packets hold nothing that a rule could play
            clinicians = CLINICIANS[1:2] if kind == "model" else CLINICIANS[:2]
            cast = {
                role: ModelSpec(
                    name=f"scripted/{role}", model=role, base_url=roles, endpoint_class="local"
                )
                for role in ROLES
            }
        jury = JurySpec(name=name, judges=(evaluator,), quorum=1, repairs=0)
        found = medhelm.evaluate(
            list(clinicians),
            "medsp1000",
            jury=jury,
            results_dir=folder / name,
            progress=False,
            cast=cast,
            **data,
        )
        scores = {row["model"]: row for row in found.typed("benchmarks").rows if row["is_main"]}
        yield {
            "evaluator": f"{kind}/{name}",
            "cases": data.get("max_instances") or 6,
            "scores": [scores.get(model, {}).get("score") for model in CLINICIANS],
            "flags": scores[CLINICIANS[1]]["flags"] or "",
            "errors": [
                {name: row.get(name) for name in ERROR} for row in found.typed("controls").rows
            ],
        }


def render(rows: list[dict[str, Any]]) -> str:
    """Return the table: the scores of each clinician, and the evaluator's errors."""
    heads = (
        "evaluator",
        "cases",
        "silent",
        "asks everything",
        "does everything",
        "false +",
        "false -",
        "not valid",
        "flags",
    )
    return "\n".join(grid("lrrrrrrrl", heads, map(_cells, rows))) + "\n"


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    errors = {error["what"]: error for error in row["errors"]}
    shown = (_error(errors.get(what)) for what in ("false positive", "false negative"))
    void = sum(error["invalid"] for error in errors.values())
    due = sum(error["verdicts"] for error in errors.values()) + void
    scores = ("-" if score is None else f"{score:.3f}" for score in row["scores"])
    return f"`{row['evaluator']}`", row["cases"], *scores, *shown, f"{void} of {due}", row["flags"]


def _error(row: Mapping[str, Any] | None) -> str:
    if row is None or not row["verdicts"]:
        return "-"
    return f"{row['share']:.0%} [{row['share_low']:.0%}, {row['share_high']:.0%}]"


def main() -> int:
    """Ask the evaluators where a folder is named, write or check the table, and return the exit code."""
    given = parser(__doc__)
    given.add_argument("folder", nargs="?", type=Path, help="where the runs are kept")
    given.add_argument("--rubrics", type=Path, help="published rubrics; without: the bundled cases")
    given.add_argument("--cases", type=int, default=20)
    given.add_argument("--evaluator", action="append", default=[], metavar="NAME=URL")
    options = given.parse_args()
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.is_file() else []
    if options.folder is not None and not options.check:
        data: dict[str, Any] = {"data": "sample"}
        if options.rubrics:
            write_cases(options.rubrics, options.cases, options.folder / "data")
            data = {
                "data": "full",
                "data_dir": options.folder / "data",
                "max_instances": options.cases,
            }
        with served() as address:
            asked = dict(one.split("=", 1) for one in options.evaluator) or dict.fromkeys(
                EVALUATORS, address
            )
            found = list(measure(options.folder, asked, address, data))
        rows = {(row["evaluator"], row["cases"]): row for row in (*stored, *found)}
        stored = [*rows.values()]
        STORED.parent.mkdir(exist_ok=True)
        STORED.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")
    return put(PAGE, render(stored), part="evaluators", check=options.check)


if __name__ == "__main__":
    sys.exit(main())
