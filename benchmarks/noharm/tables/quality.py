"""Tabulate quality control of cases: summary, checks, rates, flags, leaks, measures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import msgspec

from medhelm import Column, Table, make_table
from medhelm.plugin import column_kinds as kinds
from medhelm_benchmarks.noharm.rules.derive import action_class, consensus
from medhelm_benchmarks.noharm.rules.judging import Judged
from medhelm_benchmarks.noharm.rules.quality import (
    CHECKS,
    CLASSES,
    CONFIDENCE,
    FIVE,
    LEAST_SHARES,
    LEAST_STRONG,
    MOST_DISCORDANT,
    MOST_IMPLAUSIBLE,
    READINGS,
    SIX,
    Check,
    CheckName,
    Measure,
    Quality,
    Share,
)
from medhelm_benchmarks.noharm.rules.similar import EMBEDDING_THRESHOLD
from medhelm_benchmarks.noharm.rules.words import MOST_AUC, Words

REQUIRED: dict[CheckName, str] = {
    "mix": "at least "
    + ", ".join(f"{float(share):.0%} {name}" for name, share in LEAST_SHARES.items()),
    "strong": "at least "
    + ", ".join(f"{least} strongly {name}" for name, least in LEAST_STRONG.items()),
    "implausible": f"at most {float(MOST_IMPLAUSIBLE):.0%} of the actions implausible",
    "agreement": f"at most {float(MOST_DISCORDANT):.0%} of the actions with substantial "
    "disagreement",
    "references": "a reference for every strong action",
    "duplicates": "no near-duplicate actions outside one group",
    "copies": "no other case with the same vignette or menu",
}
"""Check -> what it asks for, in words."""

ALL_CASES = "all cases"
"""In place of a code, where a flag is of the set."""

_NAMED = ("medication", "diagnostic", "procedure", "monitoring", "referral")
"""Categories that the paper's table 1 names."""
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
    actions: tuple[tuple[str, ...], ...]


def flags(quality: Quality) -> Iterator[Flag]:
    """Yield a flag for each check that a case fails and for each leak. The set's flag comes last."""
    for case in quality.cases:
        for check in case.checks:
            if not check.passed:
                yield Flag(
                    case=case.code, check=check.name, found=_found(check), actions=check.actions
                )
        for leak in case.leaks:
            yield Flag(
                case=case.code,
                check="leak",
                found=f"{leak.kind}: {leak.phrase}",
                actions=((leak.action,),),
            )
    if quality.words.passed is False:
        yield Flag(case=ALL_CASES, check="words", found=_auc(quality.words), actions=())


NOT_JUDGED = (
    "No judge was asked (--judge): of wordings that give a class away those with one meaning alone "
    "were looked for, of near-duplicates those with the same words."
)


def quality_tables(
    quality: Quality, embeddings: str | None = None, judged: Judged | None = None
) -> dict[str, Table]:
    """Return the tables by name; `embeddings` names the model that also looked for duplicates."""
    settings: dict[str, Any] = {
        "embeddings": embeddings,
        "judge": None if judged is None else judged.judge,
    }
    made: dict[str, Callable[[Quality, Mapping[str, Any]], Table]] = {
        "summary": _summary,
        "checks": _checks,
        "rates": _rates,
        "flags": _flags,
        "leaks": _leaks,
        "measures": _measures,
    }
    tables = {name: make(quality, settings) for name, make in made.items()}
    said = NOT_JUDGED
    if judged is not None:
        n, cases = len(judged.menus), len(quality.cases)
        said = f"Judge {judged.judge} gave a verdict on {n} of {cases} menus; {judged.error()}."
    checks = tables["checks"]
    return tables | {"checks": replace(checks, notes=(*checks.notes, said))}


