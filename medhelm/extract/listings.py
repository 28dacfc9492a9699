"""Find the lists of options, or of their probabilities, in a text. A list states no option."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise

from medhelm.extract.late import late
from medhelm.extract.marks import unify
from medhelm.extract.options import CUT, MARKERS, Options

_MANY = 50
"""Letters of a line that are read."""
_FAR = 1000
"""Characters in which an item that was cut has to end."""
_NEAR = 12
"""Characters in which a list begins."""
_SET_OFF = string.punctuation + string.whitespace
_GAP = late(
    r"[\W_]{0,12}(?:(?:option|choice|letter)[\W_]{1,3})?(?:[a-z0-9]{1,2}(?![a-z0-9])[\W_]{0,8})?"
    r"|\W{1,3}(?:or|and)\W{1,3}",
    re.IGNORECASE,
)
"""Matches the text between two items."""
_BULLETS = " \t-*_>|#.(['\"\u2022"
_APART = late(r"\n\n|^\.[ \t]{1,3}(?![A-Z][.):])")
_OPENER = late(r"(?:(?:\b[Oo]ption |\b[Cc]hoice )?\b[A-Za-z0-9][\W_]{1,6}|[\"'(\[*]{1,4})$")
_ITEM_END = late(r"[.;!?](?=\s|$)")
SHARE = late(r"\d\s?%|[:=(]\s?(?:0?\.\d|\d{1,3}\s?(?:[,;)/}]|$))")
"""A probability behind a letter."""

_TICK = late("[\u2705\u2713\u2714\u2611]")
_YES = late(r"[\s:\u2013\u2014(-]\s?(?:yes|true|correct)\W{0,4}$", re.IGNORECASE)
_TRUE_OR_FALSE = late(
    r"[ \t|*-]{0,6}\(?[A-Z][).:*]{0,3}\s{0,2}[:.|\u2013\u2014-]?\s{0,2}\**(?:(true|correct)|false|incorrect|wrong|not\s(?:true|correct))\b(?!\s(?:if|but|only|in))",
    re.IGNORECASE,
)
"""A line that says of its option nothing else first than whether it is true."""
_OTHERS = late(
    r"^[^\w\n]{0,9}(?:why\s(?:not|(?:the\s)?others?)|(?:the\s)?(?:others?|remaining|incorrect|wrong|rejected)"
    r"(?:\s(?:options|choices|answers|ones))?)\b[^\n]{0,60}(?:\n[^\w\n]{0,9}(?:\(?[A-Z][.):][^\n]{0,500})?)+",
    re.IGNORECASE | re.MULTILINE,
)
"""A heading of the other options, with the list below it."""
_REJECTED = late(
    r"(?:(?<=\b[A-Z]\s)|(?<=\b[A-Z][.)*]\s))\((?:[A-Z]\s?[:=\u2013-]\s?[^();\n%]{1,80}[;,]\s?){1,6}[A-Z]\s?[:=\u2013-]\s?[^();\n%]{1,80}\)"
)
"""A list of other options in brackets behind the answer."""
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


def without_others(options: Options, text: str) -> str:
    """Return `text` without lists of some of the options that are set apart as the others."""
    for pattern in (_OTHERS, _REJECTED):
        for match in [*pattern.finditer(text)][-1:]:
            listed = {
                letter
                for letter in options.own
                if re.search(rf"\b{letter}\s?[.):=\u2013-]", match[0])
            }
            if 0 < len(listed) < len(options.own):
                text = f"{text[: match.start()]}\n{text[match.end() :]}"
    return text


def _is_one_option_a_line(options: Options, text: str) -> bool:
    """Return whether the lines of a text are different options, even where these are letters."""
    lines = [line for line in text[:_FAR].rstrip(CUT).split("\n") if line.strip()]
    named = {options.whole(line) for line in lines}
    return len(text) <= _FAR and 2 < len(lines) == len(named) and "" not in named


def begins_list(options: Options, text: str, at: int) -> bool:
    """Return whether a list of the options begins at a place, on its line or from line to line."""
    around = text[at : at + _FAR * 4]
    begun = [start for start, _ in _texts(options, around) if start < _NEAR]
    lettered = options.lettered_lines(around) or []
    first = [
        m for m in lettered[:3] if not around[: m.start()].strip(_SET_OFF) or m is not lettered[0]
    ]
    lines = [around.count("\n", 0, match.start(1)) for match in first]
    letters = [ord(match[1][0]) for match in first]
    is_run = len(first) == 3 and all(b - a == 1 for a, b in pairwise(letters))
    return bool(begun) or (is_run and lines == [0, 1, 2])


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
            yield from _chain(options, text, chain)
            chain = []
        chain.append(match)
    yield from _chain(options, text, chain)


def _follows(options: Options, item: re.Match[str], other: re.Match[str]) -> bool:
    """Return whether `other` is the next item of a list, with nothing but a letter between.

    On one line the items may be in any order.
    """
    gap = _GAP.fullmatch(item.string, item.end(), other.start())
    if gap is None:
        return False
    place, next_place = options.place(item[0]), options.place(other[0])
    return place < next_place if "\n" in gap[0] else place != next_place


def _chain(options: Options, text: str, chain: Sequence[re.Match[str]]) -> Iterator[Span]:
    """Yield where a list lies, if these texts are one; two sentences or paragraphs are none."""
    if not chain:
        return
    start, end = chain[0].start(), chain[-1].end()
    is_cut = _begins_cut_item(options, text, end)
    if len(chain) + is_cut < 2 or (
        len(chain) == 2 and not is_cut and _APART.search(text[chain[0].end() : end])
    ):
        return
    opener = _OPENER.search(text, max(0, start - 20), start)
    begin = opener.start() if opener else start
    if len(chain) > 1 or text[:begin].rstrip(_BULLETS)[-1:] in ("", "\n", ":"):
        yield begin, len(text) if is_cut else end


def _begins_cut_item(options: Options, text: str, end: int) -> bool:
    """Return whether the next item of a list begins here and is cut."""
    if not text.endswith(CUT) or len(text) - end > _FAR:
        return False
    rest = text[end:-1]
    gap = _GAP.match(rest)
    starts = (len(rest) - len(rest.lstrip(_SET_OFF)), gap.end() if gap else 0)
    items = [" ".join(rest[at:].split()).casefold() for at in starts]
    spelt = ["option", "choice", *(unify(t).casefold().lstrip(_SET_OFF) for t in options.texts)]
    return any(option.startswith(item) for item in items for option in spelt)


def _inside_lines(options: Options, text: str) -> Iterator[Span]:
    """Yield the lists on one line whose items are set off by successive letters."""
    at = 0
    for line in text.split("\n"):
        if len(line) > 3 and (span := _inside_line(options, line)):
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
            item = line[first.end() : second.start()]
            is_bare = not item.strip(" ,;/|")
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


def _only_true(options: Options, lines: list[re.Match[str]], text: str) -> str:
    """Return the letter of the one option that is called true where each other is called false."""
    verdicts = {line[1]: _TRUE_OR_FALSE.match(line[0]) for line in lines}
    if {*verdicts} != {*options.own} or CUT in text:
        return ""
    true = [letter for letter, verdict in verdicts.items() if verdict and verdict[1]]
    return true[0] if len(true) == 1 and all(verdicts.values()) else ""


def ticked(options: Options, text: str) -> str:
    """Return the letter of the one line with a tick, or a yes, among the options' lines."""
    lines = list(islice(_TICKED.finditer(text), _MANY))
    if not len({line[1] for line in lines}) == len(lines) > 2:
        return ""
    if letter := _only_true(options, lines, text):
        return letter
    mark = _TICK if _TICK.search(text) else _YES
    ticked = [line[1] for line in lines if mark.search(options.blanked(line[0]))]
    if mark is _YES and not any(
        options.texts_in(line[0]) == {line[1]} for line in lines if line[1] in ticked
    ):
        return ""
    is_whole = len(lines) == len(options.own) and CUT not in text
    if len(ticked) != 1 or not (len(_TICK.findall(text)) == 1 if mark is _TICK else is_whole):
        return ""
    return ticked[0] if ticked[0] in options.own else ""
