"""Instance -> messages: the templates, the lettering of options, the hash of a prompt.

A template is text with the fields {instruction} {context} {question} {choices} {letters}.
Fields are filled in one pass, so braces in clinical text come through as they are. A block
(text between blank lines) whose fields are all empty is left out, and so is a line of that
kind: nothing empty leaves a hole or a lone label. A block with {instruction} behind the one
with {context} is the reminder: it is printed only after a context of at least
`LONG_CONTEXT` characters, where the first instruction lies far back.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from string import ascii_uppercase

from medhelm.errors import PluginError, UnknownName
from medhelm.schema.data import Asked, Benchmark, Instance, Prompt
from medhelm.schema.episode import Message

FIELDS = ("instruction", "context", "question", "choices", "letters")
LONG_CONTEXT = 2_000
_RULES = f"1/{LONG_CONTEXT}"
"""Version of the rules above and of the lettering; part of every prompt's hash."""
_FIELD = re.compile(r"\{([a-z_]+)\}")
_BLOCKS = re.compile(r"\n[ \t]*\n\s*")

_PLAIN = "{instruction}\n\n{context}\n\n{instruction}\n\n{question}"
_LETTER = "Exactly one option is right. Reply with its letter alone ({letters})."
_VALUE = "Reply with the value alone: no unit, no working, no other words."
TEMPLATES: Mapping[str, Prompt] = {
    prompt.name: prompt
    for prompt in (
        Prompt("multiple_choice", "1", f"{_PLAIN}\n\n{{choices}}", _LETTER),
        Prompt("short_answer", "1", _PLAIN, _VALUE),
        Prompt("plain", "1", _PLAIN),
    )
}


def resolve_prompt(benchmark: Benchmark) -> Prompt:
    """Return the template of a benchmark.

    Raises UnknownName for an unknown template or an unknown {field} in one.
    """
    prompt = benchmark.prompt
    if isinstance(prompt, str):
        if prompt not in TEMPLATES:
            raise UnknownName(
                "prompt", prompt, TEMPLATES, f"Benchmark {benchmark.name!r} names it."
            )
        prompt = TEMPLATES[prompt]
    for name in _FIELD.findall(prompt.whole):
        if name not in FIELDS:
            raise UnknownName(
                "prompt field",
                name,
                FIELDS,
                f"Template {prompt.name!r} of benchmark {benchmark.name!r} has it.",
            )
    return prompt


def render_prompt(
    benchmark: Benchmark, instance: Instance, *, system_prompt: str | None = None
) -> tuple[Message, ...]:
    """Return what is sent for an instance: the system prompt, if any, and one user message.

    Of an instance with turns these are sent as they are. Worked examples of the run's asking come before
    the question. Raises PluginError where the template has no place for a part that the instance has, and
    UnknownName as `resolve_prompt`.
    """
    asked = benchmark.asked
    system = system_prompt or (asked.asking.system if asked else "")
    first = (Message("system", system),) if system else ()
    if instance.turns:
        return (*first, *_turns(benchmark, instance))
    prompt = resolve_prompt(benchmark)
    values = field_values(benchmark, instance)
    present = set(_FIELD.findall(prompt.whole))
    for field in FIELDS[:4]:
        if values[field].strip() and field not in present:
            raise PluginError(
                f"benchmark {benchmark.name!r}: the prompt {prompt.name!r} has no {{{field}}}, "
                f"but there is one to show; choose another prompt"
            )
    user = _fill(prompt.whole, values)
    if asked is None or not asked.examples:
        return (*first, Message("user", user))
    if asked.asking.examples_as == "message":
        return (*first, Message("user", "\n\n".join([*_worked(benchmark, asked), user])))
    turns: list[Message] = []
    for example in asked.examples:
        shown = _fill(prompt.whole, field_values(benchmark, example.instance))
        turns += (Message("user", shown), Message("assistant", example.reply))
    return (*first, *turns, Message("user", user))


def field_values(benchmark: Benchmark, instance: Instance) -> dict[str, str]:
    """Return what each field of a template stands for in a prompt of an instance."""
    return {
        "instruction": benchmark.instruction,
        "context": instance.context,
        "question": instance.question,
        "choices": letter_choices(instance.choices, instance.option_labels),
        "letters": list_letters(len(instance.choices), instance.option_labels),
    }


def _worked(benchmark: Benchmark, asked: Asked) -> Iterator[str]:
    """Yield the examples as parts of one message, without instruction and closing words."""
    body = resolve_prompt(benchmark).text
    for number, example in enumerate(asked.examples, 1):
        values = field_values(benchmark, example.instance) | {"instruction": ""}
        yield f"Example {number}"
        yield _fill(body, values)
        yield example.reply
    yield "The question"


def _turns(benchmark: Benchmark, instance: Instance) -> tuple[Message, ...]:
    parts = {
        "an instruction": benchmark.instruction,
        "a context": instance.context,
        "a question": instance.question,
        "choices": instance.choices,
    }
    if besides := [name for name, value in parts.items() if value]:
        raise PluginError(
            f"benchmark {benchmark.name!r}: instance {instance.id!r} has turns and {besides[0]}, "
            "which no turn would show; put it into a turn"
        )
    return tuple(Message(turn.role, turn.content) for turn in instance.turns)


def prompt_sha256(benchmark: Benchmark, system_prompt: str | None = None) -> str:
    """Return the hash of all that shapes a prompt besides the instance, as 64 hex digits."""
    digest = hashlib.sha256()
    parts = (_RULES, resolve_prompt(benchmark).whole, benchmark.instruction, system_prompt or "")
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def option_labels(instance: Instance) -> tuple[str, ...]:
    """Return the labels under which the options of an instance are shown."""
    return instance.option_labels or tuple(ascii_uppercase[: len(instance.choices)])


def letter_choices(choices: tuple[str, ...], labels: tuple[str, ...] = ()) -> str:
    """Return the options one per line, `A. text` or under other labels; at most 26."""
    pairs = zip(labels or ascii_uppercase, choices, strict=False)
    return "\n".join(f"{letter}. {text}" for letter, text in pairs)


def list_letters(n: int, labels: tuple[str, ...] = ()) -> str:
    """Return the first `n` letters, or the labels, in words: `A`, `A or B`, `A, B or C`."""
    letters = labels or tuple(ascii_uppercase[:n])
    return " or ".join(filter(None, (", ".join(letters[:-1]), *letters[-1:])))


def _fill(template: str, values: Mapping[str, str]) -> str:
    """Return the template with its fields filled and its empty blocks and lines left out."""
    filled = {name for name, value in values.items() if value.strip()}
    is_long = len(values["context"]) >= LONG_CONTEXT
    blocks: list[str] = []
    behind_context = False
    for block in _BLOCKS.split(template.strip()):
        names = set(_FIELD.findall(block))
        is_reminder = behind_context and "instruction" in names
        behind_context = behind_context or "context" in names
        if (names and not names & filled) or (is_reminder and not is_long):
            continue
        lines = [
            line
            for line in block.split("\n")
            if not (fields := set(_FIELD.findall(line))) or fields & filled
        ]
        blocks.append("\n".join(lines))
    return _FIELD.sub(lambda match: values[match[1]], "\n\n".join(blocks))
