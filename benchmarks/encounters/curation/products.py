"""The files of a curation, made from its stored episodes: cases in the layout of MedSP1000, and flags.

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

from collections.abc import Mapping
from pathlib import Path

import msgspec

from medhelm.plugin import durable, own_runs
from medhelm_benchmarks.encounters.curation.drafts import Draft, copy_of, diff_of
from medhelm_benchmarks.encounters.curation.protocol import CuratedArticle
from medhelm_benchmarks.encounters.curation.sources import Article, changed_since
from medhelm_benchmarks.encounters.data.layout import FOLDERS, META_FILE, PACKET_ROLES, SOURCE
from medhelm_benchmarks.encounters.data.medsp1000 import CASES, RUBRICS, Flag


def write_products(
    folder: Path, articles: Mapping[str, tuple[Path, Article]]
) -> list[CuratedArticle]:
    """Write the files of all articles that have ended, and return how they did, in the order of their names.

    Documents and copies are those of `articles`, each with the folder that it was read from; a file that
    has changed there since is flagged. Files of other articles stay as they are.
    """
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
    heads = (
        {"case": e.case, "status": e.status, "reasons": e.reasons, "scenarios": e.scenarios}
        for e in ends
    )
    durable.write_lines(folder / "ends.jsonl", heads)
    return ends


def _write_article(folder: Path, article: Article, end: CuratedArticle) -> None:
    """Write the documents, the triage and the scenarios of an article."""
    for document in article.documents:
        text = "\n".join(document.lines) + "\n"
        durable.write_whole(folder / SOURCE / document.copy_name, text.encode())
    if end.triage is not None:
        durable.write_whole(
            folder / "phase1.json", msgspec.json.format(msgspec.json.encode(end.triage))
        )
    drafts = [*end.drafts()]
    for draft in drafts:
        _write_scenario(folder / draft.meta.scenario_id, article, draft)
    if drafts:
        metas = msgspec.json.encode({"scenarios": [draft.meta for draft in drafts]})
        durable.write_whole(folder / META_FILE, msgspec.json.format(metas))


def _write_scenario(folder: Path, article: Article, draft: Draft) -> None:
    diffs: list[str] = []
    rewrites: list[object] = []
    for role in PACKET_ROLES:
        packet = draft.packets[role]
        for document in article.documents:
            diffs.append(diff_of(document, packet, role))
            if text := copy_of(document, packet):
                durable.write_whole(
                    folder / FOLDERS[role] / document.copy_name, f"{text}\n".encode()
                )
        for place, text in sorted(packet.rewrites.items()):
            where = {"role": role, "document": place[0], "line": place[1]}
            rewrites.append({**where, "before": article.line(place), "after": text})
    durable.write_whole(folder / "changes.diff", "".join(diffs).encode())
    durable.write_lines(folder / "rewrites.jsonl", rewrites)
