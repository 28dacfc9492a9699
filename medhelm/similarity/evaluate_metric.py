"""Any metric of the `evaluate` library by name, as a secondary metric.

    evaluate:NAME[#KEY][@WORST..BEST]

NAME is a metric of the library, or a local folder with its script. KEY picks one of several
results. WORST..BEST is the range, needed where it is not 0..1 and not known here: `evaluate:chrf`,
`evaluate:rouge#rougeL`, `evaluate:wer@10..0` (lower is better), `evaluate:./ours/mine@0..100`.
Each response is scored alone, and a run's value is the mean; a corpus-level BLEU would differ.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from numbers import Real
from pathlib import Path, PurePath
from typing import Any

from medhelm.errors import PluginError, UsageError
from medhelm.extract import visible_text
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode
from medhelm.schema.score import Metric, Score

_NUMBER = r"-?\d+(?:\.\d+)?"
_SPELLING = re.compile(
    rf"evaluate:(?P<module>[^#@\s\[\],]+)(?:#(?P<key>[\w.-]+))?"
    rf"(?:@(?P<worst>{_NUMBER})\.\.(?P<best>{_NUMBER}))?"
)
_FORM = "evaluate:NAME, evaluate:NAME#KEY or evaluate:NAME@WORST..BEST"

_KNOWN: Mapping[str, tuple[str, float, float]] = {
    "chrf": ("score", 0.0, 100.0),
    "character": ("cer_score", 1.0, 0.0),
    "sacrebleu": ("score", 0.0, 100.0),
}
"""Result key, worst and best value of metrics that are not 0..1 under their own name."""
_UNBOUNDED = frozenset({"cer", "mae", "mape", "mse", "nist_mt", "perplexity", "ter", "wer"})
"""Metrics without a bound on one side: the range must be said."""


@dataclass(frozen=True, kw_only=True)
class EvaluateMetric(Metric):
    """One result of a metric of the evaluate library, for one response at a time."""

    module: str
    """Name in the library, or a local folder."""
    key: str = ""
    """The result that counts; empty: the one called like the module, or the only number."""

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return the library's value for one episode.

        The prediction is the completion without what was thought. Where the metric takes several references it gets
        all of the instance's, else the gold. Raises PluginError where the library cannot do it.
        """
        if not instance.references:
            return Score(value=None, outcome="unscored", reason="no reference")
        if not (answer := visible_text(episode.text)):
            return Score(value=None, outcome="unparsed", reason="nothing but thinking")
        module, takes_list = _load(self.module, self.version)
        references = list(instance.references) if takes_list else instance.references[0]
        try:
            result = module.compute(predictions=[answer], references=[references])
        except Exception as e:  # the boundary to the library's scripts
            raise PluginError(
                f"metric {self.name!r} raised {type(e).__name__} for instance {instance.id!r}; it "
                "must take one text and its references and need no further argument"
            ) from None
        value = self._pick(result)
        if not math.isfinite(value) or not self.minimum <= value <= self.maximum:
            raise PluginError(
                f"metric {self.name!r} gave {value:g}, which is not in {self.minimum:g}.."
                f"{self.maximum:g}; name its range: {self.name.split('@')[0]}@WORST..BEST"
            )
        return Score(value=value)

    def _pick(self, result: Mapping[str, Any]) -> float:
        numbers = {key: n for key, found in result.items() if (n := _number(found)) is not None}
        own = PurePath(self.module).name
        key = self.key or (own if own in numbers else "")
        if not key and len(numbers) == 1:
            key = next(iter(numbers))
        if key not in numbers:
            raise PluginError(
                f"metric {self.name!r} has no result {key!r}; its numbers are "
                f"{', '.join(sorted(numbers)) or 'none'}: pick one with evaluate:NAME#KEY"
                if key
                else f"metric {self.name!r} gives {', '.join(sorted(numbers)) or 'no number'}: "
                "pick one with evaluate:NAME#KEY"
            )
        return numbers[key]


def evaluate_metric(name: str) -> EvaluateMetric:
    """Return the metric spelt `evaluate:NAME[#KEY][@WORST..BEST]`. The library loads on first use.

    Raises UsageError on another spelling, and for a metric without bounds whose range is not said.
    """
    match = _SPELLING.fullmatch(name)
    if match is None:
        raise UsageError(f"metric {name!r} is misspelt; write {_FORM}")
    own = PurePath(match["module"]).name
    key, worst, best = _KNOWN.get(own, ("", 0.0, 1.0))
    if match["worst"] is not None:
        worst, best = float(match["worst"]), float(match["best"])
    elif own in _UNBOUNDED:
        raise UsageError(f"metric {name!r} has no bound; write {name}@WORST..BEST, as in @10..0")
    if worst == best:
        raise UsageError(f"metric {name!r} has an empty range; write {_FORM}")
    return EvaluateMetric(
        name=name,
        version=_version(match["module"]),
        module=match["module"],
        key=match["key"] or key,
        minimum=min(worst, best),
        maximum=max(worst, best),
        floor=worst,
        higher_is_better=best > worst,
        source="https://huggingface.co/docs/evaluate",
    )


def _version(module: str) -> str:
    """Return ours and the library's, which decides its scripts; of local ones also their hash."""
    library, path = f"2+{version('evaluate')}", Path(module)
    is_folder = (path / f"{path.name}.py").is_file()
    if not is_folder and not path.is_file():
        return library
    digest = hashlib.sha256()
    folder = path if is_folder else path.parent
    for script in sorted(folder.rglob("*.py") if is_folder else folder.glob("*.py")):
        body = script.read_bytes()
        digest.update(f"{script.relative_to(folder).as_posix()}\0{len(body)}\0".encode() + body)
    return f"{library}+{digest.hexdigest()[:12]}"


@lru_cache(maxsize=64)
def _load(name: str, version: str) -> tuple[Any, bool]:
    """Return the library's module and whether it takes a list of references.

    `version` is that of the metric: a script that was changed is loaded again.
    """
    import evaluate
    from datasets import Value

    try:
        module = evaluate.load(name, keep_in_memory=True)
    except Exception as e:  # the boundary to the library's scripts
        reason = str(e).splitlines()[0][:200] if str(e) else type(e).__name__
        needs = "install what it needs"
        if "sklearn" in reason:  # the one package that scripts of the library ask for by its module
            needs = "run in the checkout: pip install '.[sklearn]'"
        raise PluginError(
            f"metric 'evaluate:{name}' cannot be loaded ({reason}); give a name of the evaluate "
            f"library or a local folder with its script, and {needs}"
        ) from None
    forms = module.features if isinstance(module.features, list) else [module.features]
    texts = [form for form in forms if _takes_text(form.get("predictions"))]
    if not texts or any("references" not in form for form in texts):
        raise PluginError(
            f"metric 'evaluate:{name}' does not compare a text with references; use a metric of "
            "texts, such as evaluate:chrf"
        )
    return module, any(not isinstance(form["references"], Value) for form in texts)


def _takes_text(feature: object) -> bool:
    return getattr(feature, "dtype", "") in ("string", "large_string")


def _number(found: object) -> float | None:
    """Return a result as a number, also from a list of one."""
    if isinstance(found, (list, tuple)) and len(found) == 1:
        found = found[0]
    return float(found) if isinstance(found, Real) else None
