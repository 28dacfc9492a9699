"""Askings: how an instance becomes messages, and in which form the answer is wanted."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Form = Literal["text", "line", "schema", "logprobs"]
"""The form of an answer. text: the published prompt, read freely; line: a marked last line; schema: one JSON
object; logprobs: no text, the options' log-probabilities. All but `text` are read strictly."""


class Asking(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A way to ask a benchmark that is not its own. What is empty stays the benchmark's own."""

    name: str = ""
    """Stands behind the model's name wherever numbers of this asking stand: `model+name`."""
    version: str = "1"
    """Raised whenever a word changes; part of a run's identity, as all that follows."""
    instruction: str = ""
    """In place of the benchmark's instruction."""
    system: str = ""
    """A system text, for models without one of their own."""
    template: str = ""
    """In place of the benchmark's template, with its fields."""
    closing: str = ""
    """The template's last words, in place of those by which the form asks for the answer."""
    form: Form = "text"
    candidates: Literal["labels", "texts"] = "labels"
    """Of each option its label (the letter) or its text: the form `logprobs` rates these."""
    reasons: bool = False
    """True if reasons come before the answer (chain of thought)."""
    examples: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    """Worked examples that each question is shown with."""
    examples_from: str = ""
    """File of examples, with rows as the benchmark's own; empty: the split that the benchmark declares."""
    examples_as: Literal["turns", "message"] = "turns"
    """The place of examples: turns of a conversation, or stand before the question in its message."""
    balanced: bool = False
    """True if examples are drawn in turn from each gold label."""
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """In place of the benchmark's budget of an answer; with `reasons` on top of it. That of reasoning models: the
    next."""
    reasoning_output_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None

    def in_words(self) -> str:
        """Return what it changes, in a few words."""
        shown = (
            f"{self.examples} worked example{'s' * (self.examples > 1)}" if self.examples else ""
        )
        own = [
            name for name in ("instruction", "system", "template", "closing") if getattr(self, name)
        ]
        parts = (
            f"version {self.version}",
            f"answer as {self.form}" * (self.form != "text"),
            "reasons first" * self.reasons,
            shown,
            f"own {' and '.join(own)}" * bool(own),
        )
        return ", ".join(filter(None, parts))
