"""Plugins are found, checked, and a broken one costs only itself."""

import importlib
import os
import textwrap
from pathlib import Path

import pytest

import medhelm_benchmarks
from medhelm.errors import PluginError, UnknownName
from medhelm.plugins.registry import Registry, load_registry
from tests.registry.distributions import install

pytestmark = pytest.mark.slow

BENCHMARK = """
from medhelm import Benchmark, FileDataset, Instance, SourceFile, hookimpl

def to_instance(row):
    return Instance(id=row["id"], context=row["text"], choices=("yes", "no"), references=("A",))

def make(**changes):
    values = dict(
        name="ward_round",
        subcategory="planning_treatments",
        dataset=FileDataset(files=(SourceFile(name="test.jsonl"),)),
        to_instance=to_instance,
        metrics=["exact_match"],
    )
    return Benchmark(**values | changes)
"""
HOOK = """
@hookimpl
def medhelm_benchmarks():
    return [make({changes})]
"""
METRIC = """
from dataclasses import dataclass
from medhelm import Metric, Score, hookimpl

@dataclass(frozen=True, kw_only=True)
class Own(Metric):
    name: str = "{name}"

    def score(self, instance, response):
        return Score(value=1.0)

@hookimpl
def medhelm_metrics():
    return [Own()]
"""
YAML = """
name: rounds
subcategory: planning_treatments
dataset: {files: [{name: test.csv}]}
instance: {id: key, context: note, choices: [a, b], gold_index: right}
metrics: [exact_match]
"""


def plugin(changes: str = "") -> str:
    return BENCHMARK + HOOK.format(changes=changes)


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text).lstrip())
    return path


def refusal(path: Path) -> str:
    with pytest.raises(PluginError) as caught:
        load_registry([str(path)])
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    return message


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


def test_the_built_in_plugins_are_there_and_whole(registry: Registry) -> None:
    home = Path(medhelm_benchmarks.__path__[0])
    plugins = {p.stem for p in home.iterdir() if p.suffix in (".py", ".yaml")} - {"__init__"}
    for path in home.glob("*/__init__.py"):
        package = importlib.import_module(f"medhelm_benchmarks.{path.parent.name}")
        plugins |= {benchmark.name for benchmark in package.medhelm_benchmarks()}
    assert set(registry.benchmarks) == plugins and len(plugins) >= 43
    assert registry.broken == ()
    for benchmark in registry.benchmarks.values():
        assert benchmark.samples is not None and benchmark.samples.is_file()
        for name in benchmark.metrics:
            assert registry.metric(name).name == name
    assert "baseline/oracle" in registry.models


def test_a_name_that_is_not_there_is_answered_with_the_nearest(registry: Registry) -> None:
    with pytest.raises(UnknownName, match="'headq'.* 'headqa'"):
        registry.benchmark("headq")
    with pytest.raises(UnknownName, match="'exactmatch'.* 'exact_match"):
        registry.metric("exactmatch")


def test_scoring_helm_is_the_published_scorer_where_it_differs(
    registry: Registry, tmp_path: Path
) -> None:
    assert registry.metric("exact_match", "helm").scoring == "helm"
    own = load_registry([str(write(tmp_path, "own.py", METRIC.format(name="own")))])
    assert own.metric("own", "helm").scoring == "fixed"


# Installed plugins ---------------------------------------------------------------------------


def test_an_installed_plugin_takes_the_same_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "acme-rounds", plugin())
    monkeypatch.syspath_prepend(tmp_path)
    registry = load_registry()
    assert registry.benchmark("ward_round").origin == str(tmp_path / "acme_rounds.py")
    assert registry.broken == ()


RETURNS = BENCHMARK + "@hookimpl\ndef medhelm_benchmarks():\n    return "
BROKEN = {
    "import nowhere_to_be_found": "No module named 'nowhere_to_be_found'",
    "raise RuntimeError('first line\\nsecond')": "RuntimeError: first line second",
    RETURNS + "1 / 0": "ZeroDivisionError",
    RETURNS + "7": "must return a list",
    RETURNS + "['ward_round']": "returned str, expected Benchmark",
    RETURNS.replace("benchmarks()", "benchmark()")
    + "[make()]": "did you mean 'medhelm_benchmarks'?",
    plugin("metrics=['exact_matsch']"): "'exact_matsch'; did you mean 'exact_m",
}
"""What an installed module holds, and words of why it is left out."""


