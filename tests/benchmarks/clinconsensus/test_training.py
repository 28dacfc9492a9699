"""The supervised judge without weights: settings, rows, the split by model, masks, fidelity, serving."""

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from medhelm import Criterion, Instance
from medhelm.errors import DataError, UsageError
from medhelm.grading.rubric.prompt import decision_of, shared_messages, with_criterion
from medhelm.grading.rubric.verdicts import read_decision
from medhelm.models.catalogue import read_model
from medhelm.plugins.registry import load_registry
from medhelm_benchmarks.clinconsensus.training.recipe import (
    MASKED,
    PAPER,
    Settings,
    encode,
    encode_within,
    read_settings,
    require_packages,
)
from medhelm_benchmarks.clinconsensus.training.rows import TrainingRow, read_rows, split
from medhelm_benchmarks.clinconsensus.training.train_command import drawn, fidelity
from tests.benchmarks.clinconsensus.tiny_judge import MODELS, make_rows, reply, write_rows
from tests.cases import cases
from tests.models.local_model import need_transformers
from tests.shell import Shell

NEEDED = {"rows": ["rows.jsonl"], "output": "out", "held_out": ["zeta"]}


class Letters:
    """A tokenizer whose tokens are characters."""

    name_or_path = "letters"
    pad_token_id = 0

    def apply_chat_template(self, messages: Any, **options: Any) -> str:
        assert options["enable_thinking"] is False and options["tokenize"] is False
        text = "".join(f"[{m['role']}]{m['content']}\n" for m in messages)
        return text + "[assistant]" * bool(options.get("add_generation_prompt"))

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [ord(c) for c in text]


class Thinking(Letters):
    def apply_chat_template(self, messages: Any, **options: Any) -> str:
        text = super().apply_chat_template(messages, **options)
        return text + "<think></think>" * bool(options.get("add_generation_prompt"))


def test_the_defaults_are_the_settings_of_the_paper(shell: Shell) -> None:
    printed = shell("judge", "train", "--show-defaults")
    assert printed == PAPER.read_text(encoding="utf-8")
    known = yaml.safe_load(printed)
    assert set(known) == set(Settings.__struct_fields__)
    training = known["training"]
    paper = {
        "num_train_epochs": 2, "learning_rate": 1e-5, "lr_scheduler_type": "cosine", "warmup_steps": 0.05,
        "weight_decay": 0.01, "bf16": True, "gradient_checkpointing": True, "seed": 42,
    }  # fmt: skip
    assert {name: training[name] for name in paper} == paper
    assert (known["model"], known["max_tokens"], known["new_tokens"]) == (
        "Qwen/Qwen3-8B",
        5120,
        512,
    )
    batch = training["per_device_train_batch_size"] * training["gradient_accumulation_steps"]
    assert batch * 8 == 64  # on the paper's eight GPUs


@pytest.mark.parametrize(("changes", "line"), cases(__file__, "a_config_is_checked"))
def test_a_config_is_checked(tmp_path: Path, changes: Any, line: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(changes if isinstance(changes, str) else json.dumps(NEEDED | changes))
    with pytest.raises(UsageError, match=line):
        read_settings(path)


@pytest.mark.extra
@pytest.mark.filterwarnings("default")  # those of the libraries are theirs
@pytest.mark.parametrize("changes", [{"training": {"learning_rat": 1}}, {"lora": {"rnak": 8}}])
def test_the_libraries_check_their_own_settings(tmp_path: Path, changes: Any) -> None:
    need_transformers()
    pytest.importorskip("peft", reason="needs adapters: pip install '.[lora]'")
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(NEEDED | changes))
    with pytest.raises(UsageError, match="training or lora: "):
        require_packages(read_settings(path))


def test_numbers_as_people_write_them(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "rows: [a.jsonl]\noutput: out\nheld_out: [m]\ntraining: {learning_rate: 1e-5}\n"
    )
    assert read_settings(path).training["learning_rate"] == 1e-5


