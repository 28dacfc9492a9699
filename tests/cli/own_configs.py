"""A folder of configs as a user may keep one."""

from __future__ import annotations

from pathlib import Path

FILES: dict[str, str | bytes] = {
    "model/mine.yaml": "provider: baseline\nmodel: lexical\nendpoint_class: local\n",
    "model/house/lead.yaml": "{provider: baseline, model: lead, name: house/first}\n",
    "model/house/random.yaml": "{provider: baseline, model: random}\n",
    "model/bad.yaml": "{provider: baseline, modle: lead}\n",
    "model/torn.yaml": "provider: [baseline\n",
    "model/latin.yaml": b"provider: '\xff'\n",
    "model/list.yaml": "[1, 2]\n",
    "benchmark/pubmed_all.yaml": "{name: pubmed_qa, split: all}\n",
    "benchmark/headqa.yaml": "split: test\n",
    "suite/two.yaml": "benchmarks: [headqa, medec]\n",
    "suite/wrong.yaml": "benchmarks: [headqa, medecc]\n",
    "experiment/mine.yaml": "# @package _global_\n"
    "defaults:\n  - override /benchmark: medec\n  - override /model: house/random\n"
    "data: sample\nmax_instances: 3\n",
    "experiment/plugged.yaml": "# @package _global_\nplugins: [nowhere.py]\n",
}


def write_own(folder: Path) -> Path:
    """Write the configs below `folder`; return their folder, which is laid out like `conf/`."""
    for name, text in FILES.items():
        path = folder / "own" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder / "own"
