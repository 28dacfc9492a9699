"""The weights behind a server of one's own: asked for, stored with the run, and compared when it goes on."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from medhelm import evaluate, load_results
from medhelm.cli import run_command
from medhelm.errors import ModelError
from medhelm.models import http_endpoint
from medhelm.models.identity import is_served_here
from medhelm.schema.model import ModelSpec
from medhelm.store.records import find_runs, read_served, stored_records
from tests.juries import judged, rated
from tests.quiz import arguments, write_quiz
from tests.quiz import at as places
from tests.server import FaultServer, serve_in_thread

pytestmark = pytest.mark.slow


def listed(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"/v1/models": {"data": [{"created": 1, **entry} for entry in entries]}}


def props(path: str) -> dict[str, Any]:
    return {"/props": {"model_path": path, "total_slots": 4}}


def at(server: FaultServer, name: str = "ward", **more: Any) -> ModelSpec:
    return ModelSpec(name=f"s/{name}", model=name, base_url=server.base_url, **more)


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        (listed({"id": "a.gguf"}), listed({"id": "b.gguf"}), "id 'a.gguf' then, 'b.gguf' now"),
        (props("/w/a.gguf"), props("/w/b.gguf"), "model_path '/w/a.gguf' then, '/w/b.gguf' now"),
        (listed({"id": "ward", "root": "/ckpt/100"}), listed({"id": "ward", "root": "/ckpt/200"}, {"id": "x"}),
         "root '/ckpt/100' then, '/ckpt/200' now"),
        (listed({"id": "ward", "meta": {"size": 7}}), listed({"id": "ward", "meta": {"size": 8}}), "size '7' then, '8' now"),
    ],
)  # fmt: skip
def test_other_weights_behind_a_port_stop_the_run_before_its_first_request(
    then: dict[str, Any], now: dict[str, Any], said: str, tmp_path: Path, capsys: Any
) -> None:
    write_quiz(tmp_path, 6)
    with serve_in_thread() as server:
        more = {"model": "llamacpp/local", "model__model": "ward"}

        def ask(n: int, *given: str) -> tuple[int, str]:
            argv = arguments(tmp_path, server.base_url, **more, max_instances=n)
            return run_command([*argv, *given]), capsys.readouterr().err

        server.pages = then
        assert ask(2)[0] == 0 and server.requests == 2
        server.pages = now
        assert ask(2)[0] == 0 and server.pages_asked["/props"] == 1, "nothing is left to ask"
        code, err = ask(4)
        assert (code, server.requests) == (6, 2) and said in err
        assert "model.model (now 'ward')" in err and "Traceback" not in err
        server.pages = then | {"/other": {}}
        assert ask(4)[0] == 0 and server.requests == 4
        server.pages = now
        again = ("model.rename=true", "model.name=s/new")
        code, err = ask(5, *again)
        assert (code, server.requests) == (6, 4) and said in err, "a new name is not other weights"
        assert ask(5, *again)[0] == 0 and ask(6, again[1])[0] == 0 and server.requests == 6


@pytest.mark.parametrize(
    "pages",
    [
        {},
        {"/v1/models": None, "/props": None},
        {"/v1/models": b"<html>", "/props": b"[1]"},
        {"/v1/models": {"data": [{"id": 1}, "x", {"id": None}]}, "/props": {"model_path": {}}},
        listed({"id": "one"}, {"id": "two"}),
    ],
)
def test_a_server_that_does_not_say_fails_no_run(
    pages: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_endpoint, "_SERVED_S", 0.2)
    write_quiz(tmp_path, 2)
    with serve_in_thread() as server:
        given = places(tmp_path)
        models = [at(server), at(server, "other")]
        for say in (listed({"id": "ward"}), pages):
            server.pages = say
            evaluate(models, "quiz", repeats=1 + (say is pages), **given)
        assert server.requests == 2 * 2 * (1 + 2)
    assert server.pages_asked == {"/v1/models": 2, "/props": 2}, "once an endpoint and command"
    stored = [read_served(run).models for run in find_runs(tmp_path / "results")]
    assert sum(map(bool, stored)) == 2


def test_a_judge_on_other_weights_is_not_asked(tmp_path: Path) -> None:
    with serve_in_thread(rated()) as server:
        judge = at(server, endpoint_class="local")
        server.pages = props("/w/a.gguf")
        judged(tmp_path, judge, max_instances=2)
        asked, server.pages = server.requests, props("/w/b.gguf")
        with pytest.raises(ModelError, match="'/w/a.gguf' then, '/w/b.gguf' now"):
            judged(tmp_path, judge)
        assert server.requests == asked


def test_answers_that_name_another_model_are_flagged_as_drift(tmp_path: Path) -> None:
    write_quiz(tmp_path, 4)
    with serve_in_thread() as server:
        for n, server.served in ((2, "a.gguf"), (4, "b.gguf")):
            given = places(tmp_path)
            evaluate(at(server), "quiz", max_instances=n, **given)
    (row,) = load_results(tmp_path / "results").typed("benchmarks").rows
    assert (row["n"], "drift" in row["flags"]) == (4, True)


def test_addresses_with_different_weights_are_not_asked(tmp_path: Path) -> None:
    write_quiz(tmp_path, 20)
    given = places(tmp_path)
    with serve_in_thread() as one, serve_in_thread() as other:
        urls = (one.base_url, other.base_url)
        spec = ModelSpec(name="s/ward", model="ward", base_url=urls, max_concurrency=2)
        one.pages, other.pages = props("/a/w7.gguf"), props("/b/w8.gguf")
        with pytest.raises(ModelError, match="'/a/w7.gguf' .*'/b/w8.gguf' now"):
            evaluate(spec, "quiz", **given)
        assert (one.requests, other.requests) == (0, 0)
        other.pages = props("/b/w7.gguf")  # the same in another folder
        with serve_in_thread() as again:
            again.pages = other.pages
            evaluate(
                msgspec.structs.replace(spec, base_url=(urls[0], again.base_url)), "quiz", **given
            )
        assert one.requests + again.requests == 20 and again.requests > 5


def test_what_each_address_served_is_in_the_record_and_drift_in_the_notes(tmp_path: Path) -> None:
    write_quiz(tmp_path, 30)
    given = places(tmp_path)
    with serve_in_thread() as one, serve_in_thread() as other:
        one.served, other.served = "w7", "w8"
        urls = (one.base_url, other.base_url)
        spec = ModelSpec(name="s/ward", model="ward", base_url=urls, max_concurrency=2)
        table = evaluate(spec, "quiz", **given).typed("benchmarks")
    (run,) = find_runs(tmp_path / "results")
    (record,) = stored_records(run)
    asked = {f"{urls[0]} w7 fp_test": one.requests, f"{urls[1]} w8 fp_test": other.requests}
    assert record.own.served_at == asked and sum(asked.values()) == 30
    assert "drift" in str(table.rows[0]["flags"])
    said = "; ".join(sorted(asked))  # each with what it served
    assert any("s/ward" in note and f"{said}." in note for note in table.notes)


def test_judges_have_several_addresses_as_models_have(tmp_path: Path) -> None:
    with serve_in_thread(rated()) as one, serve_in_thread(rated()) as other:
        urls = (one.base_url, other.base_url)
        judge = ModelSpec(
            name="j", model="j", base_url=urls, endpoint_class="local", max_concurrency=1
        )
        judged(tmp_path, judge)
        asked = one.requests + other.requests
        assert one.requests and other.requests
        for base_url in ((urls[0], "http://127.0.0.1:9/v1", urls[1]), urls[0]):
            judged(tmp_path, msgspec.structs.replace(judge, base_url=base_url))
        assert one.requests + other.requests == asked


@pytest.mark.parametrize(
    ("url", "where", "is_here"),
    [("http://localhost:1/v1", "external", True), ("http://127.0.0.2/v1", "contracted", True), ("http://gpu/v1", "local", True),
     ("http://gpu/v1", "contracted", False), (None, "external", False)],
)  # fmt: skip
def test_only_servers_of_the_users_own_are_asked(
    url: str | None, where: Any, is_here: bool
) -> None:
    spec = ModelSpec(name="m", model="m", base_url=url, endpoint_class=where)
    assert is_served_here(spec) == is_here
