"""A command that asks a writer, then two raters at once, about briefs of its own: `python own_run.py FOLDER URL N`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from medhelm import (
    Benchmark,
    FinalAnswer,
    Forecast,
    Instance,
    Message,
    ModelSpec,
    Protocol,
    Send,
    Terms,
)
from medhelm.errors import MedhelmError
from medhelm.plugin import model_calls, options
from medhelm.protocols.protocol import together
from medhelm.runs.own_runs import own_run, stored_episodes
from medhelm.runs.run import Run

ROLES = ("writer", "first", "second")


async def conduct(
    benchmark: Benchmark, instance: Instance, terms: Terms, send: Send
) -> FinalAnswer:
    """Let the writer write, and both raters rate it."""

    async def said(role: str, text: str) -> str:
        response = await send(
            role, terms.request(instance, role, (Message("user", text),)), step=role
        )
        return response.text if response.finish == "stop" else ""

    draft = await said("writer", f"Write {instance.context}")
    rated = await together(said(role, f"Rate {instance.context} by {role}") for role in ROLES[1:])
    if not all((draft, *rated)):
        return FinalAnswer(finish="error", error="no reply")
    return FinalAnswer(text=draft, ending="made", state={"rated": rated})


PROTOCOL = Protocol(
    name="own",
    roles=ROLES,
    budgets=dict.fromkeys(ROLES[1:], 50),
    conduct=conduct,
    forecast=lambda benchmark, instance, terms: [
        Forecast(role=role, calls=1, calls_limit=1, input_tokens=5, input_tokens_limit=5)
        for role in ROLES
    ],
)


def briefs_run(folder: Path, url: str, count: int, **choices: object) -> Run:
    """Return the run of so many briefs."""
    chosen = {"data_class": "public", "environ": os.environ} | choices
    players = {
        r: ModelSpec(name=f"test/{r}", model=r, base_url=url, max_concurrency=4) for r in ROLES
    }
    instances = [Instance(id=f"b{n}", context=f"brief {n}") for n in range(count)]
    return own_run("briefs", instances, PROTOCOL, players, folder, **chosen)  # type: ignore[arg-type]


def main() -> int:
    """Return 0, or the code of what stopped it; whatever was made is in `made.txt`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("url")
    parser.add_argument("count", type=int)
    options.add_options(parser, "--estimate", "--budget-usd", "--budget-tokens")
    args = parser.parse_args()
    run = briefs_run(args.folder, args.url, args.count)
    if args.estimate:
        return model_calls.show_estimate([run], "text")
    asked = model_calls.ask([run], args)
    made = sorted(e.instance_id for e in stored_episodes(run.path) if e.ending == "made")
    (args.folder / "made.txt").write_text("\n".join(made))
    try:
        asked.raise_worst("python own_run.py ...")
    except MedhelmError as e:
        print(e, file=sys.stderr)
        return e.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
