"""What the records of a model's runs say, in words: of each benchmark, each run, and all together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from medhelm.schema.run import RunRecord
from medhelm.tables.format.formats import cell_text
from medhelm.tables.format.table import Table, several
from medhelm_leaderboard import own_words, publish
from medhelm_leaderboard.evidence.gather import Evidence

Facts = Mapping[str, str]
"""By name; empty: the record does not know it."""

_OF_MODEL = (
    *("provider", "model at the endpoint", "weights", "endpoint class", "reasoning effort"),
    *("temperature", "top p", "stop sequences", "seed", "repeats", "output budget, tokens"),
    *("system prompt", "extra fields of the request", "asked", "context window, tokens", "scoring"),
)
"""Settings that a report names once where they are the same in all runs."""


def asked_facts(record: RunRecord) -> Facts:
    """Return what was asked, of which data."""
    card, spec = record.column_card, record.spec
    is_public = card.data_class == "public"
    rows = "; ".join(f"{n:,} {reason}" for reason, n in record.left_out.items())
    instruction = publish.instruction(card)
    return {
        "what it is": card.description,
        "category": " / ".join(filter(None, (card.category, card.subcategory))),
        "instruction": "not published" if instruction is None else instruction,
        "prompt": f"{spec.prompt_name} version {spec.prompt_version}, sha256 {spec.prompt_sha256}",
        "asked": f"{record.instances:,} instances, {spec.repeats} time{'s' * (spec.repeats > 1)} each"
        + ("; the run was stopped before its end" if record.state == "partial" else ""),
        "conduct": _conduct(record),
        "rows left out": rows if publish.has_text(card) else "not published" if rows else "",
        "data": f"{spec.data}, split {spec.split or 'whole'}, benchmark version "
        f"{spec.benchmark_version}, sha256 {spec.dataset_sha256}",
        "source": card.source if is_public else "not published",
        "licence": card.licence,
        "class of data": card.data_class + ("" if publish.has_text(card) else "; no text is shown"),
        "gold": card.curation,
        "public since": card.public_since,
        "independent units": card.cluster and f"clusters: {card.cluster}",
        "citation": card.citation,
    }


def _conduct(record: RunRecord) -> str:
    spec = record.spec
    if not spec.protocol:
        return "one request an instance, in a session of its own"
    cast = ", ".join(f"{role} {model.name}" for role, model in sorted(spec.cast.items()))
    played = f"; played by {cast}" if cast else ""
    return (
        f"protocol {spec.protocol} version {spec.protocol_version}, an episode an instance{played}"
    )


def scoring_facts(record: RunRecord) -> Facts:
    """Return how a benchmark was scored and who judged."""
    card, grading = record.column_card, record.grading
    is_open, found = card.data_class == "public", {}
    for place, metric in enumerate(grading.metrics):
        if metric.name.endswith("]"):  # of one judge alone: in the table
            continue
        floor = "" if metric.floor is None else f", unread answers count {metric.floor:g}"
        better = "more" if metric.higher_is_better else "less"
        found[f"{metric.name}{' (main)' * (place == 0)}"] = (
            f"version {metric.version}, {metric.scoring}; {metric.minimum:g} to {metric.maximum:g}, "
            f"{better} is better{floor}; {metric.aggregation.replace('_', ' ')}"
        )
    if (raters := grading.raters) is not None:
        judges = ", ".join(judge.name for judge in raters.judges)
        found["judges"] = f"{raters.name}: {judges or 'no model: a rule that stands in for judges'}"
    for party in record.graders:
        names = ", ".join(sorted({publish.plain_name(name) for name in party.served_models}))
        ends = ", ".join(f"{n:,} {end}" for end, n in sorted(party.ends.items()))
        said = (
            f"{publish.plain_name(party.model.model or party.model.name)}, served as {names or '?'}"
        )
        found[f"{party.role} {party.model.name}"] = f"{said}; judgements: {ends}"
    if (jury := grading.jury) is not None:
        said = [f"{c.name}: {c.text}" if is_open else c.name for c in jury.rubric.criteria]
        scale = f"{jury.rubric.minimum} to {jury.rubric.maximum}"
        name = f"{jury.rubric.name} version {jury.rubric.version}"
        found["rubric"] = f"{name}, {scale}. {' '.join(said)}"
    for terms in grading.graders:
        found[f"grader {terms.grader}"] = f"version {terms.version}, for {', '.join(terms.metrics)}"
    return found


def run_facts(record: RunRecord) -> Facts:
    """Return the settings, versions and hashes of a run, and the command that makes it again."""
    served = [f"{name} ({n:,})" for name, n in publish.served(record)]
    usage = [f"{name.replace('_', ' ')} {n:,}" for name, n in publish.usage(record.own.usage) if n]
    return {
        **{name: str(value) for name, value in publish.settings(record)},
        "training data end": record.spec.model.training_cutoff,
        "served as": ", ".join(served),
        "usage": ", ".join(usage),
        **dict(publish.provenance(record)),
        "request hash": record.request_hash,
        "grading hash": record.grading_hash,
        "command": own_words.run_command(record) or "it takes files or words of the user's own",
    }


def known_facts(evidence: Evidence) -> Facts:
    """Return what is known of all runs together, by the names that checklists use."""
    records = evidence.records
    runs = [run_facts(record) for record in records]
    asked = [asked_facts(record) for record in records]

    def each(facts: Iterable[Facts], name: str) -> str:
        return _distinct(own.get(name, "") for own in facts)

    def of_records(say: Callable[[RunRecord], str]) -> str:
        return _distinct(map(say, records))

    dates = [{n: own.get(n, "") for n in ("answered_from", "answered_until")} for own in runs]
    first = min((d["answered_from"] for d in dates if d["answered_from"]), default="")
    last = max((d["answered_until"] for d in dates if d["answered_until"]), default="")
    s, profile = evidence.asked.settings, evidence.asked.profile
    return {
        "kind of study": "evaluation of a model as it is served; nothing was trained or tuned",
        "model": evidence.model,
        **{name: each(runs, name) for name in _OF_MODEL},
        **{name: each(runs, name) for name in ("served as", "training data end", "machine")},
        "first and last answer": first and f"{first} to {last}",
        "software": each(runs, "version.medhelm") and f"medhelm {each(runs, 'version.medhelm')}",
        "benchmarks": of_records(lambda r: r.column_card.title),
        **{name: each(asked, name) for name in ("source", "licence", "class of data", "gold")},
        **{name: each(asked, name) for name in ("public since", "rows left out", "conduct")},
        "prompts": of_records(lambda r: f"{r.spec.prompt_name} sha256 {r.spec.prompt_sha256[:12]}"),
        "examples shown": of_records(lambda r: str(len(r.spec.examples) or "")),
        "instances": "; ".join(f"{r.spec.column} {r.instances:,}" for r in records),
        "metrics": of_records(lambda r: r.grading.metrics[0].name),
        "judges": of_records(lambda r: scoring_facts(r).get("judges", "")),
        "rubrics": of_records(lambda r: r.grading.jury.rubric.name if r.grading.jury else ""),
        "errors of the judges on controls": _count(evidence.table("controls"), "verdicts counted"),
        "agreement with experts": _column(evidence.table("fidelity"), "judge", "mf1"),
        "scores": _column(evidence.table("benchmarks"), "benchmark", "score", is_main=True),
        "coverage": _column(evidence.table("benchmarks"), "benchmark", "coverage", is_main=True),
        "other outcomes": _column(evidence.table("outcomes"), "benchmark", "not_scored"),
        "intervals": f"{s.confidence:.0%}, {s.draws:,} bootstrap draws, seed {s.bootstrap_seed}",
        "subgroups": _count(evidence.table("gaps"), "parts compared"),
        "thresholds": f"profile {profile.name}, sha256 {profile.sha256[:12]}" if profile else "",
        "verdict": str(evidence.verdict.settings["verdict"]) if evidence.verdict else "",
        "requests": _column(evidence.table("cost"), "", "requests"),
        "input tokens": _column(evidence.table("cost"), "", "input_tokens"),
        "output tokens": _column(evidence.table("cost"), "", "output_tokens"),
        "cost": _column(evidence.table("cost"), "", "total_cost_usd", " USD"),
    }


def _distinct(values: Iterable[str]) -> str:
    return several(list(dict.fromkeys(filter(None, values))), sep="; ")


def _count(table: Table | None, of: str) -> str:
    return f"{len(table.rows):,} {of}" if table else ""


def _column(
    table: Table | None, name: str, column: str, unit: str = "", *, is_main: bool = False
) -> str:
    """Return a column of a table as text, each value behind the name of its row."""
    shown = {c.name: c for c in table.columns} if table else {}
    if table is None or column not in shown:
        return ""
    rows = [
        row
        for row in table.rows
        if row[column] not in (None, "") and (not is_main or row["is_main"])
    ]
    named = [f"{row[name]} " if name else "" for row in rows]
    values = [cell_text(shown[column], row) for row in rows]
    return several([f"{n}{v}{unit}" for n, v in zip(named, values, strict=True)], 12, "; ")