@pytest.mark.parametrize(("text", "reason"), BROKEN.items(), ids=list(BROKEN.values()))
def test_a_broken_installed_plugin_is_named_and_the_others_work(
    text: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"acme-broken-{abs(hash(text)) % 10**8}"
    install(tmp_path, name, text)
    monkeypatch.syspath_prepend(tmp_path)
    registry = load_registry()
    (broken,) = registry.broken
    assert broken.plugin.startswith(name)
    assert reason in broken.reason
    assert "\n" not in broken.reason
    assert "headqa" in registry.benchmarks and "ward_round" not in registry.benchmarks


def test_a_second_owner_of_a_name_is_left_out_whole_and_both_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        BENCHMARK + "@hookimpl\ndef medhelm_benchmarks():\n    return [make(), make(name='headqa')]"
    )
    install(tmp_path, "acme-twice", text)
    monkeypatch.syspath_prepend(tmp_path)
    registry = load_registry()
    (broken,) = registry.broken
    assert "'headqa' is defined twice" in broken.reason
    assert "headqa.py" in broken.reason and "acme_twice.py" in broken.reason
    assert "ward_round" not in registry.benchmarks
    assert registry.benchmark("headqa").title == "HeadQA"


def test_a_shipped_benchmark_is_built_upon_under_a_name_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "shorter.py"
    path.write_text(
        "from dataclasses import replace\n"
        "from medhelm import hookimpl\n"
        "from medhelm_benchmarks.headqa import medhelm_benchmarks as shipped\n"
        "@hookimpl\ndef medhelm_benchmarks():\n"
        "    return [replace(shipped()[0], name='headqa_short', max_output_tokens=8)]\n"
    )
    assert load_registry([path]).benchmark("headqa_short").max_output_tokens == 8


# Files named by the user -----------------------------------------------------------------------


def test_two_files_with_one_name_are_refused_naming_both(tmp_path: Path) -> None:
    one = write(tmp_path, "one.py", plugin())
    two = write(tmp_path, "two.py", plugin())
    with pytest.raises(PluginError) as caught:
        load_registry([str(one), str(two)])
    assert str(one) in str(caught.value) and str(two) in str(caught.value)


MODELS = """
from medhelm import ModelSpec, hookimpl

@hookimpl
def medhelm_models():
    return [{models}]
"""
UNMARKED = MODELS.format(models="") + "\ndef {name}():\n    return []\n"
REFUSED = [
    (METRIC.format(name="exact_match"), ["metric 'exact_match (fixed)' is defined twice"]),
    (
        MODELS.format(models="ModelSpec(name='baseline/random')"),
        ["model 'baseline/random'", "twice"],
    ),
    (UNMARKED.format(name="medhelm_benchmarks"), ["medhelm_benchmarks is not marked as a hook"]),
    ("def medhelm_models():\n    return []\n", ["write @hookimpl above it", "from medhelm import"]),
    (UNMARKED.format(name="medhelm_metric"), ["write @hookimpl above it (as 'medhelm_metrics')"]),
    ("x = 1\n", ["adds nothing"]),
    ("from medhelm.plugins.hookspecs import medhelm_models\n", ["adds nothing"]),
    (MODELS.format(models=""), ["adds nothing"]),
    ("1 / 0\n", ["ZeroDivisionError"]),
    ("def f(:\n", ["SyntaxError"]),
    (plugin("name='Ward Round'"), ["snake_case"]),
    (plugin("subcategory='planing_treatments'"), ["did you mean 'planning_treatments'"]),
    (plugin("tasks=('match_protocol',)"), ["unknown task", "did you mean 'match_protoco"]),
    (plugin("prompt='multiple_choise'"), ["unknown prompt", "did you mean 'multiple_cho"]),
    (plugin("metrics=[]"), ["metrics must be a list"]),
    (plugin("metrics='exact_match'"), ["metrics must be a list"]),
    (plugin("metrics=['evaluate:rouge']"), ["secondary only"]),
    (plugin("max_output_tokens=0"), ["at least 1 token"]),
    (plugin("answer='items'"), ["ward_round", "items=Items(TEXTS, GOLDS, WRITE), from"]),
    (plugin("answer='item'"), ["ward_round", "unknown kind of answer", "did you mean 'items'"]),
]
"""What a named file holds, and words of the line that refuses it."""


