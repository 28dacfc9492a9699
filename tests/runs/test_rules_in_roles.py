"""Rules of a plugin in the roles of its protocol: they are handed the instance and the request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medhelm import evaluate, load_results
from medhelm.cli.demo import options
from medhelm.errors import PluginError, UsageError
from medhelm.plugins.registry import load_registry
from tests.shell import Shell

pytestmark = pytest.mark.slow

PLUGIN = """
from medhelm import *

class Echo:
    def __init__(self, spec):
        self.spec = spec
    def prepare(self, benchmark, instances):
        pass
    def answer(self, benchmark, instance, seed, request=None):
        last = request.messages[-1].content
        return instance.references[0] if self.spec.model == "knows" else last.upper()

async def conduct(benchmark, instance, terms, ask):
    first = await ask("asker", terms.request(instance, "asker", (Message("user", "begin"),)), step="1")
    shown = (Message("user", first.text),)
    second = await ask("helper", terms.request(instance, "helper", shown), step="1")
    return FinalAnswer(text=second.text, state={"asked": first.text})

def forecast(benchmark, instance, terms):
    return [Forecast.of_one(role, 10) for role in ("asker", "helper")]

def rule(name, role):
    return Provider(name=name, help="x", open_model=Echo, is_open=False, is_local=True,
        reads_prompt=False, plays={"echoes": (role,)}, uses=())

@hookimpl
def medhelm_providers():
    return [rule("asks", "asker"), rule("helps", "helper")]

@hookimpl
def medhelm_models():
    return [ModelSpec(name=f"{p}/{m}", provider=p, model=m, endpoint_class="local")
        for p in ("asks", "helps") for m in ("knows", "shouts")]

@hookimpl
def medhelm_protocols():
    return [Protocol(name="echoes", roles=("asker", "helper"), conduct=conduct, forecast=forecast,
        cast={"helper": "helps/shouts"}, budgets={"helper": 50})]

@hookimpl
def medhelm_benchmarks():
    return [Benchmark(name="echoes", subcategory="planning_treatments",
        dataset=FileDataset(files=(SourceFile(name="echoes.jsonl"),)),
        to_instance=lambda row: Instance(id=row["id"], context="c", references=(row["gold"],)),
        protocol="echoes", prompt="plain", answer="text", metrics=["exact_match"])]
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("rules")
    (folder / "samples").mkdir()
    rows = [{"id": "1", "gold": "abc"}, {"id": "2", "gold": "xyz"}]
    (folder / "samples" / "echoes.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in rows))
    (folder / "echoes.py").write_text(PLUGIN)
    return str(folder / "echoes.py")


def test_a_rule_answers_what_its_role_is_sent_and_costs_nothing(
    plugin: str, tmp_path: Path
) -> None:
    evaluate("asks/knows", "echoes", data="sample", plugins=[plugin], results_dir=tmp_path)
    (log,) = tmp_path.glob("runs/echoes/*/*/responses.jsonl")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    said = {x["call"]["role"]: x["call"]["response"]["text"] for x in lines if "call" in x}
    assert said == {"asker": "xyz", "helper": "XYZ"}  # the gold, then what the helper was sent
    ended = [x["response"]["text"] for x in lines if "ending" in x]
    assert sorted(ended) == ["ABC", "XYZ"]
    (row,) = load_results(tmp_path, plugins=[plugin]).typed("cost").rows[:1]
    assert row["usage_unknown"] == 0 and row["output_tokens"] == 0


@pytest.mark.parametrize(
    ("model", "cast", "expected"),
    [
        ("helps/knows", {}, "helps/knows .*role 'asker'.*asks/"),
        ("baseline/lead", {}, "baseline/lead .*role 'asker'.*asks/"),
        ("asks/knows", {"helper": "asks/knows"}, "cannot play the role 'helper'.*helps/"),
    ],
)
def test_a_rule_in_a_role_of_others_is_refused_with_those_that_can(
    model: str, cast: dict[str, str], expected: str, plugin: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=expected):
        evaluate(model, "echoes", cast=cast, data="sample", plugins=[plugin], results_dir=tmp_path)
    assert not (tmp_path / "runs").exists()


def test_a_rule_of_a_protocol_plays_no_other_benchmark(plugin: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="role 'model' .*'headqa'"):
        evaluate("asks/knows", "headqa", data="sample", plugins=[plugin], results_dir=tmp_path)


def test_the_demo_takes_the_rules_that_can_be_under_test_in_what_is_registered(plugin: str) -> None:
    with_plugin = options(load_registry([plugin]))[0]
    assert "asks/*" in with_plugin and "helps/*" not in with_plugin
    without = options(load_registry())[0]  # the providers of before are still known
    assert "asks/*" not in without and "baseline/*" in without


def test_a_sweep_leaves_out_what_no_rule_can_play_and_says_so(
    plugin: str, tmp_path: Path, shell: Shell
) -> None:
    line = ["model=baseline/lead,asks/knows", "benchmark=headqa,echoes", "data=sample"]
    shell("run", *line, f"plugins=[{plugin}]", f"results_dir={tmp_path}")
    said = shell.err
    assert "echoes (1), headqa (1)" in said
    found = {p.parent.parent.name for p in tmp_path.glob("runs/*/*/*")}
    assert found == {"headqa", "echoes"} and len([*tmp_path.glob("runs/*/*/*")]) == 2


def test_what_plays_roles_by_rule_is_embedded(plugin: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text(Path(plugin).read_text().replace("reads_prompt=False, ", ""))
    with pytest.raises(PluginError, match=r"is embedded: give reads_prompt=False"):
        load_registry([str(broken)])
