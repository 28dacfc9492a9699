"""Local weights through Transformers: loading, the chat template, one batch of completions.

Everything here blocks; `hf.py` calls it in a thread of its own.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import math
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from medhelm.config import convert
from medhelm.errors import ModelError
from medhelm.models.decoding import BatchRow, Draws, Endings
from medhelm.models.likelihoods import continued, plain_text, plain_texts, shared_tokens
from medhelm.schema.episode import Finish, Likelihood, Message, Request, Response, Usage
from medhelm.schema.model import ModelSpec

_HUB_ID = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
_CPU_IS_FULL = re.compile(r"DefaultCPUAllocator|not enough memory|Cannot allocate memory")
"""Matches torch's message where memory is short: on a CPU it has no error of its own."""
_HUB_FILE = re.compile(r"\w[\w.-]*/\w[\w.-]*/\w.*\.gguf")


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields that `extra_body` of a config with `provider: hf` may have."""

    device: str = ""
    """'cuda', 'cuda:1', 'cpu'; empty: cuda where there is one, else cpu."""
    dtype: str = ""
    """'float32', 'bfloat16', 'float16'; empty: the file's own on cuda, float32 on cpu."""
    revision: str | None = None
    """Commit, branch or tag of a hub id."""
    chat_template_kwargs: dict[str, Any] = {}
    """Further values for the chat template ('enable_thinking')."""
    chat_template: bool = True
    """False: prompts are sent as plain text to weights that have a chat template, too."""


def read_options(spec: ModelSpec) -> Options:
    """Return the options of a spec; raises UsageError."""
    where = f"model {spec.name!r}: extra_body of a local model"
    options: Options = convert(spec.extra_body, Options, where)
    return options


def locate(spec: ModelSpec) -> tuple[str, str | None]:
    """Return the folder or hub id of a model and the name of its GGUF file, if it is one.

    Raises ModelError for what is neither a hub id nor a place that exists.
    """
    given = spec.model.strip()
    if not given:
        raise ModelError(
            f"model {spec.name!r}: model.model is missing: give a hub id, a folder or a .gguf file"
        )
    path = Path(given).expanduser()
    if path.is_dir():
        return str(path), None
    if path.is_file() and path.suffix == ".gguf":
        return str(path.parent), path.name
    if path.is_file():
        raise ModelError(
            f"model {spec.name!r}: {given} is no .gguf file; name its folder where the weights"
            " are safetensors"
        )
    if _HUB_ID.fullmatch(given) and not given.endswith(".gguf"):
        return given, None
    if _HUB_FILE.fullmatch(given):
        owner, name, file = given.split("/", 2)
        return f"{owner}/{name}", file
    raise ModelError(
        f"model {spec.name!r}: there is no folder or file {given}, and it is no hub id; set"
        " model.model to one of these"
    )


_ONE_AT_A_TIME = threading.Lock()
"""Held while files are read: the library imports its parts as it goes, which two threads cannot do at once."""