@pytest.mark.parametrize(("text", "words"), REFUSED)
def test_a_named_file_that_cannot_be_used_is_refused_with_the_fix(
    text: str, words: list[str], tmp_path: Path
) -> None:
    message = refusal(write(tmp_path, "own.py", text))
    assert [word for word in words if word not in message] == [], message


def test_a_named_file_that_is_no_plugin_is_refused(tmp_path: Path) -> None:
    absent = refusal(tmp_path / "nowhere.py")
    assert all(word in absent for word in ("does not exist", "plugins=[PATH]", "--plugin PATH"))
    assert "not a Python file" in refusal(write(tmp_path, "notes.txt", "hello\n"))


@pytest.mark.parametrize(
    ("revision", "form"),
    [("main", "py"), ("main", "yaml"), ("0" * 39, "py"), ("0" * 41, "py"), ("A" * 40, "py")]
    + [("", "py"), ("", "yaml")],
)
def test_a_revision_that_can_move_is_no_pin(revision: str, form: str, tmp_path: Path) -> None:
    if form == "py":
        text = MINIMAL.replace("DATASET", f"HubDataset('owner/name', revision={revision!r})")
    else:
        text = f"""
            name: own
            subcategory: planning_treatments
            dataset: {{hub: owner/name, revision: '{revision}'}}
            instance: {{context: a, choices: [b, c], gold_index: d}}
            prompt: multiple_choice
            metrics: [exact_match]
            """
    said = refusal(write(tmp_path, f"own.{form}", text))
    assert "pin" in said
    if revision:
        assert "commit, 40 digits" in said and repr(revision) in said
    good = write(tmp_path, f"own.{form}", text.replace(f"'{revision}'", f"'{'0a' * 20}'"))
    assert "own" in load_registry([str(good)]).benchmarks


MINIMAL = """
from medhelm import Benchmark, HubDataset, Instance, hookimpl


@hookimpl
def medhelm_benchmarks():
    return [
        Benchmark(
            name="own",
            subcategory="planning_treatments",
            dataset=DATASET,
            to_instance=lambda row: Instance(context=row["a"]),
            metrics=["exact_match"],
        )
    ]
"""


def test_a_file_that_was_written_twice_in_a_second_is_loaded_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    for name in ("first", "again"):
        path.write_text(METRIC.format(name=name))
        os.utime(path, (1_700_000_000, 1_700_000_000))
        assert load_registry([str(path)]).metric(name)
    assert [p.name for p in tmp_path.iterdir()] == ["own.py"]


def test_a_plugin_that_raises_is_named_with_its_own_line(tmp_path: Path) -> None:
    said = refusal(write(tmp_path, "boom.py", "x = 1\n\nraise RuntimeError('boom')\n"))
    assert said.endswith("RuntimeError: boom (boom.py line 3); mend the plugin or leave it out")
    deep = refusal(write(tmp_path, "deep.py", "import json\nx = json.loads('{')\n"))
    assert "(deep.py line 2)" in deep
    text = plugin() + "    raise_here = 1 / 0\n"
    hook = refusal(write(tmp_path, "hook.py", text.replace("    return", "    1 / 0; return")))
    assert "ZeroDivisionError" in hook and "(hook.py line " in hook
    assert refusal(write(tmp_path, "syntax.py", "def f(:\n")).count("line 1") == 1


