"""Who serves models is one value for each, found by hook, of medhelm as of a third party."""

from __future__ import annotations

import json
import socketserver
from collections.abc import Iterator
from pathlib import Path

import pytest

from medhelm import ModelSpec, Provider
from medhelm.errors import ModelError, PluginError, UnknownName
from medhelm.models import ModelPool, check_model, open_model
from medhelm.models.catalogue import find_model, load_models
from medhelm.models.identity import identity, reads_gold, reads_prompt, without_unused
from medhelm.models.providers import built_in, find_provider, known_provider
from medhelm.plugins.checks import provider_faults
from medhelm.plugins.registry import load_registry
from medhelm.schema.run import RunSpec
from medhelm.store.records import find_runs, read_plan, request_hash
from tests.cases import cases
from tests.registry.distributions import register
from tests.server import serving
from tests.shell import Shell

THIRD_PARTY = Path(__file__).parents[1] / "third_party" / "medhelm_example"
KEY = "sk-lines-77"
HASHES = {  # of 0.1.0, before a provider was a value
    "anthropic": "f45b9e7be621d5dc",
    "baseline": "9ad6e6ca61396f1d",
    "google": "a5434d9cf5c88dbd",
    "hf": "1e4facef24add6aa",
    "openai": "c76643b919aab2bf",
    "scripted": "11a7e0ddc2eb577c",
}


@pytest.mark.parametrize("name", HASHES)
def test_a_provider_as_a_value_moves_no_run(name: str) -> None:
    model = ModelSpec(
        name=f"{name}/n", provider=name, model="m", base_url="https://X.example:443//v1/"
    )
    run = RunSpec(
        benchmark="b",
        benchmark_version="1",
        data="full",
        split="test",
        dataset_sha256="d",
        prompt_name="p",
        prompt_version="1",
        prompt_sha256="x",
        max_output_tokens=99,
        repeats=1,
        seed=1,
        model=model,
    )
    assert request_hash(run) == HASHES[name]


def test_every_packaged_model_has_a_provider_and_rules_alone_read_no_prompt() -> None:
    for spec in load_models().values():
        provider = find_provider(spec.provider)
        assert provider.name == spec.provider and provider.help
        assert (spec.endpoint_class == "local") == provider.is_local or provider.base_url
        assert reads_prompt(spec) == (spec.provider != "baseline")
    gold = {name for name, spec in load_models().items() if reads_gold(spec)}
    assert gold == {"baseline/majority", "baseline/oracle", "baseline/words"}


def test_models_of_a_provider_that_is_not_there_count_as_they_were_recorded() -> None:
    spec = ModelSpec(name="gone/x", provider="gone", model="x", system_prompt="s")
    assert known_provider("gone") is None and without_unused(spec) == spec
    assert reads_prompt(spec) and not reads_gold(spec)
    with pytest.raises(UnknownName, match=r"unknown provider 'gone'.*baseline.*\(model 'gone/x'\)"):
        check_model(spec)


# A third party's -------------------------------------------------------------------------------


class LinesServer(socketserver.ThreadingTCPServer):
    """Answers a line with a line, for the right key."""

    daemon_threads = True
    allow_reuse_address = True
    asked: list[dict[str, str]]


class Handler(socketserver.StreamRequestHandler):
    """Answers one request."""

    def handle(self) -> None:
        key, line = self.rfile.readline(), self.rfile.readline()
        assert isinstance(self.server, LinesServer)
        reply: dict[str, object] = {"denied": True}
        if key == f"{KEY}\n".encode():
            self.server.asked.append(json.loads(line))
            reply = {"text": "Answer: B", "read": 70, "written": 3, "served": "lines-1"}
        self.wfile.write(json.dumps(reply).encode() + b"\n")


