"""Binary criteria prove themselves without a model: what scripted judges reply comes back as hits."""

from __future__ import annotations

import json

from medhelm.extract.json_reply import BadReply
from medhelm.grading.rubric.metrics import Decided, RubricAccuracy
from medhelm.grading.rubric.reply import read_decision
from medhelm.grading.rubric.verdicts import Verdicts, majority
from medhelm.schema.data import Criterion, Instance

_CRITERIA = tuple(Criterion(name=f"c{n}", text=f"Names {n}.") for n in (1, 2, 3))
_CASE = Instance(id="check", question="A question?", criteria=_CRITERIA)
_SAID = (True, False, True)


def rubric_fault() -> str:
    """Return what is wrong with the reading of decisions; empty where scripted judges are heard."""
    try:
        replies = [json.dumps({"explanation": "So.", "criteria_met": said}) for said in _SAID]
        met = tuple(read_decision(reply).is_met for reply in replies)
    except BadReply as e:
        return f"a reply in the form that is asked for is not read: {e}"
    decided = majority([Verdicts(met=met)], 1)
    score = RubricAccuracy().of(_CASE, Decided(_CRITERIA, decided))
    return "" if score.value == 2 / 3 else f"2 of 3 criteria met give {score.value}"
