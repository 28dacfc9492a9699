"""Local weights: batches, templates, endings, faults; and a real small model."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from medhelm.cli import run_command
from medhelm.errors import ModelError, UsageError
from medhelm.models import ModelPool, access, check_model, open_model
from medhelm.models.decoding import BatchRow, Draws
from medhelm.models.hf import HFModel
from medhelm.models.weights import Weights, cut_at_stop
from medhelm.schema.episode import Message, Request, Response, Sampling
from medhelm.schema.model import ModelSpec
from medhelm.store import records
from tests.models.asking import ask_all, request, said_by
from tests.models.local_model import (
    TEMPLATE,
    make_tiny_model,
    need_transformers,
    no_hub,
    smollm2,
    smollm2_folder,
    tiny,
)

__all__ = ["no_hub", "tiny"]
LENGTHS = (3, 40, 9, 90, 1)


def spec_for(model: Path | str, **more: Any) -> ModelSpec:
    fields: dict[str, Any] = {"max_concurrency": 8, "timeout_s": 600.0, **more}
    return ModelSpec(name="hf/m", provider="hf", model=str(model), endpoint_class="local", **fields)


def opened(spec: ModelSpec) -> HFModel:
    model = open_model(spec, environ={})
    assert isinstance(model, HFModel)
    return model


def converse(model: Path | str, requests: Iterable[Request], **spec: Any) -> list[Response]:
    return asyncio.run(said_by(spec_for(model, **spec), requests, {}))


def various(**more: Any) -> list[Request]:
    return [request(n, "word " * n, **{"max_output_tokens": 12, **more}) for n in LENGTHS]


# Without weights ------------------------------------------------------------------------------


def test_a_place_without_weights_is_said_before_anything_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").touch()
    why = dict.fromkeys(
        ("./none", "/none/at/all", "~/none", "a/b/c", "none.gguf"), "no folder or file"
    )
    why[str(tmp_path / "model.safetensors")] = "is no .gguf file; name its folder"
    for model, said in why.items():
        with pytest.raises(ModelError, match=said) as caught:
            check_model(spec_for(model), {})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("model", ["org/name", "name", "org/name/file-Q4.gguf"])
def test_missing_packages_are_named_with_the_extra(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "find_spec", lambda name: None)
    for use in (check_model, open_model):
        with pytest.raises(ModelError, match=r"needs the package \w+.*'\.\[hf\]'"):
            use(spec_for(model), environ={})


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(UsageError, match="extra_body .*devise"):
        check_model(spec_for("org/name", extra_body={"devise": "cpu"}), {})


def test_text_ends_before_the_first_stop_sequence() -> None:
    assert cut_at_stop("a\nb\n\nc", ("\n\n", "\n"), "length") == ("a", "stop")
    assert cut_at_stop("abc", ("x", ""), "length") == ("abc", "length")


# A tiny model of random weights ---------------------------------------------------------------


@pytest.mark.extra
def test_a_batch_says_what_single_requests_say(tiny: Path) -> None:
    together = converse(tiny, various())
    alone = converse(tiny, various(), max_concurrency=1)
    assert [r.text for r in together] == [r.text for r in alone]
    assert len({r.text for r in alone}) == len(LENGTHS), "each prompt has an answer of its own"
    assert [r.usage for r in together] == [r.usage for r in alone]


@pytest.mark.extra
def test_drawn_answers_depend_on_the_seed_and_on_nothing_beside(tiny: Path) -> None:
    hot = Sampling(temperature=1.0, top_p=0.9)
    together = [r.text for r in converse(tiny, various(sampling=hot, seed=3))]
    assert together == [
        r.text for r in converse(tiny, various(sampling=hot, seed=3), max_concurrency=1)
    ]
    other = [r.text for r in converse(tiny, various(sampling=hot, seed=4))]
    greedy = [r.text for r in converse(tiny, various())]
    assert all(a != b for a, b in zip(together, other, strict=True))
    assert all(a != b for a, b in zip(together, greedy, strict=True))
    # cold and hot ones in one batch
    mixed = [*various(sampling=hot, seed=3)[:2], *various()[2:]]
    assert [r.text for r in converse(tiny, mixed)] == together[:2] + greedy[2:]


@pytest.mark.extra
def test_draws_have_the_probabilities_that_the_model_gives() -> None:
    need_transformers()
    import torch

    def shares(**sampling: float) -> dict[int, float]:
        asked = [request("a", sampling=Sampling(**sampling), seed=1)]
        draws = Draws(asked, (0.0, 1.0), torch.device("cpu"))
        logits = torch.tensor([[0.6, 0.3, 0.1]]).log()
        counts = Counter(int(draws(None, logits.clone()).argmax()) for _ in range(4000))
        return {token: count / 4000 for token, count in sorted(counts.items())}

    # the standard error of a share of 0.6 is 0.008
    assert shares(temperature=1.0) == pytest.approx({0: 0.6, 1: 0.3, 2: 0.1}, abs=0.03)
    # 0.36 + 0.09 + 0.01 = 0.46
    assert shares(temperature=0.5) == pytest.approx(
        {0: 0.36 / 0.46, 1: 0.09 / 0.46, 2: 0.01 / 0.46}, abs=0.03
    )
    assert shares(temperature=1.0, top_p=0.7) == pytest.approx({0: 2 / 3, 1: 1 / 3}, abs=0.03)
    assert shares(temperature=1.0, top_p=0.6) == {0: 1.0}


@pytest.mark.extra
def test_a_setting_left_to_the_model_is_the_models_own() -> None:
    need_transformers()
    import torch

    asked = [request("a", sampling=Sampling(temperature=None), seed=1)]
    cpu = torch.device("cpu")
    assert not Draws(asked, (0.0, 1.0), cpu), "greedy, where the model says nothing"
    draws = Draws(asked, (1.0, 0.5), cpu)
    logits = torch.tensor([[0.6, 0.3, 0.1]]).log()
    assert {int(draws(None, logits.clone()).argmax()) for _ in range(100)} == {0}


@pytest.mark.extra
def test_each_row_has_its_own_budget(tiny: Path) -> None:
    asked = [request(n, "word", max_output_tokens=n) for n in (1, 7, 30)]
    responses = converse(tiny, asked)
    assert [r.usage.output_tokens for r in responses] == [1, 7, 30]
    assert [r.finish for r in responses] == ["length"] * 3
    # '<user>word\n<assistant>' is 22 bytes, and the model reads bytes
    assert {r.usage.input_tokens for r in responses} == {22}
    assert responses[2].text.startswith(responses[1].text.rstrip("\ufffd"))


@pytest.mark.extra
def test_a_stop_sequence_ends_its_row_and_no_other(tiny: Path) -> None:
    whole = converse(tiny, [request("a", "word", max_output_tokens=40)])[0]
    stop = whole.text[5:8]
    at = whole.text.index(stop)
    stopping = request("a", "word", max_output_tokens=40, sampling=Sampling(stop=(stop,)))
    cut, other = converse(tiny, [stopping, request("b", "word", max_output_tokens=40)])
    assert (cut.text, cut.finish) == (whole.text[:at], "stop")
    assert other.text == whole.text
    assert cut.usage.output_tokens is not None and cut.usage.output_tokens < 40


@pytest.mark.extra
def test_the_end_of_text_ends_its_row_and_no_other(tiny: Path) -> None:
    weights = Weights(spec_for(tiny))
    weights.load()
    rows = [BatchRow(request("a", "word", max_output_tokens=40)), BatchRow(request("b", "other"))]
    whole, other = weights.generate(rows)
    letter = next(c for c in whole.text[2:] if c.isascii() and c not in whole.text[:2] + other.text)
    (token,) = weights._tokenizer(letter, add_special_tokens=False)["input_ids"]
    weights._eos = frozenset({token})
    ended, unchanged = weights.generate(rows)
    assert (ended.finish, ended.text) == ("stop", whole.text[: whole.text.index(letter) + 1])
    assert ended.usage.output_tokens is not None and 2 <= ended.usage.output_tokens < 40
    assert (unchanged.finish, unchanged.text) == ("length", other.text)


@pytest.mark.extra
def test_what_does_not_fit_is_oversize_and_the_rest_is_answered(tmp_path: Path) -> None:
    need_transformers()
    folder = make_tiny_model(tmp_path / "narrow", window=256)
    asked = [request("a", "x" * 300), request("b", "x"), request("c", max_output_tokens=250)]
    long, short, greedy = converse(folder, asked)
    assert [r.finish for r in (long, short, greedy)] == ["oversize", "length", "oversize"]
    assert long.error == "318 tokens of prompt and 16 of answer exceed the window of 256"
    assert long.attempts == 0
    (declared,) = converse(folder, [request("a", "x" * 30)], context_window=40)
    assert declared.finish == "oversize" and declared.usage.input_tokens is None


@pytest.mark.extra
def test_what_was_loaded_is_recorded(tiny: Path, tmp_path: Path) -> None:
    (chat,) = converse(tiny, [request("a")])
    assert chat.served_model == "tiny-model"
    assert chat.fingerprint.startswith("float32, chat template ")
    plain = make_tiny_model(tmp_path / "plain", template=None)
    two = (Message("system", "Be brief."), Message("user", "Hi"))
    (bare,) = converse(plain, [Request(instance_id="a", messages=two, max_output_tokens=4)])
    assert bare.fingerprint == "float32, plain template"
    assert bare.usage.input_tokens == len("Be brief.\n\nHi\n")
    (half,) = converse(tiny, [request("a")], extra_body={"dtype": "bfloat16"})
    assert half.fingerprint.startswith("bfloat16, ") and half.finish == "length"


@pytest.mark.extra
def test_a_template_without_a_system_turn_gets_it_before_the_first_one(tmp_path: Path) -> None:
    need_transformers()
    strict = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
        + TEMPLATE
    )
    folder = make_tiny_model(tmp_path / "strict", template=strict)
    two = (Message("system", "Be brief."), Message("user", "Hi"))
    (response,) = converse(folder, [Request(instance_id="a", messages=two, max_output_tokens=4)])
    assert response.usage.input_tokens == len("<user>Be brief.\n\nHi\n<assistant>")


@pytest.mark.extra
def test_options_reach_the_template(tmp_path: Path) -> None:
    need_transformers()
    folder = make_tiny_model(
        tmp_path / "options",
        template="{{ style }}/{{ reasoning_effort }}/{{ messages[0].content }}",
    )
    spec = spec_for(folder, extra_body={"chat_template_kwargs": {"style": "terse"}})
    weights = Weights(spec)
    weights.load()
    asked = request("a", "Hi", sampling=Sampling(reasoning_effort="low"))
    assert weights._render(asked) == "terse/low/Hi"


@pytest.mark.extra
def test_requests_that_wait_are_generated_together_and_the_loop_goes_on(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    generate = Weights.generate

    def slow(self: Weights, rows: Sequence[BatchRow]) -> list[Response]:
        sizes.append(len(rows))
        time.sleep(0.2)
        return generate(self, rows)

    monkeypatch.setattr(Weights, "generate", slow)

    async def run() -> tuple[list[Response], float]:
        model = opened(spec_for(tiny, max_concurrency=4))
        await ask_all(model, [request("warm")])
        sizes.clear()
        longest, last = 0.0, time.monotonic()

        async def beat() -> None:
            nonlocal longest, last
            while True:
                await asyncio.sleep(0.01)
                longest, last = max(longest, time.monotonic() - last), time.monotonic()

        beating = asyncio.create_task(beat())
        responses = await ask_all(model, [request(n) for n in range(12)])
        beating.cancel()
        await model.close()
        return responses, longest

    responses, longest = asyncio.run(run())
    assert sizes == [4, 4, 4] and len(responses) == 12
    assert longest < 0.15, "a batch takes 0.2 s and more"


@pytest.mark.extra
def test_models_of_the_same_weights_load_them_once(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads: list[str] = []
    load = Weights._load
    monkeypatch.setattr(Weights, "_load", lambda self: (loads.append("x"), load(self))[1])

    async def run() -> list[list[Response]]:
        pool = ModelPool({})
        hot = Sampling(temperature=1.0)
        models = [pool.open(spec_for(tiny)), pool.open(spec_for(tiny, sampling=hot))]
        said = [await ask_all(m, [request("a")]) for m in models if isinstance(m, HFModel)]
        await pool.close()
        return said

    assert len(asyncio.run(run())) == 2 and loads == ["x"]


@pytest.mark.extra
def test_loading_and_writing_are_states_and_the_speed_is_that_of_writing(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []
    pool = ModelPool({})
    load, generate = Weights.load, Weights.generate

    def slow_load(self: Weights) -> None:
        seen.append(pool.statuses())
        time.sleep(0.3)
        load(self)

    def watched(self: Weights, rows: Sequence[BatchRow]) -> list[Response]:
        seen.append(pool.statuses())
        return generate(self, rows)

    monkeypatch.setattr(Weights, "load", slow_load)
    monkeypatch.setattr(Weights, "generate", watched)

    async def run() -> list[Response]:
        model = pool.open(spec_for(tiny))
        answers = await asyncio.gather(*(model.respond(r) for r in various()))  # type: ignore[union-attr]
        assert pool.statuses() == []
        await pool.close()
        return answers

    answers = asyncio.run(run())
    assert seen[:2] == [["hf/m: loading weights"], ["hf/m: writing, 0 tokens"]]
    written = sum(a.usage.output_tokens or 0 for a in answers)
    (speed,) = pool.speeds
    found = re.fullmatch(r"hf/m: ([\d,]+) tokens, ([\d,.]+) tokens/s", speed)
    assert found is not None and int(found[1].replace(",", "")) == written > 0
    assert float(found[2].replace(",", "")) > written / 60


@pytest.mark.extra
def test_a_batch_that_takes_too_long_is_an_error(tiny: Path) -> None:
    (response,) = converse(tiny, [request("a", max_output_tokens=200)], timeout_s=0.001)
    assert (response.finish, response.error, response.text) == ("error", "timeout", "")


@pytest.mark.extra
def test_what_is_cancelled_stops_being_generated(tiny: Path) -> None:
    async def run() -> float:
        model = opened(spec_for(tiny))
        await ask_all(model, [request("warm")])
        endless = model._batcher.weights
        endless._eos = frozenset()
        endless._model.generation_config.eos_token_id = None
        asking = asyncio.create_task(ask_all(model, [request("a", max_output_tokens=3000)]))
        await asyncio.sleep(0.1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert model._batcher.limiter.in_flight == 0
        (after,) = await ask_all(model, [request("b", max_output_tokens=3)])
        assert after.finish == "length"
        started = time.monotonic()
        await model.close()
        return time.monotonic() - started

    assert asyncio.run(run()) < 5


@pytest.mark.extra
@pytest.mark.parametrize("kind", ["device", "torch", "python"])
def test_too_large_a_batch_is_halved(
    kind: str, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out of memory as a device says it, and in a CPU's own words, where none has so much."""
    import torch

    run, sizes = Weights._run, []

    def short_of_memory(self: Weights, batch: Sequence[Any]) -> list[Response]:
        sizes.append(len(batch))
        is_never = kind == "device" and any("90" in row.request.instance_id for row, _ in batch)
        if len(batch) > 2 or is_never:
            if kind == "device":
                raise torch.OutOfMemoryError("about the patient")
            bytearray(2**62) if kind == "python" else torch.empty(2**62, dtype=torch.uint8)
        return run(self, batch)

    expected = [r.text for r in converse(tiny, various())]
    monkeypatch.setattr(Weights, "_run", short_of_memory)
    responses = converse(tiny, various())
    lost = [kind == "device" and n == 90 for n in LENGTHS]
    assert max(sizes) > 2
    assert [r.error for r in responses] == ["out of memory" if one else "" for one in lost]
    assert [r.text for r in responses] == [
        "" if one else text for text, one in zip(expected, lost, strict=True)
    ]


