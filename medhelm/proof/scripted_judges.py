"""Prove a jury without a model: replies of scripted judges come back as scores."""

from __future__ import annotations

import json
from statistics import fmean

from medhelm.extract.json_reply import BadReply
from medhelm.grading.graders.grader import GraderVerdict
from medhelm.grading.jury.grader import judge_messages, read_reply
from medhelm.grading.jury.metric import jury_metrics
from medhelm.schema.data import Instance, Rubric
from medhelm.schema.episode import Episode, Response

_RATED = Instance(id="check", context="A case.", question="A question?", references=("A gold.",))


class _Scripted:
    """Judges that give the scores set here; None abstains."""

    def __init__(self, scores: dict[str, tuple[int, ...] | None]) -> None:
        self.judges = tuple(scores)
        self._scores = scores

    def verdicts(self, instance: Instance, episode: Episode) -> tuple[GraderVerdict, ...]:
        said = ((j, {"scores": [*s]} if s else None) for j, s in self._scores.items())
        return tuple(GraderVerdict(judge=j, state=state) for j, state in said)


def jury_fault(rubric: Rubric) -> str:
    """Return what is wrong with a jury by this rubric; empty if scripted judges are heard."""
    names = [c.name for c in rubric.criteria]
    low, high = rubric.minimum, rubric.maximum
    if not all(name in judge_messages(rubric, _RATED, "An answer.")[0].content for name in names):
        return f"rubric {rubric.name}: a judge is not told of every criterion"
    judged: dict[str, tuple[int, ...] | None] = {"abstains": None}
    for said, form in ((low, {"score": low, "reason": "So it is."}), (high, high)):
        reply = json.dumps(dict.fromkeys(names, form))
        try:
            judged[f"says {said}"] = read_reply(reply, rubric.criteria, low, high).scores
        except BadReply as e:
            return f"rubric {rubric.name}: a reply in the form that is asked for is not read: {e}"
    score = jury_metrics(rubric, _Scripted(judged), 2)[0].score(
        _RATED, Episode(instance=_RATED, response=Response(instance_id="check", text="An answer."))
    )
    if score.value != fmean((low, high)):
        return f"rubric {rubric.name}: {low} and {high} of two judges give {score.value}"
    return ""
