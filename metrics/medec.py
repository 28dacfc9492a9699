"""Medec: is there an error in a note, and in which sentence (Ben Abacha et al., 2024)?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from medhelm import (
    DataError,
    Episode,
    Instance,
    Metric,
    Outcome,
    Reading,
    Score,
    hookimpl,
    marked_answers,
    own_text,
)

_SOURCE = "arXiv 2412.19260"
_CORRECT, _ERROR = "CORRECT", "error"

# A count or a dose that opens a line is not a sentence number: "12 mg was given". But notes cut at
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
    r"[ \t]{0,3}(\d{1,4})(?![\d%]|[.,/:]\d|-\w)(?=[ \t]{0,3}(?:[:.)\u2013\u2014\u2192-]|=>|$)))",
    re.IGNORECASE | re.MULTILINE,
)
_SENTENCE = r"(?:sentence|satz|phrase|oraci[o\u00f3]n|frase|senten\u00e7a|senten[cs]ia|zin|\u043f\u0440\u0435\u0434\u043b\u043e\u0436\u0435\u043d\u0438[\u0435\u0438]|zdanie|c\u00fcmle)"
"""Matches the names of a sentence, in the languages of completions."""
_MENTIONED = re.compile(
    rf"(?:\b|_){_SENTENCE}(?:[ _]?(?:id|number|no\.?)|\s(?:is|:)\s(?:number|no\.?|nr\.?|id)|\sis(?=\s\d{{1,4}}\W{{0,3}}$))?[^\w\n]{{0,5}}(?<![^\w][-\u2212])"
    r"(\d{1,4})(?![\d%]|[.,/]\d|-\w)",
    re.IGNORECASE,
)
_IS_WRONG = re.compile(
    r"\b(?:fehler(?:haft)?|falsch|m\u00fcsste|sollte|erreurs?|erron\u00e9e?|incorrecte|fausse|devrait|errore"
    r"|errat[ao]|sbagliat[ao]|dovrebbe|err[\u00f3o]r(?:es)?|incorrec?t[ao]|err\u00f3nea|deber\u00eda|erro|errad[ao]|deveria|fout"
    r"|\u043e\u0448\u0438\u0431\u043a[\u0430\u0438\u0443]|errors?|incorrect|wrong|mistakes?|erroneous|inaccurate|should\s(?:be|read|say)"
    r"|correct(?:ed|ion)|(?:error_)?sentence_(?:id|number)|sentence\s(?:id|number)(?=\s?[|:=]))\b",
    re.IGNORECASE,
)
_NAMES_IT = re.compile(
    rf"\b(?:erroneous|incorrect|wrong|faulty|inaccurate)\s{_SENTENCE}\b|\b(?:error|mistake)\s(?:is|lies)\sin\b"
    r"|\b(?:contains?|has|enth\u00e4lt|contiene|cont\u00e9m|contient)\s(?:the|an?|den|einen|el|un|uno|o|um|l['\u2019]|une?)\s?"
    r"(?:(?:medical|clinical)\s)?(?:error|mistake|fehler|erro|erreur|errore)\b",
    re.IGNORECASE,
)
"""Words that name the one sentence with the error."""
_NEGATED = re.compile(
    r"\b(?:kein\w*|nicht|sans|pas|aucune?|sin|ning\u00fan|nessun\w*|non|n\u00e3o|sem|nenhum\w*|niet|geen|\u043d\u0435|\u043d\u0435\u0442|no|not|without|nor|neither|free)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
_NOT = re.compile(
    r"\b(?:not|cannot|unlikely|unsure|doubt\w*|hardly)\b|n['\u2019]t\b", re.IGNORECASE
)
_FINDS_NONE = re.compile(
    r"(?!.*\b(?:except|but|other\sthan|apart|besides|only|sure|if|(?:this|that|first|last|other)\ssentence|sentence\D{0,12}\d))"
    r".*\b(?:(?:I|we)\s(?:(?:do|did|can|could)(?:\snot|n['\u2019]t)|cannot)\s(?:see|find|detect|identify|spot)"
    r"|(?:does|do)(?:\snot|n['\u2019]t)\s(?:(?:appear|seem)\sto\s)?(?:contain|have|include)"
    r"|none\sof\sthe\s(?:\w+\s)?sentences\s(?:contains?|has|have))\s(?:(?:any|an?)\s)?"
    r"(?:(?:medical|clinical|factual|apparent|obvious)\s){0,2}(?:errors?|mistakes?)\b",
    re.IGNORECASE | re.DOTALL,
)
"""Matches a statement that no error is found in the whole note."""
_FLAG_0 = re.compile(r"[\"']error_?flag[\"']\s*:\s*[\"']?(?:0|false|no)\b", re.IGNORECASE)
"""Matches the key of a JSON object that says that there is no error."""
_NO_ID = re.compile(
    r"[\"']error_?sentence(?:_?id)?[\"']\s*:\s*(?:-1|null|none|[\"'](?:-1|na|n/a|none|null|)[\"'])(?=\s*[,}])",
    re.IGNORECASE,
)
_ALL_RIGHT = re.compile(
    r"[^\w\n]{0,6}(?:(?:the|this)\s(?:(?:clinical|medical|whole|entire)\s)?"
    r"(?:text|note|document|report|passage)\s(?:is|appears(?:\sto\sbe)?|seems)\s)?"
    r"(?:(?:entirely|completely|all|medically)\s)?correct(?:\sas\s(?:written|(?:it\s)?(?:is|stands)))?[^\w\n]{0,6}",
    re.IGNORECASE,
)
_LIST_NUMBER = re.compile(r"^[^\w\n]{0,6}[01][.:)]\s{1,3}")
_NOTE_IS = re.compile(r"[^\w\n]{0,6}(?:the|this)\s", re.IGNORECASE)
_THIS_IS_RIGHT = re.compile(
    r"[^\w\n]{0,6}(?:the|this)\ssentence\sis\s(?:medically\s)?correct\b(?!ed)", re.IGNORECASE
)
_INDEXED = re.compile(r"[^\w\n]{0,6}(\d{1,4})[^\w\n]{1,4}(?=\D)")
"""The number of a list before what a line claims: `1. CORRECT`."""
_INDEX = re.compile(r"[^\w\n]{0,3}(\d{1,4})[.:)]?[ \t]{1,3}(?=[^\W\d_])")
_NO_ERROR = re.compile(
    r"\b(?i:(?:no|without(?:\sany)?|free\sof)\s"
    r"(?:(?:medical|clinical|factual|apparent|obvious)\s){0,2}(?:errors?|mistakes?)\b"
    r"(?!.*\bsentence\D{0,12}\d))|\b(?i:nothing\sto\scorrect)\b|\b(?:is|are)\s(?!not\b)(?:\w+\s)?CORRECT\b|(?<![\w-])CORRECT\b",
)
_SOME_ERROR = re.compile(
    r"\bINCORRECT\b|\b(?:contains|has|there\sis)\s(?:an?|one)\s(?:medical\s)?(?:error|mistake)\b"
)
_IS_RIGHT = re.compile(
    r"[^\w\n]{0,6}(?:(?:is|appears|seems)\s(?:to\sbe\s)?)?(?:(?:entirely|completely)\s)?"
    r"(?:(?:correct|right|accurate|fine)[^\w\n]{0,6}$|no\s(?:errors?|mistakes?)\b)",
    re.IGNORECASE,
)
"""Matches a statement that a sentence is not an error."""
_ENDS_RIGHT = re.compile(
    r"(?:[,;\u2013\u2014-]\s|\bis\s)(?:also\s)?(?:fine|correct|ok(?:ay)?|accurate|plausible)\W*$",
    re.IGNORECASE,
)
"""The same at the end of a line that is about one sentence."""
_AT_FIRST = re.compile(r"^\W*(?:at\sfirst|initially|first),?\sI\b", re.IGNORECASE)
_WORDS = [
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
]
_IN_WORDS = re.compile(rf"\b(sentence\s)({'|'.join(_WORDS)})\b", re.IGNORECASE)
_RETRACTED = re.compile(
    r"^\W*(?:actually|wait|however|correction|sorry|no|but|on\s(?:second\sthoughts?|reflection)|hmm+)\b",
    re.IGNORECASE,
)
"""Words with which a line takes back what was claimed before."""
_LONGEST = 20_000
"""Characters of an answer that are read. The form asked for is one line."""


@dataclass(frozen=True)
class _Claim:
    """A completion's claim: all is right, or an error, in a sentence or somewhere."""

    has_error: bool
    sentence: int | None = None

    def __str__(self) -> str:
        if not self.has_error:
            return _CORRECT
        return _ERROR if self.sentence is None else str(self.sentence)


