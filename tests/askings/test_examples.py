"""Worked examples: never one that is scored, the same by seed, in the form that is asked for."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm import Instance
from medhelm.data.dataset import open_dataset, open_rows
from medhelm.errors import DataError, UsageError
from medhelm.plugins.registry import load_registry
from medhelm.prompts.messages import render_prompt
from medhelm.runs.asking import as_asked_by, draw_examples, gold_reply
from medhelm.schema.asking import Asking
from medhelm.schema.data import Benchmark

REGISTRY = load_registry()
YES, NO, MAYBE = "ABC"


def row(pmid: str, decision: str = "yes", question: str = "") -> dict[str, object]:
    asked = question or f"Does drug {pmid} help?"
    return {"pmid": pmid, "QUESTION": asked, "CONTEXTS": [f"Trial {pmid}."], "LABELS": ["AIM"],
            "YEAR": "2000", "final_decision": decision}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Two scored questions of PubMedQA, and ten of its train split."""
    folder = tmp_path / "pubmed_qa"
    folder.mkdir()
    decisions = ["yes", "yes", "yes", "yes", "yes", "yes", "no", "no", "maybe", "yes"]
    rows = {str(n): row(str(n), d) for n, d in enumerate(decisions)}
    rows |= {"t1": row("t1"), "t2": row("t2", question="Does drug 9 help?")}
    rows["t2"]["CONTEXTS"] = ["Trial 9."]  # the text of an example that has another id
    (folder / "ori_pqal.json").write_text(json.dumps(rows))
    (folder / "test_ground_truth.json").write_text(json.dumps({"t1": "yes", "t2": "yes"}))
    return tmp_path


@pytest.fixture
def pubmed() -> Benchmark:
    from dataclasses import replace

    own = REGISTRY.benchmark("pubmed_qa")
    from medhelm import SourceFile

    files = tuple(
        SourceFile(name=f.name) for f in own.dataset.files
    )  # these are not the pinned ones
    return replace(own, dataset=replace(own.dataset, files=files))


def drawn(
    benchmark: Benchmark, root: Path, seed: int = 0, **asking: object
) -> tuple[Instance, ...]:
    scored = open_dataset(benchmark, "full", root=root)
    return draw_examples(benchmark, Asking(name="x", **asking), scored, seed, root).instances  # type: ignore[arg-type]


def test_none_is_scored_whatever_the_seed(pubmed: Benchmark, root: Path) -> None:
    for seed in range(5):
        found = drawn(pubmed, root, seed, examples=9)
        assert {one.id for one in found} == set("012345678")  # 9 has the text of a scored one
    assert drawn(pubmed, root, 1, examples=4) == drawn(pubmed, root, 1, examples=4)
    assert drawn(pubmed, root, 1, examples=4)[:2] == drawn(pubmed, root, 1, examples=2)
    assert len({drawn(pubmed, root, seed, examples=3)[0].id for seed in range(8)}) > 1


def test_balanced_examples_take_turns_over_the_labels(pubmed: Benchmark, root: Path) -> None:
    found = drawn(pubmed, root, examples=6, balanced=True)
    golds = [one.references[0] for one in found]
    assert sorted(golds[:3]) == [YES, NO, MAYBE]
    assert Counter(golds) == {YES: 3, NO: 2, MAYBE: 1}
    firsts = {
        drawn(pubmed, root, seed, examples=1, balanced=True)[0].references for seed in range(9)
    }
    assert len(firsts) > 1


def test_too_few_and_the_split_under_test_are_refused(pubmed: Benchmark, root: Path) -> None:
    with pytest.raises(DataError, match="9 example"):
        drawn(pubmed, root, examples=10)
    scored = open_dataset(pubmed, "full", split="train", root=root)
    with pytest.raises(UsageError, match="under test"):
        draw_examples(pubmed, Asking(name="x", examples=1), scored, 0, root)
    sample = open_dataset(pubmed, "sample", root=root)
    with pytest.raises(UsageError, match="examples_from"):
        draw_examples(pubmed, Asking(name="x", examples=1), sample, 0, root)


