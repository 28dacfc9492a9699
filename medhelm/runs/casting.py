"""Choose who plays which role of a protocol, and the protocol's settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from medhelm.config import Job, chosen_settings, convert
from medhelm.errors import UnknownName, UsageError
from medhelm.grading.graders.grader import graders_of
from medhelm.models import check_model
from medhelm.models.access import check_settings
from medhelm.models.catalogue import find_model
from medhelm.models.identity import reads_prompt
from medhelm.models.providers import known_provider, known_providers
from medhelm.plugins.registry import Registry
from medhelm.protocols.protocol import Protocol, as_asked
from medhelm.schema.data import Benchmark
from medhelm.schema.model import ModelSpec


def choose_cast(job: Job, benchmark: Benchmark, registry: Registry) -> dict[str, ModelSpec]:
    """Return the model of each role but the first: the job's, else the protocol's default.

    Raises UsageError where a role has neither, UnknownName for a model that is not known.
    """
    protocol = registry.protocol(benchmark.protocol)
    chosen = chosen_settings(job.protocol, protocol.settings, "protocol")
    seeds = {protocol.seeds[n]: n for n in chosen if n in protocol.seeds}
    cast = {}
    for role in protocol.roles[1:]:
        name = job.cast.get(role, protocol.cast.get(role, ""))
        if not name:
            raise UsageError(
                f"benchmark {benchmark.name!r} needs a model in the role {role!r}: "
                f"add cast.{role}=NAME (`medhelm list models`)"
            )
        spec = named_model(f"cast.{role}", name, registry)
        if not can_play(spec, protocol, role):
            raise refuse_rule(spec, benchmark, protocol, role)
        if spec.strategy:
            registry.strategy(spec.strategy)
        check_settings(spec)
        if role in seeds:
            spec = _seeded(spec, f"protocol.{seeds[role]}")
        if spec.max_output_tokens is None:
            spec = msgspec.structs.replace(spec, max_output_tokens=protocol.budgets[role])
        cast[role] = named_by_strategy(as_asked(protocol, spec))
    return cast


def check_bare(model: ModelSpec, what: str, environ: Mapping[str, str] | None) -> None:
    """Refuse a model that cannot be asked in our words alone, or that lacks its key.

    `environ`: where the key is; None: nothing is asked. Raises UsageError and ModelError.
    """
    if not reads_prompt(model):
        raise UsageError(
            f"{model.name} is a rule and cannot be {what}; name a language model "
            "(`medhelm list models`)"
        )
    for setting in ("system_prompt", "strategy"):
        if getattr(model, setting):
            raise UsageError(
                f"{model.name} has a {setting}, which has no place beside the requests of {what}; "
                "leave it out"
            )
    check_settings(model)
    if environ is not None:
        check_model(model, environ)


def _seeded(spec: ModelSpec, setting: str) -> ModelSpec:
    """Return a model that is sent the seed that a setting chooses; raises UsageError where none can be."""
    provider = known_provider(spec.provider)
    is_random = (spec.sampling.temperature or 0) > 0
    if not spec.send_seed:
        raise UsageError(f"{setting} has no effect: {spec.name} has send_seed: false; leave it out")
    if provider is not None and not (
        provider.sends_seed or (is_random and "send_seed" in provider.uses)
    ):
        at = "" if "send_seed" not in provider.uses else " at temperature 0"
        raise UsageError(
            f"{setting} has no effect: {spec.name} takes no seed{at} (provider {spec.provider!r}); leave it out"
        )
    return spec if is_random else msgspec.structs.replace(spec, send_seed="always")


def can_play(model: ModelSpec, protocol: Protocol, role: str) -> bool:
    """Return whether a model can be asked in a role of a protocol.

    All that read prompts can. Rules that name their roles play these and no others, and a protocol that
    has rules of its own is played by no others.
    """
    provider = known_provider(model.provider)
    if provider is None or provider.reads_prompt:
        return True
    if provider.plays:
        return role in provider.plays.get(protocol.name, ())
    return not any(protocol.name in p.plays for p in known_providers().values())


def refuse_rule(
    model: ModelSpec, benchmark: Benchmark, protocol: Protocol, role: str
) -> UsageError:
    """Return the refusal of a rule that cannot play a role."""
    own = [p.name for p in known_providers().values() if role in p.plays.get(protocol.name, ())]
    known = f"its rules are {', '.join(f'{n}/*' for n in own)}" if own else "choose another model"
    return UsageError(
        f"{model.name} is a rule that cannot play the role {role!r} of benchmark {benchmark.name!r}; "
        f"{known} (`medhelm list models`)"
    )


def unplayed_note(unplayed: Iterable[tuple[ModelSpec, Benchmark]]) -> str:
    """Return that these rules are left out of benchmarks that they cannot play; empty: none."""
    left = Counter(benchmark.name for _, benchmark in unplayed)
    if not left:
        return ""
    shown = [f"{name} ({n})" for name, n in left.items()]
    more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
    return f"Rules are left out of benchmarks that they cannot play: {', '.join(shown[:3])}{more}."


def named_model(setting: str, chosen: str | Mapping[str, Any], registry: Registry) -> ModelSpec:
    """Return the model that a setting names, with the keys that it changes; raises UsageError."""
    if isinstance(chosen, str):
        return find_model(chosen, registry.models)
    values = dict(chosen)
    if "provider" in values:  # all of a model, from Python
        whole: ModelSpec = convert(values, ModelSpec, setting)
        return whole
    if not (name := values.pop("name", "")):
        raise UsageError(f"the model of {setting} is missing: add {setting}=NAME")
    found = msgspec.to_builtins(find_model(name, registry.models))
    spec: ModelSpec = convert(found | values, ModelSpec, setting)
    return spec


def named_by_strategy(model: ModelSpec) -> ModelSpec:
    """Return a model whose name holds its strategy, so that tables show it."""
    if not model.strategy or model.name.endswith(f"+{model.strategy}"):
        return model
    return msgspec.structs.replace(model, name=f"{model.name}+{model.strategy}")


def refuse_unused(job: Job, registry: Registry) -> None:
    """Refuse a role, setting or strategy that none of a job's benchmarks knows."""
    protocols = [registry.protocol(registry.benchmark(c.name).protocol) for c in job.benchmarks]
    roles = dict.fromkeys(role for p in protocols for role in p.roles[1:])
    settings = dict.fromkeys(name for p in protocols for name in p.settings)
    named = (n for c in job.benchmarks for n in registry.benchmark(c.name).metrics)
    metrics = (registry.metrics[n, "fixed"] for n in named if (n, "fixed") in registry.metrics)
    graded = dict.fromkeys(name for g in graders_of(metrics).values() for name in g.settings)
    for kind, given, known, prefix in (
        ("role", job.cast, roles, "cast"),
        ("protocol setting", job.protocol, settings, "protocol"),
        ("grader setting", job.grader, graded, "grader"),
    ):
        for name in given:
            if name not in known:
                hint = (
                    f"The {kind}s of these benchmarks are {', '.join(known)}."
                    if known
                    else f"These benchmarks have no {kind} to choose; leave {prefix}.{name} out."
                )
                raise UnknownName(kind, name, known, hint)
    if job.model.strategy:
        registry.strategy(job.model.strategy)
