"""The type of a protocol, which conducts one instance with the models of a cast.

A protocol is a pure function of instance, terms and replies. It has no clock, no chance without a
seed, and does not depend on which of two parallel calls ends first, so that a killed run goes on
inside an episode: stored calls are given back as they were, and only what is missing is sent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from typing import Protocol as TypingProtocol

import msgspec

from medhelm.models.identity import is_echoed, without_unused
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import MODEL, Episode, Finish, Message, Request, Response, Sampling
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import RunSpec

_T = TypeVar("_T")


class Send(TypingProtocol):
    """The only way to a model, bound to one episode."""

    def __call__(
        self, role: str, request: Request, *, step: str, attempt: int = 0
    ) -> Awaitable[Response]:
        """Return the response of a role's model to a request.

        A call that the log holds is given back and not sent again. A failed call is a response with
        its finish. What stops a run (its budget, Ctrl-C, a dead endpoint) is raised as a
        BaseException, ends the episode unfinished, and is in no score.
        """


REPAIRS = "repairs"
"""Setting of a grader's terms: how often a judge is asked again whose reply cannot be read."""


@dataclass(frozen=True, kw_only=True)
class RoleTerms:
    """The settings by which the model of one role is asked."""

    max_output_tokens: int
    sampling: Sampling = Sampling()
    system_prompt: str | None = None
    json_schema: bool = False
    """True if its endpoint holds answers to a JSON Schema that a request carries."""
    is_echoed: bool = False
    """True if its endpoint is sent the messages once more with each candidate of a request."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The terms of one episode, the same for all models that are compared."""

    repeat: int = 0
    seed: int = 0
    """The sum of the run's seed and the repeat's place: repeats differ and can be made again."""
    roles: Mapping[str, RoleTerms]
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The protocol's own settings, those not chosen at their defaults."""

    @property
    def repairs(self) -> int:
        """Times that a judge is asked again whose reply cannot be read: of a grader's terms."""
        return int(self.settings[REPAIRS])

    def request(
        self,
        instance: Instance,
        role: str,
        messages: tuple[Message, ...],
        json_schema: dict[str, Any] | type[Any] | None = None,
        *,
        sampling: Sampling | None = None,
        seed: int | None = None,
        is_seeded: bool = True,
        max_output_tokens: int | None = None,
    ) -> Request:
        """Return a request to a role: its system prompt first, its budget and its decoding.

        `json_schema`, or that of a form, is sent only where the role's endpoint holds answers to one. `seed`: another than
        the episode's, for several candidates; not `is_seeded`: none. `max_output_tokens`: another budget
        than the role's.
        """
        own = self.roles[role]
        if not own.json_schema:
            json_schema = None
        elif isinstance(json_schema, type):
            from medhelm.extract.reply_form import schema_of  # slow to import; few ask by a form

            json_schema = schema_of(json_schema)
        if own.system_prompt and (not messages or messages[0].role != "system"):
            messages = (Message("system", own.system_prompt), *messages)
        return Request(
            instance_id=instance.id,
            repeat=self.repeat,
            messages=messages,
            max_output_tokens=max_output_tokens or own.max_output_tokens,
            sampling=sampling or own.sampling,
            seed=(self.seed if seed is None else seed) if is_seeded else None,
            json_schema=json_schema,
        )


class FinalAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer that metrics read, and how the episode ended; `conduct` returns it."""

    text: str = ""
    finish: Finish = "stop"
    """error: a failure that is not the model's (of another role); the instance is in no mean."""
    error: str = ""
    """Kind of the failure; never text of the prompt."""
    ending: str = ""
    """The protocol's own name of how it ended."""
    state: dict[str, Any] = {}
    """The protocol's end state: JSON values by name."""


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """The calls and tokens that one episode is expected to need of one role, and at most."""

    role: str
    calls: float
    calls_limit: int
    input_tokens: float
    """Over all expected calls."""
    input_tokens_limit: int
    output_tokens: float | None = None
    """Over all expected calls, where nothing is stored of earlier runs and without what a model thinks;
    None: by the rule for one answer."""
    output_tokens_limit: int | None = None
    """Over all calls at most; None: the budget of the role for each of them."""
    cached_tokens: float = 0
    """Part of `input_tokens` that a provider's cache may hold: it began an earlier call, too."""

    @classmethod
    def of_one(cls, role: str, input_tokens: int) -> Forecast:
        """Return the forecast of exactly one call."""
        return cls(
            role=role,
            calls=1,
            calls_limit=1,
            input_tokens=input_tokens,
            input_tokens_limit=input_tokens,
        )

    @classmethod
    def total(cls, parts: Sequence[Forecast], most: Sequence[Forecast] | None = None) -> Forecast:
        """Return the forecast of several calls of one role; `most`: all that there may be, if that is more."""
        sums = {
            name: [getattr(part, name) for part in (most or parts if "limit" in name else parts)]
            for name in cls.__struct_fields__[1:]
        }
        known = {name: sum(own) for name, own in sums.items() if None not in own}
        return cls(role=parts[0].role, **known)