_PARTS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "is_correct": {"type": "boolean", "description": "true or false"},
        "sentence": {"type": ["integer", "null"], "description": "number or null"},
        "correction": {"type": "string", "description": '"..."'},
    },
    "required": ["is_correct", "sentence", "correction"],
    "additionalProperties": False,
}
"""Of an answer in JSON: the flag, the wrong sentence and how it should be."""


@dataclass(frozen=True, kw_only=True)
class FlagAccuracy(Metric):
    """1 where error or no error is told right. `answer_key` holds error_flag, "0" or "1"."""

    name: str = "medec_flag_accuracy"
    version: str = "6"
    source: str = _SOURCE
    answer_schema: Mapping[str, Any] | None = field(default_factory=lambda: _PARTS)

    def write_answer(self, parts: Any) -> str:
        """Return CORRECT, or the number of the wrong sentence and the sentence as it should be."""
        if parts["is_correct"] == (parts["sentence"] is not None):
            raise ValueError(
                "a note that is right has no wrong sentence, and one that is not has one"
            )
        if parts["is_correct"]:
            return _CORRECT
        return " ".join(
            [_ERROR if parts["sentence"] is None else str(parts["sentence"]), parts["correction"]]
        )

    def answer_parts(self, answer: str) -> Any:
        """Return the parts of an answer in the form of the published prompt."""
        number, _, text = answer.partition(" ")
        sentence = int(number) if number.isdecimal() else None
        return {"is_correct": answer == _CORRECT, "sentence": sentence, "correction": text}

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return 0 or 1, or `unparsed` where neither CORRECT nor an error is stated."""
        has_error = _has_error(instance)
        reading = _read_claim(episode)
        if (claim := reading.value) is None:
            return Score(value=None, outcome="unparsed", reason=reading.reason)
        return Score(value=float(claim.has_error == has_error), extracted=str(claim))


@dataclass(frozen=True, kw_only=True)
class SentenceAccuracy(Metric):
    """1 where the erroneous sentence is named, or CORRECT where there is none.

    `answer_key` holds error_flag and error_sentence_id; the correction itself is not scored.
    """

    name: str = "medec_sentence_accuracy"
    version: str = "6"
    source: str = _SOURCE

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return 0 or 1, or `unparsed` where neither CORRECT nor an error is stated."""
        gold = _sentence(instance) if _has_error(instance) else None
        reading = _read_claim(episode)
        if (claim := reading.value) is None:
            return Score(value=None, outcome="unparsed", reason=reading.reason)
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

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return 0 or 1."""
        says_error = episode.text.strip() != _CORRECT
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

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return 0 or 1."""
        is_right = episode.text.strip() == _CORRECT and not _has_error(instance)
        return Score(value=float(is_right))


