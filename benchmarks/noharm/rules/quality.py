"""Check whether cases are well formed: eight checks, leaks, agreement of the raters, a summary.

Nothing here says that a rating is right. What is found is a flag beside a case. No case is changed
or left out.

Source: Krishna et al., MedAct, sections 4.1 and 4.2 with tables 1 and 2. The sixth check, of
near-duplicates, is the one that its text uses and its table leaves out. Two are of all cases
together: that no case repeats another (`copies`), that words alone reveal little (`words`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Literal, NamedTuple, get_args

import numpy as np

from medhelm.plugin import intervals, measured
from medhelm_benchmarks.noharm.rules.cases import Action, Case
from medhelm_benchmarks.noharm.rules.copies import MOST_ALIKE, find_copies
from medhelm_benchmarks.noharm.rules.derive import STRONG, ActionClass, action_class, consensus
from medhelm_benchmarks.noharm.rules.judging import Judged, MenuReply
from medhelm_benchmarks.noharm.rules.wording import (
    Embed,
    Leak,
    embedding_duplicates,
    find_leaks,
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
LEAKY = "wording that gives the class away"

REQUIRED: dict[CheckName, str] = {
    "mix": "at least " + ", ".join(f"{float(n):.0%} {name}" for name, n in LEAST_SHARES.items()),
    "strong": "at least " + ", ".join(f"{n} strongly {name}" for name, n in LEAST_STRONG.items()),
    "implausible": f"at most {float(MOST_IMPLAUSIBLE):.0%} of the actions implausible",
    "agreement": f"at most {float(MOST_DISCORDANT):.0%} of the actions with substantial disagreement",
    "references": "a reference for every strong action",
    "duplicates": "no near-duplicate actions outside one group",
    "copies": "no other case with the same vignette or menu",
}
"""Check -> what it asks for, in words."""

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


@dataclass(frozen=True)
class Measure:
    """One number that a check compares with its limit."""

    name: str
    count: int
    limit: Fraction
    of: int | None = None
    """None: the count itself is compared, else the share count / of."""
    is_least: bool = False
    """True if the limit is the least that passes. Else it is the most."""

    @property
    def value(self) -> Fraction:
        """Return what is compared, exactly: 3 of 20 are 15 %, whatever 0.15 is in binary."""
        return Fraction(self.count, self.of or 1)

    @property
    def passed(self) -> bool:
        """Return whether it keeps to its limit."""
        return self.value >= self.limit if self.is_least else self.value <= self.limit


@dataclass(frozen=True)
class Check:
    """One check of one case."""

    name: CheckName
    measures: tuple[Measure, ...]
    actions: tuple[tuple[str, ...], ...] = ()
    """Ids that it concerns, in natural order; near-duplicates in pairs."""
    others: tuple[str, ...] = ()
    """The other cases that it repeats, and how far."""

    @property
    def passed(self) -> bool:
        """Return whether all of its numbers keep to their limits."""
        return all(measure.passed for measure in self.measures)


@dataclass(frozen=True)
class CaseQuality:
    """Holds the findings in one case. The order of its actions changes nothing."""

    code: str
    specialty: str
    actions: int
    checks: tuple[Check, ...]
    leaks: tuple[tuple[str, Leak], ...]
    """Wordings that give an action's class away, with the id of the action."""

    @property
    def flags(self) -> tuple[CheckName, ...]:
        """Return the names of the checks that it fails."""
        return tuple(check.name for check in self.checks if not check.passed)


class Rate(NamedTuple):
    """A number over all actions: a share with its exact interval, or one without."""

    measure: str
    count: int | None
    actions: int | None
    value: float | None
    low: float | None = None
    high: float | None = None
    method: str | None = None


@dataclass(frozen=True)
class Quality:
    """Holds the findings in a set of cases."""

    cases: tuple[CaseQuality, ...]
    checked: tuple[Case, ...]
    """The cases themselves, in the same order."""
    words: Words

    def passing(self, checks: Sequence[CheckName]) -> int:
        """Return how many cases pass all of these checks."""
        return sum(not set(case.flags) & set(checks) for case in self.cases)

    @property
    def actions(self) -> tuple[Action, ...]:
        """Return the actions of all cases."""
        return tuple(action for case in self.checked for action in case.actions)

    def rates(self) -> Iterator[Rate]:
        """Yield the share of actions that leak, and how the raters of all actions agree."""
        actions = self.actions
        for measure, count in (
            (LEAKY, sum(len({i for i, _ in case.leaks}) for case in self.cases)),
            ("nearly identical ratings", sum(map(is_near_identical, actions))),
            ("discordant ratings", sum(map(is_discordant, actions))),
        ):
            n = len(actions)
            yield Rate(measure, count, n, count / n, *intervals.exact_rate(count, n, CONFIDENCE))
        ratings = np.full((len(actions), max(len(a.ratings) for a in actions)), np.nan)
        for row, action in zip(ratings, actions, strict=True):
            row[: len(action.ratings)] = action.ratings
        levels: tuple[measured.Level, ...] = ("ordinal", "interval")
        for level in levels:
            alpha = measured.krippendorff_alpha(ratings, level)
            none = np.isnan(alpha)  # all ratings are equal
            yield Rate(f"alpha of the ratings, {level}", None, None, None if none else alpha)


