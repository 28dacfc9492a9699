"""The OpenAI provider against a server that fails for real, on loopback."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import time
from pathlib import Path

import pytest

from medhelm.errors import ModelError
from medhelm.models import ModelPool, endpoint, network
from medhelm.models.http_endpoint import HttpModel
from tests.models.asking import (
    ask_all,
    converse,
    open_openai,
    request,
    spec_for,
    without_timings,
)
from tests.server import Faults, FaultServer, Reply

KEY = "sk-test-4711-secret"


def refusing(status: int, code: str = "", param: str | None = None, **headers: str) -> FaultServer:
    error = {"message": "About Mrs Miller", "code": code, "param": param}
    return FaultServer(lambda _: Reply(status=status, body={"error": error}, headers=headers))


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (refusing(401), ["does not accept the key in SOME_KEY", "http 401"]),
        (refusing(403), ["does not accept the key in SOME_KEY", "http 403"]),
        (refusing(404), ["knows no model 'm'"]),
        (refusing(402), ["no credit"]),
        (refusing(308, Location="http://127.0.0.1:1/v1"), ["redirects"]),
        (refusing(429, "insufficient_quota"), ["no credit", "insufficient_quota"]),
        (refusing(400, "unsupported_value", "temperature"), ["sampling.temperature: null"]),
        (refusing(400, "unsupported_parameter", "max_tokens"), ["max_completion_tokens"]),
    ],
)
def test_what_no_retry_can_mend_stops_the_run_at_once(
    server: FaultServer, words: list[str]
) -> None:
    requests = [request(i) for i in range(100)]
    with pytest.raises(ModelError) as caught:
        converse(requests, server, {"SOME_KEY": KEY}, api_key_env="SOME_KEY", max_concurrency=4)
    message = str(caught.value)
    assert all(word in message for word in words)
    assert "openai/m" in message and "127.0.0.1" in message
    assert "\n" not in message and KEY not in message
    assert "Miller" not in message and "Question" not in message
    assert server.requests <= 8


def test_a_server_that_wants_a_key_it_was_not_given() -> None:
    with pytest.raises(ModelError, match=r"model\.api_key_env"):
        converse([request("a")], FaultServer(key=KEY))


def test_once_the_key_is_refused_nothing_more_is_sent() -> None:
    async def run() -> int:
        async with FaultServer(key="another") as server:
            pool = ModelPool({"K": KEY})
            models = [
                pool.open(spec_for(server.base_url, name=name, api_key_env="K")) for name in "ab"
            ]
            for model in models:
                assert isinstance(model, HttpModel)
                with pytest.raises(ModelError):
                    await ask_all(model, [request("x")])
            await pool.close()
            return server.requests

    assert asyncio.run(run()) == 1


def test_a_key_goes_to_no_host_that_it_was_not_given_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    server = FaultServer()
    converse([request("a")], server, {"OPENAI_API_KEY": KEY})
    assert "Authorization" not in server.headers[0]


def test_a_400_is_an_error_of_its_instance_only() -> None:
    def answer(prompt: str) -> str | Reply:
        return Reply(status=400, body={"error": {}}) if "Question 1?" in prompt else "A"

    responses = converse([request(i) for i in range(3)], FaultServer(answer))
    assert [r.finish for r in responses] == ["stop", "error", "stop"]
    assert (responses[1].error, responses[1].attempts) == ("http 400", 1)


def test_a_prompt_that_the_server_cut_is_oversize_and_not_scored() -> None:
    usage = {"prompt_tokens": 2048, "completion_tokens": 1}
    long = "The patient was seen in clinic. " * 1200
    server = FaultServer(lambda _: Reply("B", usage=usage))
    (response,) = converse([request("a", long)], server)
    assert (response.finish, response.text) == ("oversize", "")
    assert response.error == "prompt cut by the server"
    assert response.usage.input_tokens == 2048  # it is billed all the same


@pytest.mark.slow
@pytest.mark.parametrize(
    ("patience_s", "errors"),
    [
        (60.0, endpoint.DEAD_AFTER - 1),  # by requests that were given up in a row
        (0.0, endpoint.DEAD_AFTER // 2 - 1),  # by tries in a row, two for each request
    ],
)
def test_a_server_that_dies_ends_requests_as_errors_and_then_the_sweep(
    patience_s: float, errors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "PATIENCE_S", patience_s)

    async def run() -> tuple[int, str]:
        async with FaultServer() as server:
            model = open_openai(spec_for(server.base_url, max_attempts=2, max_concurrency=4))
            await ask_all(model, [request("first")])
        ended = 0
        with pytest.raises(ModelError) as caught:
            for i in range(100):
                (response,) = await ask_all(model, [request(i)])
                assert (response.finish, response.error) == ("error", "no connection")
                assert response.attempts == 2
                ended += 1
        await model.close()
        return ended, str(caught.value)

    ended, message = asyncio.run(run())
    assert ended == errors
    assert "does not answer" in message and "same command" in message


@pytest.mark.slow
def test_a_server_that_hangs_for_ever_does_not_hold_the_sweep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoint, "PATIENCE_S", 0.3)
    server = FaultServer(faults=Faults(rate=1.0, kinds=("hang",), hang_s=30))
    started = time.monotonic()
    with pytest.raises(ModelError, match=r"does not answer \(timeout\)"):
        converse(
            [request(i) for i in range(1000)],
            server,
            timeout_s=0.05,
            max_attempts=1000,
            max_concurrency=16,
        )
    assert 0.3 <= time.monotonic() - started < 5


@pytest.mark.slow
def test_a_restart_of_the_server_is_sat_out() -> None:
    async def run() -> list[str]:
        server = FaultServer(lambda _: "A")
        async with server as running:
            model = open_openai(spec_for(running.base_url, max_concurrency=32, max_attempts=60))
            await ask_all(model, [request("first")])
            port = running._port
        asking = asyncio.create_task(ask_all(model, [request(i) for i in range(60)]))
        await asyncio.sleep(0.2)
        assert not asking.done()
        async with FaultServer(lambda _: "A", port=port):
            responses = await asking
        await model.close()
        return [r.finish for r in responses]

    assert asyncio.run(run()) == ["stop"] * 60


@pytest.mark.slow
def test_models_of_one_endpoint_share_its_limit_and_others_do_not() -> None:
    async def run() -> tuple[int, int]:
        async with FaultServer(latency_s=0.01) as one, FaultServer(latency_s=0.01) as other:
            pool = ModelPool({"K": KEY})
            specs = [
                spec_for(one.base_url, name="a", max_concurrency=3),
                spec_for(one.base_url, name="b", max_concurrency=8),
                spec_for(other.base_url, name="c", max_concurrency=8),
                spec_for(one.base_url, name="d", api_key_env="K", max_concurrency=5),
            ]
            models = [pool.open(spec) for spec in specs]
            assert all(isinstance(model, HttpModel) for model in models)
            a, b, c, d = (m.endpoint for m in models if isinstance(m, HttpModel))
            assert a is b and a is not c and a is not d
            shared = [m for m in models if isinstance(m, HttpModel)]
            await asyncio.gather(
                *(ask_all(m, [request(f"{m.spec.name}{i}") for i in range(30)]) for m in shared[:3])
            )
            await shared[0].close()  # what is shared stays open for the others
            await ask_all(shared[1], [request("last")])
            await pool.close()
            return one.in_flight_max, other.in_flight_max

    most, other = asyncio.run(run())
    assert most <= 3 and 4 <= other <= 8


def test_cancelled_requests_give_their_places_back() -> None:
    async def run() -> int:
        async with FaultServer(faults=Faults(rate=1.0, kinds=("429",)), latency_s=5) as server:
            model = open_openai(spec_for(server.base_url, max_concurrency=4, max_attempts=1000))
            asking = asyncio.create_task(ask_all(model, [request(i) for i in range(20)]))
            await asyncio.sleep(0.1)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await model.close()
            return model.endpoint.limiter.in_flight

    assert asyncio.run(run()) == 0


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> list[str]:
        async with FaultServer(lambda _: "via proxy") as proxy:
            monkeypatch.setenv("HTTP_PROXY", proxy.base_url.removesuffix("/v1"))
            model = open_openai(spec_for("http://model.invalid/v1"))
            (response,) = await ask_all(model, [request("a")])
            await model.close()
            return [response.text, proxy.headers[0]["Host"]]

    assert asyncio.run(run()) == ["via proxy", "model.invalid"]


def test_this_machine_is_never_asked_through_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert converse([request("a")])[0].finish == "stop"


def test_a_proxy_of_another_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1080")

    async def run() -> None:
        await ask_all(open_openai(spec_for("http://model.invalid/v1")), [request("a")])

    with pytest.raises(ModelError, match="socks5 proxy for model.invalid"):
        asyncio.run(run())


def test_the_environments_certificates_are_trusted(tmp_path: Path) -> None:
    certifi = pytest.importorskip("certifi")
    context = network.tls_context({"REQUESTS_CA_BUNDLE": certifi.where()})
    assert context.verify_mode is ssl.CERT_REQUIRED and len(context.get_ca_certs()) > 50
    with pytest.raises(ModelError, match="SSL_CERT_FILE .*does not exist"):
        network.tls_context({"SSL_CERT_FILE": str(tmp_path / "none.pem")})
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    with pytest.raises(ModelError, match="REQUESTS_CA_BUNDLE .*without"):
        network.tls_context({"REQUESTS_CA_BUNDLE": str(empty)})


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_only_a_certificate_that_is_trusted_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1"
    command += f" -addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}"
    subprocess.run(command.split(), check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    with pytest.raises(ModelError, match=r"certificate of 127.0.0.1:\d+ .* SSL_CERT_FILE"):
        converse([request("a")], FaultServer(tls=tls))
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, str(certificate))
        (response,) = converse([request("a")], FaultServer(tls=tls))
        assert response.finish == "stop"
        monkeypatch.delenv(name)


@pytest.mark.slow
def test_800_instances_with_one_fault_in_ten_answer_the_very_same() -> None:
    requests = [request(i) for i in range(800)]
    clean = converse(requests, FaultServer("mixed"), max_concurrency=100)
    server = FaultServer("mixed", Faults(rate=0.1, hang_s=8, seed=3))
    faulty = converse(requests, server, max_concurrency=100, timeout_s=3)  # a busy machine is none
    assert [without_timings(r) for r in faulty] == [without_timings(r) for r in clean]
    assert sum(server.faulted.values()) > 60 and server.duplicates == {}
    lost = ("drop", "hang", "invalid_json", "truncated")
    assert sum(r.lost for r in faulty) == sum(server.faulted[kind] for kind in lost)