@pytest.mark.extra
def test_a_fault_of_the_library_is_an_error_without_its_text(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Weights, batch: Sequence[Any]) -> list[Response]:
        raise RuntimeError("Mrs Miller")

    monkeypatch.setattr(Weights, "_run", broken)
    (response,) = converse(tiny, [request("a")])
    assert (response.finish, response.error) == ("error", "RuntimeError while generating")
    (odd,) = converse(tiny, [request("a", "half \ud83d")])
    assert odd.error == "the prompt is not valid Unicode"


@pytest.mark.extra
def test_weights_that_cannot_be_loaded_stop_the_run_in_one_line(tmp_path: Path) -> None:
    need_transformers()
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    for model in (tmp_path, "nobody/has-this-model"):
        with pytest.raises(ModelError, match="cannot be loaded") as caught:
            converse(model, [request(n) for n in range(3)])
        assert "\n" not in str(caught.value) and "Question" not in str(caught.value)


# A real small model ---------------------------------------------------------------------------


@pytest.mark.extra
@pytest.mark.slow
def test_a_real_model_answers_alike_alone_and_in_a_batch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    need_transformers()
    file = smollm2()
    questions = [
        "What is the capital of France?",
        "Which organ pumps the blood? Answer in one word. " + "Think of the chest. " * 20,
        "Write the word yes.",
    ]

    async def run() -> tuple[list[Response], list[Response]]:
        model = opened(spec_for(file))
        asked = [request(n, text, max_output_tokens=12) for n, text in enumerate(questions)]
        together = await ask_all(model, asked)
        alone = [(await ask_all(model, [one]))[0] for one in asked]
        await model.close()
        return together, alone

    together, alone = asyncio.run(run())
    assert [r.text for r in together] == [r.text for r in alone]
    assert "Paris" in together[0].text and together[0].finish == "stop"
    assert together[0].served_model == file.name
    assert together[0].fingerprint.startswith("float32, chat template ")
    assert all(r.usage.input_tokens and r.usage.output_tokens for r in together)