_ASKED = re.compile(
    rf"[^\n.]{{0,200}}\beither\s[\"'\u201c]?{_CORRECT}[\"'\u201d]?,?\s+or\b[^\n]{{0,400}}"
    rf"|[^\n.]{{0,200}}\b{_CORRECT},?\s+(?:if|when|where|unless)\b[^\n]{{0,400}}"
)
"""The task repeated: what to reply, and when."""


def _read_claim(episode: Episode) -> Reading[_Claim]:
    """Return what a completion claims; nothing, or two things, are not a claim.

    Whole lines count first (CORRECT, or a sentence number that leads the line), then prose. Of a
    reply that the budget cut, only whole lines that end before the cut count.
    """
    own = own_text(episode.text)[:_LONGEST]
    is_cut = episode.finish == "length"
    claims: set[_Claim] = set()
    for part in marked_answers(own) or (own,):
        is_part_cut = is_cut and own.endswith(part)
        claims |= _claims(part.replace("*", ""), is_part_cut)
    if len(claims) == 1:
        return Reading(claims.pop())
    if claims:
        return Reading(None, "several claims are stated")
    if is_cut:
        return Reading(None, "the reply was cut before it claimed anything")
    return Reading(None, "neither CORRECT nor a single sentence number is stated")


def _claims(answer: str, is_cut: bool) -> set[_Claim]:
    """Return what an answer claims. The line that touches the cut claims nothing."""
    answer = _ASKED.sub("", answer)
    if _FLAG_0.search(answer):
        return {_Claim(False)} if _NO_ID.search(answer) else {_Claim(False), _Claim(True)}
    answer = _IN_WORDS.sub(lambda m: f"{m[1]}{_WORDS.index(m[2].lower()) + 1}", answer)
    lines = _without_note([line for line in answer.split("\n") if line.strip()])
    lines = lines[:-1] if is_cut else lines
    claims = {claim for line in lines if (claim := _claim_of_line(line))}
    if any(claim.has_error for claim in claims) and any(map(_THIS_IS_RIGHT.match, lines)):
        return set()  # a number, and that the sentence is correct
    if len(claims) > 1 and len(named := _named(lines)) == 1:
        return named
    if claims:
        return claims | _second_thoughts(lines, claims)
    if is_cut:
        return claims
    prose = [rest for line in lines if not _NUMBERED.match(rest := _without_index(line))]
    for sentence in re.split(r"\n|[.!?](?:\s|$)", "\n".join(prose)):
        claims |= _claims_of(sentence)
    if len(claims) > 1:
        claims.discard(_Claim(True))  # "there is an error", and then where
    return claims


