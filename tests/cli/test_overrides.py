"""What is typed behind `medhelm run` is what is run: no value is dropped or changed in silence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medhelm.cli.compose import compose, read_options
from medhelm.cli.overrides import as_meant
from medhelm.cli.run import to_job
from medhelm.config import Job
from medhelm.errors import UsageError
from medhelm.plugins.registry import Registry, load_registry

pytestmark = pytest.mark.slow

BASE = ("model=baseline/lead", "benchmark=headqa", "data=sample")


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


def jobs_of(registry: Registry, *argv: str, base: tuple[str, ...] = BASE) -> list[Job]:
    keys = {a.partition("=")[0].lstrip("+") for a in argv}
    given = [*(b for b in base if b.partition("=")[0] not in keys), *argv]
    return [to_job(config, registry.models) for config in compose(read_options(given), registry)]


def cells(jobs: list[Job]) -> list[tuple[str, str]]:
    return [(job.model.name, choice.name) for job in jobs for choice in job.benchmarks]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["benchmark=[headqa,medec]"], [("baseline/lead", n) for n in ("headqa", "medec")]),
        (["benchmark=[ headqa , 'medec' ]"], [("baseline/lead", n) for n in ("headqa", "medec")]),
        (["benchmark=[medec]"], [("baseline/lead", "medec")]),
        (["model=[baseline/lead,baseline/random]"], [(f"baseline/{n}", "headqa") for n in ("lead", "random")]),
        (["model=[glob(baseline/le*)]"], [(f"baseline/{n}", "headqa") for n in ("lead", "lexical")]),
        (["+benchmark=[headqa,medec]"], [("baseline/lead", n) for n in ("headqa", "medec")]),
        (["model=glob([*/lead,*/random])"], [(f"baseline/{n}", "headqa") for n in ("lead", "random")]),
        (["model=glob(baseline/*,exclude=[*/l*,*/o*,*/m*])"], [(f"baseline/{n}", "headqa") for n in ("empty", "first_option", "random", "words")]),
        (["benchmark=glob([medb*,mede*],exclude=*lle*)"], [("baseline/lead", "medec")]),
        (["model=choice(baseline/lead,baseline/empty)"], [(f"baseline/{n}", "headqa") for n in ("lead", "empty")]),
    ],
)  # fmt: skip
def test_a_list_in_brackets_and_a_glob_are_sweeps(
    argv: list[str], expected: list[tuple[str, str]], registry: Registry
) -> None:
    assert cells(jobs_of(registry, *argv)) == expected


@pytest.mark.parametrize("group", ["benchmark", "model"])
def test_several_options_in_a_config_file_are_refused(
    group: str, tmp_path: Path, registry: Registry
) -> None:
    names = {"benchmark": "[headqa, medec]", "model": "[baseline/lead, baseline/random]"}
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "both.yaml").write_text(
        f"# @package _global_\ndefaults:\n  - override /{group}: {names[group]}\n"
    )
    typed = names[group].strip("[]").replace(" ", "")
    base = tuple(b for b in BASE if not b.startswith(group))
    with pytest.raises(UsageError, match=f"both.yaml .*{group}.*{group}={typed}"):
        jobs_of(registry, "experiment=both", "--config-dir", str(tmp_path), base=base)


@pytest.mark.parametrize(
    ("typed", "stop"),
    [
        (r'["\n\n"]', ("\n\n",)),
        (r'["\n",END]', ("\n", "END")),
        (r'["a\tb\r"]', ("a\tb\r",)),
        (r'["\\n"]', ("\\n",)),
        ('["\n"]', ("\n",)),
        (r"['it \'s', \"\n\"]".replace('\\"', '"'), ("it 's", "\n")),
    ],
)
def test_a_line_break_in_double_quotes_is_one(
    typed: str, stop: tuple[str, ...], registry: Registry
) -> None:
    (job,) = jobs_of(registry, f"model.sampling.stop={typed}")
    assert job.model.sampling.stop == stop


def test_so_it_is_in_every_setting_and_through_a_sweep(registry: Registry) -> None:
    jobs = jobs_of(registry, r'model.system_prompt="One.\nTwo."', "benchmark=headqa,medec")
    assert [job.model.system_prompt for job in jobs] == ["One.\nTwo."] * 2
    swept = jobs_of(registry, r'model.sampling.stop=["\n"],["\n\n"]')
    assert [job.model.sampling.stop for job in swept] == [("\n",), ("\n\n",)]


@pytest.mark.parametrize(
    "override",
    ["a=b", "--cfg", "a='x\\n'", "model=openai/x:7b", "plugins=[a.py,b.py]", "~model", "a=[1,2]"],
)
def test_all_else_is_left_as_it_is(override: str) -> None:
    given: Any = as_meant(override)
    assert given == override
