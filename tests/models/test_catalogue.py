"""The packaged model files are complete and right; damaged ones name themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from medhelm.errors import UnknownName, UsageError
from medhelm.grading.jury.choice import packaged_jury
from medhelm.models import open_model
from medhelm.models.baselines import BASELINES
from medhelm.models.catalogue import find_model, load_models, read_model
from medhelm.schema.model import ModelSpec
from tests.shell import Shell

CONF = Path(__file__).parents[2] / "conf" / "model"
# Prices of table G5 of the paper (USD per million tokens, 2025-05-12).
PAPER = {
    "anthropic/claude-3-5-sonnet-20241022": (3.0, 15.0),
    "anthropic/claude-3-7-sonnet-20250219": (3.0, 15.0),
    "deepseek/deepseek-r1": (1.2, 4.84),
    "google/gemini-1.5-pro-001": (1.25, 5.0),
    "google/gemini-2.0-flash-001": (0.15, 0.6),
    "meta/llama-3.3-70b-instruct": (0.71, 0.71),
    "openai/gpt-4o-2024-05-13": (2.5, 10.0),
    "openai/gpt-4o-mini-2024-07-18": (0.15, 0.6),
    "openai/o3-mini-2025-01-31": (1.2, 4.84),
}
KEYS = {"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "TOGETHER_API_KEY"}


def test_the_nine_models_of_the_paper_with_its_prices() -> None:
    models = load_models()
    for name, (price_in, price_out) in PAPER.items():
        price = models[name].price
        assert price is not None and price.date == "2025-05-12"
        assert (price.input, price.output) == (price_in, price_out)
        assert models[name].endpoint_class == "external"
        assert open_model(models[name], environ=dict.fromkeys(KEYS, "k")).spec is models[name]
    r1, o3 = "deepseek/deepseek-r1", "openai/o3-mini-2025-01-31"
    assert {n for n in PAPER if models[n].reasoning} == {r1, o3}
    assert {n for n in PAPER if models[n].weights == "open"} == {r1, "meta/llama-3.3-70b-instruct"}
    assert models[o3].sampling.temperature is None, "it takes none"
    assert models[o3].token_limit_field == "max_completion_tokens"


@pytest.mark.parametrize("name", ["vllm/local", "ollama/local", "llamacpp/local"])
def test_servers_of_ones_own_count_as_external_until_declared(name: str) -> None:
    spec = load_models()[name]
    assert spec.endpoint_class == "external" and spec.api_key_env is None
    assert spec.base_url is not None and spec.base_url.startswith("http://localhost:")


@pytest.mark.slow
def test_a_template_names_no_weights_and_asks_nothing_without(tmp_path: Path, shell: Shell) -> None:
    for name in ("vllm/local", "ollama/local", "llamacpp/local", "hf/local"):
        assert "\nmodel: ???\n" in (CONF / f"{name}.yaml").read_text()
        assert find_model(name).model == ""
    own = ("model.name=a/b", "model.base_url=http://127.0.0.1:9/v1")
    what = ("benchmark=headqa", "data=sample", f"results_dir={tmp_path / 'r'}")
    for given in (["hf/local"], ["vllm/local", "model.model=???"], ["vllm/local", *own]):
        line = shell.error("run", f"model={given[0]}", *given[1:], *what, code=6)
        assert "model.model is missing: give" in line
    assert not (tmp_path / "r").exists()


def test_schemas_are_sent_only_where_the_model_surely_holds_to_them() -> None:
    held = {name for name, spec in load_models().items() if spec.json_schema}
    assert held == {
        "openai/gpt-4o-mini-2024-07-18",
        "openai/o3-mini-2025-01-31",
        "openai/gpt-6-luna",
        "openai/gpt-6.1-sol",
        "openai/gpt-6.1-terra",
    }


def test_a_hosted_model_says_whether_it_was_called_and_when_its_price_was_read() -> None:
    hosted = [s for s in load_models().values() if s.api_key_env or s.name.startswith("openai/")]
    assert len(hosted) > 20
    for spec in hosted:
        assert "unverified" in spec.note or "retired" in spec.note, spec.name
        if spec.price is not None:  # what no source tells is left out
            assert re.fullmatch(r"202[56]-\d\d(-\d\d)?", spec.price.date), spec.name
            assert 0 < spec.price.input < spec.price.output or spec.name in PAPER
            assert spec.price.cached is None or spec.price.cached < spec.price.input
    assert load_models()["mistral/mistral-large-4-0"].price is None


@pytest.mark.parametrize("jury", ["medhelm_2026_11", "small_2026_11", "paper"])
def test_the_judges_of_a_packaged_jury_are_models_of_three_makers(jury: str) -> None:
    specs = packaged_jury(jury, load_models()).judges
    assert len({s.name.partition("/")[0] for s in specs}) == len(specs) == 3
    assert all(s.price is not None for s in specs)
    assert any("retired" in s.note for s in specs) == (jury == "paper")


@pytest.mark.parametrize(
    ("name", "thinks"),
    [("gpt-6.1-sol", True), ("gpt-6-luna", True), ("gpt-5.6-sol", True), ("gpt-5", True), ("o4-mini", True),
     ("gpt-4.1-mini", False), ("gpt-4o", False), ("gpt-50x", False)],
)  # fmt: skip
def test_what_openais_names_tell_of_thinking(name: str, thinks: bool) -> None:
    spec = find_model(f"openai/{name}")
    assert spec.reasoning == thinks and (spec.sampling.temperature is None) == thinks


def test_every_baseline_has_its_file_and_is_local() -> None:
    found = {n: s for n, s in load_models().items() if s.provider == "baseline"}
    assert set(found) == {f"baseline/{name}" for name in BASELINES}
    for spec in found.values():
        assert (spec.endpoint_class, spec.weights) == ("local", "none")
        open_model(spec)


def test_any_openai_name_needs_no_file_and_models_of_the_user_come_first() -> None:
    mine = ModelSpec(name="openai/gpt-4o-2024-05-13", model="mine")
    assert find_model(mine.name, {mine.name: mine}) is mine
    spec = find_model("openai/my-model:7b")
    assert (spec.name, spec.model, spec.provider) == ("openai/my-model:7b", "my-model:7b", "openai")
    assert not spec.reasoning and spec.price is None and spec.sampling.temperature == 0.0
    assert find_model("openai/o4-mini").token_limit_field == "max_completion_tokens"


@pytest.mark.parametrize("name", ["openai/", "gpt-4o", "baseline/randm", "vllm/other", ""])
def test_an_unknown_name_is_an_error(name: str) -> None:
    with pytest.raises(UnknownName):
        find_model(name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"nam: x", ["unknown key 'nam'", "'name'"]),
        (b"timeout: 3", ["unknown key 'timeout'", "'timeout_s'"]),
        (b"1: 2", ["a key", "quotes"]),
        (b"model: [1", ["not readable as YAML"]),
        (b"model: \xff", ["not readable as YAML"]),
        (b"- a\n- b", ["must hold keys"]),
        (b"", ["must hold keys"]),
        (b"name: v/other", ["'v/other'", "'v/m'"]),
        (b"timeout_s: soon", ["float", "timeout_s"]),
        (b"timeout_s: .nan", []),
        (b"sampling: {temprature: 0}", ["'sampling.temprature'", "'sampling.temperature'"]),
        (b"price: {in: 1}", ["'price.in'"]),
        (b"price: {input: 1, output: 2, date: 2025-05-12}", ["date"]),
        (b"endpoint_class: lokal", ["lokal"]),
        (b"x: !!python/object:os.system {}", ["not readable as YAML"]),
    ],
)
def test_a_damaged_file_names_itself_in_one_line(text: bytes, words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        spec = read_model("v/m", text, "conf/model/v/m.yaml")
        open_model(spec)
    message = str(caught.value)
    assert "\n" not in message and "v/m" in message
    assert all(word in message for word in words)
