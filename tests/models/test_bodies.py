"""Bodies that no honest server sends: each is a failure of its own, and memory is bounded."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from medhelm.models import open_model
from medhelm.models.codecs.wire import CHAT as CHAT_CODEC
from medhelm.models.codecs.wire import Answer
from medhelm.models.http_endpoint import HttpEndpoint, HttpModel
from medhelm.models.network import MAX_ANSWER_BYTES, BadBody, BodyReader, read_body
from medhelm.models.providers import built_in
from medhelm.schema.episode import Response
from medhelm.schema.model import ModelSpec
from tests.models.asking import request, said_by, spec_for

CHAT = {"choices": [{"message": {"content": "A"}, "finish_reason": "stop"}], "model": "m"}
GOOD = json.dumps(CHAT).encode()

Send = Callable[[bytes], None]


def whole(body: bytes, headers: str = "", status: str = "200 OK") -> Callable[[Send], None]:
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\n{headers}"
    return lambda send: send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)


def endless(send: Send) -> None:
    send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
    while True:
        send(b" " * 65536)


def endless_error(send: Send) -> None:
    send(b"HTTP/1.1 500 Oops\r\nConnection: close\r\n\r\n")
    while True:
        send(b" " * 65536)


def endless_headers(send: Send) -> None:
    send(b"HTTP/1.1 200 OK\r\n")
    while True:
        send(b"X-More: y\r\n" * 1000)


def bomb(send: Send) -> None:
    """Send 1 GB of zeros as a gzip of 1 MB."""
    packer, zeros = zlib.compressobj(9, zlib.DEFLATED, 31), bytes(2**20)
    send(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
        b"Connection: close\r\n\r\n"
    )
    for _ in range(1000):
        send(packer.compress(zeros))
    send(packer.flush())


@contextmanager
def raw_server(reply: Callable[[Send], None]) -> Iterator[str]:
    """Serve what no framework would send, and yield the address."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(65536)
            head, _, body = head.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            while len(body) < length:
                body += connection.recv(65536)
            reply(connection.sendall)
            connection.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()


def ask(spec: ModelSpec) -> Response:
    return asyncio.run(said_by(spec, [request("a")], {"K": "k"}))[0]


def spec_of(address: str, provider: str = "openai") -> ModelSpec:
    return spec_for(address + "/v1", provider=provider, max_attempts=2, api_key_env="K")


@pytest.mark.parametrize("provider", [name for name, p in built_in().items() if p.base_url])
def test_every_provider_is_asked_over_the_one_reader_of_bodies(provider: str) -> None:
    model = open_model(spec_of("http://127.0.0.1:9", provider), environ={"K": "k"})
    assert isinstance(model, HttpModel) and isinstance(model.endpoint, HttpEndpoint)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("not utf-8", "invalid utf-8"),
        ("deep", "invalid json"),
        ("endless", f"body over {MAX_ANSWER_BYTES} bytes"),
        ("damaged gzip", "damaged body"),
        ("cut gzip", "truncated body"),
        ("brotli", "unknown content encoding"),
    ],
)
def test_a_bad_body_is_an_error_of_its_own_after_all_tries(name: str, error: str) -> None:
    packed = gzip.compress(GOOD * 20)
    replies = {
        "not utf-8": whole(GOOD.replace(b'"A"', b'"A\xff\xfe"')),
        "deep": whole(b'{"choices":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
        "endless": endless,
        "damaged gzip": whole(b"\x1f\x8b" + b"x" * 100, "Content-Encoding: gzip\r\n"),
        "cut gzip": whole(packed[:-12], "Content-Encoding: gzip\r\n"),
        "brotli": whole(b"A", "Content-Encoding: br\r\n"),
    }
    with raw_server(replies[name]) as address:
        response = ask(spec_of(address))
    assert (response.finish, response.text, response.error) == ("error", "", error)
    assert (response.attempts, response.lost) == (2, 2)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "raw deflate"])
