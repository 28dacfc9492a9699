"""Tabulate quality control of cases: summary, checks, rates, flags, leaks, measures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from pathlib import Path
from statistics import median
from typing import Any, get_args

import msgspec

from medhelm import DataError, Table
from medhelm.plugin import column_kinds as kinds
from medhelm.plugin import durable, readers
from medhelm_benchmarks.noharm.generation.stages import Trap
from medhelm_benchmarks.noharm.rules import quality as rules
from medhelm_benchmarks.noharm.rules.cases import Case
from medhelm_benchmarks.noharm.rules.judging import Judged
from medhelm_benchmarks.noharm.rules.score import CLASSES, class_of
from medhelm_benchmarks.noharm.rules.wording import EMBEDDING_THRESHOLD

TRAPS: tuple[str, ...] = get_args(Trap)
ORIGINS = ("blind", "first_line", "conditional", *TRAPS)


class _Line(msgspec.Struct, frozen=True):
    code: str
    tags: dict[str, str]
    not_covered: dict[str, int] = {}


_WORDS = {"blind": "blind generation", "first_line": "first-line recommendation"}
_PAPER = {"blind": 0.491, "first_line": 0.182, "conditional": 0.094, "traps": 0.209}


def origins(path: Path, cases: Sequence[Case]) -> Table:
    """Return a row for each origin that a file of provenance names, the traps also together; raises DataError."""
    try:
        with durable.os_errors_as(DataError, f"cannot read {path}"):
            lines = [msgspec.convert(row, _Line) for _, row in readers.read_jsonl(path)]
    except msgspec.ValidationError as e:
        raise DataError(f"{path.name}: not a file of provenance ({e})") from None
    by_code, nothing = {line.code: line for line in lines}, _Line(code="", tags={})
    there = [(by_code.get(case.code, nothing), a) for case in cases for a in case.actions]
    found = Counter(line.tags.get(action.id) for line, action in there)
    silent = sum(line.not_covered.get(a.id, 0) >= len(a.ratings) for line, a in there)
    actions = len(there)

    def row(origin: str, n: int, paper: float | None) -> dict[str, object]:
        share = n / actions if actions else None
        return {"origin": origin, "count": n, "actions": actions, "share": share, "paper": paper}

    rows = [row(_WORDS.get(o, o), found.get(o, 0), _PAPER.get(o)) for o in ORIGINS[:3]]
    rows.append(row("traps", sum(found.get(o, 0) for o in TRAPS), _PAPER["traps"]))
    rows += [row(f"trap: {o}", found.get(o, 0), None) for o in TRAPS]
    known = {*ORIGINS}
    if other := sum(n for origin, n in found.items() if origin not in known):
        rows.append(row("not stated", other, None))
    share = f"{silent:,} of {actions:,} actions ({silent / max(actions, 1):.0%})"
    notes = [
        "Where an action comes from stands beside the cases, in provenance.jsonl; no model is shown it.",
        f"All raters find the guideline silent on {share}: expect about that share of the strong "
        "actions without a reference, and so nearly every case to fail `references` where it is not 0.",
    ]
    return kinds.form(__file__, "origins").table(rows, notes)


ALL_CASES = "all cases"
"""In place of a code, where a flag is of the set."""

_NAMED = ("medication", "diagnostic", "procedure", "monitoring", "referral")
_OTHER = "other categories"
_MOST_OTHERS = 3
"""Cases that a flag names: of a hundred equal ones each repeats all others."""


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a file of flags: audit metadata beside the cases."""

    schema: str = "medhelm.noharm-flag/1"
    case: str
    check: str
    """A check that the case fails, `leak`, or `words` of all cases."""
    found: str
    actions: tuple[tuple[str, ...], ...] = ()


def flags(quality: rules.Quality) -> Iterator[Flag]:
    """Yield a flag for each check that a case fails and for each leak. The set's flag comes last."""
    for case in quality.cases:
        for check in case.checks:
            if not check.passed:
                said = [_measured(m) for m in check.measures if not m.passed]
                found = ". ".join([*said, *check.others[:_MOST_OTHERS]])
                yield Flag(case=case.code, check=check.name, found=found, actions=check.actions)
        for action, leak in case.leaks:
            found = f"{leak.kind}: {leak.phrase}"
            yield Flag(case=case.code, check="leak", found=found, actions=((action,),))
    if quality.words.passed is False:
        yield Flag(case=ALL_CASES, check="words", found=_auc(quality.words))


NOT_JUDGED = (
    "No judge was asked (--judge): of wordings that give a class away those with one meaning alone "
    "were looked for (41 of 198 that were written to do so have one), of near-duplicates those with the same words."
)


def quality_tables(
    quality: rules.Quality, embeddings: str | None = None, judged: Judged | None = None
) -> dict[str, Table]:
    """Return the tables by name; `embeddings` names the model that also looked for duplicates."""
    settings = {"embeddings": embeddings, "judge": None if judged is None else judged.judge}
    flagged = [f for f in flags(quality) if f.check != "leak"]
    n = len({flag.case for flag in flagged} - {ALL_CASES})
    leaks = [
        (case.code, i, leak.kind, leak.phrase) for case in quality.cases for i, leak in case.leaks
    ]

    def table(
        name: str, rows: Iterable[Sequence[Any]], notes: Sequence[str] = (), title: str = ""
    ) -> Table:
        form = kinds.form(__file__, name)
        lines = (dict(zip((c.name for c in form.columns), row, strict=True)) for row in rows)
        return form.table(lines, notes, settings, title=title and f"{form.title}{title}")

    rate_notes = (
        f"Intervals hold {rules.CONFIDENCE:.0%}. Those of shares take actions as independent; where "
        "none was seen, the exact one-sided bound. That of the AUC draws whole cases.",
        "Krippendorff's alpha over three raters: 1 is agreement in all, 0 what chance gives.",
        f"Nearly identical: {rules.READINGS['nearly identical']}. Discordant: "
        f"{rules.READINGS['substantial disagreement'].removesuffix(' (discordant)')}.",
    )
    flag_rows = ((f.case, f.check, f.found, _ids(f.actions)) for f in flagged)
    made = (
        table("summary", _summary(quality)),
        table("checks", _passed(quality), _check_notes(quality, embeddings, judged)),
        table("rates", _rates(quality), rate_notes, f" ({len(quality.actions):,} actions)"),
        table("flags", flag_rows, title=f": {n} of {len(quality.cases)} cases"),
        table("leaks", leaks, title=f": {len(leaks)}"),
        table("measures", _measures(quality)),
    )
    return {own.name: own for own in made}


