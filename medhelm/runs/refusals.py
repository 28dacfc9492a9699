"""Refusals of a sweep, and notes on it: all that differs from what was asked for, in one line each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from medhelm.config import Job
from medhelm.data.sources import can_fetch
from medhelm.data.variants import VARIANTS, chosen_variants
from medhelm.errors import DataError, PrivacyRefused, UsageError
from medhelm.grading.jury.choice import DEFAULT, keys_lacking
from medhelm.plugins.registry import Registry
from medhelm.runs.casting import refuse_rule
from medhelm.runs.run import Run
from medhelm.schema.data import Benchmark, Variant
from medhelm.schema.model import ModelSpec

_PLACE = re.compile(r"(ray(://[^/\s]+)?)?")
_SHOWN_STEPS = 5
"""The most steps of stale calls that are named."""


def refuse_idle(
    unplayed: Iterable[tuple[ModelSpec, Benchmark]], runs: Iterable[Run], registry: Registry
) -> None:
    """Refuse a rule of which nothing is left in a sweep; raises UsageError.

    Of others the pair is left out, and a note names it: a sweep over rules and all benchmarks has such pairs.
    """
    models = {run.spec.model.name for run in runs}
    for model, benchmark in unplayed:
        if model.name not in models:
            protocol = registry.protocol(benchmark.protocol)
            raise refuse_rule(model, benchmark, protocol, protocol.roles[0])


def stored_otherwise(run: Run, names: Mapping[str, str]) -> str:
    """Return that a run's answers are stored under other names of its models, and what to do."""
    said = ", ".join(f"{now!r} is stored there as {then!r}" for then, now in names.items())
    return (
        f"{run.spec.benchmark} x {run.spec.model.name}: {run.path} holds answers with the same "
        f"model.model, address and settings, but {said}. Nothing is asked. If it is the same model, "
        "model.rename=true (in Python rename=True) changes the stored name; if it is another one, "
        f"give it another model.model (now {run.spec.model.model!r})"
    )


Rewritten = Mapping[tuple[str, Variant], Counter[str]]
"""Of a benchmark and a form of its patients: the refused questions by reason, those made under ""."""


def refuse_useless(jobs: Sequence[Job], runs: Sequence[Run], rewritten: Rewritten) -> None:
    """Refuse settings that no run of a sweep can use: variants, a reader, a place for servers or workers.

    Raises UsageError.
    """
    for job in jobs:
        if not _PLACE.fullmatch(job.servers):
            raise UsageError(
                f"servers={job.servers} is not understood: write ray, or ray://HOST:PORT"
            )
        if job.engine and not job.workers and not job.shard:
            raise UsageError(
                "engine.KEY=VALUE is for workers=slurm or workers=ray, which is not given"
            )
    if any(job.servers for job in jobs) and not any(m.serve for run in runs for m in run.models):
        raise UsageError(
            "servers= is for models that model.serve=COMMAND starts, of which there is none"
        )
    names = ", ".join(dict.fromkeys(run.spec.benchmark for run in runs))
    if any(job.variants for job in jobs) and not any(run.spec.variant for run in runs):
        why = " ".join(refusal_notes(rewritten))
        raise UsageError(
            f"variants: {names} has no questions that can be asked so; forms of options are for multiple "
            "choice (`medhelm describe NAME` shows the kind of answer), those of the patient for a vignette "
            f"in English, one request each; leave variants out{f'. {why}' if why else ''}"
        )
    if any(job.reader for job in jobs) and not any(run.grading.reader for run in runs):
        raise UsageError(
            f"reader: nothing is left to it on {names}: judges rate the replies, or they are read in a "
            "strict form; leave reader out"
        )


def all_withheld(withheld: Mapping[str, PrivacyRefused], registry: Registry) -> PrivacyRefused:
    """Return one error that counts the benchmarks whose data may not be sent, by their class."""
    first = next(iter(withheld.values()))
    if len(withheld) == 1:
        return first
    classes = Counter(registry.benchmark(name).data_class for name in withheld)
    counts = ", ".join(f"{n} {data_class}" for data_class, n in sorted(classes.items()))
    return PrivacyRefused(
        f"the data of {len(withheld)} benchmarks may not be sent ({counts}); suite=all_public has "
        f"those whose data may go anywhere; the first: {first}"
    )


def all_without(without: Mapping[str, DataError], registry: Registry) -> DataError:
    """Return one error that names every benchmark whose data cannot be used."""
    first = next(iter(without.values()))
    if len(without) == 1:
        return first
    fetched = [name for name in without if can_fetch(registry.benchmark(name))]
    fixes = [f"`medhelm data fetch {' '.join(fetched)}` gets what can be fetched"] * bool(fetched)
    fixes.append("`medhelm data where NAME` says where the files of the others belong")
    return DataError(
        f"the data of {len(without)} benchmarks cannot be used: {', '.join(without)}; "
        f"{'; '.join(fixes)}; the first: {first}"
    )


