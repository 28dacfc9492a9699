"""A rubric set whose answer is known, and a judge of two layers that can learn it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WORDS = ("dose", "review", "test", "warning")
MODELS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'assistant' %}<assistant> <think> </think> "
    "{{ m.content }} <end>{% else %}<user> {{ m.content }} <end> {% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant> <think> </think> {% endif %}"
)


def reply(is_met: bool) -> str:
    """Return what a judge is to say."""
    return f'{{ "explanation": "seen", "criteria_met": {str(is_met).lower()} }}'


def make_rows(seed: int, answers: int, *, is_shuffled: bool = False) -> list[dict[str, str]]:
    """Return rows: an answer names things that it does and leaves others out, a criterion asks for
    one of them. Shuffled, the labels are those of other rows."""
    dice = random.Random(seed)
    rows = []
    for number in range(answers):
        for model in MODELS:
            done = {word: dice.random() < 0.6 for word in WORDS}
            told = " ".join(f"{word}{'+' if done[word] else '-'}" for word in WORDS)
            for word in dice.sample(WORDS, 2):
                rows.append({"model": model, "case": f"c{number}",
                             "instruction": f"answer {told} criterion {word}",
                             "output": reply(done[word])})  # fmt: skip
    if is_shuffled:
        outputs = [row["output"] for row in rows]
        dice.shuffle(outputs)
        rows = [row | {"output": output} for row, output in zip(rows, outputs, strict=True)]
    return rows


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch work on one: a small model gains nothing from more, and loses where others work."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def write_rows(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def make_model(folder: Path) -> Path:
    """Write an untrained model of the Qwen3 architecture whose tokens are words."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    special = ["<pad>", "<end>", "<user>", "<assistant>", "<think>", "</think>", "<unknown>"]
    words = ["answer", "criterion", *reply(True).split(), "false"]
    words += [f"{word}{mark}" for word in WORDS for mark in ("", "+", "-")]
    vocabulary = {word: n for n, word in enumerate([*special, *dict.fromkeys(words)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unknown>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>", unk_token="<unknown>",
        additional_special_tokens=["<user>", "<assistant>"], chat_template=TEMPLATE,
    ).save_pretrained(folder)  # fmt: skip
    torch.manual_seed(3)
    config = Qwen3Config(
        vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=128,
        pad_token_id=0, eos_token_id=1, bos_token_id=None, tie_word_embeddings=False,
        initializer_range=0.2,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(folder)
    return folder


def write_config(path: Path, rows: Path, model: Path, **changes: Any) -> Path:
    """Write a config of a training that takes seconds."""
    training = {
        "num_train_epochs": 5, "per_device_train_batch_size": 32, "gradient_accumulation_steps": 1,
        "learning_rate": 0.005, "warmup_steps": 0.1, "bf16": False, "gradient_checkpointing": False,
        "save_steps": 20, "eval_steps": 20,
    }  # fmt: skip
    settings: dict[str, Any] = {
        "model": str(model), "rows": [str(rows)], "output": str(path.with_suffix("")),
        "held_out": ["zeta", "Epsilon"], "max_tokens": 64, "new_tokens": 8, "evaluation_batch": 64,
    } | changes  # fmt: skip
    settings["training"] = training | settings.get("training", {})
    path.write_text(json.dumps(settings))  # JSON is YAML
    return path
