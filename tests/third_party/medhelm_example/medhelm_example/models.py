"""A model: says B to everything."""

from medhelm import ModelSpec, hookimpl


@hookimpl
def medhelm_models() -> list[ModelSpec]:
    return [
        ModelSpec(
            name="example/says_b",
            provider="scripted",
            endpoint_class="local",
            weights="none",
            extra_body={"default": "Answer: B"},
        )
    ]
