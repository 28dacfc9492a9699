"""The sentence in which a reply that states nothing as the answer comes to its option."""

from __future__ import annotations

import re
from itertools import pairwise

from medhelm.extract.languages import words
from medhelm.extract.late import late
from medhelm.extract.listings import without_lists
from medhelm.extract.options import CUT, Options
from medhelm.extract.polarity import ASIDE, CONTRAST, DENIED, DOUBT, HEDGE, NOT_CHOSEN, UNSETTLED
from medhelm.extract.statements import SENTENCE_END

_LETTER = r"(?:(?:option|choice|letter)\s)?[(\[]?((?-i:[A-Z]))[)\]]?"
_SET_OFF = r"(?=\s*$|[.!]?\s*$|\s?[\u2013\u2014:(]|\s-\s|,\s(?:because|since|as|which|given)\b)"
_CONCLUDED = late(
    r"^\W*(?:so|thus|therefore|hence|consequently|accordingly|overall|in\s(?:short|sum|conclusion|summary))\b"
    r"[^?]{0,200}?(?:\u2192|=>?|\b(?:is|are|remains|leaves|must\sbe|would\sbe)(?:\sthen)?)\s"
    rf"{_LETTER}{_SET_OFF}",
    re.IGNORECASE,
)
"""`Thus the process behind it is C`."""
_MADE_BEST = late(
    rf"\bmak(?:es|ing)\s{_LETTER}\s(?:the\s)?(?:\w+\s){{0,2}}?(?:best|correct|right|(?:most\s)?(?:likely|appropriate))\b",
    re.IGNORECASE,
)
_GO_WITH = late(
    rf"(?:^\W*|,\s)(?:so\s|then\s)?go(?:ing)?\swith\s{_LETTER}(?=\s*$|[.!,]?\s*$|,\s|\s?[\u2013\u2014(:])",
    re.IGNORECASE,
)
"""`Based on the ECG, go with B, calcium gluconate.`"""
_REMAINING = late(
    rf"^\W*(?:remaining|left|leftover)(?:\s(?:option|choice|answer|letter))?\s?[:=]\s?{_LETTER}\W*$",
    re.IGNORECASE,
)
"""`Remaining: D.`, behind what was eliminated."""
_EXCEPTION = late(
    r"\b(?:statement|option|one|choice|answer|item)\s(?:which|that)\s(?:is|are|was|does|do|did|has|should|must)"
    r"(?:\snot|n['\u2019]t)\b(?!\s(?:the\s)?(?:right|correct|true|answer))",
    re.IGNORECASE,
)
"""The one that is not so, which a question may ask for."""
_OF_THE_LIST = late(
    r"^\W*(?:from|of|among)\s(?:the|these|those)\s(?:(?:given|listed|available)\s)?"
    r"(?:list|options?|choices?|answers?|alternatives?)\b[^.?]{0,80}?,(?P<what>[^.?]{3,100}?)\b(?:is|are)\s(?:the\s)?\W{0,3}(?=\|)",
    re.IGNORECASE,
)
"""`From the list given, the only fast treatment is | `, before the option's text."""
_WORST = late(r"\b(?:worst|last|least|weakest)\b", re.IGNORECASE)
_AVOIDED = late(
    r"\bavoid\w*\s(?:it|this|that)\b|\b(?:it|this|that)\s(?:is|was)\scontra-?indicated\b",
    re.IGNORECASE,
)
_VERDICT = late(
    r"(?P<what>)(?:(?:^|\s)\u2192|\b(?:so|thus|hence|therefore),?\s(?:that|this|it)\s(?:would\sbe|is)\s(?:a|an)(?:\s(?:clear|definite|cautious|tentative))?"
    r"|\bmakes\sit(?:\sa)?\s?:?)\s\W{0,3}(?=\|[\s.!]*$)",
    re.IGNORECASE,
)
"""`So that would be a | `, at the end of a sentence."""
_HEADED = late(
    r"^\W*(?-i:Answer|ANSWER|Final|FINAL)(?:\s(?:answer|choice|option|letter)){0,2}\s?[:\u2013\u2014-]?\s"
    rf"{_LETTER}(?=\s*$|[.!]?\s*$|\s?[\u2013\u2014(]|\s-\s)",
    re.IGNORECASE,
)
"""`Answer choice D.` as a sentence of its own, wherever it is."""
_IN_MIDST = late(
    r"(?:[:;,\u2013\u2014]\s|\b(?:so|thus|hence|therefore)\s)(?:the\s)?answer\s(?:is\s)?[(\[]?((?-i:[A-Z]))[)\]]?(?=\s*$|[.,;]|\s[\u2013\u2014(])",
    re.IGNORECASE,
)
"""`it is a model of compression: answer B, the plasticity of a solid`."""
_TRUE = late(
    rf"^\W*(?:so\s|thus\s)?(?=choice|option|statement|answer){_LETTER}\s(?:is|holds)\s(?:true|correct|right)\b",
    re.IGNORECASE,
)
_LAST = late(
    r"(?:^|,\s)[^,]{0,80}\b(?:is|are|means|equals|corresponds|suggests|indicates|points|fits|matches)\b[^,]{1,80}"
    r"\((?:option\s)?((?-i:[A-Z]))\)\W*$",
    re.IGNORECASE,
)
"""The end of a reply that names no other letter: `it is 1 in 40 (B).`."""
_NAMED = late(r"(?<![\w'\u2019-])(?!I\b|A\s[a-z])([A-Z])(?![\w'\u2019-])")
_LOWER = late(r"\W*([a-j])\W*")
_SAYS = late(r"^\W*(yes|no|maybe)(?:,|\s[\u2013\u2014-])\s", re.IGNORECASE)
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
    sentences = _sentences(plain)
    if sentences and CUT in sentences[-1]:
        sentences.pop()
    found: set[str] = set()
    is_only = len({m[1] for m in _NAMED.finditer(plain)} & options.own.keys()) == 1
    for number, sentence in enumerate(sentences, 1):
        patterns = [_CONCLUDED, _MADE_BEST, _GO_WITH, _REMAINING, _HEADED, _IN_MIDST, _ABROAD]
        if is_only:
            patterns += [_TRUE, _LAST][: 1 + (number == len(sentences))]
        for pattern in () if sentence.endswith("?") else patterns:
            said = pattern.search(sentence)
            start = said.start() if said and pattern is _LAST else 0
            if said and _is_meant(options, sentence, start, said):
                found.add(options.known(said[1]))
    for sentence, following in pairwise([*_sentences(text.replace("*", "").replace("`", "")), ""]):
        if not _AVOIDED.search(following):
            found |= _named_by_text(options, sentence)
    return found or _at_the_end(options, sentences) or _yes_or_no(options, sentences)


