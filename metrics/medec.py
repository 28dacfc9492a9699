"""Medec: is there an error in a note, and in which sentence (Ben Abacha et al., 2024)?"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from medhelm import DataError, Instance, Metric, Outcome, Response, Score, final_answer, hookimpl

_SOURCE = "arXiv 2412.19260"
_CORRECT, _ERROR = "CORRECT", "error"

# A count or a dose that opens a line is no sentence number: "12 mg was given". But notes cut at
# numbers have sentences that begin with units ("16 mg/dL", "7 mmHg, pulse is 110/min").
_MEASURE = (
    r"[ \t]{1,3}(?-i:%|(?:mg|mcg|ug|\u00b5g|\u03bcg|g|kg|m[lL]|cm|h|hrs?|units?)\b"
    r"(?!/(?!(?:kg|h|d|day|min)\b))"
    r"|(?:(?:second|minute|hour|day|night|week|month|year|error|mistake)s?"
    r"|times|doses|tablets|capsules|pills|sentences|patients|percent)\b"
    r"|(?:mm ?Hg|mm|L|IU|U|ng|pg|mmol|mEq|mg|g|beats|breaths)(?:/[A-Za-z]{1,4})?[ \t]{1,3}"
    r"(?!(?:and|with)\b)[a-z]|(?:of|to|or)[ \t])"
)
_NUMBERED = re.compile(
    rf"^[^\w\n]{{0,6}}(?:(?<![-\u2212])(\d{{1,4}})(?![\d%]|[.,/:]\d|-\w|{_MEASURE})(?=[^\w\n]|$)"
    r"|(?:the\s)?(?:error\s(?:is\s)?in\s)?sentence(?:[ _]?(?:id|number|no\.?))?[ \t]{0,3}[#:]?"
    r"[ \t]{0,3}(\d{1,4})(?![\d%]|[.,/:]\d|-\w)(?=[ \t]{0,3}(?:[:.)\u2013\u2014-]|$)))",
    re.IGNORECASE | re.MULTILINE,
)
_MENTIONED = re.compile(
    r"\bsentence(?:[ _]?(?:id|number|no\.?))?[^\w\n]{0,5}(?<![^\w][-\u2212])"
    r"(\d{1,4})(?![\d%]|[.,/]\d|-\w)",
    re.IGNORECASE,
)
_IS_WRONG = re.compile(
    r"\b(?:errors?|incorrect|wrong|mistakes?|erroneous|inaccurate|should\s(?:be|read|say)"
    r"|correct(?:ed|ion)|sentence_(?:id|number))\b",
    re.IGNORECASE,
)
_NEGATED = re.compile(r"\b(?:no|not|without|nor|neither|free)\b|n['\u2019]t\b", re.IGNORECASE)
_NOT = re.compile(r"\bnot\b|n['\u2019]t\b", re.IGNORECASE)
_ALL_RIGHT = re.compile(
    r"[^\w\n]{0,6}(?:(?:the|this)\s(?:(?:clinical|medical|whole|entire)\s)?"
    r"(?:text|note|document|report|passage)\s(?:is|appears(?:\sto\sbe)?|seems)\s)?"
    r"(?:(?:entirely|completely|all|medically)\s)?correct[^\w\n]{0,6}",
    re.IGNORECASE,
)
_NO_ERROR = re.compile(
    r"\b(?i:(?:no|without(?:\sany)?|free\sof)\s"
    r"(?:(?:medical|clinical|factual|apparent|obvious)\s){0,2}(?:errors?|mistakes?)\b"
    r"(?!.*\bsentence\D{0,12}\d))|\b(?:is|are)\s(?!not\b)(?:\w+\s)?CORRECT\b|(?<![\w-])CORRECT\b",
)
_SOME_ERROR = re.compile(
    r"\bINCORRECT\b|\b(?:contains|has|there\sis)\s(?:an?|one)\s(?:medical\s)?(?:error|mistake)\b"
)
_LONGEST = 20_000
"""Characters of an answer that are read; the form asked for is one line."""


@dataclass(frozen=True)
class _Claim:
    """What a completion says: all is right, or there is an error, in a sentence or somewhere."""

    has_error: bool
    sentence: int | None = None

    def __str__(self) -> str:
        if not self.has_error:
            return _CORRECT
        return _ERROR if self.sentence is None else str(self.sentence)


@dataclass(frozen=True, kw_only=True)
class FlagAccuracy(Metric):
    """1 where error or no error is told right. `answer_key` holds error_flag, "0" or "1"."""

    name: str = "medec_flag_accuracy"
    version: str = "2"
    source: str = _SOURCE

    def score(self, instance: Instance, response: Response) -> Score:
        """Return 0 or 1, or `unparsed` where neither CORRECT nor an error is stated."""
        has_error = _has_error(instance)
        claim = _read(response.text)
        if claim is None:
            return _unread()
        return Score(value=float(claim.has_error == has_error), extracted=str(claim))


@dataclass(frozen=True, kw_only=True)
class SentenceAccuracy(Metric):
    """1 where the erroneous sentence is named, or CORRECT where there is none.

    `answer_key` holds error_flag and error_sentence_id; the correction itself is not scored.
    """

    name: str = "medec_sentence_accuracy"
    version: str = "2"
    source: str = _SOURCE

    def score(self, instance: Instance, response: Response) -> Score:
        """Return 0 or 1, or `unparsed` where neither CORRECT nor an error is stated."""
        gold = _sentence(instance) if _has_error(instance) else None
        claim = _read(response.text)
        if claim is None:
            return _unread()
        is_right = claim.has_error == (gold is not None) and claim.sentence == gold
        return Score(value=float(is_right), extracted=str(claim))


@dataclass(frozen=True, kw_only=True)
class PublishedFlagAccuracy(Metric):
    """The published rule: whatever is not the bare word CORRECT says that there is an error.

    So nothing is unreadable, and an empty or refused answer is right on every note with an error.
    """

    name: str = "medec_flag_accuracy"
    scoring: Literal["fixed", "helm"] = "helm"
    source: str = "HELM, medec_metrics"

    def score(self, instance: Instance, response: Response) -> Score:
        """Return 0 or 1."""
        says_error = response.text.strip() != _CORRECT
        shown = _ERROR if says_error else _CORRECT
        return Score(value=float(says_error == _has_error(instance)), extracted=shown)

    def floor_score(self, instance: Instance, outcome: Outcome, reason: str = "") -> Score:
        """Return what the published rule gives an answer without text: it claims an error."""
        return Score(value=float(_has_error(instance)), outcome=outcome, reason=reason)


@dataclass(frozen=True, kw_only=True)
class PublishedSentenceAccuracy(Metric):
    """The published rule with its fault: the gold's sentence number is never parsed.

    A sentence that is found earns nothing; only CORRECT on a note without error does.
    """

    name: str = "medec_sentence_accuracy"
    scoring: Literal["fixed", "helm"] = "helm"
    source: str = "HELM, medec_metrics"

    def score(self, instance: Instance, response: Response) -> Score:
        """Return 0 or 1."""
        is_right = response.text.strip() == _CORRECT and not _has_error(instance)
        return Score(value=float(is_right))


def _read(text: str) -> _Claim | None:
    """Return what a completion claims; None if nothing, or two things.

    Whole lines count first (CORRECT, or a sentence number that leads the line), then prose.
    """
    answer = final_answer(text)[:_LONGEST].replace("*", "")
    lines = [line for line in answer.split("\n") if line.strip()]
    claims = {_Claim(True, int(m[1] or m[2])) for m in _NUMBERED.finditer(answer)}
    claims |= {_Claim(False) for line in lines if _ALL_RIGHT.fullmatch(line)}
    if not claims:
        for sentence in re.split(r"\n|[.!?](?:\s|$)", answer):
            claims |= _claims_of(sentence)
        if len(claims) > 1:
            claims.discard(_Claim(True))  # "there is an error", and then where
    return claims.pop() if len(claims) == 1 else None


def _claims_of(sentence: str) -> set[_Claim]:
    if _NO_ERROR.search(sentence) and not _NOT.search(sentence):
        return {_Claim(False)}
    if _NEGATED.search(sentence):
        return set()
    named = {int(m[1]) for m in _MENTIONED.finditer(sentence)}
    if named and _IS_WRONG.search(sentence):
        return {_Claim(True, number) for number in named}
    return {_Claim(True)} if _SOME_ERROR.search(sentence) else set()


def _unread() -> Score:
    reason = "neither CORRECT nor a single sentence number is stated"
    return Score(value=None, outcome="unparsed", reason=reason)


def _has_error(instance: Instance) -> bool:
    flag = instance.answer_key.get("error_flag")
    if flag not in ("0", "1"):
        raise DataError(
            f"instance {instance.id!r}: answer_key['error_flag'] must be '0' or '1' for Medec"
        )
    return flag == "1"


def _sentence(instance: Instance) -> int:
    number = instance.answer_key.get("error_sentence_id", "")
    if not number.isdecimal():
        raise DataError(
            f"instance {instance.id!r}: answer_key['error_sentence_id'] must be a sentence number "
            "where error_flag is '1'"
        )
    return int(number)


@hookimpl
def medhelm_metrics() -> list[Metric]:
    """Return flag and sentence accuracy by both rules."""
    return [
        FlagAccuracy(),
        SentenceAccuracy(),
        PublishedFlagAccuracy(),
        PublishedSentenceAccuracy(),
    ]
