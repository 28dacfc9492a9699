"""The records of a model's runs in words: of each benchmark, each run, and all together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import resources
from typing import Any, cast

from medhelm.files.yaml_bounds import read_yaml
from medhelm.schema.run import RunRecord
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.formats import cell_text
from medhelm.tables.format.table import Table, several
from medhelm_leaderboard import own_words, publish
from medhelm_leaderboard.evidence.gather import Evidence

Facts = Mapping[str, str]
"""By name; empty: the record does not know it."""

_COUNTS = ("instances", "rows left out", "served as")
"""Facts that count: they are of one benchmark, equal or not."""
_NOT, _ONE_CALL = "not reported", "one request an instance, in a session of its own"
_CHECKLIST = form(__file__, "checklists")


def asked_facts(record: RunRecord) -> Facts:
    """Return what was asked, of which data."""
    card, spec, has_text = record.column_card, record.spec, publish.has_text(record.card)
    rows = "; ".join(f"{n:,} {reason}" for reason, n in record.left_out.items())
    instruction = publish.instruction(card)
    protocol = f"protocol {spec.protocol} version {spec.protocol_version}, an episode an instance"
    data = f"{spec.data}, split {spec.split or 'whole'}, benchmark version {spec.benchmark_version}"
    return {
        "what it is": card.description,
        "category": " / ".join(filter(None, (card.category, card.subcategory))),
        "instruction": "not published" if instruction is None else instruction,
        "prompt": f"{spec.prompt_name} version {spec.prompt_version}, sha256 {spec.prompt_sha256}",
        "instances": f"{record.instances:,} instances, {spec.repeats} time{'s' * (spec.repeats > 1)} "
        "each" + "; stopped before its end" * (record.state == "partial"),
        "conduct": protocol if spec.protocol else _ONE_CALL,
        "played by": ", ".join(f"{role} {own.name}" for role, own in sorted(spec.cast.items())),
        "rows left out": rows if has_text else rows and "not published",
        "data": f"{data}, sha256 {spec.dataset_sha256}",
        "source": card.source if card.data_class == "public" else "not published",
        "licence": card.licence,
        "class of data": card.data_class + "; no text is shown" * (not has_text),
        "gold": card.curation,
        "public since": card.public_since,
        "clusters": card.cluster,
        "citation": card.citation,
    }


def scoring_facts(record: RunRecord) -> Facts:
    """Return how a benchmark was scored and who judged."""
    grading, found = record.grading, dict[str, str]()
    for metric in grading.metrics:
        if metric.name.endswith("]"):  # of one judge alone: in the table
            continue
        floor = "" if metric.floor is None else f", unread answers count {metric.floor:g}"
        better = "more" if metric.higher_is_better else "less"
        found[f"{metric.name}{' (main)' * (metric == grading.metrics[0])}"] = (
            f"version {metric.version}, {metric.scoring}; {metric.minimum:g} to {metric.maximum:g}, "
            f"{better} is better{floor}; {metric.aggregation.replace('_', ' ')}"
        )
    if (raters := grading.raters) is not None:
        judges = ", ".join(judge.name for judge in raters.judges)
        found["judges"] = f"{raters.name}: {judges or 'no model: a rule that stands in for judges'}"
    for party in record.graders:
        names = ", ".join(sorted({*map(publish.plain_name, party.served_models)})) or "?"
        ends = ", ".join(f"{n:,} {end}" for end, n in sorted(party.ends.items()))
        model = publish.plain_name(party.model.model or party.model.name)
        said = f"{model}, served as {names}; judgements: {ends}"
        found[f"{party.role} {party.model.name}"] = said
    if (jury := grading.jury) is not None:
        is_open, own = record.card.data_class == "public", jury.rubric
        criteria = (f"{c.name}: {c.text}" if is_open else c.name for c in own.criteria)
        scale = f"{own.minimum} to {own.maximum}"
        found["rubric"] = f"{own.name} version {own.version}, {scale}. {' '.join(criteria)}"
    for terms in grading.graders:
        metrics = ", ".join(map(publish.metric_name, terms.metrics))
        found[f"grader {terms.grader}"] = f"version {terms.version}, for {metrics}"
    return found


def run_facts(record: RunRecord) -> Facts:
    """Return the settings, versions and hashes of a run, and the command that makes it again."""
    made = dict(publish.provenance(record))
    usage = (f"{name.replace('_', ' ')} {n:,}" for name, n in publish.usage(record.own.usage) if n)
    return {
        **{name: str(value) for name, value in publish.settings(record)},
        "examples shown": str(len(record.spec.examples) or ""),
        "training data end": record.spec.model.training_cutoff,
        "served as": ", ".join(f"{name} ({n:,})" for name, n in publish.served(record)),
        "usage": ", ".join(usage),
        "software": f"medhelm {made.get('version.medhelm', '')} {made.get('git_commit', '')}".strip(),
        **made,
        "request hash": record.request_hash,
        "grading hash": record.grading_hash,
        "command": own_words.run_command(record) or "it takes files or words of the user's own",
    }


def known_facts(evidence: Evidence) -> Facts:
    """Return what is known of all runs together; of what is not that of all, the benchmarks are named."""
    records, tables, found = evidence.records, evidence.tables, defaultdict[str, str](str)
    every: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for record in records:
        own = {**scoring_facts(record), **run_facts(record), **asked_facts(record)}
        for name, said in own.items():
            every[name][said].append(record.spec.column)
    for name, values in every.items():
        is_one = len(values) == 1 and len([*values.values()][0]) == len(records)
        is_one = is_one and (name not in _COUNTS or len(records) == 1)
        shown = [v if is_one else f"{v} ({several(of)})" for v, of in values.items() if v]
        found[name] = several(shown, sep="; ")
    found |= {
        name: _column(tables.get(own), *names) for name, (own, *names) in _read()["columns"].items()
    }
    answered = sorted(t for n in ("answered_from", "answered_until") for t in every[n] if t)
    gate = tables.get("gate")
    s, of = tables["benchmarks"].settings, gate.settings if gate else {}
    intervals = ("confidence", "draws", "bootstrap_seed")
    return found | {
        "kind of study": "evaluation of a model as it is served; nothing was trained or tuned",
        "model": evidence.model,
        "first and last answer": f"{answered[0]} to {answered[-1]}" if answered else "",
        "benchmarks": several([record.column_card.title for record in records], sep="; "),
        "metrics": several([*{r.grading.metrics[0].name: "" for r in records}]),
        "intervals": ", ".join(f"{n.replace('_', ' ')} {s[n]}" for n in intervals),
        "thresholds": f"profile {of['profile']}, sha256 {of['profile_sha256']}" if gate else "",
        "gate": gate.title if gate else "",
    }


def _read() -> Mapping[str, Any]:
    path = resources.files("medhelm_leaderboard.evidence") / "checklists.yaml"
    return cast(Mapping[str, Any], read_yaml(path.read_bytes(), path.name))


def _column(table: Table | None, column: str, *names: str) -> str:
    """Return a column of a table as text, each value behind the names of its row."""
    shown = {c.name: c for c in table.columns} if table else {}
    found = [
        " ".join([*(str(row[name]) for name in names), cell_text(shown[column], row)])
        for row in (table.rows if table and column in shown else ())
        if row[column] not in (None, "")
    ]
    return several(found, 12, "; ")


def checklists(facts: Facts, sections: Mapping[str, str]) -> Iterator[Table]:
    """Yield TRIPOD-LLM and CHART, filled where the record knows; `sections`: titles of those with content."""
    for own in _read()["lists"]:
        rows = []
        for item, (about, *more) in own["items"].items():
            names = more[0] if more else ()
            record = ". ".join(f"{name}: {facts[name] or _NOT}" for name in names)
            record = record if any(facts[name] for name in names) else _NOT
            section = sections.get(more[1]) if len(more) > 1 else None
            rows.append({"item": item, "about": about, "record": record, "section": section})
        said = [f"{own['source']}. Items are in our words: submit the guideline's own form."]
        title = f"Checklist {own['title']}"
        yield replace(_CHECKLIST, name=own["name"]).table(rows, said, title=title)