def _summary(quality: rules.Quality) -> Iterator[tuple[str, str, float | None]]:
    """Yield the rows of the paper's table 1."""
    cases = quality.checked
    actions = quality.actions
    sizes = [len(case.actions) for case in cases]
    classes = Counter(map(class_of, actions))
    categories = Counter(a.category if a.category in _NAMED else _OTHER for a in actions)
    specialties = {case.specialty.strip().casefold() for case in cases}
    mean, middle = len(actions) / len(cases), float(median(sizes))
    yield "Cases", f"{len(cases):,}", len(cases)
    yield "Specialties", f"{len(specialties):,}", len(specialties)
    yield "Total actions", f"{len(actions):,}", len(actions)
    yield "Mean actions per case", f"{mean:.1f}", mean
    yield "Median actions per case", f"{middle:g}", middle
    yield "Range", f"{min(sizes)}\u2013{max(sizes)}", None
    counts: list[tuple[str, int]] = [(name, classes[name]) for name in CLASSES]
    counts += [(name, categories[name]) for name in (*_NAMED, _OTHER)]
    for name, count in counts:
        share = 100 * count / len(actions)
        yield f"{name.capitalize()} (%)", f"{share:.1f}", share
    groups = sum(len(case.alternatives) for case in cases)
    best = sum(len(case.best_alternatives) for case in cases)
    yield "Alternative groups", f"{groups:,}", groups
    yield "Best-alternative groups", f"{best:,}", best


def _passed(quality: rules.Quality) -> Iterator[tuple[str, str, int | None, int]]:
    passed = quality.words.passed
    of_set = f"all cases together: words alone have an AUC of at most {rules.MOST_AUC:g}"
    sets: list[tuple[str, str, Sequence[rules.CheckName], bool | None]] = [
        *((name, rules.REQUIRED[name], (name,), True) for name in rules.CHECKS),
        ("five", "the five of the paper's table", rules.FIVE, True),
        ("six", "those of a case by itself", rules.SIX, True),
        ("words", of_set, (), passed),
        ("all", "all of them", rules.CHECKS, passed),
    ]
    for name, required, checks, is_set_fit in sets:
        n = None if is_set_fit is None else is_set_fit * quality.passing(checks)
        yield name, required, n, len(quality.cases)


def _check_notes(
    quality: rules.Quality, embeddings: str | None, judged: Judged | None
) -> tuple[str, ...]:
    readings = dict(rules.READINGS)
    if embeddings is not None:
        readings["near-duplicate"] += (
            f"; or cosine of embeddings of {EMBEDDING_THRESHOLD} or more ({embeddings})"
        )
    said = NOT_JUDGED
    if judged is not None:
        n, cases = len(judged.menus), len(quality.cases)
        said = f"Judge {judged.judge} gave a verdict on {n} of {cases} menus; {judged.error()}."
    return (
        "The checks say that a case is well formed, not that its ratings are right. Flags stand "
        "beside a case: it is scored all the same.",
        f"Check `words`: {_auc(quality.words)}.",
        f"How the paper was read: {'; '.join(f'{k}: {v}' for k, v in readings.items())}.",
        said,
    )


def _rates(quality: rules.Quality) -> Iterator[tuple[Any, ...]]:
    yield from map(astuple, quality.rates())
    words = quality.words
    yield (
        "AUC of words alone",
        None,
        None,
        words.auc,
        words.low,
        words.high,
        words.method or words.reason,
    )


def _measures(quality: rules.Quality) -> Iterator[tuple[Any, ...]]:
    for case in quality.cases:
        for check in case.checks:
            for m in check.measures:
                yield (
                    *(case.code, case.specialty, check.name, m.name, m.count, m.of),
                    *(float(m.value), float(m.limit), "least" if m.is_least else "most"),
                    *(m.passed, _ids(check.actions)),
                )


def _auc(words: rules.Words) -> str:
    if words.auc is None:
        return words.reason
    ends = "" if words.low is None else f" [{words.low:.2f}, {words.high:.2f}]"
    side = "above" if words.auc > rules.MOST_AUC else "within"
    return (
        f"words alone have an AUC of {words.auc:.2f}{ends}, {side} the limit of {rules.MOST_AUC:g}"
    )


def _measured(m: rules.Measure) -> str:
    side, limit = "at least" if m.is_least else "at most", float(m.limit)
    if m.of is None:
        return f"{m.name}: {m.count}; {side} {limit:g}"
    return f"{m.name}: {m.count} of {m.of} ({float(m.value):.1%}); {side} {limit:.0%}"


def _ids(actions: tuple[tuple[str, ...], ...]) -> str:
    return ", ".join(" + ".join(ids) for ids in actions)
