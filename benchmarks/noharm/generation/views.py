"""Define the input of each stage. It gets one of these and nothing else: the barrier is a type.

stage                       sees                                  does not see
1 scene       Brief         guideline, setting                    any action
judge         Scene         patient, guideline                    setting, any action
2 options     Scene         the patient                           the guideline
3 traps       TrapView      patient, guideline, texts of 2        ratings
4 groups      MenuView      patient, menu without tags            the guideline, tags, ratings
rubric        RatingView    patient, guideline, menu without tags tags, groups, other raters
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from medhelm_benchmarks.noharm.generation.guideline import Guideline
from medhelm_benchmarks.noharm.rules.cases import Category, RedFlag

Trap = Literal["dose", "interaction", "contraindication", "prerequisite", "monitoring"]
"""Names an action's fault: its dose for these kidneys, another drug, a contraindication, a
work-up that has to come before, a check that is left out."""

Kind = Literal["first_line", "conditional", Trap]
"""Names stage 3's reason for an action: the first choice, the choice under a condition that is
open here, or a trap."""

Tag = Literal["blind", Kind]
"""Names the origin of an action. It is kept in `provenance.jsonl` and shown to nobody."""

Perspective = Literal["specialist_benefit", "specialist_harm", "generalist"]


@dataclass(frozen=True)
class Setting:
    """Separates this patient from the last. It is drawn, never chosen by a model."""

    place: str
    complication: str
    gap: str
    """Names the fact that is not known yet."""
    passage: str
    """Words of the guideline on whose subject the case turns, so that not all are on one."""


@dataclass(frozen=True)
class Brief:
    """Stage 1."""

    specialty: str
    guideline: Guideline
    setting: Setting


@dataclass(frozen=True)
class Scene:
    """The patient: what stage 1 writes, and all that stage 2 sees."""

    specialty: str
    vignette: str
    question: str
    knowns: tuple[str, ...]
    unknowns: tuple[str, ...]
    red_flags: tuple[RedFlag, ...]


@dataclass(frozen=True)
class TrapView:
    """Stage 3."""

    scene: Scene
    guideline: Guideline
    there: tuple[str, ...]
    """Texts of the actions that are on the menu already."""


@dataclass(frozen=True)
class Item:
    """One action of a menu as anybody may see it."""

    id: str
    text: str


@dataclass(frozen=True)
class MenuView:
    """Grouping: which actions replace each other."""

    scene: Scene
    items: tuple[Item, ...]


@dataclass(frozen=True)
class RatingView:
    """One rater's sheet."""

    scene: Scene
    guideline: Guideline
    perspective: Perspective
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Option:
    """An action as its author wrote it, with where it comes from."""

    text: str
    category: Category
    tag: Tag