def check_case(
    case: Case,
    embed: Embed | None = None,
    others: Sequence[str] = (),
    judged: MenuReply | None = None,
) -> CaseQuality:
    """Return what the checks find in one case; `embed` also looks for duplicates by embeddings.

    `others` names the cases that it repeats, and how far; `judged` is what a judge found in its menu.
    """
    classes = Counter(action_class(consensus(a)) for a in case.actions)
    strong = [a for a in case.actions if is_strong(a)]
    strong_classes = Counter(action_class(consensus(a)) for a in strong)
    n = len(case.actions)
    mix = (Measure(name, classes[name], least, n, True) for name, least in LEAST_SHARES.items())
    sides = (
        Measure(f"strongly {name}", strong_classes[name], Fraction(least), is_least=True)
        for name, least in LEAST_STRONG.items()
    )
    implausible = [a for a in case.actions if a.is_implausible]
    discordant = [a for a in case.actions if is_discordant(a)]
    bare = [a for a in strong if not any(r.strip() for r in a.references)]
    pairs = sorted(_duplicates(case, embed, judged), key=lambda pair: [*map(natural, pair)])
    none = Fraction(0)
    checks = (
        Check("mix", tuple(mix)),
        Check("strong", tuple(sides)),
        _few("implausible", "implausible", implausible, MOST_IMPLAUSIBLE, n),
        _few("agreement", "discordant", discordant, MOST_DISCORDANT, n),
        _few("references", "strong actions without a reference", bare, none, len(strong)),
        Check(
            "duplicates",
            (Measure("pairs of near-duplicates", len(pairs), none),),
            actions=tuple(pairs),
        ),
        Check(
            "copies",
            (Measure("other cases that it repeats", len(others), none),),
            others=tuple(others),
        ),
    )
    leaks = [
        (action.id, leak)
        for action in sorted(case.actions, key=lambda a: natural(a.id))
        for leak in (*find_leaks(action.text), *find_leaks(action.id))  # ids are shown, too
    ]
    leaks += [(one.id, Leak("judge", one.words)) for one in (judged.telling if judged else ())]
    return CaseQuality(case.code, case.specialty, n, checks, tuple(leaks))


def _few(name: CheckName, what: str, concerned: Sequence[Action], most: Fraction, of: int) -> Check:
    """Return the check that a share of the actions is at most so large."""
    ids = sorted((action.id for action in concerned), key=natural)
    return Check(name, (Measure(what, len(ids), most, of),), tuple((i,) for i in ids))


def check_cases(
    cases: Sequence[Case], embed: Embed | None = None, judged: Judged | None = None
) -> Quality:
    """Return what is found in a set of cases, at least one; `judged`: what a judge found."""
    menus = {} if judged is None else judged.menus
    found = tuple(
        check_case(case, embed, own, menus.get(case.code))
        for case, own in zip(cases, _repeated(cases), strict=True)
    )
    return Quality(found, tuple(cases), check_words(cases, CONFIDENCE))


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


def _duplicates(case: Case, embed: Embed | None, judged: MenuReply | None) -> set[tuple[str, str]]:
    """Return the pairs of actions that say the same, without those that the case accounts for."""
    texts = {action.id: action.text for action in case.actions}
    pairs = {*near_duplicates(texts)}
    if embed is not None:
        pairs |= {*embedding_duplicates(texts, embed)}
    if judged is not None:
        pairs |= {(a, b) for a, b in (sorted(pair, key=natural) for pair in judged.same)}
    return pairs - set(_related(case))


def _related(case: Case) -> Iterator[tuple[str, str]]:
    """Yield, both ways round, the pairs whose likeness the case accounts for."""
    linked = [(link.broad, specific) for link in case.broad for specific in link.specific]
    grouped = [(a, b) for group in case.alternatives for a in group for b in group]
    for a, b in chain(linked, grouped):
        yield a, b
        yield b, a
