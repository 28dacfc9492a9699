"""Runs that ask otherwise: what is sent, what is stored, what tables say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from medhelm import Asking, estimate, evaluate, load_results
from medhelm.cli import run_command
from medhelm.config import chosen_asking
from medhelm.errors import MedhelmError, UsageError
from medhelm.plugins.askings import load_askings
from medhelm.plugins.registry import load_registry
from medhelm.proof.validation import validate
from medhelm.store.records import find_runs, read_plan
from tests.cases import cases
from tests.packages import THIRD_PARTY
from tests.quiz import PLUGIN, arguments, at, write_quiz
from tests.server import FaultServer, serve_in_thread
from tests.shell import Shell

TERSE = THIRD_PARTY / "medhelm_example" / "medhelm_example" / "terse.py"
PLAIN, COT = Asking(name="default"), load_askings()["chain_of_thought"]


def by_form(prompt: str) -> str:
    if "one JSON object" in prompt:
        return '{"answer": "A"}'
    return "Perhaps B.\n\n**Answer:** A" if "`Answer:`" in prompt else "A"


def bodies(server: FaultServer) -> list[dict[str, Any]]:
    return [body for body in server.bodies if "messages" in body]


def ask(folder: Path, server: FaultServer, **more: Any) -> int:
    return run_command(arguments(folder, server.base_url, **more))


def test_four_askings_stand_beside_each_other_by_name(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    write_quiz(tmp_path, 8)
    with serve_in_thread(answer=by_form) as server:
        assert ask(tmp_path, server, ask="default,chain_of_thought", form="text,line") == 0
        sent = server.requests
        for same in ({"ask": "chain_of_thought"}, {"ask": "default"}, {}):
            assert ask(tmp_path, server, **same) == 0  # nothing is sent
        assert server.requests == sent == 4 * 8
    plans = [read_plan(run).spec for run in find_runs(tmp_path / "results")]
    names = {"", "line", "chain_of_thought", "chain_of_thought.text"}
    assert {p.asking.name if p.asking else "" for p in plans} == names
    assert {p.model.name for p in plans} == {f"openai/test{'+' * bool(n)}{n}" for n in names}
    own = next(p.max_output_tokens for p in plans if p.asking is None)
    assert {p.max_output_tokens for p in plans if p.asking and p.asking.reasons} == {2048 + own}
    out = shell("tables", "--results-dir", str(tmp_path / "results"))
    assert all(f"openai/test+{name}" in out for name in names - {""})
    assert "asked otherwise" in " ".join(out.split())


def test_a_plugin_brings_an_asking(tmp_path: Path, shell: Shell) -> None:
    write_quiz(tmp_path, 2)
    with serve_in_thread(answer="A") as server:
        assert ask(tmp_path, server, ask="terse", plugins=f"[{PLUGIN},{TERSE}]") == 0
    assert all("letter and nothing else" in str(body) for body in bodies(server))
    (run,) = find_runs(tmp_path / "results")
    assert read_plan(run).spec.model.name == "openai/test+terse"
    assert "letter and nothing else" in shell("list", "askings", "--plugin", str(TERSE))


def test_prompts_that_are_echoed_count_once_more_with_each_option(tmp_path: Path) -> None:
    """In an estimate as in what a budget sets aside."""
    write_quiz(tmp_path, 3)
    more = at(tmp_path, form="logprobs")
    with serve_in_thread(answer="A") as server:
        chat, echoed = (
            server.model("m", provider=p, endpoint_class="local")
            for p in ("openai", "openai_completions")
        )
        (once,), (often,) = (estimate(one, "quiz", **more) for one in (chat, echoed))
        assert (once.to_ask, often.to_ask) == (3, 3)
        assert 5 * once.input_tokens < often.input_tokens < 6 * once.input_tokens
        with pytest.raises(MedhelmError, match="budget_tokens|cap"):
            evaluate(echoed, "quiz", **more, budget_tokens=once.input_tokens)
        assert server.requests == 0


@pytest.mark.slow
def test_a_schema_is_sent_where_the_endpoint_takes_one(tmp_path: Path) -> None:
    write_quiz(tmp_path, 2)
    with serve_in_thread(answer=by_form) as server:
        assert ask(tmp_path, server, form="schema") == 0
        assert all("response_format" not in body for body in bodies(server))
        server.bodies.clear()
        assert ask(tmp_path, server, form="schema", model__json_schema="true") == 0
    schemas = [body["response_format"]["json_schema"]["schema"] for body in bodies(server)]
    assert [s["properties"]["answer"]["enum"] for s in schemas] == [["A", "B", "C", "D"]] * 2


def test_rules_are_asked_as_ever(tmp_path: Path) -> None:
    write_quiz(tmp_path, 4)
    evaluate("baseline/first_option", "quiz", **at(tmp_path, ask="chain_of_thought"))
    (run,) = find_runs(tmp_path / "results")
    spec = read_plan(run).spec
    assert spec.model.name == "baseline/first_option" and spec.asking is None


def test_python_takes_a_value_and_what_is_chosen_beside_it(tmp_path: Path) -> None:
    write_quiz(tmp_path, 3)
    with serve_in_thread(answer="Reply: A") as server:
        model = server.model("openai/test", endpoint_class="local")
        template = "{question}\n{choices}\n{context}"
        own = Asking(name="mine", template=template, instruction="Pick.")
        more = at(tmp_path)
        with pytest.raises(UsageError, match="instruction"):  # the template has no place for it
            evaluate(model, "quiz", ask=own, **more)
        assert server.requests == 0
        own = Asking(name="mine", template="{instruction}\n" + template, instruction="Pick.")
        evaluate(model, "quiz", ask=own, **more)
        (message,) = bodies(server)[0]["messages"]
    assert (
        message["content"].startswith("Pick.\nWhich drug")
        and "Exactly one" not in message["content"]
    )
    (run,) = find_runs(tmp_path / "results")
    assert read_plan(run).spec.model.name == "openai/test+mine"


@pytest.mark.parametrize(
    ("more", "words"), cases(__file__, "mistakes_are_told_in_one_line_before_anything_is_sent")
)
def test_mistakes_are_told_in_one_line_before_anything_is_sent(
    tmp_path: Path, shell: Shell, more: dict[str, str], words: list[str]
) -> None:
    write_quiz(tmp_path, 2)
    with serve_in_thread() as server:
        argv = arguments(tmp_path, server.base_url)
        shell(*argv, *(f"{k}={v}" for k, v in more.items()), code=range(1, 10))
        assert server.requests == 0
    (line,) = shell.err.strip().splitlines()
    assert all(word in line for word in words), line


@pytest.mark.parametrize(
    ("texts", "word"),
    [
        (("instruction: Pick.", "instruction: Choose."), "prompt"),
        pytest.param(
            ("system: Be careful.", "system: Always answer B."), "asking", marks=pytest.mark.slow
        ),
        pytest.param(
            ("max_output_tokens: 50", "max_output_tokens: 500"), "asking", marks=pytest.mark.slow
        ),
    ],
)
def test_one_name_with_two_texts_is_in_no_table(
    tmp_path: Path, texts: tuple[str, str], word: str
) -> None:
    write_quiz(tmp_path, 2)
    with serve_in_thread(answer="A") as server:
        for model, text in zip(("one", "two"), texts, strict=True):
            (tmp_path / "mine.yaml").write_text(text)
            argv = arguments(tmp_path, server.base_url, ask=tmp_path / "mine.yaml")
            assert run_command([*argv, f"model.model={model}", f"model.name={model}"]) == 0
    with pytest.raises(MedhelmError, match=f"differ in {word}"):
        load_results(tmp_path / "results").table("overall")


def test_two_files_of_one_name_are_refused(tmp_path: Path, shell: Shell) -> None:
    write_quiz(tmp_path, 2)
    files = [tmp_path / folder / "mine.yaml" for folder in ("a", "b")]
    for file in files:
        file.parent.mkdir()
        file.write_text(f"system: {file.parent.name}")
    argv = arguments(tmp_path, "http://127.0.0.1:9/v1", ask=",".join(map(str, files)))
    assert "rename one" in shell.error(*argv)


def test_names_tell_what_is_chosen() -> None:
    assert chosen_asking(PLAIN) is None
    shown = {
        chosen_asking(PLAIN, examples=5).name: "5-shot",  # type: ignore[union-attr]
        chosen_asking(COT, examples=5, form="schema").name: "chain_of_thought.5-shot.schema",  # type: ignore[union-attr]
        chosen_asking(COT, form="line").name: "chain_of_thought",  # type: ignore[union-attr]
    }
    assert all(name == wanted for name, wanted in shown.items())
    first, second = (chosen_asking(PLAIN, instruction=words) for words in ("Pick.", "Choose."))
    assert first and second and first.name != second.name
    assert chosen_asking(Asking(name="default", reasons=True)).name.startswith("own-")  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "line", "schema"])
def test_every_benchmark_proves_itself_as_asked(form: Any, tmp_path: Path) -> None:
    registry = load_registry()
    asking = Asking(name="proof", form=form, reasons=form != "text", system="You are careful.")
    for benchmark in registry.benchmarks.values():
        report = validate(benchmark, "sample", registry, tmp_path, ask=asking)
        if report.state == "failed":
            assert all("cannot be asked otherwise" in f.message for f in report.findings), (
                benchmark.name
            )
