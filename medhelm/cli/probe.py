"""`medhelm probe`: what the server of a model says, and what of a request it takes."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec.structs import replace

from medhelm.cli.completion import complete as complete
from medhelm.cli.options import open_registry, print_json, print_rows
from medhelm.errors import ModelError, UsageError
from medhelm.extract.reply_form import closed
from medhelm.models import check_model, is_instance_model, open_model
from medhelm.models.codecs.wire import Answer, Failure, rate_candidates
from medhelm.models.endpoint import EndpointModel
from medhelm.models.identity import each_address, endpoint_of, is_served_here
from medhelm.models.likelihoods import NONE_GIVEN
from medhelm.models.providers import find_provider
from medhelm.models.serving import Servers
from medhelm.schema.episode import Message, Request, Usage
from medhelm.schema.model import ModelSpec

_QUESTION = Message("user", "Which vitamin prevents scurvy? Answer in one word.")
_OPTIONS = Message("user", "Which vitamin prevents scurvy?\nA. vitamin C\nB. vitamin K\nAnswer:")
_SYSTEM = Message("system", "You are brief.")
_SCHEMA = closed({"answer": str})
_LOGPROBS = "log-probabilities"
_BUDGET, _THINKING_BUDGET = 256, 2048
_FIXES: dict[str, tuple[str, Any]] = {
    "max_tokens": ("token_limit_field", "max_completion_tokens"),
    "max_completion_tokens": ("token_limit_field", "max_tokens"),
    "temperature": ("sampling.temperature", None),
    "top_p": ("sampling.top_p", None),
    "reasoning_effort": ("sampling.reasoning_effort", None),
    "seed": ("send_seed", False),
    "reasoning.effort": ("sampling.reasoning_effort", None),
    "response_format": ("json_schema", False),
    "text.format": ("json_schema", False),
}
"""Fields that a server may not take -> the setting of a model that leaves them out."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of the requests to one model. `settings`: what to change, by `model.KEY`."""

    model: str
    requests: int
    status: str = ""
    message: str = ""
    """The server's words on a request that failed."""
    reply: str = ""
    served_model: str = ""
    usage: Usage = Usage()
    seconds: float
    takes: dict[str, str] = {}
    settings: dict[str, Any]


def run(args: argparse.Namespace) -> int:
    """Return 0 where the server answered; raises ModelError where it did not."""
    from medhelm.cli.compose import compose, read_options
    from medhelm.cli.run import to_model

    argv = [*(["--config-dir", args.config_dir] if args.config_dir else []), *args.arguments]
    typed = read_options(argv)
    found = compose(typed, open_registry(typed.plugins))
    if not found:  # --cfg and the like
        return 0
    ways = each_address(to_model(found[0]))
    results = {endpoint_of(way): asyncio.run(probe(way)) for way in ways}
    if args.format == "json":
        said = msgspec.to_builtins(results)
        print_json("probe", {"addresses": said} if len(said) > 1 else said.popitem()[1])
    else:
        for address, result in results.items():
            _print(result, f" at {address}" * (len(results) > 1))
    failed = [address for address, result in results.items() if result.status.startswith("failed")]
    if failed:
        where = f" at {', '.join(failed)}" * (len(results) > 1)
        raise ModelError(f"model {ways[0].name!r} did not answer{where}, see above")
    return 0


async def probe(spec: ModelSpec) -> Probe:
    """Return what a server answers to a short question, then to the same asked in other ways."""
    if not spec.serve:
        return await _probe(spec)
    check_model(spec)
    servers = Servers()
    with TemporaryDirectory() as folder:
        try:
            await servers.take([spec], Path(folder))
            if failure := servers.failure(spec):
                raise failure
            return await _probe(replace(spec, **servers.reached(spec)))
        finally:
            await servers.close()


async def _probe(spec: ModelSpec) -> Probe:
    settings: dict[str, Any] = {}
    found, seconds = await _ask(spec)
    requests = 1
    while (
        isinstance(found, Failure) and (fix := _FIXES.get(found.param)) and fix[0] not in settings
    ):
        settings[fix[0]] = fix[1]
        spec = _changed(spec, *fix)
        found, seconds = await _ask(spec)
        requests += 1
    tried = Probe(model=spec.name, requests=requests, seconds=seconds, settings=settings)
    if isinstance(found, Failure):
        status = " ".join(filter(None, ("failed:", found.error, found.code, found.param)))
        return replace(tried, status=status, message=found.words)
    ways = _ways(spec)
    ended = {
        n: await _ask(way, has_system, n == _LOGPROBS) for n, (way, has_system) in ways.items()
    }
    takes = {name: _taken(name, result) for name, (result, _) in ended.items()}
    return replace(
        tried,
        requests=requests + len(ways),
        status=f"200, {found.finish}",
        reply=found.text,
        served_model=found.model,
        usage=found.usage,
        takes=takes,
        settings=settings | _suggested(spec, found, takes),
    )


