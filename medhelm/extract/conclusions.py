"""The sentence in which a reply that states nothing as the answer comes to its option."""

from __future__ import annotations

import re

from medhelm.extract.languages import words
from medhelm.extract.late import late
from medhelm.extract.listings import without_lists
from medhelm.extract.options import CUT, Options
from medhelm.extract.polarity import ASIDE, DENIED, DOUBT, HEDGE
from medhelm.extract.statements import SENTENCE_END

_LETTER = r"(?:(?:option|choice|letter)\s)?[(\[]?((?-i:[A-Z]))[)\]]?"
_SET_OFF = r"(?=\s*$|[.!]?\s*$|\s?[\u2013\u2014:(]|\s-\s|,\s(?:because|since|as|which|given)\b)"
_CONCLUDED = late(
    r"^\W*(?:so|thus|therefore|hence|consequently|accordingly|overall|in\s(?:short|sum|conclusion|summary))\b"
    r"[^?]{0,200}?(?:\u2192|=>|\b(?:is|are|remains|leaves|must\sbe|would\sbe)(?:\sthen)?)\s"
    rf"{_LETTER}{_SET_OFF}",
    re.IGNORECASE,
)
"""`Thus the process behind it is C`."""
_MADE_BEST = late(
    rf"\bmak(?:es|ing)\s{_LETTER}\s(?:the\s)?(?:\w+\s){{0,2}}?(?:best|correct|right|(?:most\s)?(?:likely|appropriate))\b",
    re.IGNORECASE,
)
_HEADED = late(
    r"^\W*(?-i:Answer|ANSWER|Final|FINAL)(?:\s(?:answer|choice|option|letter)){0,2}\s?[:\u2013\u2014-]?\s"
    rf"{_LETTER}(?=\s*$|[.!]?\s*$|\s?[\u2013\u2014(]|\s-\s)",
    re.IGNORECASE,
)
"""`Answer choice D.` as a sentence of its own, wherever it is."""
_ABROAD = late(
    rf"(?:{words('option')}|{words('answer')})\s(?:que|qui|che|die|der|das)\s[^.;?\n]{{3,100}}?\s"
    rf"{words('copula')}\s(?:(?:a|la|le|el|o|die)\s)?[(\[]?([A-Z])[)\]]?(?=\s*$|[.!]?\s*$|\s?[\u2013\u2014:(,])",
    re.IGNORECASE,
)
"""`La opci\u00f3n que m\u00e1s se acerca es la B`."""


def concluded(options: Options, text: str) -> set[str]:
    """Return the letters that sentences of a reply conclude with, those of denials left out."""
    plain = without_lists(options, text).replace("*", "").replace("`", "")
    plain = re.sub(r"(?<=[.!?][)\"])\s", "\n", plain)
    plain = re.sub(r"\?(?=\s)", "??", plain)  # one of them ends the sentence
    found = set()
    for part in SENTENCE_END.split(plain + " "):
        sentence = part.strip()
        if CUT in sentence or sentence.endswith("?"):
            continue
        for pattern in (_CONCLUDED, _MADE_BEST, _HEADED, _ABROAD):
            if (said := pattern.search(sentence)) and _is_meant(options, said, sentence):
                found.add(options.known(said[1]))
    return found


def _is_meant(options: Options, said: re.Match[str], sentence: str) -> bool:
    before, behind = options.blanked(sentence[: said.start(1)]), sentence[said.end() :]
    return not (
        DOUBT.search(before)
        or DENIED.search(before)
        or ASIDE.search(before)
        or HEDGE.search(sentence)
        or re.match(r"\W{0,3}(?:or|and|to|vs|versus)\b|/", behind)
    )
