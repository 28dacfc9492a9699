"""Options -> menu, and menu with three sheets of ratings -> case. Nothing here asks a model."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import msgspec

from medhelm_benchmarks.noharm.generation import stages
from medhelm_benchmarks.noharm.generation.checks import is_founded
from medhelm_benchmarks.noharm.generation.guideline import Guideline, words
from medhelm_benchmarks.noharm.rules.cases import Action, Broad, Case, to_case
from medhelm_benchmarks.noharm.rules.quality import is_strong
from medhelm_benchmarks.noharm.rules.score import (
    action_class,
    best_alternatives,
    consensus,
    to_point,
)


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `provenance.jsonl`: where a case and each of its actions come from."""

    schema: str = "medhelm_benchmarks.noharm.rules.provenance/1"
    code: str
    guideline: str
    guideline_sha256: str
    setting: dict[str, str]
    tags: dict[str, stages.Tag]
    generator: str
    raters: dict[str, str]
    judge: str = ""
    """The model by whose verdict the patient's text does not advise; empty where there is none."""
    repairs: dict[str, int]
    unfounded_quotes: dict[str, int]
    """Quotes by id of the action that are not in the guideline. They are not a reference."""
    not_covered: dict[str, int] = {}
    """Raters by id of the action who find nothing of it in the guideline; where none is, no entry."""
    prompt_version: str


@dataclass(frozen=True)
class Menu:
    """The actions of a case by their ids, in the order in which everybody sees them."""

    options: Mapping[str, stages.OptionReply | stages.TrapReply]

    @property
    def items(self) -> dict[str, str]:
        """Return the menu without tags, id -> text."""
        return {name: _line(o.text) for name, o in self.options.items()}

    @property
    def tags(self) -> dict[str, stages.Tag]:
        """Return where each action comes from."""
        return {n: getattr(option, "kind", "blind") for n, option in self.options.items()}


def make_menu(
    code: str, blind: Sequence[stages.OptionReply], traps: Sequence[stages.TrapReply]
) -> Menu:
    """Return all options in an order that the case's code alone decides, so that none shows."""
    options: list[stages.OptionReply | stages.TrapReply] = [*blind, *traps]
    random.Random(code).shuffle(options)  # noqa: S311 - an order, no secret
    return Menu({f"a{n}": option for n, option in enumerate(options, 1)})


def _line(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def not_covered(menu: Menu, sheets: stages.Sheets) -> dict[str, int]:
    """Return how many raters find the guideline silent on each action, where any does."""
    silent = Counter(r.id for sheet in sheets.values() for r in sheet.ratings if not r.covered)
    return {name: silent[name] for name in menu.items if silent[name]}


def shuffled(items: Mapping[str, str], name: str) -> dict[str, str]:
    """Return a menu in another order, which a name decides: raters do not share one."""
    return dict(random.Random(name).sample([*items.items()], len(items)))  # noqa: S311


def make_case(
    code: str,
    specialty: str,
    scene: stages.SceneReply,
    menu: Menu,
    groups: stages.GroupsReply,
    sheets: stages.Sheets,
    guideline: Guideline,
    made_by: Sequence[str],
) -> tuple[Case, dict[str, int]]:
    """Return the case, and how many quotes of each action are not in the guideline.

    Raises DataError where the case breaks the schema of cases.
    """
    actions, unfounded = _actions(menu, sheets, guideline)
    rated_as = {a.id: consensus(a) for a in actions}
    case = Case(
        code=code,
        specialty=specialty,
        vignette=scene.vignette.strip(),
        question=scene.question.strip(),
        knowns=scene.knowns,
        unknowns=scene.unknowns,
        red_flags=scene.red_flags,
        actions=tuple(actions),
        alternatives=groups.alternatives,
        best_alternatives=best_alternatives(groups.alternatives, rated_as),
        broad=tuple(Broad(broad=b.broad, specific=b.specific) for b in groups.broad),
        references=(guideline.name,),
        made_by=tuple(dict.fromkeys(made_by)),
    )
    return to_case(msgspec.to_builtins(case), code), unfounded


def _actions(
    menu: Menu, sheets: stages.Sheets, guideline: Guideline
) -> tuple[list[Action], dict[str, int]]:
    """Return the actions as rated, and how many quotes of each are not in the guideline."""
    by_id = [{r.id: r for r in sheets[p].ratings} for p in stages.PERSPECTIVES]
    actions, unfounded = [], {}
    for name, text in menu.items.items():
        rated = [sheet[name] for sheet in by_id]
        references, bad = _references(rated, guideline)
        if bad:
            unfounded[name] = bad
        actions.append(
            Action(
                id=name,
                text=text,
                category=menu.options[name].category,
                ratings=(rated[0].rating, rated[1].rating, rated[2].rating),
                references=references,
                is_implausible=sum(r.implausible for r in rated) >= 2,
            )
        )
    return actions, unfounded


def without_reference(
    menu: Menu, sheets: stages.Sheets, guideline: Guideline
) -> dict[stages.Perspective, dict[str, str]]:
    """Return the strong actions without a reference, by the raters whose quote would be one."""
    bare = [a for a in _actions(menu, sheets, guideline)[0] if is_strong(a) and not a.references]
    return {
        perspective: {
            a.id: a.text for a in bare if action_class(a.ratings[n]) == action_class(consensus(a))
        }
        for n, perspective in enumerate(stages.PERSPECTIVES)
    }


def with_quotes(
    sheet: stages.RatingsReply, found: stages.QuotesReply, guideline: Guideline
) -> stages.RatingsReply:
    """Return a sheet with the quotes that are in the guideline; no rating changes."""
    quotes = {q.id: q.quote for q in found.quotes if is_founded(q.quote, guideline)}
    ratings = tuple(
        msgspec.structs.replace(r, covered=True, quote=quotes[r.id]) if r.id in quotes else r
        for r in sheet.ratings
    )
    return stages.RatingsReply(ratings=ratings)


def _references(
    rated: Sequence[stages.RatingReply], guideline: Guideline
) -> tuple[tuple[str, ...], int]:
    """Return the quotes of those who rate as the median does, and how many are unfounded."""
    agreed = action_class(to_point(median(r.rating for r in rated)))
    quotes = [r.quote for r in rated if r.quote.strip() and action_class(r.rating) == agreed]
    good = [q for q in quotes if is_founded(q, guideline)]
    kept = {" ".join(words(q)): " ".join(q.split()) for q in good}
    found = tuple(f'{guideline.name}: "{quote}"' for quote in kept.values())
    return found, len(quotes) - len(good)
