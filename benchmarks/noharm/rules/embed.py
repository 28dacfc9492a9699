"""Sentence vectors by a local Transformers encoder, for near-duplicates in other words."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medhelm import ModelError
from medhelm.plugin import UsageError
from medhelm_benchmarks.noharm.rules.wording import Embed

_BATCH = 64
_LONGEST = 512
"""Tokens of a text that are read, where the model knows no limit of its own."""


def load_embedder(model: str) -> Embed:
    """Return a function from texts to vectors (n, d): the mean of the last layer's tokens.

    `model` is a folder or a hub id; texts stay on this machine. Raises UsageError where the
    packages or the folder are missing, ModelError where the model cannot be loaded.
    """
    if any(find_spec(package) is None for package in ("torch", "transformers")):
        raise UsageError(
            f"--embeddings {model} needs the packages torch and transformers; "
            "run in the checkout: pip install '.[hf]'"
        )
    place = Path(model).expanduser()
    if not place.is_dir() and (model.startswith((".", "/", "~")) or model.count("/") > 1):
        raise UsageError(f"--embeddings: there is no folder {model}; name one, or a hub id")
    try:
        from transformers import AutoModel, AutoTokenizer
        from transformers.utils import logging

        logging.disable_progress_bar()
        logging.set_verbosity_error()
        source = str(place) if place.is_dir() else model
        encoder = _Encoder(AutoTokenizer.from_pretrained(source), AutoModel.from_pretrained(source))
        encoder(["A text to try it on."])
    except Exception as e:  # the boundary to the library
        said = str(e).strip().splitlines()
        raise ModelError(
            f"--embeddings {model} cannot be loaded ({said[0][:200] if said else type(e).__name__}); "
            "give the id of an encoder on the hub, or a folder with one"
        ) from None
    return encoder


class _Encoder:
    """A loaded model."""

    def __init__(self, tokenizer: Any, model: Any) -> None:
        self._tokenizer, self._model = tokenizer, model.eval()
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        known = getattr(model.config, "max_position_embeddings", None) or _LONGEST
        self._longest = min(int(known), int(tokenizer.model_max_length), _LONGEST)

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float64]:
        batches = [texts[start : start + _BATCH] for start in range(0, len(texts), _BATCH)]
        return np.concatenate([self._vectors(list(batch)) for batch in batches])

    def _vectors(self, texts: list[str]) -> NDArray[np.float64]:
        import torch

        rows = self._tokenizer(
            texts, padding=True, truncation=True, max_length=self._longest, return_tensors="pt"
        )
        with torch.inference_mode():
            vectors = self._model(**rows).last_hidden_state
        kept = rows["attention_mask"].unsqueeze(-1)
        means = (vectors * kept).sum(1) / kept.sum(1).clamp(min=1)
        return np.asarray(means.double().numpy(), dtype=np.float64)