def _named(lines: list[str]) -> set[_Claim]:
    """Return the sentences that prose names as the one with the error, after a walk through several."""
    sentences = [s for line in lines for s in re.split(r"[.!?](?:\s|$)", line)]
    return {claim for s in sentences if _NAMES_IT.search(s) for claim in _claims_of(s)}


def _without_note(lines: list[str]) -> list[str]:
    """Return lines without a note that is repeated: a run numbered from 0 or 1 on.

    Where the run ends with the reply, its last line is kept: it may be the answer, but not where
    the reply is nothing but the run.
    """
    numbers = [int(m[1]) if (m := _INDEX.match(line)) else None for line in lines]
    for start in range(len(lines)):
        if numbers[start] not in (0, 1):
            continue
        end = start
        while end < len(lines) and numbers[end] == (numbers[start] or 0) + end - start:
            end += 1
        is_answered = any(_ALL_RIGHT.fullmatch(line) for line in lines[start:end])
        is_all = start == 0 and end == len(lines)
        if end - start > (start == 0 and not is_all) + 1 and not is_answered:
            return [*lines[:start], *(lines[-1:] if end == len(lines) and start else lines[end:])]
    return lines


def _second_thoughts(lines: list[str], claims: set[_Claim]) -> set[_Claim]:
    """Return what sentences of prose claim against whole lines: after CORRECT, an error.

    After a sentence number only a withdrawal of it counts.
    """
    prose = [line for line in lines if _claim_of_line(line) is None]
    found: set[_Claim] = set()
    for line in prose:
        is_back = bool(_RETRACTED.match(line))
        for sentence in re.split(r"[.!?](?:\s|$)", line):
            said = _claims_of(sentence)
            is_against = is_back or claims == {_Claim(False)}
            found |= {claim for claim in said if is_against and claim != _Claim(True)}
    return found


def _claim_of_line(line: str) -> _Claim | None:
    """Return what a line that begins with a number, or is CORRECT, claims.

    The number of a list's only item, or the flag 0, may be before CORRECT; that another
    sentence is correct claims nothing of the note.
    """
    rest = _without_index(line)
    if _ALL_RIGHT.fullmatch(rest):
        return _Claim(False)
    first, *others = re.split(r"[.!;]\s+", _LIST_NUMBER.sub("", line))
    if _NOTE_IS.match(first) and _ALL_RIGHT.fullmatch(first):
        found = {claim for other in others for claim in _claims_of(other)}
        return _Claim(False) if found <= {_Claim(False)} else None
    number = _NUMBERED.match(rest)
    if number is None or _IS_RIGHT.match(rest, number.end()):
        return None
    if number[2] and _ENDS_RIGHT.search(rest, number.end()):
        return None
    return _Claim(True, int(number[1] or number[2]))


def _without_index(line: str) -> str:
    """Return a line without the number 0 or 1 of a list where it claims that all is right."""
    index = _INDEXED.match(line)
    is_first = index is not None and int(index[1]) <= 1
    rest = line[index.end() :] if index is not None and is_first else line
    return rest if _ALL_RIGHT.fullmatch(rest) or _claims_of(rest) == {_Claim(False)} else line


def _claims_of(sentence: str) -> set[_Claim]:
    if _FINDS_NONE.match(sentence):
        return {_Claim(False)}
    if _NO_ERROR.search(sentence) and not _NOT.search(sentence):
        return {_Claim(False)}
    if _NOTE_IS.match(sentence) and _ALL_RIGHT.fullmatch(sentence):
        return {_Claim(False)}
    head = sentence.partition(":")[0]
    if head != sentence and _NAMES_IT.search(head) and not _NEGATED.search(head):
        sentence = head  # what is behind the colon says why
    if _NEGATED.search(sentence) or _AT_FIRST.match(sentence):
        return set()
    named = {int(m[1]) for m in _MENTIONED.finditer(sentence)}
    if named and _IS_WRONG.search(sentence):
        return {_Claim(True, number) for number in named}
    return {_Claim(True)} if _SOME_ERROR.search(sentence) else set()


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
    return [
        FlagAccuracy(),
        SentenceAccuracy(),
        PublishedFlagAccuracy(),
        PublishedSentenceAccuracy(),
    ]
