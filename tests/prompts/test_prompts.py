import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.errors import PluginError, UnknownName
from medhelm.prompts.messages import (
    LONG_CONTEXT,
    TEMPLATES,
    list_letters,
    prompt_sha256,
    render_prompt,
    resolve_prompt,
)
from medhelm.schema.data import Instance, Prompt
from medhelm.schema.episode import Message
from tests.made import benchmark

BENCHMARK = benchmark(instruction="Do the task.")


def text(instance: Instance, prompt: str | Prompt = "multiple_choice") -> str:
    (message,) = render_prompt(dataclasses.replace(BENCHMARK, prompt=prompt), instance)
    assert message.role == "user"
    return message.content


def test_prompts_in_full() -> None:
    instance = Instance(context="A note.", question="Why?", choices=("one", "two", "three"))
    assert text(instance) == (
        "Do the task.\n\nA note.\n\nWhy?\n\nA. one\nB. two\nC. three\n\n"
        "Exactly one option is right. Reply with its letter alone (A, B or C)."
    )
    assert text(Instance(context="A note.", question="How much?"), "short_answer") == (
        "Do the task.\n\nA note.\n\nHow much?\n\n"
        "Reply with the value alone: no unit, no working, no other words."
    )
    plain = dataclasses.replace(BENCHMARK, prompt="plain")
    messages = render_prompt(plain, Instance(context="A note."), system_prompt="Be.")
    assert messages == (Message("system", "Be."), Message("user", "Do the task.\n\nA note."))


def test_a_long_context_is_followed_by_the_instruction_and_the_answer_format() -> None:
    context = "x" * 100_000
    shown = text(Instance(context=context, question="Why?", choices=("a", "b")))
    before, after = shown.split(context)
    assert before == "Do the task.\n\n"
    assert after.startswith("\n\nDo the task.\n\nWhy?\n\nA. a\nB. b\n\n")
    assert after.endswith("(A or B).")
    short = text(Instance(context="x" * (LONG_CONTEXT - 1), question="Why?", choices=("a", "b")))
    assert short.count("Do the task.") == 1


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("context", ["", "  \n", "A note."])
@pytest.mark.parametrize("question", ["", "Why?"])
def test_nothing_empty_leaves_a_hole_or_a_lone_mark(name: str, context: str, question: str) -> None:
    choices = ("a", "b") if name == "multiple_choice" else ()
    shown = text(Instance(context=context, question=question, choices=choices), name)
    assert "\n\n\n" not in shown
    assert shown == shown.strip()
    assert not any(line.strip() == ":" for line in shown.splitlines())
    assert shown.count("A. a") == len(choices) // 2


def test_labels_of_empty_fields_are_left_out() -> None:
    prompt = Prompt(
        name="own",
        version="1",
        text="{instruction}\n\nNote:\n{context}\n\nQ: {question}\n{choices}\n\nAnswer:",
    )
    assert text(Instance(question="Why?"), prompt) == "Do the task.\n\nQ: Why?\n\nAnswer:"
    assert text(Instance(context="N"), prompt) == "Do the task.\n\nNote:\nN\n\nAnswer:"


@given(
    context=st.text(min_size=1).filter(str.strip),
    question=st.text(min_size=1).filter(str.strip),
    option=st.text(min_size=1),
)
def test_every_text_comes_through_verbatim(context: str, question: str, option: str) -> None:
    shown = text(Instance(context=context, question=question, choices=(option, "{context}")))
    assert f"\n\n{context}\n\n" in shown
    assert f"\n\n{question}\n\nA. {option}\nB. {{context}}\n\n" in shown


def test_fields_and_braces_in_clinical_text_are_not_filled() -> None:
    context = "{context} {question} {0} {} {{x}} {instruction} \\1 \\g<0> %s $x"
    assert context in text(Instance(context=context, question="{choices}", choices=("{letters}",)))


def test_unknown_template_and_unknown_field() -> None:
    with pytest.raises(UnknownName, match="did you mean 'multiple_choice'"):
        resolve_prompt(dataclasses.replace(BENCHMARK, prompt="multiple_choise"))
    own = Prompt(name="own", version="1", text='{contxt} {"json": {}}')
    with pytest.raises(UnknownName, match="'contxt'.* 'context'"):
        resolve_prompt(dataclasses.replace(BENCHMARK, prompt=own))


@pytest.mark.parametrize(
    ("instance", "prompt", "field"),
    [
        (Instance(question="q", choices=("secret text",)), "plain", "choices"),
        (Instance(context="secret text"), Prompt("own", "1", "{question}"), "instruction"),
        (Instance(context="secret text"), Prompt("own", "1", "{instruction}"), "context"),
        (Instance(question="secret text"), Prompt("o", "1", "{instruction}{context}"), "question"),
    ],
)
def test_a_part_without_its_place_is_refused(
    instance: Instance, prompt: str | Prompt, field: str
) -> None:
    with pytest.raises(PluginError, match=rf"has no \{{{field}\}}") as caught:
        text(instance, prompt)
    assert "secret" not in str(caught.value)


def test_the_hash_follows_whatever_shapes_the_prompt() -> None:
    own = Prompt(name="own", version="1", text="{instruction} {context}")
    hashes = {
        prompt_sha256(BENCHMARK),
        prompt_sha256(BENCHMARK, "Be kind."),
        prompt_sha256(dataclasses.replace(BENCHMARK, instruction="Do it.")),
        prompt_sha256(dataclasses.replace(BENCHMARK, prompt="plain")),
        prompt_sha256(dataclasses.replace(BENCHMARK, prompt=own)),
        prompt_sha256(dataclasses.replace(BENCHMARK, prompt=own, instruction="")),
        # no text moves between the parts
        prompt_sha256(dataclasses.replace(BENCHMARK, instruction="ab"), "c"),
        prompt_sha256(dataclasses.replace(BENCHMARK, instruction="a"), "bc"),
    }
    assert len(hashes) == 8
    assert prompt_sha256(BENCHMARK, None) == prompt_sha256(BENCHMARK)
    renamed = dataclasses.replace(own, name="other", version="9")
    assert prompt_sha256(dataclasses.replace(BENCHMARK, prompt=renamed)) in hashes


def test_letters_in_words() -> None:
    assert [list_letters(n) for n in range(5)] == ["", "A", "A or B", "A, B or C", "A, B, C or D"]
    assert list_letters(26).endswith("Y or Z")