@pytest.fixture
def lines() -> Iterator[LinesServer]:
    server = LinesServer(("127.0.0.1", 0), Handler)
    server.asked = []
    with serving(server):
        yield server


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with a provider; the working folder."""
    (tmp_path / "site").mkdir()
    register(tmp_path / "site", "medhelm-example")
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.syspath_prepend(THIRD_PARTY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EXAMPLE_LINES_KEY", KEY)
    return tmp_path


def url(server: LinesServer) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


RUN = ("run", "model=example_lines/any-9b", "benchmark=example_triage", "data=sample")


@pytest.mark.slow
def test_any_model_of_a_plugins_provider_runs_from_the_command_line(
    package: Path, lines: LinesServer, shell: Shell
) -> None:
    shell(*RUN, f"model.base_url={url(lines)}", *own_key())
    asked = len(lines.asked)
    assert asked and {a["model"] for a in lines.asked} == {"any-9b"}
    (run,) = find_runs(package / "medhelm-results")
    spec = read_plan(run).spec.model
    assert (spec.provider, spec.model) == ("example_lines", "any-9b")
    assert (spec.endpoint_class, spec.base_url) == ("external", url(lines))
    assert '"served_model":"lines-1"' in (run / "responses.jsonl").read_text()
    # What its provider does not use moves no run; what it uses does.
    stray = ("model.sampling.temperature=0.7", "model.context_window=9999")
    shell(*RUN, f"model.base_url={url(lines)}/", *own_key(), *stray)
    assert len(lines.asked) == asked
    shell(*RUN, f"model.base_url={url(lines)}", *own_key(), "model.system_prompt=B")
    assert len(lines.asked) == 2 * asked
    assert KEY not in "".join(p.read_text("utf-8", "replace") for p in run.rglob("*.json*"))
    assert "example_lines/any-9b" in shell.out


def own_key() -> tuple[str, ...]:
    return ("model.api_key_env=EXAMPLE_LINES_KEY",)


@pytest.mark.slow
def test_it_is_listed_described_and_estimated(package: Path, shell: Shell) -> None:
    assert "model=example_lines/ITS-NAME" in (shell("list", "models"))
    assert "provider: example_lines" in shell("describe", "example_lines/any-9b")
    assert "example_lines/any-9b" in shell("estimate", *RUN[1:])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "expected"), cases(__file__, "a_mistake_with_it_is_one_line")
)
def test_a_mistake_with_it_is_one_line(
    words: list[str], code: int, expected: str, package: Path, shell: Shell
) -> None:
    given = {w.partition("=")[0]: w for w in (*RUN[1:], *words)}
    shell("run", *given.values(), code=code)
    err = shell.err
    (line,) = (x for x in err.splitlines() if expected in x)
    assert line.startswith("medhelm: ") and KEY not in err and "Traceback" not in err
    if code == 6:
        assert "medhelm_example/provider.py" in line


@pytest.mark.slow
def test_without_its_key_it_is_refused_before_the_first_request(
    package: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    monkeypatch.delenv("EXAMPLE_LINES_KEY")
    shell(*RUN, code=6)
    assert "export EXAMPLE_LINES_KEY=..." in shell.err


PLUGIN = """
from medhelm import ModelSpec, Provider, Response, hookimpl

class Rule:
    def __init__(self, spec):
        self.spec = spec
    def prepare(self, instances):
        pass
    def answer(self, benchmark, instance, seed):
        return instance.references[0]

class Echo:
    def __init__(self, spec):
        self.spec = spec
    async def acquire(self, place=0): pass
    def release(self): pass
    async def close(self): pass
    async def respond(self, request):
        return Response(instance_id=request.instance_id, repeat=request.repeat, text="Answer: A")

@hookimpl
def medhelm_providers():
    return [Provider({})]
"""


def plugin(tmp_path: Path, values: str) -> str:
    path = tmp_path / "acme_plugin.py"
    path.write_text(PLUGIN.format(values))
    return str(path)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            "name='openai', help='x', open_model=Echo",
            r"'openai' is defined twice: .*services.py .*acme_plugin.py",
        ),
        ("name='Acme', help='x', open_model=Echo", "a name has small letters"),
        ("name='acme', help='x'", "give one of open_host"),
        ("name='acme', help='x', open_model=Rule, reads_prompt=False", "never the gold"),
        ("name='acme', help='x', open_model=Echo, uses=('smapling',)", "did you mean 'sampling'"),
        ("name='acme', help='x', open_model=Echo, base_url='ftp://x'", "is not an http or https"),
    ],
)
def test_a_provider_that_cannot_be_used_is_refused_by_name(
    values: str, expected: str, tmp_path: Path
) -> None:
    with pytest.raises(PluginError, match=expected):
        load_registry([plugin(tmp_path, values)])
    assert built_in()["openai"].base_url == "https://api.openai.com/v1"
    assert known_provider("openai") is built_in()["openai"]


def test_an_embedded_provider_of_a_plugin_is_free_and_is_never_handed_the_gold(
    tmp_path: Path,
) -> None:
    load_registry([plugin(tmp_path, "name='acme_free', help='x', open_model=Echo")])
    spec = find_model("acme_free/any")
    provider = find_provider("acme_free")
    assert provider.is_embedded and provider.origin.endswith("acme_plugin.py")
    check_model(spec)
    assert open_model(spec).spec is spec
    load_registry([plugin(tmp_path, "name='acme_free', help='x', open_model=Rule")])
    for refuse in (check_model, open_model, ModelPool().open):
        with pytest.raises(ModelError, match="are handed requests"):
            refuse(spec)


def test_a_setting_that_it_uses_and_its_address_are_its_identity(package: Path) -> None:
    load_registry()
    spec = ModelSpec(name="x", provider="example_lines", model="m", extra_body={"a": 1})
    assert identity(spec)["extra_body"] == {} and identity(spec)["base_url"] is None
    same = ModelSpec(name="y", provider="example_lines", model="m", base_url="http://127.0.0.1:9//")
    assert identity(same) == identity(spec)


@pytest.mark.parametrize("provider", built_in().values(), ids=list(built_in()))
def test_providers_of_medhelm_pass_the_checks_of_a_plugins(provider: Provider) -> None:
    if provider.reads_prompt:
        assert list(provider_faults(provider)) == []
    else:
        assert provider.name == "baseline"
