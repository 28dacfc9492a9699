"""Answers that people wrote, from a file: a row beside the models, graded as they are and never ranked."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from medhelm.errors import UsageError
from medhelm.schema.episode import Request, Response
from medhelm.schema.model import Model, ModelSpec

NO_ANSWER = "no answer in the file"


class Answers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fields that `extra_body` of a model with `provider: human` has."""

    file: str
    sha256: str
    """Of the file: other answers are another model."""


class _Line(msgspec.Struct):
    id: str
    answer: str


def human_spec(file: str) -> ModelSpec:
    """Return the spec of a file of answers; raises UsageError where it cannot be read."""
    path = Path(file)
    content = _content(path)
    _read_answers(path, content)
    return ModelSpec(
        name=f"human/{path.stem}",
        provider="human",
        model=path.stem,
        endpoint_class="local",
        extra_body=msgspec.to_builtins(Answers(str(path.resolve()), _digest(content))),
    )


class HumanModel(Model):
    """Gives the answers of a file; where there is none, the instance is an error and in no mean."""

    def __init__(self, spec: ModelSpec, answers: dict[str, str]) -> None:
        self.spec = spec
        self._answers = answers

    async def respond(self, request: Request) -> Response:
        """Return what a person answered."""
        text = self._answers.get(request.instance_id)
        return request.reply(
            text=text or "",
            finish="error" if text is None else "stop",
            error=NO_ANSWER if text is None else "",
            served_model=self.spec.name,
        )


def open_human(spec: ModelSpec) -> HumanModel:
    """Return the model of a file of answers; raises UsageError where that has changed."""
    try:
        own = msgspec.convert(spec.extra_body, Answers)
    except msgspec.ValidationError:
        raise UsageError(
            f"model {spec.name!r}: answers of people are named by their file, model=human/FILE.jsonl"
        ) from None
    path = Path(own.file)
    content = _content(path)
    if _digest(content) != own.sha256:
        raise UsageError(f"{path} has changed since it was named; start the command again")
    return HumanModel(spec, _read_answers(path, content))


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        raise UsageError(
            f"model=human/{path}: the file cannot be read; it holds one JSON object a line, "
            '{"id": "...", "answer": "..."}'
        ) from None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read_answers(path: Path, content: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            own = msgspec.json.decode(line, type=_Line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise UsageError(
                f"{path}, line {number}: an answer is one JSON object with `id` and `answer`, two texts"
            ) from None
        if own.id in found:
            raise UsageError(f"{path}, line {number}: there is an answer to {own.id!r} already")
        found[own.id] = own.answer
    if not found:
        raise UsageError(f"{path} holds no answer")
    return found
