"""`medhelm rubric lint FILE`: what makes a binary decision on one answer hard or unfair.

Every rule reads surface only. It points at what somebody should look at; it decides nothing.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from medhelm import DataError
from medhelm.plugin import options, readers
from medhelm_benchmarks.clinconsensus.cases import CRITERIA

_EXAMPLES = re.compile(
    r"\b(?:such as|for example|e\.g\.|including)\b.*|[(（].*?[)）]|(?:例如|比如|包括|如).*",
    re.IGNORECASE | re.DOTALL,
)
"""Words that give examples: several of them are not several demands."""
_TWO = re.compile(
    r"\b(?:and|as well as)\s+(?:also\s+)?(?:states?|says?|names?|recommends?|advises?|mentions?|explains?"
    r"|asks?|gives?|lists?|warns?|includes?|avoids?|suggests?|identifies|provides?|describes?)\b"
    r"|;\s*\w|(?:并且|并同时|同时还|以及是否|，并|；)",
    re.IGNORECASE,
)
"""A second verb of demand behind "and", a semicolon, or its Chinese forms."""
_ASKED = (
    r"(?:questions|queries|prompts|answers|responses|cases|users|sessions|conversations|dialogues"
    r"|languages|runs)"
)
_OUTSIDE = re.compile(
    r"\b(?:the system|over time|consistently|in all cases|reads? the (?:chart|image)|response time|cost of"
    rf"|across (?:(?:all|its|the|many|other|several|multiple|different|various|repeated) )*{_ASKED}"
    r"|(?:previous|repeated|different) (?:questions?|quer(?:y|ies)|prompts?|answers?|sessions?)"
    r"|(?:other|all|different) (?:users|conversations|dialogues|languages)|every (?:user|conversation|language)"
    r"|(?:people|patients|users) of any|whoever asks|(?:stays|remains) (?:the same|consistent)(?! with)"
    r"|of the same quality|equally well|(?:each|every) time|(?:when|if) asked (?:again|repeatedly)"
    r"|(?:feedback|update|repair) mechanism|mechanism (?:for|to)|user feedback|systematic errors?"
    r"|(?:an error|a mistake) is pointed out|why an answer)\b"
    r"|系统是否|多轮|历次|长期保持|反馈机制|其他用户|不同用户"
    r"|(?:不同|多个|所有|各个|每个|各种)(?:问题|提问|对话|回答|会话|语言)|(?:重复|多次|反复)(?:提问|询问)|跨问题",
    re.IGNORECASE,
)
"""Words for what one answer cannot show."""


class LintFinding(NamedTuple):
    """One finding on one criterion, or on a case."""

    case: str
    criterion: str
    """Its id; empty for a finding on the case."""
    rule: str
    text: str


def lint(row: Mapping[str, Any], expected: int = CRITERIA) -> Iterator[LintFinding]:
    """Yield the findings on one row with a list `rubrics` of objects with `criterion`."""
    case = str(row.get("case_id") or row.get("prompt_id") or "")
    criteria = row.get("rubrics")
    if not isinstance(criteria, list) or not criteria:
        yield LintFinding(case, "", "count", "there are no criteria")
        return
    if expected and len(criteria) != expected:
        said = f"{len(criteria)} criteria, {expected} are expected"
        yield LintFinding(case, "", "count", said)
    expectations = _ids(row.get("expectations"), "expectation_id")
    seen: dict[str, str] = {}
    names: dict[str, int] = {}
    for number, item in enumerate(criteria, 1):
        own = item if isinstance(item, dict) else {}
        name = str(own.get("criterion_id") or number)
        if names.setdefault(name, number) != number:
            said = f"criterion {number} has the id of criterion {names[name]}"
            yield LintFinding(case, name, "duplicate", said)
        text = own.get("criterion")
        if not isinstance(text, str) or not text.strip():
            yield LintFinding(case, name, "empty", "there is no text")
            continue
        plain = re.sub(r"\W+", "", text.casefold())
        if plain in seen:
            yield LintFinding(case, name, "duplicate", f"the same as {seen[plain]}")
        seen.setdefault(plain, name)
        yield from (LintFinding(case, name, *found) for found in _wording(text))
        if not own.get("expectation_id"):
            yield LintFinding(case, name, "untraceable", "it names no expectation of the case")
        elif own["expectation_id"] not in expectations:
            said = f"the case has no expectation {own['expectation_id']!r}"
            yield LintFinding(case, name, "untraceable", said)


def _wording(text: str) -> Iterator[tuple[str, str]]:
    if _TWO.search(_EXAMPLES.sub("", text)):
        yield "two_demands", "it seems to ask for two things, of which one may be met"
    if _OUTSIDE.search(text):
        yield "not_decidable", "one answer alone may not show it"


def _ids(items: Any, name: str) -> Sequence[str]:
    found = items if isinstance(items, list) else []
    return [i[name] for i in found if isinstance(i, dict) and isinstance(i.get(name), str)]


def run(args: argparse.Namespace) -> int:
    """Print the findings and return the exit code: 1 where there is one."""
    if not args.file.is_file():
        raise DataError(f"{args.file}: there is no such file")
    rows = [row for _, row in readers.read_file(args.file)]
    if not rows:
        raise DataError(f"{args.file}: holds no case; one JSON object a line is needed")
    found = [finding for row in rows for finding in lint(row, args.criteria)]
    counts = Counter(finding.rule for finding in found)
    if args.format == "json":
        options.print_json(
            "rubric_lint",
            {"cases": len(rows), "findings": [f._asdict() for f in found], "counts": counts},
        )
        return int(bool(found))
    for finding in found:
        where = " ".join(filter(None, (finding.case, finding.criterion)))
        print(f"{where}: {finding.rule}: {finding.text}")
    said = ", ".join(f"{n} {rule}" for rule, n in sorted(counts.items())) or "no finding"
    print(f"{len(rows)} cases: {said}")
    return int(bool(found))