def jury_note(
    jobs: Iterable[Job], runs: Iterable[Run], registry: Registry, environ: Mapping[str, str]
) -> str:
    """Return why the offline jury replaces the default one, where some of its keys are there."""
    is_open = any(job.jury is None and job.data != "sample" for job in jobs)
    is_offline = any(run.grading.raters and not run.grading.raters.judges for run in runs)
    lacking = keys_lacking(registry.models, environ) if is_open and is_offline else ()
    if not lacking:
        return ""
    return (
        f"Free text is rated by the offline jury, a stand-in by rule: jury={DEFAULT} needs a key in "
        f"{' and in '.join(lacking)}, too (jury=offline says that this is meant)."
    )


def refuse_other(first: Run, second: Run) -> None:
    """Refuse two jobs of one sweep that share a run folder but want different things of it."""
    where = f"{first.spec.benchmark} x {first.spec.model.name}"
    if first.spec.model.name != second.spec.model.name:
        raise UsageError(
            f"{where} and {second.spec.model.name} are one model under two names, asked for twice "
            "with the same requests; leave one out"
        )
    for differ, what in (
        (first.grading.raters != second.grading.raters, "with two juries"),
        (
            first.grading.reader != second.grading.reader,
            "with two readers, or with and without one",
        ),
        (first.grading.scoring != second.grading.scoring, "with two scorings"),
        (first.grading != second.grading, "with two ways of grading"),
        (first.spec != second.spec, "twice, with other settings (max_instances or price)"),
    ):
        if differ:
            raise UsageError(
                f"{where} is asked for {what}; run one after the other, answers are reused"
            )


def unasked_note(unasked: Mapping[str, str], runs: Iterable[Run]) -> str:
    """Return which benchmarks of a sweep are asked as they declare all the same; empty where none is.

    Raises UsageError where no run is asked otherwise.
    """
    if not unasked:
        return ""
    name, why = next(iter(unasked.items()))
    more = f" and {len(unasked) - 1} more" if len(unasked) > 1 else ""
    if not any(run.spec.asking for run in runs):
        raise UsageError(
            f"{name}{more} cannot be asked otherwise: {why}; leave out ask, form and examples"
        )
    return f"Asked as declared, since another asking does not fit: {name} ({why}){more}."


def refusal_notes(rewritten: Rewritten) -> list[str]:
    """Return how many questions each form of the patient has, and why it has no others."""
    alike: dict[tuple[str, frozenset[tuple[str, int]]], list[str]] = {}
    for (name, how), counts in rewritten.items():
        alike.setdefault((name, frozenset(counts.items())), []).append(how)
    notes = []
    for (name, items), forms in alike.items():
        counts = Counter(dict(items))
        total, made = counts.total(), counts.pop("", 0)
        why = ", ".join(f"{reason} ({n:,})" for reason, n in counts.most_common())
        said = f"; refused: {why}" if why else ""
        notes.append(f"{name} as {', '.join(forms)}: {made:,} of {total:,} questions{said}.")
    return notes


def variants_note(jobs: Iterable[Job], runs: Iterable[Run], rewritten: Rewritten) -> str:
    """Return which benchmarks of a sweep are asked without some of the variants; empty where none is.

    Those whose refusals are counted (`refusal_notes`) are not named again.
    """
    asked = {v for job in jobs for v in chosen_variants(job.variants)}
    found: dict[str, set[str]] = {}
    for run in runs:
        found.setdefault(run.spec.benchmark, set()).add(run.spec.variant)
    lacking: dict[str, list[str]] = {}
    for name, own in found.items():
        if missing := [v for v in VARIANTS if v in asked - own and (name, v) not in rewritten]:
            lacking.setdefault(", ".join(missing), []).append(name)
    if not lacking:
        return ""
    parts = (
        f"{len(names)} benchmark{'s' * (len(names) > 1)} without {missing} ({names[0]}"
        f"{', ...' * (len(names) > 1)})"
        for missing, names in lacking.items()
    )
    return f"Not every benchmark has all variants: {'; '.join(parts)}."


def stale_note(stale: Counter[str]) -> str:
    """Return which stored calls of a run are not part of it any more."""
    named = ", ".join(f"{name} ({n})" for name, n in stale.most_common(_SHOWN_STEPS))
    more = f" and {len(stale) - _SHOWN_STEPS} more steps" if len(stale) > _SHOWN_STEPS else ""
    return (
        f"{stale.total()} stored call(s) are stale, as "
        f"another request or answer has their place now, or none: {named}{more}; they are kept and count "
        "in the cost. Where this is not meant: a protocol that sends other requests needs a new version"
    )
