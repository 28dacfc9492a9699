"""Measure a reader on written replies of which people have said how they are read.

Only the replies in which the rules read no answer are shown to it, as in a run. They are asked by a run of
its own: <results>/fidelity/reader/<hash>/responses.jsonl, an episode for each reply.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from medhelm.errors import DataError
from medhelm.extract.choices import read_choice
from medhelm.extract.numbers.values import read_number
from medhelm.grading.grade import grade
from medhelm.grading.graders.grader import JUDGE
from medhelm.grading.reader import ANSWER, NONE, VERSION, one_reply, reading, reading_answer
from medhelm.models.identity import identity
from medhelm.protocols.questions import Question, asking
from medhelm.runs.own_runs import DataClass, Run, own_run, stored_episodes
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import Episode
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import READER
from medhelm.schema.score import Metric, Score
from medhelm.stats.intervals import wilson
from medhelm.tables.format.column_kinds import form
from medhelm.tables.format.table import Table

_KINDS = ("choice", "number")
_QUESTION = "What is the answer?"
_FORM = form(__file__, "reader")


class _Written(msgspec.Struct, frozen=True, kw_only=True):
    """A written reply; `expected` is None where nothing is to be read in it."""

    id: str
    kind: str
    text: str
    expected: Any
    finish: str = "stop"
    question: str = ""
    choices: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    also: tuple[float, ...] = ()

    def instance(self) -> Instance:
        """Return the reply as it is stored and asked about, without what people read in it."""
        more = {"reply": self.text, "choices": [*self.choices], "labels": [*self.shown]}
        return Instance(id=self.id, question=self.question or _QUESTION, payload=more)

    def is_right(self, got: str) -> bool:
        """Return whether people read the same."""
        if self.kind == "choice":
            return bool(got == self.expected)
        accepted = () if self.expected is None else (self.expected, *self.also)
        return any(abs(float(got) - v) <= max(0.005 * abs(v), 0.005) for v in accepted)


@dataclass(frozen=True, kw_only=True)
class _Stated(Metric):
    """Reads the stated option or number; nothing is right or wrong by it."""

    name: str = "stated"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return 1 for whatever is read, and `unparsed`."""
        if instance.choices:
            labels = instance.option_labels
            found = read_choice(episode.text, instance.choices, labels=labels).value
        else:
            number = read_number(episode.text).value
            found = None if number is None else repr(number)
        if found is None:
            return Score(value=None, outcome="unparsed")
        return Score(value=1.0, extracted=found)


_STATED = _Stated()


def _asked(instance: Instance) -> Instance:
    """Return an instance with its options, which without a gold no run would take."""
    choices, labels = (tuple(instance.payload[key]) for key in ("choices", "labels"))
    return msgspec.structs.replace(instance, choices=choices, option_labels=labels)


def _score(instance: Instance, text: str) -> Score:
    return grade(_STATED, one_reply(_asked(instance), text))


def _questions(benchmark: Benchmark, instance: Instance) -> Iterator[Question[dict[str, str]]]:
    yield reading(_STATED, benchmark, _asked(instance), instance.payload["reply"])


_PROTOCOL = asking("reading", JUDGE, _questions, reading_answer, VERSION)


class ReaderTrial:
    """Written replies of some files, and a reader that is shown those which the rules cannot read."""

    def __init__(self, files: Sequence[Path]) -> None:
        """Read the files; raises DataError for a row of another form."""
        rows = [row for path in files for row in _rows(path)]
        self._others = sum(row.kind not in _KINDS or row.finish != "stop" for row in rows)
        self._rows = {row.id: row for row in rows if row.kind in _KINDS and row.finish == "stop"}
        instances = {name: row.instance() for name, row in self._rows.items()}
        self._unread = {
            name: instance
            for name, instance in instances.items()
            if _score(instance, self._rows[name].text).outcome != "scored"
        }

    def run(
        self,
        reader: ModelSpec,
        results: Path,
        data_class: DataClass,
        environ: Mapping[str, str] | None,
    ) -> Run:
        """Return the run that asks the reader; see `own_run`."""
        asked = msgspec.json.encode([VERSION, identity(reader), [*self._unread.values()]])
        sha256 = hashlib.sha256(asked).hexdigest()
        return own_run(
            "replies",
            [*self._unread.values()],
            _PROTOCOL,
            {JUDGE: reader},
            results / "fidelity" / READER / sha256[:16],
            data_class=data_class,
            environ=environ,
            decides=sha256,
        )

    def table(self, run: Run, confidence: float = 0.95) -> Table:
        """Return a row for each kind of answer, of what the reader has read so far."""
        found = {episode.instance_id: episode for episode in stored_episodes(run.path)}
        rows: list[dict[str, object]] = []
        for kind in _KINDS:
            ends = Counter(
                self._end(name, found[name]) if name in found else "without"
                for name in self._unread
                if self._rows[name].kind == kind
            )
            row: dict[str, object] = {
                n: ends[n] for n in ("right", "wrong", "rightly_none", "missed", "without")
            }
            row |= {"kind": kind, "unread": ends.total()}
            row["replies"] = sum(own.kind == kind for own in self._rows.values())
            if read := ends["right"] + ends["wrong"]:
                low, high = wilson(ends["wrong"] / read, read, confidence)
                row |= {"wrong_share": ends["wrong"] / read, "low": low, "high": high}
            rows.append(row)
        others = f"{self._others:,} replies of another kind, or cut, are left out."
        reader = run.spec.model.name
        return _FORM.table(
            rows,
            [others] * bool(self._others),
            {"reader": reader, "version": VERSION, "confidence": confidence},
            title=f"{reader} on written replies that the rules cannot read",
        )

    def _end(self, name: str, episode: Episode) -> str:
        row, answer = self._rows[name], episode.state.get(ANSWER)
        if answer is None:
            return "without"
        if answer == NONE:
            return "rightly_none" if row.expected is None else "missed"
        read = _score(episode.instance, answer).extracted
        return "right" if row.is_right(read) else "wrong"


def _rows(path: Path) -> Iterator[_Written]:
    """Yield the replies of a file of JSON lines; their ids get the file's name."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as e:
        raise DataError(f"{path} cannot be read ({type(e).__name__})") from None
    for number, line in enumerate(lines, start=1):
        try:
            row = msgspec.json.decode(line, type=_Written)
        except msgspec.DecodeError as e:
            raise DataError(
                f"{path}, line {number}: {e}; a reply is JSON with id, kind, text and expected"
            ) from None
        yield msgspec.structs.replace(row, id=f"{path.stem}/{row.id}")
