"""Check whether cases are well formed: eight checks, leaks, agreement of the raters, a summary.

Nothing here says that a rating is right. What is found is a flag beside a case. No case is changed
or left out.

Source: Krishna et al., MedAct, sections 4.1 and 4.2 with tables 1 and 2. The sixth check, of
near-duplicates, is the one that its text uses and its table leaves out. Two are of all cases
together: that no case repeats another (`find_copies`), that words alone reveal little (`check_words`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Literal, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from medhelm.plugin import WordModel, intervals, measured
from medhelm_benchmarks.noharm.rules.cases import Action, Case
from medhelm_benchmarks.noharm.rules.judging import Judged, MenuReply
from medhelm_benchmarks.noharm.rules.score import (
    STRONG,
    ActionClass,
    action_class,
    class_of,
    consensus,
)
from medhelm_benchmarks.noharm.rules.wording import (
    Embed,
    Leak,
    embedding_duplicates,
    find_leaks,
    gist,
    natural,
    near_duplicates,
)

MOST_ALIKE = 0.5
"""Largest share of runs of words, or of actions, that two cases may have in common."""
_RUN = 3
_WORD = re.compile(r"[^\W_]+")

MOST_AUC = 0.65
"""Words alone may order actions this well."""
LEAST_CASES = 5
"""Fewer teach a model of words too little for its failure to say anything."""
DRAWS = 1000

CheckName = Literal[
    "mix", "strong", "implausible", "agreement", "references", "duplicates", "copies"
]
"""The checks that a case passes or fails; `words` is of the set."""
CHECKS: tuple[CheckName, ...] = get_args(CheckName)
FIVE = CHECKS[:5]
"""The checks of the paper's table 2."""
SIX = CHECKS[:6]
"""The checks that need no other case."""

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
"""The reading of open points of the paper, printed with every report."""


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


@dataclass(frozen=True)
class Rate:
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
        ratings = rating_matrix(actions)
        alphas = {
            "ordinal": measured.krippendorff_alpha(ratings, "ordinal"),
            "interval": measured.krippendorff_alpha(ratings, "interval"),
        }
        for level, alpha in alphas.items():
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
    classes = Counter(map(class_of, case.actions))
    strong = [a for a in case.actions if is_strong(a)]
    strong_classes = Counter(map(class_of, strong))
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


def rating_matrix(actions: Sequence[Action]) -> NDArray[np.float64]:
    """Return the ratings (n, k) of actions, NaN behind those of smaller panels."""
    found = np.full((len(actions), max(len(a.ratings) for a in actions)), np.nan)
    for row, action in zip(found, actions, strict=True):
        row[: len(action.ratings)] = action.ratings
    return found


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


# Cases that repeat each other ---------------------------------------------------------------------
#
# A case that is there twice counts twice in every mean, and a model that learns from examples has
# seen one of them. Vignettes are compared by runs of three words, menus by what their actions say
# (`gist`): nothing here finds one story in other words.


class Copy(msgspec.Struct, frozen=True):
    """Two cases that repeat each other, by their places."""

    one: int
    other: int
    what: str
    """`case` (all texts are equal), `vignette` or `menu`."""
    alike: float


def find_copies(cases: Sequence[Case]) -> list[Copy]:
    """Return the pairs of cases that are identical, or nearly so in vignette or menu."""
    whole = [_whole(case) for case in cases]
    found = {
        Copy(one, other, "case", 1.0)
        if whole[one] == whole[other]
        else Copy(one, other, what, alike)
        for what, sets in (
            ("vignette", [_runs(case.vignette) for case in cases]),
            ("menu", [frozenset(gist(a.text) for a in case.actions) for case in cases]),
        )
        for one, other, alike in _alike(sets)
    }
    return sorted(found, key=lambda c: (c.one, c.other, c.what))


def likeness(one: str, other: str) -> float:
    """Return the share of runs of three words that two texts have in common."""
    a, b = _runs(one), _runs(other)
    return len(a & b) / len(a | b)


def _whole(case: Case) -> Hashable:
    texts = (case.vignette, case.question, *sorted(action.text for action in case.actions))
    return tuple(" ".join(_WORD.findall(text.casefold())) for text in texts)


