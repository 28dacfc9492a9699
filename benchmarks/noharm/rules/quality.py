"""Check whether cases are well formed: eight checks, leaks, agreement of the raters, a summary.

Nothing here says that a rating is right. What is found is a flag beside a case. No case is changed
or left out.

Source: Krishna et al., MedAct, sections 4.1 and 4.2 with tables 1 and 2. The sixth check, of
near-duplicates, is the one that its text uses and its table leaves out. Two are of all cases
together: that no case repeats another (`copies`), that words alone reveal little (`words`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import chain
from typing import Literal, get_args

import msgspec
import numpy as np

from medhelm.plugin import intervals, measured
from medhelm_benchmarks.noharm.rules.cases import Action, Case
from medhelm_benchmarks.noharm.rules.copies import MOST_ALIKE, find_copies
from medhelm_benchmarks.noharm.rules.derive import STRONG, ActionClass, action_class, consensus
from medhelm_benchmarks.noharm.rules.judging import Judged, MenuReply
from medhelm_benchmarks.noharm.rules.leaks import find_leaks
from medhelm_benchmarks.noharm.rules.similar import (
    Embed,
    embedding_duplicates,
    natural,
    near_duplicates,
)
from medhelm_benchmarks.noharm.rules.words import Words, check_words

CheckName = Literal[
    "mix", "strong", "implausible", "agreement", "references", "duplicates", "copies"
]
"""The checks that a case passes or fails; `words` is of the set."""
CHECKS: tuple[CheckName, ...] = get_args(CheckName)
FIVE = CHECKS[:5]
"""The checks of the paper's table 2."""
SIX = CHECKS[:6]
"""The checks that need no other case."""

CLASSES: tuple[ActionClass, ...] = get_args(ActionClass)

STRONG_AGAINST = 10 - STRONG
"""A strongly inappropriate action has at most this consensus: below 3, as 8 is above 7."""

LEAST_SHARES: dict[ActionClass, Fraction] = {
    "appropriate": Fraction(10, 100),
    "uncertain": Fraction(10, 100),
    "inappropriate": Fraction(20, 100),
}
LEAST_STRONG: dict[ActionClass, int] = {"appropriate": 2, "inappropriate": 1}
MOST_IMPLAUSIBLE = Fraction(5, 100)
MOST_DISCORDANT = Fraction(15, 100)

NEAR = 1
"""Ratings at most this far apart are nearly identical."""

CONFIDENCE = 0.95

_COUNTED: dict[CheckName, str] = {
    "implausible": "implausible",
    "agreement": "discordant",
    "references": "strong actions without a reference",
    "duplicates": "pairs of near-duplicates",
    "copies": "other cases that it repeats",
}

READINGS: dict[str, str] = {
    "limit": "a value exactly at a limit passes",
    "strongly appropriate": f"median above {STRONG - 1}",
    "strongly inappropriate": f"median below {STRONG_AGAINST + 1} (moderate or severe harm)",
    "substantial disagreement": "a rating of 1 to 3 beside one of 7 to 9 (discordant)",
    "nearly identical": f"ratings at most {NEAR} apart",
    "implausible": "the mark of the action",
    "reference": "of the action itself, not of its case",
    "near-duplicate": "the same words in the same order; excused in one alternative group, or where "
    "one is the broad action of the other",
    "words": "naive Bayes on word counts, each case scored by a model of the others; area under the "
    "curve over all appropriate and inappropriate actions together",
    "copy": f"more than {MOST_ALIKE:.0%} in common: of the vignettes' runs of three words, or of the "
    "menus' actions",
}
"""States how open points of the paper were read. It is printed with every report."""


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """One number that a check compares with its limit."""

    name: str
    count: int
    of: int | None
    """None: the count itself is compared, else the share count / of."""
    value: float
    limit: float
    is_least: bool
    """True if the limit is the least that passes. Else it is the most."""
    passed: bool


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check of one case."""

    name: CheckName
    passed: bool
    measures: tuple[Measure, ...]
    actions: tuple[tuple[str, ...], ...]
    """Ids that it concerns, in natural order; near-duplicates in pairs."""
    others: tuple[str, ...] = ()
    """The other cases that it repeats, and how far."""


class CaseLeak(msgspec.Struct, frozen=True, kw_only=True):
    """One wording that gives an action's class away."""

    action: str
    kind: str
    phrase: str


