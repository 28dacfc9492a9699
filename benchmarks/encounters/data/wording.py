"""Wordings of rubric items that describe a failure, so that whoever does nothing meets them."""

from __future__ import annotations

import re

_MARKUP = re.compile(r"[*_\\]+|^[\s\d.)|•–—-]+")
_WHO = (
    r"(?:(?:the|this|each)\s+)?(?:doctor|physician|resident|intern|fellow|student|learner|examinee|candidate|"
    r"participant|trainee|presenter|clinician|provider|team|interview(?:er)?|mdm?|you)\b(?:/\w+)?\s+"
)
_FAILS = (
    r"fail(?:s|ed|ure|ing)?\s+to|neglect(?:s|ed)?|forg[eo]t(?:s|ten)?\s+to|ignor(?:es|ed|ing)|"
    r"dismiss(?:es|ed|ive)|interrupt(?:s|ed)|miss(?:es|ed)\s+(?:an|\d+)\s+opportunit\w+|never\s+asked|not\s+\w+ing"
)
_NOT = r"(?:(?:frequently|often)\s+)?(?:does|did)(?:\s+not|n't)\s+"
_HARM = (
    r"interrupt|rush|argue|alarm|scare|blame|judge|accus|repeat|contaminat|mix\s+up|miss\b|avoid|keep\s+things|"
    r"fals|unnecessar|inappropriat|discomfort|bored|confus|come\s+between|have\s+to\s+ask"
)
"""Deeds that it is good not to do."""
_FAILURE = re.compile(
    rf"(?:poor|absent|deficiency|unsatisfactory|not\s+competent)\s*[:–—-]"  # anchors of a scale
    rf"|(?:{_WHO})?(?:(?:{_FAILS})\b|{_NOT}(?!(?:\w+\W+){{0,6}}?(?:{_HARM})))",
    re.IGNORECASE,
)


def is_failure(text: str) -> bool:
    """Return whether an item describes a failure of the clinician ("Fails to ...", "Does not ask ...").

    Its first words decide. "Does not interrupt" is a good deed, and so is to obey "Do not ...".
    """
    plain = _MARKUP.sub("", " ".join(text.replace("\u2019", "'").split()))
    return _FAILURE.match(plain.lstrip()) is not None
