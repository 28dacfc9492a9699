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
    """Name of the asking. Tables show `model+name`."""
    version: str = "1"
    """Raised whenever a word changes. Like all fields below, part of a run's identity."""
    instruction: str = ""
    """The instruction in place of the benchmark's."""
    system: str = ""
    """A system text, for models without one of their own."""
    template: str = ""
    """The template in place of the benchmark's, with the same fields."""
    closing: str = ""
    """Last words of the template. They replace those by which the form asks for the answer."""
    form: Form = "text"
    candidates: Literal["labels", "texts"] = "labels"
    """Rated by the form `logprobs`: the options' labels (letters) or their texts."""
    reasons: bool = False
    """True if reasons come before the answer (chain of thought)."""
    examples: Annotated[int, msgspec.Meta(ge=0, le=100)] = 0
    """Number of worked examples shown with each question."""
    examples_from: str = ""
    """File of examples with rows like the benchmark's own. Empty: the split that the benchmark declares."""
    examples_as: Literal["turns", "message"] = "turns"
    """Examples as turns of a conversation, or before the question in its message."""
    balanced: bool = False
    """True if examples are drawn in turn from each gold label."""
    max_output_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """The output budget in place of the benchmark's; with `reasons`, beside it. The next field is for reasoning
    models."""
    reasoning_output_tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    asked_by: str = ""
    """The other tool that asked, of an imported run: its prompts are in the log, their hash is the version."""

    def in_words(self) -> str:
        """Return what it changes, in a few words."""
        shown = (
            f"{self.examples} worked example{'s' * (self.examples > 1)}" if self.examples else ""
        )
        own = [
            name for name in ("instruction", "system", "template", "closing") if getattr(self, name)
        ]
        parts = (
            f"imported, with the prompts of {self.asked_by}" * bool(self.asked_by),
            f"version {self.version}",
            f"answer as {self.form}" * (self.form != "text"),
            "reasons first" * self.reasons,
            shown,
            f"own {' and '.join(own)}" * bool(own),
        )
        return ", ".join(filter(None, parts))
