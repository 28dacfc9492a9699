"""Embeddings by a local encoder of random weights; what is missing is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medhelm.errors import ModelError, UsageError
from medhelm_benchmarks.noharm.rules.wording import load_embedder
from tests.models.local_model import make_tiny_model, need_transformers


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_transformers()
    return make_tiny_model(tmp_path_factory.mktemp("encoder"), window=64)


@pytest.mark.extra
def test_a_vector_is_the_mean_over_the_texts_own_tokens(folder: Path) -> None:
    import torch
    from transformers import AutoModel, AutoTokenizer

    embed = load_embedder(str(folder))
    short, long = "INR", "Measure the INR tomorrow morning"
    alone, (beside, _) = embed([short]), embed([short, long])
    np.testing.assert_allclose(alone[0], beside, atol=1e-5)  # padding counts for nothing
    rows = AutoTokenizer.from_pretrained(folder)(short, return_tensors="pt")
    with torch.inference_mode():
        tokens = AutoModel.from_pretrained(folder).eval()(**rows).last_hidden_state[0]
    np.testing.assert_allclose(alone[0], tokens.mean(0).numpy(), atol=1e-5)


@pytest.mark.extra
def test_what_is_no_encoder_is_named_in_one_line(tmp_path: Path) -> None:
    need_transformers()
    with pytest.raises(ModelError, match="cannot be loaded") as error:
        load_embedder(str(tmp_path))
    assert "\n" not in str(error.value)
    with pytest.raises(UsageError, match="there is no folder"):
        load_embedder(str(tmp_path / "absent"))
