"""Loads `taxonomy.yaml`: categories, their subcategories, their tasks.

Source: the task taxonomy of MedHELM (Bedi et al., 2025, arXiv 2505.23802, appendix A).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources

import msgspec

from medhelm.errors import UnknownName


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
    """Return the taxonomy that comes with medhelm. A test holds that each of its ids is one, and there once."""
    text = resources.files("medhelm").joinpath("taxonomy.yaml").read_bytes()
    return msgspec.yaml.decode(text, type=Taxonomy)