class Weights:
    """A model, its tokenizer and its chat template."""

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec
        self._options = read_options(spec)
        self._place, self._gguf = locate(spec)
        self._model: Any = None
        self._tokenizer: Any = None
        self._eos: frozenset[int] = frozenset()
        self._defaults: tuple[float, float] = (0.0, 1.0)
        self.tokens = 0
        """Tokens written, those of the batch at work among them."""
        self.name = ""
        """Name of the weights: the hub id with its commit, or the name of the file or folder."""
        self.fingerprint = ""
        """Number format and chat template."""

    def load(self) -> None:
        """Read the files; raises ModelError."""
        if self._model is not None:
            return
        try:
            with _ONE_AT_A_TIME:
                self._load()
        except ModelError:
            raise
        except Exception as error:  # a boundary: whatever a file or the hub makes the library raise
            first, kind = str(error).strip().partition("\n")[0][:200], type(error).__name__
            fix = "check model.model, and that the hub can be reached or the files are here"
            if kind == "OutOfMemoryError":
                fix = "free memory of the device, or take a smaller model or another model.extra_body.device"
            raise ModelError(
                f"model {self._spec.name!r}: {self._spec.model} cannot be loaded ({kind}: {first}); {fix}"
            ) from None

    def unload(self) -> None:
        """Free the memory."""
        self._model = None

    def generate(self, rows: Sequence[BatchRow]) -> list[Response]:
        """Return what comes of each row; together or one by one gives the same."""
        done: dict[int, Response] = {}
        asked: dict[int, _Encoded] = {}
        for n, row in enumerate(rows):
            found = self._encode(row)
            if isinstance(found, Response):
                done[n] = found
            else:
                asked[n] = (row, found)
        for run, has_candidates in ((self._run, False), (self._rate, True)):
            own = {
                n: one
                for n, one in asked.items()
                if bool(one[0].request.candidates) == has_candidates
            }
            answers = self._complete(run, [*own.values()]) if own else []
            done.update(zip(own, answers, strict=True))
        return [done[n] for n in range(len(rows))]

    def _count(self, tokens: int) -> None:
        self.tokens += tokens

    def _load(self) -> None:
        import torch
        import transformers

        transformers.utils.logging.disable_progress_bar()
        transformers.utils.logging.set_verbosity_error()
        options = self._options
        device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
        dtype = options.dtype or ("float32" if device == "cpu" else "auto")
        source: dict[str, Any] = {"revision": options.revision} if options.revision else {}
        if self._gguf:
            source["gguf_file"] = self._gguf
            reader = importlib.import_module("transformers.modeling_gguf_pytorch_utils")
            vars(reader)["tqdm"] = transformers.utils.logging.tqdm  # a bar that can be disabled
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            self._place, padding_side="left", **source
        )
        # No pickles: a folder or GGUF file of weights holds numbers only.
        model = transformers.AutoModelForCausalLM.from_pretrained(
            self._place,
            dtype=dtype if dtype == "auto" else getattr(torch, dtype),
            **({} if self._gguf else {"use_safetensors": True}),
            **source,
        )
        model.to(device).eval()
        self._read_defaults(model, tokenizer)
        self._tokenizer, self._model = tokenizer, model
        self._name_it(model, tokenizer)

    def _read_defaults(self, model: Any, tokenizer: Any) -> None:
        """Note how the model is decoded by itself, and leave none of it to the library."""
        import transformers

        own = model.generation_config
        ends = own.eos_token_id if isinstance(own.eos_token_id, list) else [own.eos_token_id]
        self._eos = frozenset(i for i in (*ends, tokenizer.eos_token_id) if i is not None)
        if own.do_sample:
            self._defaults = (own.temperature or 1.0, own.top_p or 1.0)
        pad = tokenizer.pad_token_id
        model.generation_config = transformers.GenerationConfig(
            do_sample=False,
            bos_token_id=own.bos_token_id,
            eos_token_id=sorted(self._eos) or None,
            pad_token_id=min(self._eos, default=0) if pad is None else pad,
        )

    def _name_it(self, model: Any, tokenizer: Any) -> None:
        name = self._gguf or self._place
        is_here = Path(self._place).is_dir()
        commit = getattr(model.config, "_commit_hash", None)
        self.name = Path(name).name if is_here else f"{self._place}@{(commit or 'unknown')[:12]}"
        template = tokenizer.chat_template
        how = "plain text" if template else "plain template"
        if self._is_templated:
            how = f"chat template {hashlib.sha256(str(template).encode()).hexdigest()[:12]}"
        self.fingerprint = f"{str(model.dtype).removeprefix('torch.')}, {how}"

    @property
    def _is_templated(self) -> bool:
        return self._options.chat_template and bool(self._tokenizer.chat_template)

    def _encode(self, row: BatchRow) -> list[list[int]] | Response:
        """Return the tokens of a prompt, then those with each candidate, or why there is nothing to ask."""
        request = row.request
        try:
            for part in (*(message.content for message in request.messages), *request.candidates):
                part.encode()
        except UnicodeEncodeError:
            return request.reply(finish="error", error="the prompt is not valid Unicode")
        if is_templated := self._is_templated:
            text = self._render(request)
            texts = continued(text, request.candidates) if request.candidates else [text]
        else:
            texts = plain_texts(request)
        budget = 0 if request.candidates else request.max_output_tokens
        found: list[list[int]] = [
            self._tokenizer(text, add_special_tokens=not is_templated)["input_ids"]
            for text in texts
        ]
        first = [min(self._eos, default=0)]
        found = [ids or first for ids in found]
        if request.candidates:
            if not (start := shared_tokens(found)):  # what begins a text needs something before it
                found = [first + ids for ids in found]
            if start >= min(map(len, found[1:])):
                return request.reply(finish="error", error="a candidate has no token of its own")
        config = self._model.config.get_text_config()
        window = row.window or getattr(config, "max_position_embeddings", None)
        longest = max(map(len, found))
        if window is not None and longest + budget > window:
            error = (
                f"{longest} tokens of prompt and {budget} of answer exceed the window of {window}"
            )
            return request.reply(finish="oversize", error=error, attempts=0)
        return found

    def _render(self, request: Request) -> str:
        values = dict(self._options.chat_template_kwargs)
        if request.sampling.reasoning_effort is not None:
            values["reasoning_effort"] = request.sampling.reasoning_effort

        def render(messages: Sequence[Message]) -> str:
            turns = [{"role": m.role, "content": m.content} for m in messages]
            return str(
                self._tokenizer.apply_chat_template(
                    turns, tokenize=False, add_generation_prompt=True, **values
                )
            )

        try:
            return render(request.messages)
        except Exception:  # a boundary: a template is code of the model's, and may raise anything
            if not any(m.role == "system" for m in request.messages):
                raise
        # Some templates know no system prompt: it is then put before the first turn.
        system = [m for m in request.messages if m.role == "system"]
        first, *rest = (m for m in request.messages if m.role != "system")
        return render([Message(first.role, plain_text([*system, first])), *rest])

    def _complete(
        self, run: Callable[[Sequence[_Encoded]], list[Response]], batch: Sequence[_Encoded]
    ) -> list[Response]:
        """Return what comes of a batch; halves it where the memory does not suffice."""
        import torch

        try:
            return run(batch)
        except (torch.OutOfMemoryError, MemoryError):
            torch.cuda.empty_cache()
        except RuntimeError as error:
            if not _CPU_IS_FULL.search(str(error)):
                raise
        if len(batch) == 1:
            return [batch[0][0].request.reply(finish="error", error="out of memory")]
        middle = len(batch) // 2
        return self._complete(run, batch[:middle]) + self._complete(run, batch[middle:])

    def _pad(self, texts: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Return tokens of one length, filled up on the left, with their mask."""
        import torch

        model, width = self._model, max(map(len, texts))
        pad = model.generation_config.pad_token_id
        tokens = [[pad] * (width - len(ids)) + [*ids] for ids in texts]
        mask = [[0] * (width - len(ids)) + [1] * len(ids) for ids in texts]
        return {
            "input_ids": torch.tensor(tokens, device=model.device),
            "attention_mask": torch.tensor(mask, device=model.device),
        }

    def _run(self, batch: Sequence[_Encoded]) -> list[Response]:
        import torch
        import transformers

        started = time.monotonic()
        model, tokenizer = self._model, self._tokenizer
        padded = self._pad([ids for _, (ids,) in batch])
        width = padded["input_ids"].shape[1]
        rows = [row for row, _ in batch]
        endings = Endings(rows, width, tokenizer, self._eos, started, self._count)
        draws = Draws([row.request for row in rows], self._defaults, model.device)
        with torch.inference_mode():
            written = model.generate(
                **padded,
                max_new_tokens=max(row.request.max_output_tokens for row in rows),
                stopping_criteria=transformers.StoppingCriteriaList([endings]),
                logits_processor=transformers.LogitsProcessorList([draws] if draws else []),
            ).tolist()
        seconds = time.monotonic() - started
        answers = []
        for n, (row, (ids,)) in enumerate(batch):
            length, why = endings.of(n)
            own = written[n][width : width + length]
            text, why = cut_at_stop(
                tokenizer.decode(own, skip_special_tokens=True), row.request.sampling.stop, why
            )
            usage = Usage(input_tokens=len(ids), cached_tokens=0, output_tokens=length)
            failed = why not in ("stop", "length")
            finish: Finish = "error" if failed else "length" if why == "length" else "stop"
            answers.append(
                row.request.reply(
                    text="" if failed else text,
                    finish=finish,
                    error=why if failed else "",
                    usage=usage,
                    latency_s=seconds,
                )
            )
        return answers

    def _rate(self, batch: Sequence[_Encoded]) -> list[Response]:
        """Return the log-probabilities of candidates; those of one token share a pass over what is before them."""
        import torch

        started = time.monotonic()
        starts = [shared_tokens(texts) for _, texts in batch]
        ends: dict[tuple[int, ...], dict[tuple[int, int], list[int]]] = {}
        for n, (_, texts) in enumerate(batch):
            for place, ids in enumerate(texts[1:]):
                ends.setdefault((*ids[:-1],), {})[n, place] = ids[starts[n] :]
        found: dict[tuple[int, int], Likelihood] = {}
        waiting = sorted(ends, key=len, reverse=True)
        while waiting and not all(_is_over(row, started) for row, _ in batch):
            part, waiting = waiting[: len(batch)], waiting[len(batch) :]
            for logits, text in zip(self._logits(part, ends), part, strict=True):
                logprobs = logits.float().log_softmax(-1)
                for key, ids in ends[text].items():
                    behind, own = logprobs[-len(ids) :], torch.tensor(ids, device=logits.device)
                    found[key] = Likelihood(
                        logprob=behind.gather(1, own[:, None]).double().sum().item(),
                        tokens=len(ids),
                        is_greedy=bool((behind.argmax(-1) == own).all()),
                    )
        seconds = time.monotonic() - started
        answers = []
        for n, (row, texts) in enumerate(batch):
            rated = [found[n, place] for place in range(len(texts) - 1) if (n, place) in found]
            usage = Usage(input_tokens=starts[n], cached_tokens=0, output_tokens=0)
            if any(not math.isfinite(own.logprob) for own in rated):
                why = "an option has no finite log-probability"
                done = row.request.reply(finish="error", error=why)
            elif len(rated) == len(texts) - 1:
                done = row.request.reply(usage=usage, latency_s=seconds, likelihoods=tuple(rated))
            else:
                why = "stopped" if row.is_dropped() else "timeout"
                done = row.request.reply(finish="error", error=why)
            answers.append(done)
        return answers

    def _logits(
        self, texts: Sequence[tuple[int, ...]], ends: Mapping[Any, Mapping[Any, list[int]]]
    ) -> Any:
        """Return the logits (texts, places, vocabulary) of the last places, as many as their longest end has."""
        import torch

        padded = self._pad(texts)
        kept = max(len(ids) for text in texts for ids in ends[text].values())
        known = inspect.signature(self._model.forward).parameters
        places = (padded["attention_mask"].cumsum(-1) - 1).clamp(min=0)
        more = {"position_ids": places, "logits_to_keep": kept, "use_cache": False}
        with torch.inference_mode():
            found = self._model(**padded, **{k: v for k, v in more.items() if k in known})
        return found.logits[:, -kept:]


_Encoded = tuple[BatchRow, list[list[int]]]
"""A row and the tokens of its prompt; of one with candidates, then those of the prompt with each of them."""


def _is_over(row: BatchRow, started: float) -> bool:
    return row.is_dropped() or time.monotonic() - started >= row.timeout_s


def cut_at_stop(text: str, stops: Sequence[str], why: str) -> tuple[str, str]:
    """Return the text before the first stop sequence in it, and why it ended."""
    found = [at for stop in stops if stop and (at := text.find(stop)) >= 0]
    return (text[: min(found)], "stop") if found else (text, why)
