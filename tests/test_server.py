"""The test server itself: its faults are decided by content, its counts and log are right."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from collections import Counter
from typing import Any

from tests.server import KINDS, Faults, FaultServer, letter, serve_in_thread


def post(base_url: str, prompt: str) -> tuple[int, dict[str, Any]]:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": prompt}]}).encode()
    request = urllib.request.Request(f"{base_url}/chat/completions", body)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def text(answer: dict[str, Any]) -> str:
    content: str = answer["choices"][0]["message"]["content"]
    return content


def test_faults_are_decided_by_seed_prompt_and_try() -> None:
    faults = Faults(rate=0.1)
    kinds = Counter(faults.kind(f"prompt {i}", 1) for i in range(5000))
    assert set(kinds) == {None, *KINDS}
    assert 400 < 5000 - kinds[None] < 600
    assert [faults.kind("p", n) for n in range(50)] == [faults.kind("p", n) for n in range(50)]
    assert [Faults(rate=0.5, seed=1).kind("p", n) for n in range(50)] != [
        Faults(rate=0.5, seed=2).kind("p", n) for n in range(50)
    ]


def test_answers_are_by_content_among_the_options_that_the_prompt_lists() -> None:
    prompts = [f"Question {i}\nA. one\nB. two\nC. three" for i in range(200)]
    assert {letter(p) for p in prompts} == set("ABC")
    assert letter(prompts[0]) == letter(prompts[0])
    assert letter("no options") in "ABCD"


def test_in_a_thread_it_counts_what_it_was_asked_and_what_it_answered() -> None:
    faults = Faults(first=1, kinds=("500",))
    with serve_in_thread("B", faults) as server:
        assert post(server.base_url, "x")[0] == 500
        status, answer = post(server.base_url, "x")
        assert (status, text(answer)) == (200, "B")
        assert post(server.base_url, "x")[0] == 200
        assert server.requests == 3 and server.in_flight_max == 1
        assert (server.faulted, server.answered, server.duplicates) == (
            {"500": 1},
            {"x": 2},
            {"x": 2},
        )


def test_two_servers_and_one_port_after_the_other() -> None:
    async def run() -> None:
        async with FaultServer() as one, FaultServer() as other:
            assert one.base_url != other.base_url
        async with FaultServer(port=one._port) as again:
            assert again.base_url == one.base_url

    asyncio.run(run())