@pytest.mark.extra
@pytest.mark.slow
def test_a_real_model_takes_part_in_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    need_transformers()
    folder = smollm2_folder(tmp_path_factory)
    monkeypatch.chdir(tmp_path)
    asked = ("model=hf/local", f"model.model={folder}", "model.name=hf/smollm2")
    assert run_command(["run", *asked, "benchmark=headqa", "data=sample", "max_instances=3"]) == 0
    (grading,) = records.find_gradings(tmp_path / "medhelm-results")
    record = records.read_record(grading)
    assert (record.spec.model.name, record.state, record.instances) == (
        "hf/smollm2",
        "complete",
        3,
    )
    assert sum(record.results[0].outcomes.values()) == 3
    assert record.results[0].outcomes.get("error", 0) == 0
    assert record.own.usage.requests == 3 and record.own.usage.output_tokens > 0
    assert record.own.usage.unknown == 0
    (served,) = record.own.served_models
    assert "SmolLM2-135M-Instruct" in served and "chat template" in served


def test_files_of_one_model_are_read_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    inside, most = 0, 0

    def read(self: Weights) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        time.sleep(0.02)
        inside -= 1

    monkeypatch.setattr(Weights, "_load", read)
    with ThreadPoolExecutor(4) as threads:
        for loaded in [threads.submit(Weights(spec_for(f"model-{n}")).load) for n in range(4)]:
            loaded.result()
    assert most == 1
