"""Completion text -> the answer that it states, or None. Nothing is guessed.

Options are read in `option_reading`, numbers, dates and durations in `extract_values`, label sets
in `extract_sets`; `answer_marks` finds what is marked as final. What counts, in this order:

1. What is marked final (`Answer: B` lines, `final answer is`, a box, a JSON key): the last mark,
   whatever was said before it.
2. Statements: the first line, a line that is only a letter or a lettered option, `the answer is`,
   `I choose`, `is correct`, `Therefore, C.` If they name more than one option there is no answer.
3. In short completions only: the one option that is mentioned without doubt or negation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from medhelm.extract.marks import final_answer as final_answer
from medhelm.extract.marks import last_mark, unify
from medhelm.extract.marks import visible_text as visible_text
from medhelm.extract.options import RETRACTION, UNCLEAR, options_of
from medhelm.extract.sets import extract_codes as extract_codes
from medhelm.extract.sets import extract_labels as extract_labels
from medhelm.extract.sets import is_code as is_code
from medhelm.extract.values import extract_date as extract_date
from medhelm.extract.values import extract_number as extract_number
from medhelm.extract.values import extract_weeks_days as extract_weeks_days

_TAIL = 14_000
"""Characters at the end of a completion in which it may take back what it said."""


def extract_choice(text: str, choices: Sequence[str]) -> str | None:
    """Return the letter (A is the first choice) of the option that a completion states, or None.

    None stands for no statement, several that differ, a hedge, and a letter beyond the options.
    """
    options = options_of(tuple(choices))
    visible = unify(visible_text(text))
    reading = options.exact(visible)
    if reading:
        return reading
    mark = last_mark(visible)
    if mark is None:
        reading = options.stated(visible)
        if reading and (back := _taken_back(visible, 0)):
            before = options.stated(visible[: back.start()])
            if before and before != options.stated(visible[back.end() :]):
                reading = UNCLEAR
    else:
        reading = options.read(mark.value) or options.stated(mark.value)
        if not reading:
            reading = options.stated(visible[mark.start :])
        elif _taken_back(visible, mark.end) or any(
            r != reading for r in options.answers_after(visible[mark.end :])
        ):
            reading = UNCLEAR
    return reading if reading and reading != UNCLEAR else None


def _taken_back(text: str, start: int) -> re.Match[str] | None:
    """Return where a completion takes back what it said, in its last characters from `start`."""
    return RETRACTION.search(text, max(start, len(text) - _TAIL))
