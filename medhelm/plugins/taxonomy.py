"""Loads and checks `taxonomy.yaml`: categories, their subcategories, their tasks.

Source: the task taxonomy of MedHELM (Bedi et al., 2025, arXiv 2505.23802, appendix A).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib import resources

import msgspec

from medhelm.errors import DataError, UnknownName

_ID = re.compile(r"[a-z][a-z0-9_]*")


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields that every level has."""

    id: str
    """Stable snake_case key."""
    name: str


class Task(_Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One discrete piece of medical work."""


class Subcategory(_Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A group of tasks; what a benchmark belongs to."""

    aliases: tuple[str, ...] = ()
    """Other ids by which a benchmark may name it."""
    tasks: tuple[Task, ...]


class Category(_Part, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of the broad kinds of medical work."""

    definition: str
    inclusion: str
    """The rule by which a subcategory belongs here."""
    performer: str
    """The people who do this work."""
    subcategories: tuple[Subcategory, ...]


class Taxonomy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole tree."""

    published_tasks: int
    """The number of tasks that the paper states. Its printed list has fewer."""
    categories: tuple[Category, ...]

    def subcategories(self) -> Iterator[Subcategory]:
        """Yield all subcategories in order."""
        for category in self.categories:
            yield from category.subcategories

    def tasks(self) -> Iterator[Task]:
        """Yield all tasks in order."""
        for subcategory in self.subcategories():
            yield from subcategory.tasks

    def subcategory(self, name: str) -> Subcategory:
        """Return a subcategory by id, alias or printed name.

        Raises UnknownName with the nearest ids.
        """
        wanted = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
        for subcategory in self.subcategories():
            if wanted == subcategory.id or wanted in subcategory.aliases:
                return subcategory
        known = [n for s in self.subcategories() for n in (s.id, *s.aliases)]
        raise UnknownName("subcategory", name, known, "`medhelm list taxonomy` shows all.")

    def category_of(self, subcategory: str) -> Category:
        """Return the category that holds a subcategory (id or alias); raises UnknownName."""
        found = self.subcategory(subcategory)
        return next(c for c in self.categories if found in c.subcategories)


@lru_cache(maxsize=1)
def load_taxonomy() -> Taxonomy:
    """Return the taxonomy that comes with medhelm."""
    return parse_taxonomy(resources.files("medhelm").joinpath("taxonomy.yaml").read_bytes())


def parse_taxonomy(text: str | bytes, source: str = "taxonomy.yaml") -> Taxonomy:
    """Return the taxonomy that YAML text holds.

    Raises DataError naming the place of an unknown key, a wrong type, an empty level or an
    id that occurs twice.
    """
    try:
        taxonomy = msgspec.yaml.decode(text, type=Taxonomy)
    except (msgspec.DecodeError, UnicodeDecodeError) as e:
        raise DataError(f"{source}: {' '.join(str(e).split())}") from None
    parts: list[_Part] = [*taxonomy.categories, *taxonomy.subcategories(), *taxonomy.tasks()]
    for part in parts:
        if not _ID.fullmatch(part.id) or not part.name.strip():
            raise DataError(f"{source}: id {part.id!r} must be snake_case and have a name")
    for owner, members in _members(taxonomy):
        if not members:
            raise DataError(f"{source}: {owner} is empty")
    subcategory_names = [n for s in taxonomy.subcategories() for n in (s.id, *s.aliases)]
    _refuse_repeats("category", (c.id for c in taxonomy.categories), source)
    _refuse_repeats("subcategory", subcategory_names, source)
    _refuse_repeats("task", (t.id for t in taxonomy.tasks()), source)
    return taxonomy


def _members(taxonomy: Taxonomy) -> Iterator[tuple[str, tuple[_Part, ...]]]:
    yield "the taxonomy", taxonomy.categories
    for category in taxonomy.categories:
        yield f"category {category.id!r}", category.subcategories
    for subcategory in taxonomy.subcategories():
        yield f"subcategory {subcategory.id!r}", subcategory.tasks


def _refuse_repeats(kind: str, ids: Iterable[str], source: str) -> None:
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise DataError(f"{source}: {kind} {name!r} is named twice; ids must be unique")
        seen.add(name)