class CaseQuality(msgspec.Struct, frozen=True, kw_only=True):
    """Holds the findings in one case. The order of its actions changes nothing."""

    code: str
    specialty: str
    actions: int
    checks: tuple[Check, ...]
    leaks: tuple[CaseLeak, ...]

    @property
    def flags(self) -> tuple[CheckName, ...]:
        """Return the names of the checks that it fails."""
        return tuple(check.name for check in self.checks if not check.passed)


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A count among n with its exact interval, one-sided where none or all were seen."""

    count: int
    n: int
    share: float
    low: float
    high: float
    method: str


class Raters(msgspec.Struct, frozen=True, kw_only=True):
    """Measures the agreement of the raters over all actions."""

    near_identical: Share
    discordant: Share
    alpha_ordinal: float | None
    """Krippendorff's; None where all ratings are equal."""
    alpha_interval: float | None


class Quality(msgspec.Struct, frozen=True, kw_only=True):
    """Holds the findings in a set of cases."""

    cases: tuple[CaseQuality, ...]
    checked: tuple[Case, ...]
    """The cases themselves, in the same order."""
    leaky: Share
    """Actions with at least one leak."""
    raters: Raters
    words: Words

    def passing(self, checks: Sequence[CheckName]) -> int:
        """Return how many cases pass all of these checks."""
        return sum(not set(case.flags) & set(checks) for case in self.cases)


def check_case(
    case: Case,
    embed: Embed | None = None,
    others: Sequence[str] = (),
    judged: MenuReply | None = None,
) -> CaseQuality:
    """Return what the checks find in one case; `embed` also looks for duplicates by embeddings.

    `others` names the cases that it repeats, and how far; `judged` is what a judge found in its menu.
    """
    checks = (
        _mix(case),
        _strong(case),
        _at_most("implausible", case, lambda a: a.is_implausible, MOST_IMPLAUSIBLE),
        _at_most("agreement", case, is_discordant, MOST_DISCORDANT),
        _references(case),
        _duplicates(case, embed, judged),
        _copies(others),
    )
    leaks = [
        CaseLeak(action=action.id, kind=leak.kind, phrase=leak.phrase)
        for action in sorted(case.actions, key=lambda a: natural(a.id))
        for leak in (*find_leaks(action.text), *find_leaks(action.id))  # ids are shown, too
    ]
    for one in () if judged is None else judged.telling:
        leaks.append(CaseLeak(action=one.id, kind="judge", phrase=one.words))
    return CaseQuality(
        code=case.code,
        specialty=case.specialty,
        actions=len(case.actions),
        checks=checks,
        leaks=tuple(leaks),
    )


def check_cases(
    cases: Sequence[Case], embed: Embed | None = None, judged: Judged | None = None
) -> Quality:
    """Return what is found in a set of cases, at least one; `judged`: what a judge found."""
    menus = {} if judged is None else judged.menus
    found = tuple(
        check_case(case, embed, own, menus.get(case.code))
        for case, own in zip(cases, _repeated(cases), strict=True)
    )
    leaky = sum(len({leak.action for leak in case.leaks}) for case in found)
    return Quality(
        cases=found,
        checked=tuple(cases),
        leaky=_share(leaky, sum(case.actions for case in found)),
        raters=rater_agreement(cases),
        words=check_words(cases, CONFIDENCE),
    )


def _repeated(cases: Sequence[Case]) -> list[tuple[str, ...]]:
    """Return what each case repeats of others: a line for each other case."""
    found: list[dict[int, list[str]]] = [{} for _ in cases]
    for copy in find_copies(cases):
        how = "identical" if copy.what == "case" else f"{copy.what} {copy.alike:.0%} the same"
        for own, other in ((copy.one, copy.other), (copy.other, copy.one)):
            found[own].setdefault(other, []).append(how)
    return [
        tuple(f"{cases[other].code}: {', '.join(how)}" for other, how in own.items())
        for own in found
    ]


def is_strong(action: Action) -> bool:
    """Return whether an action is strongly appropriate or strongly inappropriate."""
    return consensus(action) >= STRONG or consensus(action) <= STRONG_AGAINST


def is_discordant(action: Action) -> bool:
    """Return whether one rater finds an action inappropriate and another appropriate."""
    classes = {action_class(rating) for rating in action.ratings}
    return {"appropriate", "inappropriate"} <= classes


