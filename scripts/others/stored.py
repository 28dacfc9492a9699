"""The scores that a script beside this one stores: counts, and no text of an item.

Imported in environments that hold another harness and nothing of this package.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Score:
    """Points that a harness gives to one kind of answer."""

    benchmark: str
    metric: str
    answers: str
    part: str
    n: int
    points: float
    unscored: int = 0


def store(
    harness: str, packages: Sequence[str], scores: Sequence[Score], data: Path, files: Sequence[str]
) -> None:
    """Write the scores with the packages' versions and the checksums of the files scored."""
    path = RESULTS / f"{packages[0].replace('-', '_')}.json"
    found = {
        "harness": harness,
        "script": Path(sys.argv[0]).name,
        "packages": {name: version(name) for name in packages},
        "files": {name: hashlib.sha256((data / name).read_bytes()).hexdigest() for name in files},
        "scores": [asdict(score) for score in scores],
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
