"""Logs of Inspect, version 2: the archive `.eval` and its form as one JSON file."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from medhelm.errors import UsageError
from medhelm.interop.recorded import Log, Recorded, leaves, messages_of
from medhelm.schema.episode import Finish, Response, Sampling, Usage
from medhelm.store.imported import TheirScore

_ZSTANDARD = 93
_FINISH: Mapping[str, Finish] = {
    "max_tokens": "length",
    "model_length": "oversize",
    "content_filter": "refusal",
}
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
"""Values of its scores that are letters: correct, incorrect, partly correct, no answer."""
_ATTACHED = "attachment://"


def read_logs(place: Path) -> Iterator[Log]:
    """Yield the log of a file, or all of a folder but the parts of one log. Raises UsageError."""
    found = [place]
    if place.is_dir():
        found = [p for p in sorted(place.rglob("*.eval")) if ".shards" not in str(p.parent)]
    for path in found:
        yield _log(path)


def _log(path: Path) -> Log:
    header, samples = _content(path)
    own, decoding = header["eval"], header["eval"].get("model_generate_config") or {}
    return Log(
        tool="inspect",
        version=str((own.get("packages") or {}).get("inspect_ai", "")),
        path=str(path),
        task=str(own["task"]),
        model=str(own["model"]),
        sampling=Sampling(
            temperature=decoding.get("temperature"),
            top_p=decoding.get("top_p"),
            stop=tuple(decoding.get("stop_seqs") or ()),
            reasoning_effort=decoding.get("reasoning_effort"),
        ),
        max_output_tokens=decoding.get("max_tokens"),
        answers=[_answer(sample) for sample in sorted(samples, key=_place)],
    )


def _place(sample: Any) -> tuple[str, int]:
    return str(sample["id"]), sample["epoch"]


def _content(path: Path) -> tuple[Any, list[Any]]:
    """Return the header of a log and its samples."""
    if not zipfile.is_zipfile(path):
        whole = msgspec.json.decode(path.read_bytes())
        return whole, whole.get("samples") or []
    with zipfile.ZipFile(path) as archive:
        members = {info.filename: info for info in archive.infolist()}
        if "header.json" not in members:
            raise UsageError(f"{path}: this log is not finished, it has no header.json")
        samples = [name for name in members if name.startswith("samples/")]
        read = [_member(archive, members[name]) for name in ("header.json", *samples)]
    return read[0], read[1:]


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Any:
    """Return the JSON of a member, also of one in Zstandard, which zipfile does not know."""
    if info.compress_type != _ZSTANDARD:
        return msgspec.json.decode(archive.read(info))
    import pyarrow as pa

    assert archive.fp is not None
    archive.fp.seek(info.header_offset)
    head = archive.fp.read(30)
    archive.fp.seek(sum(int.from_bytes(head[at : at + 2], "little") for at in (26, 28)), 1)
    with pa.input_stream(
        pa.BufferReader(archive.fp.read(info.compress_size)), compression="zstd"
    ) as stream:
        return msgspec.json.decode(stream.read())


def _answer(sample: Any) -> Recorded:
    attached = sample.get("attachments") or {}

    def text(content: Any) -> str:
        """Return the text of a message, its long parts put back where the log names them."""
        if isinstance(content, list):
            parts = (p["text"] for p in content if p.get("type") == "text")
            return "".join(map(text, parts))
        if str(content).startswith(_ATTACHED):
            return str(attached.get(content[len(_ATTACHED) :], content))
        return str(content)

    turns = [(m["role"], text(m.get("content") or "")) for m in sample["messages"]]
    if turns and turns[-1][0] == "assistant":
        turns.pop()
    given, output = sample["input"], sample.get("output") or {}
    asked = [text(given)] if isinstance(given, str) else [text(m["content"]) for m in given]
    messages, said = messages_of(turns), (output.get("choices") or [{}])[0]
    return Recorded(
        key=str(sample["id"]),
        repeat=sample["epoch"] - 1,
        texts=(*asked, " ".join(asked), *leaves(sample.get("metadata") or {})),
        messages=messages or (),
        response=_response(sample, output, said, text),
        target=" ".join(leaves(sample["target"])),
        scores=tuple(_scores(sample.get("scores") or {})),
        fault="" if messages is not None else "its model used tools, which no run here has",
    )


def _response(sample: Any, output: Any, said: Any, text: Any) -> Response:
    used = output.get("usage") or {}
    cached = used.get("input_tokens_cache_read")
    total = used.get("input_tokens")
    if total is not None:  # without those that a cache took or gave
        total += (cached or 0) + (used.get("input_tokens_cache_write") or 0)
    finish: Finish = _FINISH.get(str(said.get("stop_reason")), "stop")
    is_lost = bool(sample.get("error")) or not said
    return Response(
        instance_id="",
        text="" if is_lost else text((said.get("message") or {}).get("content") or ""),
        finish="error" if is_lost else finish,
        error="an error in inspect" if is_lost else "",
        usage=Usage(
            input_tokens=total,
            cached_tokens=cached,
            output_tokens=used.get("output_tokens"),
            reasoning_tokens=used.get("reasoning_tokens"),
        ),
        latency_s=output.get("time") or 0.0,
        served_model=output.get("model") or "",
        finished_at=_time(sample.get("completed_at")),
    )


def _time(stamp: str | None) -> float:
    return datetime.fromisoformat(stamp).timestamp() if stamp else 0.0


def _scores(scores: Any) -> Iterator[TheirScore]:
    for name, score in scores.items():
        value, read = score.get("value"), str(score.get("answer") or "")
        parts = value.items() if isinstance(value, dict) else [("", value)]
        for part, one in parts:
            metric = f"{name}/{part}" if part else name
            yield TheirScore(metric, as_number(one), read)


def as_number(value: Any) -> float | None:
    """Return a score as a number; None where it is none."""
    if isinstance(value, str):
        return _LETTERS.get(value)
    is_number = isinstance(value, bool | int | float)
    return float(value) if is_number and value == value else None
