"""The words in an action's text that give its class away and that its author was told to leave out.

An action is to say what would be done, and nothing on whether that is right: a model that reads
"despite the known allergy" needs no medicine. Only words with one meaning are looked for here. What
else may give a class away is a question for a judge (`--judge`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LEAKS: dict[str, str] = {
    "contraindication": r"(?:not |is )?contraindicated",
    "recommendation": r"(?:guideline|evidence)s?-\w+|recommended(?! (?:daily|weekly|dietary|limit))|"
    r"(?:as|clinically) indicated|standard[- ]of[- ]care|gold[- ]standard|(?:drug|agent|test) of choice",
    "judgement": r"unnecessar(?:y|ily)|needless(?:ly)?|inappropriately|an inappropriate|dangerously|"
    r"reckless(?:ly)?|carelessly|wrongly|unwarranted|unjustified|malpractice",
    "intent": r"(?:dose|interaction|contraindication|prerequisite|monitoring)[ _-]trap|trap_\d+|distract[oe]r|"
    r"decoy|red herring|(?:correct|wrong|right|best|incorrect|expected) answer|answer key|rubric|"
    r"(?:score|rating|rated|median|consensus):? \d(?:/9)?|[1-9]/9|first_line|"
    r"(?:blind|conditional|first_line) option|provenance",
}
"""Kind -> words: what contradicts the case, praises, blames, or names the writer's intent."""
_LEAK = re.compile(
    "|".join(rf"(?P<{kind}>(?<![\w-])(?:{words})(?![\w-]))" for kind, words in LEAKS.items()),
    re.IGNORECASE,
)
_DASHES = str.maketrans({c: "-" for c in "\u2010\u2011\u2012\u2013\u2014\u2212"})
_HIDDEN = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")


@dataclass(frozen=True)
class Leak:
    """One wording and the kind of hint that it is."""

    kind: str
    phrase: str


def find_leaks(text: str) -> tuple[Leak, ...]:
    """Return the leaks of an action's text from left to right."""
    shown = " ".join(_HIDDEN.sub("", text).translate(_DASHES).split())
    return tuple(Leak(str(found.lastgroup), found[0]) for found in _LEAK.finditer(shown))