def test_what_changes_no_weight_is_no_part_of_the_fingerprint(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", make_rows(1, 2))

    def fingerprint(**changes: Any) -> str:
        path = tmp_path / "config.yaml"
        path.write_text(json.dumps(NEEDED | {"rows": [str(rows)]} | changes))
        return read_settings(path).fingerprint

    first = fingerprint()
    assert fingerprint(output="elsewhere", training={"save_steps": 7}, max_held_out=3) == first
    assert fingerprint(lora=None) == first
    assert len({first, *(fingerprint(lora=own) for own in ({}, {"r": 4}))}) == 3
    assert fingerprint(training={"seed": 43}) != first
    rows.write_text(rows.read_text() + "\n" + json.dumps(make_rows(2, 1)[0]))
    assert fingerprint() != first


def test_without_peft_one_line_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if name != "peft" else None)
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(NEEDED | {"lora": {}}))
    with pytest.raises(UsageError, match="peft is missing.* extra lora"):
        require_packages(read_settings(path))


def test_rows_are_read(tmp_path: Path) -> None:
    turns = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    given = [*make_rows(1, 1)[:1], {"model": "m", "messages": turns, "output": reply(False)}]
    one, two = read_rows([str(write_rows(tmp_path / "rows.jsonl", given))])
    assert one.messages == ({"role": "user", "content": given[0]["instruction"]},)
    assert one.is_met is ("true" in one.output) and two.is_met is False
    assert [m["role"] for m in two.messages] == ["system", "user"]


def test_a_decision_becomes_what_the_grader_sends(tmp_path: Path) -> None:
    given = {"model": "m", "case": "c", "request": "发热怎么办？", "answer": "多喝水。", "criterion": "建议就诊",
             "criteria_met": False, "explanation": "没有建议就诊"}  # fmt: skip
    path = write_rows(tmp_path / "rows.jsonl", [given])
    (row,) = read_rows([str(path)])
    instance = Instance(context="发热怎么办？", metadata={"language": "zh"})
    benchmark = next(b for b in load_registry().benchmarks.values() if b.name == "headqa")
    benchmark = dataclasses.replace(benchmark, instruction="")
    shared = shared_messages(benchmark, instance, "多喝水。")
    sent = with_criterion(shared, Criterion(name="x", text="建议就诊"))
    assert row.messages == tuple({"role": m.role, "content": m.content} for m in sent)
    assert read_decision(row.output) == (False, "没有建议就诊") and row.is_met is False
    write_rows(path, [given | {"criteria_met": "false"}])
    with pytest.raises(DataError, match="criteria_met .*true nor false"):
        read_rows([str(path)])


@pytest.mark.parametrize(("changes", "line"), cases(__file__, "a_bad_row_is_named"))
def test_a_bad_row_is_named(tmp_path: Path, changes: dict[str, Any], line: str) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [make_rows(1, 1)[0] | changes])
    with pytest.raises(DataError, match=line) as error:
        read_rows([str(path)])
    assert "answer" not in str(error.value)


def test_a_reply_is_read_as_the_grader_reads_it() -> None:
    """Its forms are those of tests/rubric/test_replies.py."""
    texts = (reply(True), f"<think>{reply(True)}</think>{reply(False)}", f"Yes. {reply(True)}")
    assert [decision_of(text) for text in texts] == [True, False, None]


names = st.sampled_from(("alpha", "Alpha", "AL-PHA", "beta", "Beta 2", "beta-2", "gamma"))


@pytest.mark.slow
@given(st.lists(names, min_size=1, max_size=3), st.integers(0, 5), st.floats(0.05, 0.95))
def test_no_model_is_on_both_sides(held_out: list[str], seed: int, share: float) -> None:
    spellings = ("alpha", "ALPHA", "beta", "Beta-2", "gamma", "Gamma")
    given = [row | {"model": spellings[n % 6]} for n, row in enumerate(make_rows(seed, 6))]
    rows = [parsed for n, row in enumerate(given) for parsed in [_parsed(row, n)]]
    try:
        parts = split(rows, held_out, share, seed)
    except UsageError as error:
        assert "no row is left" in str(error)
        return
    inside = {
        row.model.casefold().replace("-", "") for row in (*parts["training"], *parts["development"])
    }
    outside = {row.model.casefold().replace("-", "") for row in parts["held_out"]}
    assert not inside & outside
    assert outside == {name.casefold().replace("-", "").replace(" ", "") for name in held_out}
    # every row is in one part, and all decisions on one answer are in the same
    places = [row.where for part in parts.values() for row in part]
    assert sorted(places) == sorted(row.where for row in rows)
    answers = [
        {(row.model.casefold(), row.case) for row in part}
        for part in (parts["training"], parts["development"])
    ]
    assert not answers[0] & answers[1]


