"""BERTScore by the bert-score package, as a secondary metric (Zhang et al. 2020, ICLR).

    bertscore[:MODEL][@LAYER][#precision|#recall]

MODEL is a hub id or a local folder. Without one it is distilbert-base-uncased, as in the code behind
the MedHELM paper, not rescaled by a baseline. LAYER is the hidden layer whose vectors are compared:
else the one that bert-score has tuned for a hub id, and the last one of any other model. The value
is F1 unless another is named. Of several references the best counts. A negative cosine counts 0.
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from medhelm.errors import PluginError, UsageError
from medhelm.extract import visible_text
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode
from medhelm.schema.score import Metric, Score

NAME = "bertscore"
MODEL = "distilbert-base-uncased"
_SPELLING = re.compile(
    rf"{NAME}(?::(?P<model>[^#@\s\[\],]+))?(?:@(?P<layer>[1-9]\d*))?(?:#(?P<key>\w+))?"
)
_KEYS = ("precision", "recall", "f1")
_FORM = f"{NAME}, {NAME}:MODEL, {NAME}:MODEL@LAYER, each with #precision or #recall"
_DECIMALS = 6
"""The rest of a batch changes the digits behind these."""
_HELD = 4096

_Three = tuple[float, float, float]


@dataclass(frozen=True, kw_only=True)
class BertScore(Metric):
    """Precision, recall or F1 of greedily matched token vectors; best over the references."""

    model: str
    layer: int | None = None
    key: str = "f1"
    is_slow: bool = True
    source: str = "Zhang et al. 2020, BERTScore (arXiv 1904.09675); implementation bert-score"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the best value over the references. Without one the gold says nothing."""
        if not any(gold.strip() for gold in instance.references):
            return Score(value=None, outcome="uninformative", reason="there is no reference")
        if not (pairs := _pairs([(instance, episode)])):
            return Score(value=None, outcome="unparsed", reason="nothing but thinking")
        place = _KEYS.index(self.key)
        return Score(value=max(three[place] for three in self._encoder().compare(pairs)))

    def look_ahead(self, pairs: Sequence[tuple[Instance, Episode]]) -> None:
        """Compute what `score` will be asked next, in batches."""
        self._encoder().compare(_pairs(pairs))

    def _encoder(self) -> _Encoder:
        return _encoder(self.model, self.layer, self.version)


def is_bertscore(name: str) -> bool:
    """Return whether a metric's name is one of this module."""
    return re.split("[:@#]", name, maxsplit=1)[0] == NAME


def bertscore_metric(name: str) -> BertScore:
    """Return the metric that is spelt so. The model is loaded on first use.

    Raises UsageError on another spelling, for a package that is missing and a folder without model.
    """
    match = _SPELLING.fullmatch(name)
    if match is None or (match["key"] or "f1") not in _KEYS:
        raise UsageError(f"metric {name!r} is misspelt; write {_FORM}")
    try:
        own = version("bert-score")
        version("torch")
    except PackageNotFoundError:
        raise UsageError(
            f"metric {name!r} needs the packages bert-score and torch; "
            "run in the checkout: pip install '.[bertscore]'"
        ) from None
    model = match["model"] or MODEL
    return BertScore(
        name=name,
        version=f"2+{own}+{model}{_folder_hash(name, model)}",
        model=model,
        layer=int(match["layer"]) if match["layer"] else None,
        key=match["key"] or "f1",
    )


def _folder_hash(name: str, model: str) -> str:
    """Return a mark of the files of a local model; empty for a hub id."""
    folder = Path(model).expanduser()
    if not folder.is_dir():
        if model.startswith((".", "/", "~")):
            raise UsageError(f"metric {name!r}: there is no folder {model}; name one, or a hub id")
        return ""
    if not (folder / "config.json").is_file():
        raise UsageError(f"metric {name!r}: {model} holds no config.json of a Transformers model")
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    state = tuple((p, p.stat().st_size, p.stat().st_mtime_ns) for p in files)
    return f"+{_hash_files(folder, state)}"


@lru_cache(maxsize=8)
def _hash_files(folder: Path, state: tuple[tuple[Path, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for path, size, _ in state:
        digest.update(f"{path.relative_to(folder).as_posix()}\0{size}\0".encode())
        with open(path, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:12]


def _pairs(of: Iterable[tuple[Instance, Episode]]) -> list[tuple[str, str]]:
    """Return every answer with each of its references; blank texts have nothing to compare."""
    return [
        (answer, gold.strip())
        for instance, response in of
        if (answer := visible_text(response.text))
        for gold in instance.references
        if gold.strip()
    ]


class _Encoder:
    """A loaded model, and the last comparisons: several metrics ask for the same ones."""

    def __init__(self, model: str, layer: int | None) -> None:
        self._model = model
        self._scorer = _load(model, layer)
        self._lock = threading.Lock()
        self._done: dict[tuple[str, str], _Three] = {}

    def compare(self, pairs: Sequence[tuple[str, str]]) -> list[_Three]:
        """Return precision, recall and F1 of each pair (answer, reference); raises PluginError."""
        with self._lock:
            left = [pair for pair in dict.fromkeys(pairs) if pair not in self._done]
            if left:
                if len(self._done) > _HELD:
                    self._done = {p: self._done[p] for p in pairs if p in self._done}
                self._done.update(zip(left, self._compute(left), strict=True))
            return [self._done[pair] for pair in pairs]

    def _compute(self, pairs: Sequence[tuple[str, str]]) -> list[_Three]:
        answers, golds = zip(*pairs, strict=True)
        try:
            found = self._scorer.score(list(answers), list(golds))
        except Exception as e:  # the boundary to the library
            raise PluginError(
                f"metric {NAME}:{self._model} raised {type(e).__name__}; use another model"
            ) from None
        p, r, f = (map(_in_range, values.tolist()) for values in found)
        return list(zip(p, r, f, strict=True))


def _in_range(value: float) -> float:
    """Return a cosine without its rounding errors; F1 of nothing alike is NaN."""
    return 0.0 if math.isnan(value) else round(min(1.0, max(0.0, value)), _DECIMALS)


@cache
def _encoder(model: str, layer: int | None, version: str) -> _Encoder:
    """Return the loaded model; `version` is that of the metric, so changed files are read again."""
    return _Encoder(model, layer)


def _load(model: str, layer: int | None) -> Any:
    try:
        from bert_score import BERTScorer
        from bert_score.utils import model2layers
        from transformers import AutoConfig
        from transformers.utils import logging

        logging.disable_progress_bar()
        place = str(Path(model).expanduser())
        config = AutoConfig.from_pretrained(place)
        tuned = None if Path(place).is_dir() else model2layers.get(model)
        scorer = BERTScorer(
            model_type=place, num_layers=layer or tuned or int(config.num_hidden_layers)
        )
        with suppress(AttributeError):  # a tokenizer that knows no limit would overflow the model
            longest = int(config.max_position_embeddings)
            scorer._tokenizer.model_max_length = min(scorer._tokenizer.model_max_length, longest)
    except Exception as e:  # the boundary to the library
        said = str(e).strip().splitlines()
        raise PluginError(
            f"metric {NAME}:{model} cannot be loaded ({said[0][:200] if said else type(e).__name__});"
            " give the id of an encoder on the hub, or a folder with one"
        ) from None
    return scorer