def test_samples_beside_a_named_file_belong_to_it(tmp_path: Path) -> None:
    path = write(tmp_path, "ward_round.py", plugin())
    assert load_registry([str(path)]).benchmark("ward_round").samples is None
    (tmp_path / "samples").mkdir()
    samples = write(tmp_path / "samples", "ward_round.jsonl", '{"id": "1", "text": "t"}\n')
    assert load_registry([str(path)]).benchmark("ward_round").samples == samples


# YAML ------------------------------------------------------------------------------------------


def test_a_yaml_file_makes_the_same_benchmark(tmp_path: Path) -> None:
    path = write(tmp_path, "rounds.yaml", YAML)
    benchmark = load_registry([str(path)]).benchmark("rounds")
    row = {"key": 17, "note": "Fever.", "a": "rest", "b": "antibiotic", "right": "1.0"}
    instance = benchmark.to_instance(row)
    assert instance is not None
    assert (instance.id, instance.context) == ("17", "Fever.")
    assert (instance.choices, instance.references) == (("rest", "antibiotic"), ("B",))


def test_an_empty_cell_is_no_gold(tmp_path: Path) -> None:
    text = YAML.replace("gold_index: right", "reference: right") + "answer: text\n"
    path = write(tmp_path, "rounds.yaml", text.replace("choices: [a, b], ", ""))
    benchmark = load_registry([str(path)]).benchmark("rounds")
    for cell, golds in (("", ()), (" ", ()), (None, ()), ("croup", ("croup",))):
        instance = benchmark.to_instance({"key": 1, "note": "Fever.", "right": cell})
        assert instance is not None and instance.references == golds


FILES = "{files: [{name: test.csv}]}"
FAULTS = {
    YAML + "licens: MIT\n": "'licens'; did you mean 'licence'?",
    YAML.replace("gold_index", "gold_indx"): "did you mean 'instance.gold_index'?",
    YAML.replace("gold_index", "zzz"): "'instance.zzz'; keys: id, context, question, choices",
    YAML.replace("name: test.csv", "nam: test.csv"): "did you mean 'dataset.files[0].name'?",
    YAML.replace("[{name: test.csv}]", "test.csv"): "write files: [{name: notes.csv}]",
    YAML.replace("{name: test.csv}", "test.csv"): "write files: [{name: notes.csv}]",
    YAML + "max_output_tokens: many\n": "max_output_tokens: expected `int`, got `str`",
    YAML + "data_class: secret\n": "data_class: invalid enum value 'secret'",
    YAML.replace("metrics: [exact_match]\n", ""): "metrics is missing",
    YAML.replace("[exact_match]", "exact_match"): "metrics: expected `array`, got `str`",
    YAML.replace("name: rounds", "name: other"): "must equal the file's name",
    YAML.replace("planning_treatments", "planing"): "unknown subcategory 'planing'",
    YAML.replace(FILES, "{hub: a/b}"): "dataset.revision is missing",
    YAML.replace(FILES, "{}"): "such as files: [{name: ",
    YAML.replace(", gold_index: right", ""): "either gold_index or reference",
    YAML.replace(", gold_index: right", "") + "rubric: open_answer\n": "only where metrics begin",
    YAML.replace("choices: [a, b], ", ""): "gold_index needs instance.choices",
    YAML + "tasks: [match_protocols\n": "not readable as YAML in line",
    "- a list\n": "expected `object`, got `array`",
    "": "expected `object`, got `null`",
}


@pytest.mark.parametrize(("text", "reason"), FAULTS.items(), ids=range(len(FAULTS)))
def test_a_yaml_file_with_a_mistake_is_refused_with_file_and_key(
    text: str, reason: str, tmp_path: Path
) -> None:
    assert reason in refusal(write(tmp_path, "rounds.yaml", text))


def test_a_yaml_file_holds_values_only_and_utf8(tmp_path: Path) -> None:
    tag = YAML + "title: !!python/object/apply:os.system ['true']\n"
    assert "not readable as YAML" in refusal(write(tmp_path, "rounds.yaml", tag))
    path = tmp_path / "rounds.yaml"
    path.write_bytes(YAML.encode() + "title: caf\xe9\n".encode("latin-1"))
    assert "not readable as YAML" in refusal(path)