def _summary(quality: Quality, settings: Mapping[str, Any]) -> Table:
    """Return the rows of the paper's table 1."""
    cases = quality.checked
    actions = [action for case in cases for action in case.actions]
    sizes = [len(case.actions) for case in cases]
    classes = Counter(action_class(consensus(action)) for action in actions)
    categories = Counter(a.category if a.category in _NAMED else _OTHER for a in actions)
    specialties = {case.specialty.strip().casefold() for case in cases}
    mean, middle = len(actions) / len(cases), float(median(sizes))
    shares: list[tuple[str, float]] = [
        (name, 100 * classes[name] / len(actions)) for name in CLASSES
    ]
    shares += [(name, 100 * categories[name] / len(actions)) for name in (*_NAMED, _OTHER)]
    groups = [
        ("Alternative groups", sum(len(case.alternatives) for case in cases)),
        ("Best-alternative groups", sum(len(case.best_alternatives) for case in cases)),
    ]
    rows: list[tuple[str, str, float | None]] = [
        ("Cases", f"{len(cases):,}", len(cases)),
        ("Specialties", f"{len(specialties):,}", len(specialties)),
        ("Total actions", f"{len(actions):,}", len(actions)),
        ("Mean actions per case", f"{mean:.1f}", mean),
        ("Median actions per case", f"{middle:g}", middle),
        ("Range", f"{min(sizes)}\u2013{max(sizes)}", None),
        *((f"{name.capitalize()} (%)", f"{share:.1f}", share) for name, share in shares),
        *((name, f"{n:,}", n) for name, n in groups),
    ]
    columns = (
        kinds.text("statistic", "what is counted", "Statistic"),
        kinds.text("value", "as printed", "Value"),
        Column(name="number", type="number", description="the value unrounded; none for a range"),
    )
    return make_table(
        "summary",
        "Cases",
        columns,
        [dict(zip(("statistic", "value", "number"), row, strict=True)) for row in rows],
        [],
        settings,
    )


def _checks(quality: Quality, settings: Mapping[str, Any]) -> Table:
    columns = (
        kinds.text("check", "its name, or a set of them", "Check"),
        kinds.text("required", "of a case", "Requires"),
        kinds.count("passed", "cases that pass it", "Cases that pass", of="cases"),
        kinds.count("cases", "cases in the file"),
    )
    passed = quality.words.passed
    sets: list[tuple[str, str, Sequence[CheckName], bool | None]] = [
        *((name, REQUIRED[name], (name,), True) for name in CHECKS),
        ("five", "the five of the paper's table", FIVE, True),
        ("six", "those of a case by itself", SIX, True),
        (
            "words",
            f"all cases together: words alone have an AUC of at most {MOST_AUC:g}",
            (),
            passed,
        ),
        ("all", "all of them", CHECKS, passed),
    ]
    rows: list[dict[str, object]] = [
        {
            "check": name,
            "required": required,
            "passed": None if is_set_fit is None else is_set_fit * quality.passing(checks),
            "cases": len(quality.cases),
        }
        for name, required, checks, is_set_fit in sets
    ]
    readings = dict(READINGS)
    if (embeddings := settings["embeddings"]) is not None:
        readings["near-duplicate"] += (
            f"; or cosine of embeddings of {EMBEDDING_THRESHOLD} or more ({embeddings})"
        )
    said = "; ".join(f"{name}: {value}" for name, value in readings.items())
    notes = [
        "The checks say that a case is well formed, not that its ratings are right. Flags stand "
        "beside a case: it is scored all the same.",
        f"Check `words`: {_auc(quality.words)}.",
        f"How the paper was read: {said}.",
    ]
    return make_table("checks", "Structural checks", columns, rows, notes, settings)


def _rates(quality: Quality, settings: Mapping[str, Any]) -> Table:
    columns = (
        kinds.text("measure", "what", "Over all actions"),
        kinds.count("count", "actions", "n", of="actions"),
        kinds.count("actions", "all actions"),
        kinds.number(
            "value",
            "share of the actions, Krippendorff's alpha, or an AUC (0.5 is chance)",
            heading="Value",
            interval=("low", "high"),
            digits=4,
        ),
        Column(name="low", type="number", description="lower end of the interval"),
        Column(name="high", type="number", description="upper end of the interval"),
        kinds.text("method", "of the interval", "Interval"),
    )
    raters, actions, words = quality.raters, quality.leaky.n, quality.words

    def share(name: str, of: Share) -> dict[str, object]:
        ends = {"low": of.low, "high": of.high, "method": of.method}
        return {"measure": name, "count": of.count, "actions": of.n, "value": of.share, **ends}

    rows: list[dict[str, object]] = [
        share("wording that gives the class away", quality.leaky),
        share("nearly identical ratings", raters.near_identical),
        share("discordant ratings", raters.discordant),
        {"measure": "alpha of the ratings, ordinal", "value": raters.alpha_ordinal},
        {"measure": "alpha of the ratings, interval", "value": raters.alpha_interval},
        {
            "measure": "AUC of words alone",
            "value": words.auc,
            "low": words.low,
            "high": words.high,
            "method": words.method or words.reason,
        },
    ]
    notes = [
        f"Intervals hold {CONFIDENCE:.0%}. Those of shares take actions as independent; where none "
        "was seen, the exact one-sided bound. That of the AUC draws whole cases.",
        "Krippendorff's alpha over three raters: 1 is agreement in all, 0 what chance gives.",
        f"Nearly identical: {READINGS['nearly identical']}. Discordant: "
        f"{READINGS['substantial disagreement'].removesuffix(' (discordant)')}.",
    ]
    return make_table(
        "rates", f"Leaks and raters ({actions:,} actions)", columns, rows, notes, settings
    )


