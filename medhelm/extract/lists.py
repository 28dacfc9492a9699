"""Find the lists of options, or of their probabilities, in a text. A list states no option."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from medhelm.extract.late import late
from medhelm.extract.options import CUT, MARKERS, Options

_MANY = 50
"""Letters of a line that are read."""
_SHORT = 1000
"""Characters of a reply that may be nothing but a list, and of what is read for one behind a mark."""
_NEAR = 12
"""Characters in which a list begins."""
_GAP = late(
    r"[\W_]{0,12}(?:(?:option|choice|letter)[\W_]{1,3})?(?:[a-z0-9]{1,2}(?![a-z0-9])[\W_]{0,8})?"
    r"|\W{1,3}(?:or|and)\W{1,3}",
    re.IGNORECASE,
)
"""Matches the text between two items."""
_APART = late(r"\n\n|^\.[ \t]{1,3}(?![A-Z][.):])")
_OPENER = late(r"(?:(?:\b[Oo]ption |\b[Cc]hoice )?\b[A-Za-z0-9][\W_]{1,6}|[\"'(\[*]{1,4})$")
_ITEM_END = late(r"[.;!?](?=\s|$)")
SHARE = late(r"\d\s?%|[:=(]\s?(?:0?\.\d|\d{1,3}\s?(?:[,;)/}]|$))")
"""A probability behind a letter."""
_SET_OFF = late(r"[A-Z](?<!\w[A-Z])\"?\s?[.)\]:=(\u2013\u2014-]")
"""A letter that is set off as those of a list are."""
_TICK = late("[\u2705\u2713\u2714\u2611]")
_TRUE_OR_FALSE = late(
    r"[ \t|*-]{0,6}\(?[A-Z][).:*]{0,3}\s{0,2}[^\n]{0,200}?[:.|\u2013\u2014\u2192-]\s{0,2}\**(?:(true|correct)|false|incorrect|wrong|not\s(?:true|correct))\b(?!\s(?:if|but|only|in))",
    re.IGNORECASE,
)
"""A line that says of its option whether it is true."""
_TICKED = late(r"^[ \t|*-]{0,6}\(?([A-Z])(?=[).: |])[^\n]{0,300}", re.MULTILINE)

Span = tuple[int, int]


def without_lists(options: Options, text: str) -> str:
    """Return `text` with a line break for every list of the options."""
    if _is_one_option_a_line(options, text):
        return "\n"
    spans = [*_lettered_lines(options, text), *_texts(options, text), *_inside_lines(options, text)]
    kept, at = [], 0
    for start, end in sorted(spans):
        if start > at:
            kept += [text[at:start], "\n"]
        at = max(at, end)
    return "".join([*kept, text[at:]])


def _is_one_option_a_line(options: Options, text: str) -> bool:
    """Return whether the lines of a text are different options, even where these are letters."""
    if len(text) > _SHORT or "\n" not in text:
        return False
    lines = [line for line in text.rstrip(CUT).split("\n") if line.strip()]
    named = {options.whole(line) for line in lines}
    return 2 < len(lines) == len(named) and "" not in named


def begins_list(options: Options, text: str, at: int) -> bool:
    """Return whether a list of the options begins at a place, on its line or from line to line."""
    around = text[at : at + _SHORT * 4]
    if any(start < _NEAR for start, _ in _texts(options, around)):
        return True
    first = (options.lettered_lines(around) or [])[:3]
    lines = [around.count("\n", 0, match.start(1)) for match in first]
    letters = [ord(match[1][0]) for match in first]
    is_run = all(b - a == 1 for a, b in pairwise(letters))
    return lines == [0, 1, 2] and is_run


def _lettered_lines(options: Options, text: str) -> Iterator[Span]:
    """Yield the lettered lines whose letters ascend from line to line."""
    lettered = options.lettered_lines(text) or []
    for i, match in enumerate(lettered):
        letter = match[1][0]
        follows = i > 0 and lettered[i - 1][1][0] < letter
        leads = i + 1 < len(lettered) and letter < lettered[i + 1][1][0]
        if follows or leads:
            yield match.span()


def _texts(options: Options, text: str) -> Iterator[Span]:
    """Yield where texts of the options follow one another with nothing but letters between."""
    chain: list[re.Match[str]] = []
    for match in options.find_texts(text):
        if chain and not _follows(options, chain[-1], match):
            yield from _chain(text, chain)
            chain = []
        chain.append(match)
    yield from _chain(text, chain)


def _follows(options: Options, item: re.Match[str], other: re.Match[str]) -> bool:
    """Return whether `other` is the next item of a list; on one line the order is free."""
    if other.start() - item.end() > 40:
        return False
    gap = _GAP.fullmatch(item.string, item.end(), other.start())
    if gap is None:
        return False
    place, next_place = options.place(item[0]), options.place(other[0])
    return place < next_place if "\n" in gap[0] else place != next_place


def _chain(text: str, chain: Sequence[re.Match[str]]) -> Iterator[Span]:
    """Yield where a list lies, if these texts are one; two sentences or paragraphs are none."""
    if len(chain) < 2:
        return
    start, end = chain[0].start(), chain[-1].end()
    if len(chain) == 2 and CUT not in text and _APART.search(text[chain[0].end() : end]):
        return
    opener = _OPENER.search(text, max(0, start - 20), start)
    yield opener.start() if opener else start, end


def _inside_lines(options: Options, text: str) -> Iterator[Span]:
    """Yield the lists on one line whose items are set off by successive letters."""
    at = 0
    for line in text.split("\n"):
        is_list = len(line) > 3 and len(_SET_OFF.findall(line)) > 1
        if is_list and (span := _inside_line(options, line)):
            yield at + span[0], at + span[1]
        at += len(line) + 1


def _inside_line(options: Options, line: str) -> Span | None:
    for markers in MARKERS:
        found = list(_markers(options, markers, line))
        for first, second in pairwise(found):
            if ord(second[1]) != ord(first[1]) + 1 or second[1] not in options.own:
                continue
            before = line[: first.start()].rstrip()
            is_leading = before.endswith(":") or not before.strip(" *_#>-|")
            is_bare = not line[first.end() : second.start()].strip(" ,;/|")
            if is_leading or is_bare or SHARE.search(line, first.start(), second.start()):
                return first.start(), _end_of_run(options, line, found, first)
    return None


def _markers(options: Options, markers: re.Pattern[str], line: str) -> Iterator[re.Match[str]]:
    """Yield the first markers of one form that are not part of an option's text."""
    at = 0
    for match in islice(markers.finditer(line), _MANY):
        if match.start() >= at:
            yield match
            at = match.start() + (options.own_end(line[match.start(1) :]) or 0)


