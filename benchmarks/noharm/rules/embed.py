"""Sentence vectors by a local Transformers encoder, for near-duplicates in other words."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from medhelm import ModelError
from medhelm.plugin import UsageError
from medhelm_benchmarks.noharm.rules.wording import Embed

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
        from transformers import pipeline
        from transformers.utils import logging

        logging.disable_progress_bar()
        logging.set_verbosity_error()
        source = str(place) if place.is_dir() else model
        encoder = pipeline("feature-extraction", model=source, tokenizer=source, device="cpu")
        known = getattr(encoder.model.config, "max_position_embeddings", None) or _LONGEST
        longest = min(int(known), int(encoder.tokenizer.model_max_length), _LONGEST)
        cut = {"truncation": True, "max_length": longest}
        encoder("A text to try it on.", tokenize_kwargs=cut)
    except Exception as e:  # the boundary to the library
        said = str(e).strip().splitlines()
        raise ModelError(
            f"--embeddings {model} cannot be loaded ({said[0][:200] if said else type(e).__name__}); "
            "give the id of an encoder on the hub, or a folder with one"
        ) from None

    def embed(texts: Sequence[str]) -> NDArray[np.float64]:
        found = (encoder(text, tokenize_kwargs=cut, return_tensors=True) for text in texts)
        return np.stack([tokens[0].mean(0).double().numpy() for tokens in found])

    return embed