def _ways(spec: ModelSpec) -> dict[str, tuple[ModelSpec, bool]]:
    provider = find_provider(spec.provider, spec.name)
    ways = {"system message": (spec, True)}
    if provider.sends_seed:
        ways["seed"] = (replace(spec, send_seed="always"), False)
    if provider.holds_schema:
        ways["JSON Schema"] = (replace(spec, json_schema=True), False)
    if provider.candidates and not spec.reasoning:
        ways[_LOGPROBS] = (spec, False)
    return ways


async def _ask(
    spec: ModelSpec, has_system: bool = False, has_options: bool = False
) -> tuple[Answer | Failure, float]:
    model = open_model(spec, environ=os.environ)
    if is_instance_model(model) or not isinstance(model, EndpointModel):
        raise UsageError(f"model {spec.name!r} runs in this process: it has no server to probe")
    try:
        budget = _THINKING_BUDGET if spec.reasoning else _BUDGET
        request = Request(
            instance_id="probe",
            messages=(_OPTIONS if has_options else _QUESTION,),
            candidates=("A", "B") if has_options else (),
            max_output_tokens=spec.max_output_tokens or budget,
            sampling=spec.sampling,
            seed=0,
            json_schema=_SCHEMA if spec.json_schema else None,
        )
        if has_system:
            request = replace(request, messages=(_SYSTEM, *request.messages))
        started = time.monotonic()
        found = await model.send(model.write(request))
        if has_options and isinstance(found, Answer):
            found = rate_candidates(request, found, gave_some=False)
        if isinstance(found, Failure):
            found = dataclasses.replace(found, words=model.endpoint.words_of(found))
        return found, time.monotonic() - started
    finally:
        await model.close()


def _changed(spec: ModelSpec, name: str, value: Any) -> ModelSpec:
    outer, _, inner = name.partition(".")
    own = replace(getattr(spec, outer), **{inner: value}) if inner else value
    return replace(spec, **{outer: own})


def _taken(name: str, found: Answer | Failure) -> str:
    if isinstance(found, Failure) and found.error == NONE_GIVEN:
        return "taken, not given"
    if isinstance(found, Failure):
        return f"refused: {found.error} {found.code}".strip() + (
            f"; the server says: {found.words}" if found.words else ""
        )
    if name == "JSON Schema":
        return "held" if _is_held(found.text) else "taken, not held"
    if name == _LOGPROBS:
        return "given" if found.likelihoods else f"given, but {found.error}"
    return "taken"


def _is_held(text: str) -> bool:
    try:
        value = json.loads(text)
    except ValueError:
        return False
    return isinstance(value, dict) and [*value] == ["answer"] and isinstance(value["answer"], str)


def _suggested(spec: ModelSpec, found: Answer, takes: dict[str, str]) -> dict[str, Any]:
    """Return the settings that fit what was seen and are not those of the spec."""
    settings: dict[str, Any] = {}
    is_held = takes.get("JSON Schema") == "held"
    if is_held != spec.json_schema and "JSON Schema" in takes:
        settings["json_schema"] = is_held
    if takes.get("seed", "").startswith("refused") and spec.send_seed:
        settings["send_seed"] = False
    has_thought = (found.usage.reasoning_tokens or 0) > 0 or "<think>" in found.text
    if has_thought and not spec.reasoning:
        settings["reasoning"] = True
    if is_served_here(spec) and spec.endpoint_class == "external":
        settings["endpoint_class"] = "local"
    return settings


def _print(found: Probe, where: str) -> None:
    usage = msgspec.structs.asdict(found.usage)
    counts = ", ".join(
        f"{n.removesuffix('_tokens')} {v}" for n, v in usage.items() if v is not None
    )
    rows = {"status": found.status}
    if found.message:
        rows["server says"] = found.message
    if found.takes:
        rows |= {
            "reply": found.reply or "(no text)",
            "served model": found.served_model or "not named",
            "tokens": counts or "not counted: costs will be unknown",
        }
    rows |= {"seconds": f"{found.seconds:.2f}", **found.takes}
    print_rows({"probe": [*rows], found.model + where: [*rows.values()]})
    if found.settings:
        words = (f"model.{n}={json.dumps(v).strip(chr(34))}" for n, v in found.settings.items())
        print(f"Settings that fit: {' '.join(words)}")
    print(f"{found.requests} request(s), nothing stored.")
