"""The log of one judge on one run: append-only, one line per judgement, each with its checksum.

    <run>/judges/<judge hash>/grades.jsonl

The hash covers the judge, the rubric and the prompt, and no other judge: a jury in which one
judge is replaced asks only the new one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

from medhelm.errors import RecordError
from medhelm.files.durable import make_private, remove_temporary, why
from medhelm.grading.jury.verdicts import Verdict
from medhelm.schema.episode import SCHEMA, Episode, Finish, Usage
from medhelm.store.appendlog import (
    AppendLog,
    mend_log,
    with_checksum,
    without_checksum,
)
from medhelm.store.runlog import episode_key

Parsed = Literal["scored", "unreadable", "refused", "truncated", "oversize", "error"]
"""Names the outcome of one call of a judge."""


class JudgeCall(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a judge and what came back."""

    prompt_sha256: str
    reply: str
    finish: Finish
    parsed: Parsed
    fault: str = ""
    """Names the fault of the reply, or the kind of the failure."""
    usage: Usage = Usage()
    lost: int = 0
    latency_s: float = 0.0
    served_model: str = ""
    finished_at: float = 0.0


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """All that one judge said of one answer: the first call, then its repairs."""

    schema: int = SCHEMA
    key: int
    """`judgement_key` of instance and answer."""
    instance_id: str
    repeat: int
    judge: str
    scores: tuple[int, ...] | None
    reasons: tuple[str, ...] = ()
    """Gives the judge's reason for each score. It is text of the data's class."""
    calls: tuple[JudgeCall, ...]
    is_broken_off: bool = False
    """True if the budget ended before a repair. The judge is then asked again."""

    @property
    def is_final(self) -> bool:
        """Return whether the judge is finished: it has scored, or abstained by itself."""
        return self.calls[-1].parsed != "error" and not self.is_broken_off

    def verdict(self) -> Verdict:
        """Return the scores, or why there are none."""
        return Verdict(judge=self.judge, scores=self.scores, reason=self.calls[-1].parsed)


def judgement_key(episode: Episode) -> int:
    """Return a 64-bit key of an instance with all its content, the repeat and the whole episode."""
    answer = hashlib.sha256(episode.text.encode("utf-8", "replace"))
    if episode.calls or episode.state:  # an answer of one call has the key that it always had
        said = [(c.role, c.step, c.attempt, c.response.text) for c in episode.calls]
        answer.update(msgspec.json.encode((said, episode.ending, episode.state), order="sorted"))
    return episode_key(msgspec.json.encode(episode.instance) + answer.digest(), episode.repeat)


class GradeLog(AppendLog):
    """One judge's log, open for appending."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "grades.jsonl")

    def open(self) -> set[int]:
        """Drop a torn last line, move damaged ones aside; returns the keys that are not asked again.

        Raises RecordError where the log cannot be written.
        """
        try:
            make_private(self.log_path.parent)
            remove_temporary(self.log_path.parent)
            final = self._mend()
            self._open_log()
        except OSError as e:
            raise RecordError(f"cannot write {self.log_path}: {why(e)}") from None
        return final

    def _mend(self) -> set[int]:
        final: set[int] = set()

        def take(line: bytes, _: int) -> bool:
            judgement = _read(line)
            if judgement is not None:
                (final.add if judgement.is_final else final.discard)(judgement.key)
            return judgement is not None

        mend_log(self.log_path, self.log_path.with_name("quarantine.jsonl"), take)
        return final

    def append(self, judgement: Judgement) -> None:
        """Hand one judgement to the operating system; raises RecordError."""
        self._append_line(with_checksum(msgspec.json.encode(judgement)))


def read_judgements(folder: Path) -> Iterator[Judgement]:
    """Yield the judgements of a judge in the order of its log; unreadable lines are passed over."""
    try:
        with open(folder / "grades.jsonl", "rb") as lines:
            yield from filter(None, map(_read, lines))
    except FileNotFoundError:
        return


_DECODE = msgspec.json.Decoder(Judgement).decode


def _read(line: bytes) -> Judgement | None:
    body = without_checksum(line) if line.endswith(b"\n") else None
    if body is None:
        return None
    try:
        judgement = _DECODE(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if judgement.schema != SCHEMA:
        raise RecordError(
            f"a judgement has schema {judgement.schema}, this medhelm reads {SCHEMA}; "
            "use the medhelm version that wrote it, or another results_dir"
        )
    return judgement
