"""Graders, which ask judges about one episode until they can be read, and the metrics made of what they said.

A grader is to an answer what a protocol is to an instance: a pure function of what it is shown, its
terms and the replies. Its calls are logged and replayed one by one, so that a killed run asks nothing
twice. Several metrics share one grader, and so its calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import msgspec

from medhelm.config import chosen_settings
from medhelm.errors import PluginError, UnknownName
from medhelm.extract import visible_text
from medhelm.grading.graders.controls import Controls as Controls
from medhelm.grading.graders.controls import Item as Item
from medhelm.grading.graders.controls import answer as answer
from medhelm.grading.graders.controls import without_due
from medhelm.protocols.protocol import REPAIRS, FinalAnswer, Forecast, RoleTerms, Send, Terms
from medhelm.protocols.protocol import Protocol as EpisodeProtocol
from medhelm.schema.data import Benchmark, Criterion, Instance
from medhelm.schema.episode import Episode
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import GraderTerms, JurySpec
from medhelm.schema.score import Metric, Score
from medhelm.store.loglines import episode_key
from medhelm.store.records import judge_budget

JUDGE = "judge"
"""The only role that a grader asks."""
NOT_ASKED = "not asked"


@dataclass(frozen=True, kw_only=True)
class Shown:
    """All that a grader sees of an episode: never the model's thinking, nor its private calls."""

    instance: Instance
    repeat: int
    answer: str
    """The visible text of the answer."""
    transcript: tuple[tuple[str, str], ...]
    """(who, text), as the protocol shows an episode; of one without a transcript the answer alone."""
    ending: str
    state: Mapping[str, Any]
    """The protocol's end state."""
    is_cut: bool = False
    """True if the output budget ended the answer."""
    text: str = ""
    """An episode as one text: its transcript with who speaks, else the answer."""


def shown_of(protocol: EpisodeProtocol, episode: Episode) -> Shown | None:
    """Return what graders see of an episode; None where there is no answer to grade."""
    if episode.finish not in ("stop", "length") or episode.unread:
        return None
    answer = visible_text(episode.text)
    transcript: tuple[tuple[str, str], ...] = ((protocol.roles[0], answer),)
    text = answer
    if protocol.transcript is not None:
        transcript = tuple(protocol.transcript(episode))
        text = "\n\n".join(f"{who}: {said}" for who, said in transcript)
    return Shown(
        instance=episode.instance,
        repeat=episode.repeat,
        answer=answer,
        transcript=transcript,
        ending=episode.ending,
        state=episode.state,
        is_cut=episode.finish == "length",
        text=text,
    )


def judgement_key(episode: Episode) -> int:
    """Return a 64-bit key of an instance with all its content, the repeat and the whole episode."""
    answer = hashlib.sha256(episode.text.encode("utf-8", "replace"))
    if episode.calls or episode.state:  # an answer of one call has the key that it always had
        said = [(c.role, c.step, c.attempt, c.response.text) for c in episode.calls]
        answer.update(msgspec.json.encode((said, episode.ending, episode.state), order="sorted"))
    instance = msgspec.json.encode(without_due(episode.instance))
    return episode_key(instance + answer.digest(), episode.repeat)


def has_answer(shown: Shown) -> bool:
    """Return whether an answer has any visible text."""
    return bool(shown.answer)


Grade = Callable[[Benchmark, Shown, Terms, Send], Awaitable[FinalAnswer]]
"""Asks one judge about one episode. The verdicts are the answer's `state`; `finish="error"` where the
judge could not be reached, which the next run mends."""


@dataclass(frozen=True, kw_only=True)
class Grader:
    """Asks judges about an episode; a metric brings it."""

    name: str
    version: str = "1"
    """Raised whenever a judge is sent something else, or its replies are read otherwise."""
    rules: Callable[[Benchmark], str] = lambda _: ""
    """The benchmark's own rules that judges are sent, by name and version; they are a part of the version."""
    grade: Grade
    forecast: Callable[[Benchmark, Instance, Terms, int], Iterable[Forecast]]
    """Foretells the calls to one judge, given the tokens of the answer."""
    stand_in: Callable[[Shown, Mapping[str, Any]], dict[str, Any]] = lambda *_: {}
    """Makes verdicts by a rule, where no model judges; none by default."""
    is_graded: Callable[[Shown], bool] = has_answer
    """Returns whether judges are asked about an answer."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Settings with their defaults: `grader.NAME=VALUE` on the command line."""
    choices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The values that a setting may have, where it is one of a few."""
    is_brief: bool = False
    """True if the log keeps neither the instance nor the messages, which can be made again of the answer."""
    controls: Controls | None = None
    """Answers whose verdicts are known, by which its judges are measured; None: there are none."""
    marks: Callable[[Mapping[str, Any]], Sequence[float | None]] | None = None
    """Returns what a judge decided on each criterion, in their order; None: no valid verdict."""
    listed: Callable[[Instance, Mapping[str, Any]], Sequence[Criterion]] = lambda *_: ()
    """Returns the criteria of one call in the order in which judges are shown them; none of single ones."""
    files: tuple[str, ...] = ()
    """Settings that name a file. Its hash is kept as `NAME_sha256`, so that verdicts by a file that has
    changed since are not taken for those of today's."""

    def terms(self, judge: ModelSpec, terms: GraderTerms, repeat: int = 0) -> Terms:
        """Return how one judge is asked."""
        role = RoleTerms(
            max_output_tokens=judge_budget(judge, terms.jury),
            sampling=judge.sampling,
            json_schema=judge.json_schema,
        )
        settings = {**self.settings, **terms.settings, REPAIRS: terms.jury.repairs}
        return Terms(repeat=repeat, roles={JUDGE: role}, settings=settings)


class GraderVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts of one judge on one episode."""

    judge: str
    state: dict[str, Any] | None
    """The grader's own form. None: the judge has abstained."""
    reason: str = ""
    """The reason for no verdicts ('not asked', 'error'), never reply text."""


class Panel(Protocol):
    """Judges whose verdicts are at hand."""

    judges: tuple[str, ...]

    def verdicts(self, instance: Instance, episode: Episode) -> tuple[GraderVerdict, ...]:
        """Return those of each judge."""


class NotAsked:
    """The panel of judges whose verdicts are not read yet: each has abstained."""

    def __init__(self, judges: Sequence[str] = ()) -> None:
        self.judges = tuple(judges)

    def verdicts(self, instance: Instance, episode: Episode) -> tuple[GraderVerdict, ...]:
        """Return an abstention of each judge."""
        return tuple(GraderVerdict(judge=j, state=None, reason=NOT_ASKED) for j in self.judges)


def below_quorum(verdicts: Sequence[GraderVerdict], quorum: int) -> Score | None:
    """Return the score of an answer with fewer verdicts than the quorum; None where it is met."""
    given = sum(v.state is not None for v in verdicts)
    if given >= quorum:
        return None
    why = "; ".join(f"{v.judge}: {v.reason}" for v in verdicts if v.state is None)
    reason = f"{given} of {quorum} needed verdicts ({why or 'none asked'})"
    return Score(value=None, outcome="unscored", reason=reason)


@dataclass(frozen=True, kw_only=True)
class GradedMetric(Metric):
    """A metric over the verdicts of a grader's judges; `score` stays pure."""

    grader: Grader
    panel: Panel = field(default_factory=NotAsked, compare=False)
    quorum: int = 1
    """Judges that a score needs."""
    judge: str = ""
    """The judge by whose verdicts alone it scores; empty: by those of all."""

    def verdicts(self, instance: Instance, episode: Episode) -> tuple[GraderVerdict, ...]:
        """Return the verdicts of each judge on an episode."""
        found = self.panel.verdicts(instance, episode)
        return tuple(v for v in found if v.judge == self.judge) if self.judge else found


def graders_of(metrics: Iterable[Metric]) -> dict[str, Grader]:
    """Return the graders that metrics need, by name; raises PluginError where two share a name."""
    found: dict[str, Grader] = {}
    for metric in metrics:
        if isinstance(metric, GradedMetric):
            own = metric.grader
            if found.setdefault(own.name, own) != own:
                raise PluginError(
                    f"metric {metric.name!r}: another grader is named {own.name!r}, too; rename one"
                )
    return dict(sorted(found.items()))


def with_judges(metrics: Sequence[Metric], jury: JurySpec | None) -> tuple[Metric, ...]:
    """Return the metrics, and behind them the main one by each of several judges alone, if it is graded."""
    names = [judge.name for judge in jury.judges] if jury is not None else []
    main = next(iter(metrics), None)
    if len(names) < 2 or not isinstance(main, GradedMetric):
        return tuple(metrics)
    return (*metrics, *(replace(main, name=f"{main.name}[{j}]", judge=j) for j in names))


def grader_terms(
    benchmark: Benchmark, metrics: Iterable[Metric], jury: JurySpec, chosen: Mapping[str, Any]
) -> tuple[GraderTerms, ...]:
    """Return what is recorded of the graders that metrics of a benchmark need."""
    graded = [m for m in metrics if isinstance(m, GradedMetric)]
    return tuple(
        GraderTerms(
            grader=grader.name,
            version=", ".join(filter(None, (grader.version, grader.rules(benchmark)))),
            jury=jury,
            settings=_chosen(chosen, grader),
            metrics=tuple(m.name for m in graded if m.grader == grader),
        )
        for grader in graders_of(graded).values()
    )


def _chosen(given: Mapping[str, Any], grader: Grader) -> dict[str, Any]:
    chosen = chosen_settings(given, grader.settings, "grader")
    for name, value in chosen.items():
        if value not in (known := grader.choices.get(name, (value,))):
            raise UnknownName(f"value of grader.{name}", str(value), known)
    for name in grader.files:
        if name in chosen:
            key = f"{name}_sha256"
            chosen[key] = _sha256(Path(chosen[name])) or given.get(key, "")
    return chosen


def _sha256(path: Path) -> str:
    """Return the hash of a file; empty where it is gone, as it may be once it was used."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def bind(metrics: Iterable[Metric], panels: Mapping[str, Panel], quorum: int) -> list[Metric]:
    """Return metrics with the verdicts of their graders' panels; any other metric as it is."""
    return [
        replace(metric, panel=panels[metric.grader.name], quorum=1 if metric.judge else quorum)
        if isinstance(metric, GradedMetric) and metric.grader.name in panels
        else metric
        for metric in metrics
    ]
