"""A provider: everything that medhelm knows of who serves models, as one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from medhelm.models.hosts import Access, Host
from medhelm.schema.model import InstanceModel, Model, ModelSpec

DECIDING = (
    "provider",
    "model",
    "base_url",
    "reasoning",
    "system_prompt",
    "sampling",
    "token_limit_field",
    "send_seed",
    "extra_body",
    "context_window",
)
"""All settings that can decide an answer: names, prices and limits are not among them. Whether an
answer is held to a JSON Schema is up to the requests, which few protocols give one."""

NO_LOGPROBS = "set form=line or form=text, or ask a server that gives log-probabilities"
"""The fix of a form that an endpoint cannot serve."""


@dataclass(frozen=True, kw_only=True)
class Provider:
    """A service or library that serves models. One of `open_host` and `open_model` opens a model."""

    name: str
    """The value of `ModelSpec.provider`, and the first part of its models' names."""
    help: str
    """Words that end the line "Any model of ..." in `medhelm list models`."""
    open_host: Callable[[ModelSpec, Access | None], Host] | None = None
    """Opens what models share that have one address and key, or else `model` and `extra_body`.
    Imports what it needs itself. The access is None for a provider without a `base_url`."""
    open_model: Callable[[ModelSpec], Model | InstanceModel] | None = None
    """Opens an embedded model: it needs nothing besides medhelm and costs nothing."""
    check: Callable[[ModelSpec], None] | None = None
    """Refuses what cannot be opened, without a request and without reading weights."""
    spec_of: Callable[[str], ModelSpec] | None = None
    """Returns the spec of a model without a config by its name at the provider, where more than the
    name is known of it."""
    is_open: bool = True
    """True if `NAME/ANY-MODEL` needs no config."""
    base_url: str = ""
    """The address of the service, with `{...}` for what each user has; empty: no network is used."""
    key_env: str = ""
    """The variable that holds the key of that address; empty: it needs none."""
    own_hosts: tuple[str, ...] = ()
    """Endings of hosts of a service where every user has an address: its key and credentials go there."""
    credentials: str = ""
    """Credentials that its library finds and renews where no key is named, in words; empty: none."""
    path: str = ""
    """Every address ends in this path; `{model}` in it is the model's name."""
    query: str = ""
    """The query of an address that has none of its own."""
    dropped: tuple[str, ...] = ()
    """Endings of other protocols at the same address, which every address loses."""
    packages: Mapping[str, str] = field(default_factory=dict)
    """Modules that are imported to open a model -> the packages that have them."""
    extra: str = ""
    """The extra of medhelm that installs `packages`; empty: they are installed by name."""
    is_local: bool = False
    """True if models without a config run on this machine; else they are external."""
    reads_prompt: bool = True
    """False for rules, which are handed the instance itself: they have neither prompt nor budget,
    and judge nothing. Of a plugin only those are that play roles of its own protocols (`plays`)."""
    plays: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Protocols -> the roles of them that these rules play, and no other rules can; empty: any role of a
    protocol that has no rules of its own."""
    reads_gold: Callable[[ModelSpec], bool] | None = None
    """Returns whether a model reads the gold of the test set, so that it is never ranked."""
    is_ranked: bool = True
    """False for what is shown beside the models and never ranked, such as answers of people."""
    model_of: Callable[[ModelSpec], str] | None = None
    """Returns the model that a spec means, where several spellings mean one; None: `spec.model`."""
    uses: tuple[str, ...] = DECIDING[2:]
    """Settings besides provider and model that can change what it answers. The others are neither
    recorded nor part of the request hash."""
    sends_seed: bool = False
    """True if its requests can carry a seed whatever the temperature is."""
    can_serve: bool = False
    """True if its requests fit a server that a command of the user's starts (`serve`)."""
    holds_schema: bool = False
    """True if it can hold answers to the JSON Schema of a request."""
    batches: Literal["", "openai", "anthropic"] = ""
    """The form in which its service takes requests in batches; empty: it takes none."""
    batch_hosts: tuple[str, ...] = ()
    """Endings of hosts of other services that are known to take batches of this form."""
    candidates: Literal["", "letters", "texts"] = ""
    """Candidates whose log-probabilities its models give: single letters, or any texts; empty: none."""
    own_fields: Mapping[str, str] = field(default_factory=dict)
    """Fields of the body that are settings of their own, which `extra_body` may not set -> these."""
    schema_fields: tuple[str, ...] = ()
    """The same, where the form of an answer is ours to ask for."""
    tables: tuple[str, ...] = ()
    """Fields of the body into which our own settings are put."""
    fixes: Mapping[str, str] = field(default_factory=dict)
    """Fields that a server may not take -> what to change in the config."""
    origin: str = ""
    """The file that brings it; filled when it is read."""

    @property
    def is_embedded(self) -> bool:
        """Return whether its models are part of medhelm's process and cost nothing."""
        return self.open_model is not None

    def named(self, model: str) -> ModelSpec:
        """Return the spec of a model that has no config."""
        if self.spec_of is not None:
            return self.spec_of(model)
        return ModelSpec(
            name=f"{self.name}/{model}",
            provider=self.name,
            model=model,
            endpoint_class="local" if self.is_local else "external",
        )