def _end_of_run(
    options: Options, line: str, found: Sequence[re.Match[str]], first: re.Match[str]
) -> int:
    """Return where the last item of a list ends: with its option's text, else its sentence."""
    last = first
    for marker in found[found.index(first) + 1 :]:
        if ord(marker[1]) == ord(last[1]) + 1:
            last = marker
    start = last.end()
    while line[start : start + 1] in (" ", '"', "'"):
        start += 1
    letter, _, end = options.text_at(line[start:])
    if letter:
        return start + end
    sentence = _ITEM_END.search(line, last.end())
    return sentence.end() if sentence else len(line)


def ticked(options: Options, text: str) -> str:
    """Return the letter of the one line with a tick, or called true, among the options' lines."""
    lines = list(islice(_TICKED.finditer(text), _MANY))
    if not len({line[1] for line in lines}) == len(lines) > 2 or CUT in text:
        return ""
    if len(_TICK.findall(text)) == 1:
        chosen = [line[1] for line in lines if _TICK.search(line[0])]
    else:
        verdicts = {line[1]: _TRUE_OR_FALSE.match(line[0]) for line in lines}
        is_whole = {*verdicts} == {*options.own} and all(verdicts.values())
        chosen = [letter for letter, said in verdicts.items() if is_whole and said and said[1]]
    return chosen[0] if len(chosen) == 1 and chosen[0] in options.own else ""