def test_a_cluster_under_test_gives_no_example(tmp_path: Path) -> None:
    benchmark = REGISTRY.benchmark("mmlu_medical")
    path = tmp_path / "mine.jsonl"
    scored = open_dataset(benchmark, "sample", root=tmp_path)
    rows = [dict(r) for r in scored.rows()]
    same = rows[0] | {"realidx": 990, "subject": "anatomy"}
    other = rows[0] | {"realidx": 991, "question": "Which bone is longest?"}
    path.write_text("".join(json.dumps(r) + "\n" for r in (same, other)))
    asking = Asking(name="x", examples=1, examples_from=str(path))
    found = draw_examples(benchmark, asking, scored, 0, tmp_path)
    assert [one.question for one in found.instances] == ["Which bone is longest?"]
    assert found.sha256 == open_rows(benchmark, path, "examples").sha256


@pytest.mark.parametrize(
    ("asking", "replies"),
    [
        (Asking(name="x", examples=2), ["A", "B"]),
        (Asking(name="x", examples=2, form="line"), ["Answer: A", "Answer: B"]),
        (Asking(name="x", examples=2, form="schema"), ['{"answer": "A"}', '{"answer": "B"}']),
    ],
)
def test_examples_are_turns_with_golds_in_the_form(
    asking: Asking, replies: list[str], pubmed: Benchmark
) -> None:
    metric = REGISTRY.metric("exact_match")
    pool = tuple(pubmed.to_instance(row(n, d)) for n, d in (("1", "yes"), ("2", "no")))
    asked = as_asked_by(pubmed, asking, metric, pool)  # type: ignore[arg-type]
    question = pubmed.to_instance(row("9", "maybe"))
    assert isinstance(question, Instance)
    messages = render_prompt(asked, question)
    assert [m.role for m in messages] == ["user", "assistant"] * 2 + ["user"]
    assert [m.content for m in messages[1::2]] == replies
    assert "drug 1" in messages[0].content and "drug 9" in messages[-1].content
    from dataclasses import replace as but

    assert asked.asked is not None
    in_one = but(asked, asked=but(asked.asked, asking=Asking(name="x", examples_as="message")))
    (message,) = render_prompt(in_one, question)
    places = [message.content.index(t) for t in ("drug 1", "drug 2", asked.instruction, "drug 9")]
    assert places == sorted(places) and message.content.count(asked.instruction) == 1


@given(st.sampled_from(sorted(REGISTRY.benchmarks)), st.sampled_from(["line", "schema"]))
def test_golds_of_every_benchmark_stand_in_their_form(name: str, form: str) -> None:
    benchmark = REGISTRY.benchmark(name)
    if benchmark.protocol != "completion":
        return
    instance = next(open_dataset(benchmark, "sample", root=Path()).instances())
    asking = Asking(name=form, form=form)  # type: ignore[arg-type]
    reply = gold_reply(benchmark, asking, REGISTRY.metric(benchmark.metrics[0]), instance)
    assert reply.startswith("Answer:") if form == "line" else "answer" in json.loads(reply)


def test_examples_change_with_the_form_of_the_questions(pubmed: Benchmark) -> None:
    from medhelm.runs.asking import in_variant

    pool = (pubmed.to_instance(row("1", "no")),)
    asking = Asking(name="x", examples=1, form="line")
    asked = as_asked_by(pubmed, asking, REGISTRY.metric("exact_match"), pool)  # type: ignore[arg-type]
    for how, reply in (("digits", "Answer: 2"), ("roman", "Answer: II")):
        changed = in_variant(asked, how, 0, REGISTRY)  # type: ignore[arg-type]
        assert changed.asked is not None
        assert [e.reply for e in changed.asked.examples] == [reply]
    shuffled = in_variant(asked, "shuffled", 0, REGISTRY).asked
    assert shuffled is not None
    (example,) = shuffled.examples
    place = "ABC".index(example.reply[-1])
    assert example.instance.choices[place] == "no" and example.instance.choices != (
        "yes",
        "no",
        "maybe",
    )