Conduct = Callable[[Benchmark, Instance, Terms, Send], Awaitable[FinalAnswer]]


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """Conducts instances; a plugin brings it by `medhelm_protocols`."""

    name: str
    version: str = "1"
    """Raised whenever other requests are sent; part of a run's identity, but for the first."""
    roles: tuple[str, ...] = (MODEL,)
    """The roles that are asked. The first is the model under test."""
    conduct: Conduct
    forecast: Callable[[Benchmark, Instance, Terms], Iterable[Forecast]]
    """Foretells the calls of an episode, for estimates and for a budget."""
    proofs: Callable[[Benchmark, Instance], Iterable[tuple[str, Episode]]] | None = None
    """Named episodes by rule that `validate` scores: "oracle" first, then those without an answer; None:
    those of one call, from the embedded baselines."""
    transcript: Callable[[Episode], Iterable[tuple[str, str]]] | None = None
    """(who, text) of an episode as judges and readers are shown it; None: the answer alone."""
    cast: Mapping[str, str] = field(default_factory=dict)
    """Names of the models that play the other roles where the user chooses none."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings with their defaults: `protocol.NAME=VALUE` on the command line, part of the run's
    identity where another value is chosen."""
    seeds: Mapping[str, str] = field(default_factory=dict)
    """Settings that choose the seed of a role's requests -> the role. Its model is then sent one at
    temperature 0, too."""
    budgets: Mapping[str, int] = field(default_factory=dict)
    """Output tokens of one call of the roles but the first, whose budget is the benchmark's."""
    is_one_call: bool = False
    """True if every episode is one call to the first role: one line of the log holds it."""
    sends_schema: bool = False
    """True if requests carry a JSON Schema where the endpoint takes one."""

    def __post_init__(self) -> None:
        """Refuse a role without a budget and a seed that is not a setting; raises ValueError."""
        if unknown := [name for name in self.seeds if name not in self.settings]:
            raise ValueError(f"protocol {self.name!r}: seeds has no setting {', '.join(unknown)}")
        if lacking := [role for role in self.roles[1:] if role not in self.budgets]:
            raise ValueError(
                f"protocol {self.name!r}: budgets lacks the output tokens of {', '.join(lacking)}"
            )


def terms_of(protocol: Protocol, spec: RunSpec, repeat: int) -> Terms:
    """Return the terms of one repeat of a run's instances."""
    first, *others = protocol.roles
    roles = {first: _role_terms(spec.model, spec.max_output_tokens, protocol)}
    for role in others:
        model = spec.cast[role]  # of a rule no budget is recorded: it obeys none
        budget = model.max_output_tokens or protocol.budgets[role]
        roles[role] = _role_terms(model, budget, protocol)
    return Terms(
        repeat=repeat,
        seed=spec.seed + repeat,
        roles=roles,
        settings={**protocol.settings, **spec.settings},
    )


def _role_terms(model: ModelSpec, budget: int, protocol: Protocol) -> RoleTerms:
    return RoleTerms(
        max_output_tokens=budget,
        sampling=model.sampling,
        system_prompt=model.system_prompt,
        json_schema=model.json_schema and protocol.sends_schema,
        is_echoed=is_echoed(model),
    )


def as_asked(protocol: Protocol, model: ModelSpec) -> ModelSpec:
    """Return a model as a protocol asks it: without settings that its requests never carry.

    So a setting makes another run only of those benchmarks and models whose requests it changes.
    """
    model = without_unused(model)
    if not model.json_schema or protocol.sends_schema:
        return model
    return msgspec.structs.replace(model, json_schema=False)


async def together(calls: Iterable[Awaitable[_T]]) -> list[_T]:
    """Return the results of calls in their order.

    All of them end before the first failure is raised: an answer that is on its way is paid for.
    """
    import asyncio  # plugins are loaded by every command, and need it only here

    ended = await asyncio.gather(*calls, return_exceptions=True)
    for result in ended:
        if isinstance(result, BaseException):
            raise result
    return [result for result in ended if not isinstance(result, BaseException)]
