"""Tell what in a run is the user's own: words of an asking, prompts, files of graders. They stay here."""

from __future__ import annotations

import shlex
from functools import cache
from typing import Any

from medhelm.config import DEFAULT_ASKING, chosen_asking
from medhelm.plugins.askings import load_askings
from medhelm.schema.asking import Asking
from medhelm.schema.run import GraderTerms, RunRecord, RunSpec

OWN_WORDS = ("instruction", "system", "template", "closing")


@cache
def _packaged() -> tuple[Asking, ...]:
    return tuple(load_askings().values())


def is_prompt_packaged(spec: RunSpec) -> bool:
    """Return whether prompts hold nothing of the user's own: no words of an asking, no file of examples.

    Those of another tool may hold anything.
    """
    asking = spec.asking or Asking()
    known = {"", *(getattr(own, name) for own in _packaged() for name in OWN_WORDS)}
    is_ours = not asking.examples_from and not asking.asked_by
    return is_ours and known.issuperset(getattr(asking, n) for n in OWN_WORDS)


def has_none(record: RunRecord) -> bool:
    """Return whether nothing of the user's own went into a run, which its answers or judges might repeat."""
    models = (*(party.model for party in record.parties), *record.grading.judges)
    is_bare = not any(model.system_prompt or model.extra_body for model in models)
    return is_prompt_packaged(record.spec) and is_bare and not _has_file(record)


def _has_file(record: RunRecord) -> bool:
    return any(own.settings != settings_of(own) for own in record.grading.graders)


def settings_of(terms: GraderTerms) -> dict[str, Any]:
    """Return the settings of a grader without those that name a file: their hashes are kept."""
    own = terms.settings
    return {name: value for name, value in own.items() if f"{name}_sha256" not in own}


def run_command(record: RunRecord) -> str:
    """Return the command that makes a run again; empty where its asking or a grader's file cannot be told in one."""
    spec, asked = record.spec, _asking_words(record.spec.asking)
    if asked is None or _has_file(record):
        return ""
    model = spec.model.name.removesuffix(f"+{spec.asking.name}" if spec.asking else "")
    raters = record.grading.raters
    settings = {n: v for own in record.grading.graders for n, v in own.settings.items()}
    chosen = {
        "benchmark.split": spec.split if spec.column != spec.benchmark else None,
        "max_instances": spec.max_instances,
        "repeats": spec.repeats if spec.repeats != 1 else None,
        "seed": spec.seed or None,
        "scoring": record.grading.scoring if record.grading.scoring != "fixed" else None,
        "jury": raters.name if raters is not None else None,
    }
    words = [f"benchmark={spec.benchmark}", f"model={model}", f"data={spec.data}", *asked]
    words += [f"{name}={value}" for name, value in chosen.items() if value is not None]
    words += [f"grader.{name}={value}" for name, value in sorted(settings.items())]
    if record.grading.reader is not None:
        words += [f"reader={model.name}" for model in record.grading.reader.jury.judges]
    return "medhelm run " + shlex.join(words)


def _asking_words(asking: Asking | None) -> list[str] | None:
    """Return the words of a command that asks so; None where it takes a file or words of the user's own."""
    if asking is None:
        return []
    for named in _packaged():
        if chosen_asking(named, examples=asking.examples, form=asking.form) == asking:
            return [
                *[f"ask={named.name}"] * (named.name != DEFAULT_ASKING),
                *[f"examples={asking.examples}"] * (asking.examples != named.examples),
                *[f"form={asking.form}"] * (asking.form != named.form),
            ]
    return None