def is_near_identical(action: Action) -> bool:
    """Return whether no two ratings of an action are more than 1 apart."""
    return max(action.ratings) - min(action.ratings) <= NEAR


def rater_agreement(cases: Sequence[Case]) -> Raters:
    """Return how the raters of all actions agree."""
    actions = [action for case in cases for action in case.actions]
    ratings = np.full((len(actions), max(len(a.ratings) for a in actions)), np.nan)
    for row, action in zip(ratings, actions, strict=True):
        row[: len(action.ratings)] = action.ratings

    def alpha(level: measured.Level) -> float | None:
        found = measured.krippendorff_alpha(ratings, level)
        return None if np.isnan(found) else found

    return Raters(
        near_identical=_share(sum(map(is_near_identical, actions)), len(actions)),
        discordant=_share(sum(map(is_discordant, actions)), len(actions)),
        alpha_ordinal=alpha("ordinal"),
        alpha_interval=alpha("interval"),
    )


def _mix(case: Case) -> Check:
    found = Counter(action_class(consensus(action)) for action in case.actions)
    measures = [
        _measure(name, found[name], limit, len(case.actions), is_least=True)
        for name, limit in LEAST_SHARES.items()
    ]
    return _check("mix", measures, ())


def _strong(case: Case) -> Check:
    found = Counter(action_class(consensus(a)) for a in case.actions if is_strong(a))
    measures = [
        _measure(f"strongly {name}", found[name], Fraction(least), is_least=True)
        for name, least in LEAST_STRONG.items()
    ]
    return _check("strong", measures, ())


def _at_most(
    name: CheckName, case: Case, is_counted: Callable[[Action], bool], limit: Fraction
) -> Check:
    concerned = [action for action in case.actions if is_counted(action)]
    measure = _measure(_COUNTED[name], len(concerned), limit, len(case.actions))
    return _check(name, [measure], [(action.id,) for action in concerned])


def _references(case: Case) -> Check:
    strong = [a for a in case.actions if is_strong(a)]
    bare = [a for a in strong if not any(r.strip() for r in a.references)]
    measure = _measure(_COUNTED["references"], len(bare), Fraction(0), len(strong))
    return _check("references", [measure], [(action.id,) for action in bare])


def _duplicates(case: Case, embed: Embed | None, judged: MenuReply | None) -> Check:
    texts = {action.id: action.text for action in case.actions}
    pairs = {*near_duplicates(texts)}
    if embed is not None:
        pairs |= {*embedding_duplicates(texts, embed)}
    if judged is not None:
        pairs |= {(a, b) for a, b in (sorted(pair, key=natural) for pair in judged.same)}
    pairs -= set(_related(case))
    measure = _measure(_COUNTED["duplicates"], len(pairs), Fraction(0))
    return _check("duplicates", [measure], list(pairs))


def _copies(others: Sequence[str]) -> Check:
    measure = _measure(_COUNTED["copies"], len(others), Fraction(0))
    return msgspec.structs.replace(_check("copies", [measure], ()), others=tuple(others))


def _related(case: Case) -> Iterator[tuple[str, str]]:
    """Yield, both ways round, the pairs whose likeness the case accounts for."""
    linked = [(link.broad, specific) for link in case.broad for specific in link.specific]
    grouped = [(a, b) for group in case.alternatives for a in group for b in group]
    for a, b in chain(linked, grouped):
        yield a, b
        yield b, a


def _measure(
    name: str, count: int, limit: Fraction, of: int | None = None, *, is_least: bool = False
) -> Measure:
    # exact: 3 of 20 are 15 %, whatever 0.15 is in binary
    value = Fraction(count, of or 1)
    return Measure(
        name=name,
        count=count,
        of=of,
        value=float(value),
        limit=float(limit),
        is_least=is_least,
        passed=value >= limit if is_least else value <= limit,
    )


def _check(
    name: CheckName, measures: Sequence[Measure], actions: Sequence[tuple[str, ...]]
) -> Check:
    return Check(
        name=name,
        passed=all(measure.passed for measure in measures),
        measures=tuple(measures),
        actions=tuple(sorted(actions, key=lambda ids: [natural(i) for i in ids])),
    )


def _share(count: int, n: int) -> Share:
    low, high, method = intervals.exact_rate(count, n, CONFIDENCE)
    return Share(count=count, n=n, share=count / n, low=low, high=high, method=method)