def _runs(text: str) -> frozenset[Hashable]:
    words = _WORD.findall(text.casefold())
    return frozenset(tuple(words[i : i + _RUN]) for i in range(max(1, len(words) - _RUN + 1)))


def _alike(sets: Sequence[frozenset[Hashable]]) -> Iterator[tuple[int, int, float]]:
    """Yield the pairs that share more than half of what both have (Jaccard), and how much."""
    from scipy.sparse import csr_array  # slow to import

    places = {member: n for n, member in enumerate({m for own in sets for m in own})}
    columns = [places[member] for own in sets for member in own]
    ends = np.cumsum([0, *map(len, sets)])
    shape = (len(sets), len(places))
    has = csr_array((np.ones(len(columns), dtype=np.int64), columns, ends), shape=shape)
    shared = (has @ has.T).tocoo()
    for one, other, n in zip(shared.row, shared.col, shared.data, strict=True):
        alike = int(n) / (len(sets[one]) + len(sets[other]) - int(n))
        if one < other and alike > MOST_ALIKE:
            yield int(one), int(other), alike


# Words alone ---------------------------------------------------------------------------------------
#
# A model of words learns the actions of all other cases and orders those of each case. Where it does
# well, tests and drugs, or right and wrong, are worded in ways of their own, and a model under test
# scores without reading a vignette. Uncertain actions are left out: no label of theirs is an error.


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """Measures how well words alone order the actions of all cases."""

    auc: float | None
    """Chance that an appropriate action has a higher score than an inappropriate one, whatever their
    cases; 0.5 is chance. None: see `reason`."""
    low: float | None = None
    high: float | None = None
    method: str = ""
    """Of the interval: a bootstrap over cases, with the scores as they are."""
    reason: str = ""

    @property
    def passed(self) -> bool | None:
        """Return whether the cases pass; None where they cannot be judged."""
        return None if self.auc is None else self.auc <= MOST_AUC


def labelled_actions(case: Case) -> list[tuple[str, bool]]:
    """Return the texts of a case that are right or wrong, and which they are."""
    classes = ((action.text, class_of(action)) for action in case.actions)
    return [(text, name == "appropriate") for text, name in classes if name != "uncertain"]


def check_words(cases: Sequence[Case], confidence: float) -> Words:
    """Return how well a model of words, trained on the other cases, orders the actions of each."""
    if len(cases) < LEAST_CASES:
        return Words(auc=None, reason=f"too few cases: {len(cases)}, at least {LEAST_CASES}")
    texts = [labelled_actions(case) for case in cases]
    model = WordModel()
    for labelled in texts:
        model.learn(labelled)
    right, wrong = [], []
    for labelled in texts:
        odds = np.array(model.log_odds([text for text, _ in labelled], labelled))
        is_right = np.array([value for _, value in labelled], dtype=bool)
        right.append(odds[is_right])
        wrong.append(odds[~is_right])
    ups, downs = (np.array([float(len(part)) for part in parts]) for parts in (right, wrong))
    if not ups.sum() or not downs.sum():
        return Words(auc=None, reason="no appropriate or no inappropriate action")
    wins = _wins(right, wrong)
    drawn = intervals.bootstrap(np.eye(len(cases)), DRAWS, intervals.seed_of(0, "words"))
    with np.errstate(invalid="ignore"):  # a draw may hold one class only
        aucs = ((drawn @ wins) * drawn).sum(axis=1) / ((drawn @ ups) * (drawn @ downs))
    ends = intervals.percentile(aucs, confidence, len(cases))
    auc = float(wins.sum() / (ups.sum() * downs.sum()))
    return Words(auc=auc, low=ends.low, high=ends.high, method=ends.method)


def _wins(
    right: Sequence[NDArray[np.float64]], wrong: Sequence[NDArray[np.float64]]
) -> NDArray[np.float64]:
    """Return how often right actions of one case (row) beat wrong ones of another; ties are half."""
    every = np.concatenate(right)
    row = np.repeat(np.arange(len(right)), [len(part) for part in right])
    wins = np.zeros((len(right), len(wrong)))
    for column, scores in enumerate(map(np.sort, wrong)):
        beaten = np.searchsorted(scores, every, "left") + np.searchsorted(scores, every, "right")
        wins[:, column] = np.bincount(row, weights=beaten / 2, minlength=len(right))
    return wins