def _parsed(row: dict[str, str], number: int) -> Any:
    messages = ({"role": "user", "content": row["instruction"]},)
    met = "true" in row["output"]
    return TrainingRow(f"{number:04d}", row["model"], row["case"], messages, row["output"], met)


def test_a_model_that_no_row_has_cannot_be_held_out(tmp_path: Path) -> None:
    rows = read_rows([str(write_rows(tmp_path / "rows.jsonl", make_rows(1, 5)))])
    with pytest.raises(UsageError, match="'zetta'.* 'zeta'"):
        split(rows, ["zetta"], 0.1, 1)
    with pytest.raises(UsageError, match="left for training"):
        split(rows, MODELS, 0.1, 1)


def test_the_prompt_is_masked_and_nothing_is_cut() -> None:
    rows = [_parsed(row, n) for n, row in enumerate(make_rows(1, 2))]
    tokenizer = Letters()
    features = encode(tokenizer, rows[0])
    text = "".join(map(chr, features["input_ids"]))
    learned = "".join(chr(t) for t in features["labels"] if t != MASKED)
    assert text == f"[user]{rows[0].messages[0]['content']}\n[assistant]{rows[0].output}\n"
    assert learned == f"{rows[0].output}\n"
    assert features["labels"].count(MASKED) == text.index("{")
    # the limit: the longest row fits exactly, one token fewer leaves it out and counts it
    lengths = [len(encode(tokenizer, row)["input_ids"]) for row in rows]
    kept, left_out = encode_within(tokenizer, rows, max(lengths))
    assert ([len(e["input_ids"]) for e in kept], left_out) == (lengths, 0)
    kept, left_out = encode_within(tokenizer, rows, max(lengths) - 1)
    assert left_out == lengths.count(max(lengths)) and len(kept) + left_out == len(rows)
    assert all(len(e["input_ids"]) in lengths for e in kept)  # none is shorter than it was


def test_a_template_that_shows_the_judge_another_prompt_is_refused() -> None:
    with pytest.raises(UsageError, match="another text"):
        encode(Thinking(), _parsed(make_rows(1, 1)[0], 0))


def test_held_out_fidelity() -> None:
    rows = [_parsed(row, n) for n, row in enumerate(make_rows(1, 6))]
    dice = np.random.default_rng(1)
    decisions = [None if d < 0.1 else bool(d < 0.6) for d in dice.random(len(rows))]
    labels, unmet = [row.is_met for row in rows], [d is True for d in decisions]
    wrong = [not y if d is None else d for y, d in zip(labels, decisions, strict=True)]
    found = fidelity(rows, decisions, oversize=2)
    assert found.mf1 == pytest.approx(sklearn_metrics.f1_score(labels, unmet, average="macro"))
    assert found.mf1_wrong == pytest.approx(
        sklearn_metrics.f1_score(labels, wrong, average="macro")
    )
    assert (found.invalid, found.rows, found.oversize) == (decisions.count(None), len(rows), 2)
    few = drawn(rows, 10, 3)
    assert len(few) == 10 and few == [row for row in rows if row in few]
    assert drawn(rows, 0, 3) == rows == drawn(rows, 99, 3)


def test_serve_prints_what_runs(tmp_path: Path, shell: Shell) -> None:
    folder = tmp_path / "out" / "final"
    folder.mkdir(parents=True)
    assert "has no config.json" in shell.error("judge", "serve", folder)
    for name in ("config.json", "tokenizer_config.json"):
        (folder / name).write_text("{}")
    out = shell("judge", "serve", folder, "--port", "8100", "--name", "judge/ours")
    command, *configs = (
        "\n".join(line for line in block.splitlines() if not line.startswith("#"))
        for block in out.split("\n\n")
    )
    words = shlex.split(command)
    assert words[:3] == ["vllm", "serve", str(folder)]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert options["--host"] == "127.0.0.1" and options["--served-model-name"] == "judge/ours"
    assert int(options["--max-model-len"]) == 5120 + 512
    assert json.loads(options["--default-chat-template-kwargs"]) == {"enable_thinking": False}
    for text, provider in zip(configs, ("openai", "hf"), strict=True):
        spec = read_model("judge/ours", text.encode(), "ours.yaml")
        assert (spec.name, spec.provider) == ("judge/ours", provider)
        assert spec.sampling.temperature == 0
        assert spec.extra_body == {"chat_template_kwargs": {"enable_thinking": False}}
