"""`medhelm curate DIR`: cases of encounters from teaching packets, in the layout of MedSP1000, and flags.

spec.json, responses.jsonl      the run: models and seed, every request and reply
cases/<case>/phase1_scenarios_meta.json
cases/<case>/phase1.json        triage: documents, criteria with their lines
cases/<case>/source/            the documents as Markdown
cases/<case>/<scenario>/<role>/ copies
cases/<case>/<scenario>/changes.diff, rewrites.jsonl
rubrics.jsonl                   the frozen rubrics
flags.jsonl                     what the checks found; ends.jsonl: how each article ended
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from medhelm import DataError, ModelSpec, UsageError
from medhelm.plugin import durable, model_calls, options, questions
from medhelm_benchmarks.encounters.curation.drafts import Draft, copy_of, diff_of
from medhelm_benchmarks.encounters.curation.protocol import (
    CURATOR,
    JUDGE,
    PHASES,
    CuratedArticle,
    curation,
    instance_of,
)
from medhelm_benchmarks.encounters.curation.sources import (
    Article,
    changed_since,
    find_articles,
    read_article,
)
from medhelm_benchmarks.encounters.data.layout import FOLDERS, META_FILE, PACKET_ROLES, SOURCE
from medhelm_benchmarks.encounters.data.medsp1000 import CASES, RUBRICS, Flag


def run(args: argparse.Namespace) -> int:
    """Return 0; 1 where an article cannot be read or no case was made; else the code of what stopped it."""
    from medhelm.plugin import own_runs

    players = _players(args)
    source = Path(args.dir)
    out = Path(args.out) if args.out else source.with_name(f"{source.resolve().name}-cases")
    if out.resolve().is_relative_to(source.resolve()):
        raise UsageError(f"--out {out} is within {source}, which is only read; name another folder")
    folders = find_articles(source)
    articles = _read(folders)
    by_name = {article.case: article for _, article in articles.values()}
    work = own_runs.own_run(
        "packets",
        [instance_of(article) for article in by_name.values()],
        curation(by_name, players),
        players,
        out,
        data_class=args.source_class,
        environ=model_calls.environ_of(args),
        max_output_tokens=max(phase.budget for phase in PHASES.values()),
        reasoning_output_tokens=questions.REASONING_BUDGET,
        seed=args.seed,
    )
    if args.estimate:
        return model_calls.show_estimate([work], args)
    asked = model_calls.ask([work], args)
    ends = write_products(out, articles)
    spent = asked.ledger.spent_tokens
    if args.format == "json":
        _print_json(out, ends, spent)
    else:
        _print(out, ends, spent, left=len(by_name.keys() - {e.case for e in ends}))
    asked.raise_worst()
    return int(len(articles) < len(folders) or not any(e.status == "made" for e in ends))


def _players(args: argparse.Namespace) -> dict[str, ModelSpec]:
    if not args.model:
        raise UsageError(
            "curate: --model is missing, as in `medhelm curate packets --model openai/gpt-4o`"
        )
    names = (args.model, args.judge or args.model)
    return dict(zip((CURATOR, JUDGE), options.find_models(names, args.plugin), strict=True))


def _read(folders: Sequence[Path]) -> dict[str, tuple[Path, Article]]:
    """Return the articles by name, each with its folder; one that cannot be read is named and left out."""
    found: dict[str, tuple[Path, Article]] = {}
    for folder in folders:
        try:
            article = read_article(folder)
        except DataError as e:
            print(f"medhelm: {folder.resolve().name}: left out: {e}", file=sys.stderr)
        else:
            found[article.case] = (folder, article)
            if article.left_out:
                names = ", ".join(article.left_out)
                print(f"medhelm: {article.case}: not read, no text: {names}", file=sys.stderr)
    if not found:
        raise DataError("no article can be read")
    return found


def _print(out: Path, ends: Sequence[CuratedArticle], tokens: int, *, left: int) -> None:
    for end in ends:
        if end.status != "made":
            print(f"{end.case}: {end.status} ({'; '.join(end.reasons)[:200]})")
    statuses = Counter(end.status for end in ends) + Counter({"not finished": left})
    print(", ".join(f"{n} {status}" for status, n in statuses.items()))
    scenarios = Counter(s.partition(":")[0] for e in ends for s in e.scenarios.values())
    print("scenarios: " + (", ".join(f"{n} {s}" for s, n in scenarios.items()) or "none"))
    for kind, n in sorted(Counter(flag.kind for e in ends for flag in e.flags).items()):
        print(f"flag {kind}: {n}")
    print(f"tokens of this command: {tokens:,}")
    if scenarios["made"]:
        print(f"cases: {out / CASES}")
        print("No clinician has validated them. Look at flags.jsonl and the changes.diff of each.")
        print(f"Next: medhelm qc encounters {out}")


def _print_json(out: Path, ends: Sequence[CuratedArticle], tokens: int) -> None:
    articles = [
        end.head
        | {
            "items": sum(len(v) for r in end.rubrics for v in r.values() if isinstance(v, list)),
            "flags": dict(Counter(flag.kind for flag in end.flags)),
        }
        for end in ends
    ]
    found = {"cases": str(out / CASES), "articles": articles, "tokens_of_this_command": tokens}
    options.print_json("curate", found)


def write_products(
    folder: Path, articles: Mapping[str, tuple[Path, Article]]
) -> list[CuratedArticle]:
    """Write the files of all articles that have ended, and return how they did, in the order of their names.

    A file that has changed since it was read is flagged. Files of other articles stay as they are.
    """
    from medhelm.plugin import own_runs

    states = (e.state for e in own_runs.stored_episodes(folder) if e.finish == "stop")
    ends = sorted((msgspec.convert(s, CuratedArticle) for s in states), key=lambda end: end.case)
    for n, end in enumerate(ends):
        if end.case not in articles:
            continue
        source, article = articles[end.case]
        _write_article(folder / CASES / end.case, article, end)
        changed = (
            Flag(scenario=end.case, kind="source_changed", where=name)
            for name in changed_since(source, article.documents)
        )
        ends[n] = msgspec.structs.replace(end, flags=(*end.flags, *changed))
    durable.write_lines(folder / RUBRICS, (rubric for end in ends for rubric in end.rubrics))
    durable.write_lines(folder / "flags.jsonl", (flag for end in ends for flag in end.flags))
    durable.write_lines(folder / "ends.jsonl", (end.head for end in ends))
    return ends


def _write_article(folder: Path, article: Article, end: CuratedArticle) -> None:
    """Write the documents, the triage and the scenarios of an article."""
    for document in article.documents:
        _write(folder / SOURCE / document.copy_name, "\n".join(document.lines))
    if end.triage is not None:
        triage = msgspec.json.format(msgspec.json.encode(end.triage))
        durable.write_whole(folder / "phase1.json", triage)
    if drafts := [*end.drafts()]:
        metas = msgspec.json.encode({"scenarios": [draft.meta for draft in drafts]})
        durable.write_whole(folder / META_FILE, msgspec.json.format(metas))
    for draft in drafts:
        _write_scenario(folder / draft.meta.scenario_id, article, draft)


def _write(path: Path, text: str) -> None:
    durable.write_whole(path, f"{text}\n".encode())


def _write_scenario(folder: Path, article: Article, draft: Draft) -> None:
    diffs: list[str] = []
    rewrites: list[object] = []
    for role in PACKET_ROLES:
        packet = draft.packets[role]
        for document in article.documents:
            diffs.append(diff_of(document, packet, role))
            if text := copy_of(document, packet):
                _write(folder / FOLDERS[role] / document.copy_name, text)
        for place, text in sorted(packet.rewrites.items()):
            where = {"role": role, "document": place[0], "line": place[1]}
            rewrites.append({**where, "before": article.line(place), "after": text})
    durable.write_whole(folder / "changes.diff", "".join(diffs).encode())
    durable.write_lines(folder / "rewrites.jsonl", rewrites)