def _flags(quality: Quality, settings: Mapping[str, Any]) -> Table:
    columns = (
        kinds.text("case", "its code", "Case"),
        kinds.text("check", "the check it fails", "Check"),
        kinds.text("found", "and its limit", "Found"),
        kinds.text("actions", "ids it concerns", "Actions"),
    )
    rows: list[dict[str, object]] = [
        {"case": f.case, "check": f.check, "found": f.found, "actions": _ids(f.actions)}
        for f in flags(quality)
        if f.check != "leak"
    ]
    flagged = len({row["case"] for row in rows} - {ALL_CASES})
    title = f"Flagged: {flagged} of {len(quality.cases)} cases"
    return make_table("flags", title, columns, rows, [], settings, ("case",))


def _leaks(quality: Quality, settings: Mapping[str, Any]) -> Table:
    columns = (
        kinds.text("case", "its code", "Case"),
        kinds.text("action", "its id", "Action"),
        kinds.text("kind", "of hint", "Kind"),
        kinds.text("phrase", "as it stands", "Wording"),
    )
    rows: list[dict[str, object]] = [
        {"case": case.code, "action": leak.action, "kind": leak.kind, "phrase": leak.phrase}
        for case in quality.cases
        for leak in case.leaks
    ]
    title = f"Wordings that give an action's class away: {len(rows)}"
    return make_table("leaks", title, columns, rows, [], settings, ("case",))


def _measures(quality: Quality, settings: Mapping[str, Any]) -> Table:
    columns = (
        kinds.text("case", "its code", "Case"),
        kinds.text("specialty", "its specialty"),
        kinds.text("check", "the check", "Check"),
        kinds.text("measure", "the number", "Measure"),
        kinds.count("count", "actions or pairs", "n"),
        kinds.count("of", "actions of the case; for references the strong ones"),
        kinds.number("value", "count / of, or the count", heading="Value", digits=3),
        kinds.number("limit", "its limit", heading="Limit"),
        kinds.text("side", "least or most that passes", "Is"),
        kinds.yes("passed", "whether", "Passed"),
        kinds.text("actions", "ids that the check concerns"),
    )
    rows: list[dict[str, object]] = [
        {
            "case": case.code,
            "specialty": case.specialty,
            "check": check.name,
            "measure": m.name,
            "count": m.count,
            "of": m.of,
            "value": m.value,
            "limit": m.limit,
            "side": "least" if m.is_least else "most",
            "passed": m.passed,
            "actions": _ids(check.actions),
        }
        for case in quality.cases
        for check in case.checks
        for m in check.measures
    ]
    return make_table(
        "measures", "Every check of every case", columns, rows, [], settings, ("case",)
    )


def _found(check: Check) -> str:
    said = [_measured(m) for m in check.measures if not m.passed]
    return ". ".join([*said, *check.others[:_MOST_OTHERS]])


def _auc(words: Words) -> str:
    if words.auc is None:
        return words.reason
    ends = "" if words.low is None else f" [{words.low:.2f}, {words.high:.2f}]"
    side = "above" if words.auc > MOST_AUC else "within"
    return f"words alone have an AUC of {words.auc:.2f}{ends}, {side} the limit of {MOST_AUC:g}"


def _measured(m: Measure) -> str:
    side = "at least" if m.is_least else "at most"
    if m.of is None:
        return f"{m.name}: {m.count}; {side} {m.limit:g}"
    return f"{m.name}: {m.count} of {m.of} ({m.value:.1%}); {side} {m.limit:.0%}"


def _ids(actions: tuple[tuple[str, ...], ...]) -> str:
    return ", ".join(" + ".join(ids) for ids in actions)
