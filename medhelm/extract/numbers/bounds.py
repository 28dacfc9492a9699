"""Words and signs by which a value is only a bound or one end of a range."""

from __future__ import annotations

import re

from medhelm.extract.late import late

_BOUND = late(
    r"(?P<sign>[<>\u2264\u2265])\s{0,3}=?\s{0,3}$"
    r"|(?<!adds\s)(?<!add\s)(?<!adding\s)(?<!sums\s)(?<!sum\s)(?<!totals\s)(?<!total\s)(?<!comes\s)"
    r"\b(?P<words>at least|at most|(?:less|more|greater|fewer|higher|lower|no more|no less|not more|"
    r"larger|smaller|older|younger|later|earlier|longer|shorter) than|up to|over|under|above|below|"
    r"exceed(?:s|ing)?|beyond|short of|(?:not |never )?(?:before|until|till|prior to)|not after|(?:a )?(?:minimum|maximum)(?: of)?|"
    r"within)(?:\s(?:or\s)?equal\sto)?\s{1,3}(?:approximately\s|about\s)?[(\"']{0,2}$",
    re.IGNORECASE,
)
_OR_MORE = late(
    r"\+(?!\s{0,2}[\d(])|\s{0,2}[\w%/]{0,12}\s{1,2}or\s(?:more|higher|greater|above|less|lower|fewer|"
    r"below|over|older|under|later|earlier)\b|\s[\w%/]{1,12}\sat (?:most|least)\b",
    re.IGNORECASE,
)
_RANGE = late(
    r"\s{0,2}[\w%/^]{0,12}\s{0,2}(?:[-\u2013]|(?<!\s)\u2014|\bto\b|\u00b1|\+/-|\bthrough\b)\s{0,2}\.?\d",
    re.IGNORECASE,
)
_BETWEEN = late(r"\bbetween\s{1,3}$", re.IGNORECASE)
_AND = late(r"\s{0,2}[\w%/^]{0,12}\s{1,2}and\s{1,2}(?:about\s)?[-+]?\.?\d")
_RESULT = late(
    "[=\u2248]|\\b(?:leaves|gives|makes|equals|yields|comes to|works out)\\b", re.IGNORECASE
)
_TABLE_ROW = late(
    "(\\d+(?:\\.\\d+)?)[\u2013-](\\d+(?:\\.\\d+)?)[\\s)%]{0,3}[=\u2192:]\\s{0,2}(\\d+(?:\\.\\d+)?)(?![\\d.])"
)


def bound(text: str, start: int, end: int, written: str) -> str:
    """Return why the value at `start` to `end` of a sentence is only a bound, "" where it is not."""
    found = _BOUND.search(text, max(0, start - 40), start)
    if found:
        return f"only a bound: {(found['words'] or found['sign']).lower()} {written}"
    return f"only a bound: {written} or more or less" if _OR_MORE.match(text, end) else ""


def is_range(text: str, start: int, end: int) -> bool:
    """Return whether the value at `start` to `end` of a sentence begins a range.

    `20-12 = 8` is a calculation; `18-22 = 2` is not one: a range with its points.
    """
    if _BETWEEN.search(text, max(0, start - 40), start) and _AND.match(text, end):
        return True
    match = _RANGE.match(text, end)
    if match is None:
        return False
    row = _TABLE_ROW.match(text, start)
    if row and abs(float(row[1]) - float(row[2]) - float(row[3])) > 0.06:
        return True
    return not _RESULT.search(text, match.end(), match.end() + 200)
