"""What prompts say of the form of the answer: the asking's words, and nothing beside them that says otherwise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from medhelm import Asking, Benchmark
from medhelm.data.dataset import open_dataset
from medhelm.plugins.registry import load_registry
from medhelm.prompts.messages import render_prompt, resolve_prompt
from medhelm.runs.asking import as_asked_by, why_not

REGISTRY = load_registry()
BARE = re.compile(
    r"\b(reply|answer|respond) with (?!one JSON|one line that begins)|\b(its|the) letter alone|no other words"
    r"|\bapenas\b|end with one line: |\b(responda|conteste|responde)\b",
    re.IGNORECASE,
)
"""Words that ask for a reply of a form."""
ASKINGS = (
    Asking(name="cot", form="line", reasons=True, max_output_tokens=2048),
    Asking(name="line", form="line"),
    Asking(name="schema", form="schema"),
)


@pytest.mark.parametrize("name", sorted(REGISTRY.benchmarks))
def test_no_benchmark_asks_for_two_forms_at_once(name: str) -> None:
    benchmark = REGISTRY.benchmark(name)
    dataset = open_dataset(benchmark, "sample", root=Path())
    first = next(iter(dataset.instances()))
    metric = REGISTRY.metric(benchmark.metrics[0])
    for asking in ASKINGS:
        if why_not(asking, benchmark, dataset):
            continue
        asked = as_asked_by(benchmark, asking, metric)
        words = render_prompt(asked, first)[-1].content.replace(first.context, "")
        assert not BARE.search(words), words
        assert words.count("`Answer:`") == (asking.form == "line")
        assert words.count("JSON") == (asking.form == "schema")


def test_what_to_reply_with_becomes_the_answer() -> None:
    metric = REGISTRY.metric("medec_flag_accuracy")
    own = REGISTRY.benchmark("medec")
    asked = as_asked_by(own, ASKINGS[0], metric)
    assert (
        "right, the answer is the single word CORRECT. If not, the answer is" in asked.instruction
    )
    assert as_asked_by(own, Asking(name="few", examples=2), metric).instruction == own.instruction
    mine = Asking(name="mine", form="line", instruction="Reply with care.")
    assert as_asked_by(own, mine, metric).instruction == "Reply with care."


def test_last_words_of_an_own_template_make_room() -> None:
    own = REGISTRY.benchmark("healthqa_br")
    metric = REGISTRY.metric("exact_match")

    def last(benchmark: Benchmark) -> str:
        return resolve_prompt(benchmark).whole.split("\n\n")[-1]

    assert "Responda apenas com a letra." in last(own)
    assert last(as_asked_by(own, Asking(name="few", examples=2), metric)) == last(own)
    assert "Then end with one last line" in last(as_asked_by(own, ASKINGS[0], metric))
    logprobs = Asking(name="logprobs", form="logprobs", closing="Resposta:")
    assert last(as_asked_by(own, logprobs, metric)) == "Resposta:"
