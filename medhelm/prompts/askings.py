"""A benchmark asked otherwise than it declares: the words and the schema by which a form of answer is asked
for, and a gold in that form.

The last words of a template (`Prompt.closing`) ask for a bare reply; these make room. Where an instruction says
what to reply with, it says the same of the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from medhelm.prompts.messages import option_labels, resolve_prompt
from medhelm.schema.asking import Asking
from medhelm.schema.data import AnswerKind, Asked, Benchmark, Example, Instance, Prompt

MARK = "Answer:"
"""The first word of the last line of a reply of the form `line`."""
ANSWER, REASONS = "answer", "reasons"
"""Members of a reply of the form `schema`."""

_REASONS_FIRST = "First give your reasons, step by step. "
_WHAT: Mapping[AnswerKind, str] = {
    "choice": "the letter of the one right option ({letters})",
    "number": "the value alone, in the unit that is asked for",
    "labels": "the labels, separated by commas",
}
"""The content of the last line, by the kind of answer. Of others: what is asked for above."""
_ABOVE = "the answer that is asked for above, in the form that is asked for above"
_BARE = re.compile(r"(^|[.?!:,]\s+)([Rr])eply with\b", re.MULTILINE)
"""The first words of a sentence, or its second half, by which the reply is to be the answer and no more."""
_MEMBERS: Mapping[AnswerKind, tuple[str, str]] = {
    "choice": ('"..."', "the letter of the one right option ({letters})"),
    "number": ('{"value": ..., "unit": "..."}', 'the value and its unit ("" where it has none)'),
    "labels": ('["...", "..."]', "the labels"),
}


def asked_otherwise(
    benchmark: Benchmark,
    asking: Asking,
    examples: Sequence[Example] = (),
    answer_schema: Mapping[str, Any] | None = None,
) -> Benchmark:
    """Return a benchmark as an asking has it: its template, instruction and budgets.

    Raises UnknownName where a template of the asking has an unknown {field}.
    """
    prompt = resolve_prompt(benchmark)
    body = asking.template.strip() or prompt.text.strip()
    closing = asking.closing or _closing(benchmark, asking, answer_schema)
    if asking.form in ("text", "logprobs") and not (closing or asking.template):
        closing = prompt.closing
    own = benchmark.instruction
    if closing != prompt.closing:
        own = _BARE.sub(lambda found: f"{found[1]}{'tT'[found[2] == 'R']}he answer is", own)
    changed = replace(
        benchmark,
        prompt=Prompt(asking.name or prompt.name, asking.version, body, closing),
        instruction=asking.instruction or own,
        max_output_tokens=_budget(asking, benchmark),
        reasoning_output_tokens=asking.reasoning_output_tokens or benchmark.reasoning_output_tokens,
        asked=Asked(asking=asking, examples=tuple(examples), answer_schema=answer_schema),
    )
    resolve_prompt(changed)
    return changed


def _budget(asking: Asking, benchmark: Benchmark) -> int:
    """Return the output tokens of an answer: reasons come on top of what the benchmark allows."""
    own = 1 if asking.form == "logprobs" else benchmark.max_output_tokens
    if asking.max_output_tokens is None:
        return own
    return own + asking.max_output_tokens if asking.reasons else asking.max_output_tokens


def _closing(benchmark: Benchmark, asking: Asking, answer_schema: Mapping[str, Any] | None) -> str:
    """Return the words that ask for the form of an asking; empty where the template's own do."""
    what = _WHAT.get(benchmark.answer, _ABOVE)
    if asking.form == "line" and benchmark.answer not in _WHAT:  # a text may have several lines
        first = f"{_REASONS_FIRST}Then begin a new line" if asking.reasons else "Begin"
        return f"{first} with `{MARK}` and go on with {what}, and nothing else."
    if asking.form == "line":
        last = f"line that begins with `{MARK}` and goes on with {what}, and nothing else."
        first = f"{_REASONS_FIRST}Then end with one last " if asking.reasons else "Reply with one "
        return f"{first}{last}"
    if asking.form == "schema":
        shown, means = _MEMBERS.get(benchmark.answer, ('"..."', _ABOVE))
        if answer_schema is not None:
            shown, means = _shown(answer_schema), _ABOVE
        reasons = f'"{REASONS}": "...", ' * asking.reasons
        first = f"{REASONS}: your reasons, step by step. " * asking.reasons
        return (
            f'Reply with one JSON object and nothing else: {{{reasons}"{ANSWER}": {shown}}}. '
            f"{first}{ANSWER}: {means}."
        )
    if asking.candidates == "texts" and not asking.template:
        return "Exactly one option is right. Reply with its text alone, without its letter."
    if asking.reasons:
        return f"{_REASONS_FIRST}Then give {what}."
    return ""


def _shown(schema: Mapping[str, Any]) -> str:
    """Return an object of a schema as it is shown to models, each value as its description says."""
    members = (f'"{name}": {part["description"]}' for name, part in schema["properties"].items())
    return f"{{{', '.join(members)}}}"


def reply_schema(benchmark: Benchmark, instance: Instance) -> dict[str, Any]:
    """Return the JSON Schema of the reply to one instance under the form `schema`."""
    asked = benchmark.asked
    assert asked is not None
    answer: Mapping[str, Any]
    if asked.answer_schema is not None:
        answer = asked.answer_schema
    elif instance.choices:
        answer = {"type": "string", "enum": [*option_labels(instance)]}
    elif benchmark.answer == "number":
        value = {"type": ["number", "string"]}
        answer = closed({"value": value, "unit": str})
    elif benchmark.answer == "labels":
        label = {"type": "string"} | ({"enum": [*benchmark.labels]} if benchmark.labels else {})
        answer = {"type": "array", "items": label}
    else:
        answer = {"type": "string"}
    reasons = {REASONS: {"type": "string"}} if asked.asking.reasons else {}
    return closed(reasons | {ANSWER: answer})


def closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with all of these properties and no other.

    A property is a schema, a type (`str`, `int`, `bool`), or a list of the one that its items have.
    """
    return {
        "type": "object",
        "properties": {name: _schema(shape) for name, shape in properties.items()},
        "required": [*properties],
        "additionalProperties": False,
    }


def _schema(shape: Any) -> Any:
    if isinstance(shape, list):
        return {"type": "array", "items": _schema(shape[0])}
    return {"type": _TYPES[shape]} if isinstance(shape, type) else shape


_TYPES: Mapping[type, str] = {str: "string", int: "integer", bool: "boolean"}


def in_form(asking: Asking, answer: str, parts: Any = None) -> str:
    """Return an answer as a reply of an asking's form. `parts`: its value, where it is no text."""
    if asking.form == "line":
        return f"{MARK} {answer}"
    if asking.form == "schema":
        return json.dumps({ANSWER: answer if parts is None else parts}, ensure_ascii=False)
    return answer


def answer_parts(benchmark: Benchmark, instance: Instance, answer: str) -> Any:
    """Return a gold as the value that the form `schema` wants; None where that is its text."""
    if benchmark.answer == "labels":
        is_gold = answer == ", ".join(instance.references)
        return [*instance.references] if is_gold else list(filter(None, answer.split(", ")))
    if benchmark.answer == "number" and not instance.choices:
        value, _, unit = answer.partition(" ")
        is_plain = re.fullmatch(r"[+-]?\d[\d.,]*", value) is not None
        return {"value": value, "unit": unit} if is_plain else {"value": answer, "unit": ""}
    return None