def _sentences(text: str) -> list[str]:
    """Return the sentences of a text; a question keeps its mark."""
    parts = SENTENCE_END.split(re.sub(r"\?(?=\s)", "??", text + " "))
    return [part.strip() for part in parts if part.strip()]


def _named_by_text(options: Options, sentence: str) -> set[str]:
    """Return the option whose text a sentence concludes with."""
    blanked = options.blanked(sentence)
    for pattern in () if sentence.endswith("?") else (_OF_THE_LIST, _VERDICT):
        said = pattern.search(blanked)
        before = CONTRAST.split(blanked[: said.start()])[-1] + said["what"] if said else ""
        is_denied = any(p.search(before) for p in (UNSETTLED, NOT_CHOSEN, ASIDE, DOUBT, _WORST))
        if said and not (is_denied or HEDGE.search(sentence) or "|" in sentence):
            place = blanked.count("|", 0, said.end())
            return {options.whole([*options.find_texts(sentence)][place][0])} - {""}
    return set()


def _at_the_end(options: Options, sentences: list[str]) -> set[str]:
    """Return the letter, in lower case too, that is all of the last line."""
    letter = _LOWER.fullmatch(sentences[-1]) if sentences else None
    return {letter[1].upper()} & options.own.keys() if letter else set()


def _yes_or_no(options: Options, sentences: list[str]) -> set[str]:
    """Return yes or no where sentences begin with it, and none with the other."""
    said = {match[1].lower() for s in sentences if (match := _SAYS.match(s))}
    return {options.whole(word) for word in said} - {""} if len(said) == 1 else set()


def _is_meant(options: Options, sentence: str, start: int, said: re.Match[str]) -> bool:
    """Return whether a sentence neither denies nor doubts the letter that it says."""
    before, behind = options.blanked(sentence[start : said.start(1)]), sentence[said.end() :]
    before = _EXCEPTION.sub("", before)
    return not (
        DOUBT.search(before)
        or DENIED.search(before)
        or ASIDE.search(before)
        or HEDGE.search(sentence)
        or re.match(r"\W{0,3}(?:or|and|to|vs|versus)\b|/", behind)
    )