def test_a_compressed_answer_is_read(encoding: str) -> None:
    raw = zlib.compressobj(wbits=-15)
    packed = {
        "gzip": gzip.compress(GOOD),
        "deflate": zlib.compress(GOOD),
        "raw deflate": raw.compress(GOOD) + raw.flush(),
    }[encoding]
    header = f"Content-Encoding: {encoding.split()[-1]}\r\n"
    with raw_server(whole(packed, header)) as address:
        response = ask(spec_of(address))
    assert (response.text, response.finish, response.attempts) == ("A", "stop", 1)


@pytest.mark.parametrize(
    ("reply", "error", "lost"),
    [
        (endless_error, "http 500", 0),
        (endless_headers, "invalid http", 2),
        (whole(b"", f"X-Long: {'y' * 2**20}\r\n"), "invalid http", 2),
        (whole(b"<html>", "", "502 Bad"), "http 502", 0),
        (whole(b"\x1f\x8bxx", "Content-Encoding: gzip\r\n", "500 Oops"), "http 500", 0),
        (lambda send: send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "invalid http", 2),
        (lambda send: send(b"SSH-2.0-OpenSSH_9.6\r\n"), "invalid http", 2),
    ],
)  # fmt: skip
def test_other_things_that_are_no_answers(
    reply: Callable[[Send], None], error: str, lost: int
) -> None:
    with raw_server(reply) as address:
        response = ask(spec_of(address))
    assert (response.finish, response.error, response.lost) == ("error", error, lost)
    assert response.attempts == 2


def test_the_content_type_decides_nothing() -> None:
    kind = "text/html; charset=none"
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(GOOD)}\r\n\r\n"
    with raw_server(lambda send: send(head.encode() + GOOD)) as address:
        assert ask(spec_of(address)).text == "A"


def test_nan_and_keys_that_come_twice_lose_no_answer() -> None:
    body = b'{"choices":[],"usage":{"prompt_tokens":NaN},"choices":[{"message":{"content":"A"}}]}'
    answer = CHAT_CODEC.read(body)
    assert isinstance(answer, Answer)
    assert answer.text == "A" and answer.usage.input_tokens is None


CHILD = """
import resource, sys
from tests.models.test_bodies import ask, bomb, endless, raw_server, spec_of
import medhelm.models.http_endpoint
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(ask(spec_of(sys.argv[1])).error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("reply", [bomb, endless])
def test_a_bomb_and_an_endless_stream_take_little_memory(reply: Callable[[Send], None]) -> None:
    with raw_server(reply) as address:
        child = subprocess.run(
            [sys.executable, "-c", CHILD, address], capture_output=True, text=True, timeout=60
        )
    error, more = child.stdout.splitlines()
    assert error == f"body over {MAX_ANSWER_BYTES} bytes"
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(more) * unit < 12 * MAX_ANSWER_BYTES  # of 1 GB


def test_a_bomb_is_stopped_at_the_bound_and_not_after_it() -> None:
    packed = gzip.compress(bytes(50 * 2**20))
    reader = BodyReader("gzip", 1000)
    with pytest.raises(BadBody, match="body over 1000 bytes"):
        reader.feed(packed)
    assert len(reader.part) == 1000


@pytest.mark.parametrize("size", [999, 1000, 1001])
def test_the_bound_is_exact(size: int) -> None:
    for encoding, body in (("", bytes(size)), ("gzip", gzip.compress(bytes(size)))):
        reader = BodyReader(encoding, 1000)
        if size > 1000:
            with pytest.raises(BadBody, match="over"):
                reader.feed(body)
        else:
            reader.feed(body)
            assert reader.end() == bytes(size)


def test_what_follows_the_end_of_a_gzip_is_damage_and_of_an_error_the_rest_is_dropped() -> None:
    async def chunks(*parts: bytes):  # type: ignore[no-untyped-def]
        for part in parts:
            yield part

    body = gzip.compress(b"ok")
    with pytest.raises(BadBody, match="damaged body"):
        asyncio.run(read_body(chunks(body, body), "gzip", 200))
    assert asyncio.run(read_body(chunks(body, body), "gzip", 500)) == b"ok"
    assert asyncio.run(read_body(chunks(b"text"), "unheard-of", 500)) == b""
