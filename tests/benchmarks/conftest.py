"""The real upstream files, where they are."""

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="session")
def real_data() -> Path:
    root = Path(os.environ.get("MEDHELM_DATA_DIR") or _BESIDE)
    if not (root / "headqa").is_dir():
        pytest.skip(f"no upstream files in {root}; name their folder in MEDHELM_DATA_DIR")
    return root
