"""What a text states about a list of options. See `extract` for the order of trust."""

from __future__ import annotations

import re
import string
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice

from medhelm.extract.marks import TOKEN, fold, tokens, unify

UNCLEAR = "?"
"""The reading of something that is stated but names no single option."""
_SHORT = 400
"""Characters of a completion in which a mere mention of an option is its answer."""
_LINE = 1000
"""Characters that are looked at where a value begins."""
_REACH = 300
"""Characters after the words of a statement in which its value stands."""
_HEAD, _TAIL = 2_000, 14_000
"""Characters at both ends of a long completion in which statements are looked for."""
_MANY = 50
"""Statements of one kind that are looked at, the last ones."""

_LEAD = re.compile(
    r"(?:[\s\"'\u201c\u201d\u2018\u2019({\[<$:=>*_#`|]+|\\[(\[]|-+(?!\d)"
    r"|\\(?:text|textbf|mathrm|mathbf|f?boxed)\s{0,9}\{"
    r"|(?:the|correct|best|option|choice|letter|answer|is|that|it(?:['\u2019]s)?|clearly|therefore"
    r"|definitely|probably|likely|most|thus|hence|so|then|indeed|actually)\b(?!['\u2019-]),?){1,16}",
    re.IGNORECASE,
)
_CLOSERS = "\"'\u201c\u201d\u2018\u2019)]}>$*_`|"
_REASON = r"(?:because|since|as|due|given|based|which|rather)\b"
_AFTER_TEXT = re.compile(
    rf"\s{{0,9}}(?:$|[.,;:)\]}}\"'\u201d\u2019!(\n|*%]|[-\u2013\u2014]\s|{_REASON})", re.IGNORECASE
)
_AFTER_LETTER = re.compile(
    rf"[,;:!=]|\s{{0,9}}(?:$|\n|\(|[-\u2013\u2014=]+>?\s|{_REASON})"
    r"|\.(?=$|[\s\"'\u201d\u2019)*\]}$|])(?!\s*(?-i:[a-z]))",
    re.IGNORECASE,
)
_LETTER = re.compile(r"[A-Za-z](?![\w'\u2019])")
_ARTICLE = re.compile(r"(?:an?|the)\s", re.IGNORECASE)
_MARK = re.compile(r"\s{0,3}[.:,;(=\u2013\u2014-]")
_LISTED = re.compile(r"[.)]{1,2}\s{1,3}\(?([A-Z])[.)]")
_SECOND = re.compile(
    r"[\s.)\]*\"']{0,4}(?:,|/|&|\+|\b(?:or|and|versus|vs|to)\b|[-\u2013])\.?\s{0,3}"
    r"(?:(?:and|or|option|choice)\s)?[(\[*\"']{0,3}([A-Za-z])(?![\w'\u2019-])(?!\s+(?!(?:and|or)\b)[a-z])"
)
_OTHER_TEXT = re.compile(
    r"\s{0,3}(?:[,;/&]|\b(?:or|and|but)\b)\s{0,3}(?:(?:or|and|but|then|perhaps|possibly|probably)\s)?",
    re.IGNORECASE,
)
_OTHER_LETTER = re.compile(r"\s{0,3}[(\[](?:[Oo]ption |[Cc]hoice )?([A-Z])[)\]]")
_DISMISSED = re.compile(
    r"(?:[^\w,]{0,6}|,\s{1,3}which\s)(?:(?:this|it)\s)?(?:(?:option|choice)\s)?(?:is\s|would\sbe\s)?"
    r"(?:incorrect|wrong|not\b|false|unlikely|less\slikely|ruled\sout|excluded)",
    re.IGNORECASE,
)
_ANSWER_IS = re.compile(
    r"\b(?:answer|option|choice)(?:\s+(?:choice|option|letter|here))?"
    r"(?:\s+(?:to|for)\s+(?:this|the)\s+question)?"
    r"\s{0,9}(?:(?:is|(?:would|should|must|will)\s+be)\b|[:=])\s{0,9}",
    re.IGNORECASE,
)
_MOST_IS = re.compile(
    r"\b(?:most\s+\w+|best|correct|right)(?:\s+[\w'\u2019-]+){0,6}?\s+is\b:?\s{0,9}", re.IGNORECASE
)
_CHOOSE = re.compile(
    r"\b(?:choos(?:e|ing)|select(?:ing)?|pick(?:ing)?|opt(?:ing)?\s+for|go(?:ing)?\s+with|vote\s+for"
    r"|say|think|believe|guess|answer)\s+(?:that\s+)?(?:it(?:['\u2019]s|\s+is)\s+)?",
    re.IGNORECASE,
)
_CHOOSER = re.compile(r"\b(?:I|[Ww]e|[Ll]et['\u2019]s)(?:['\u2019]\w+)?(?:\s+\w+){0,3}\s*$")
_IS_RIGHT = re.compile(
    r"\b(?:is|are|seems?|appears?|remains?|(?:would|must|should)\s+be)\s+"
    r"(?:(?!not\b|never\b|less\b|least\b)[a-z]+\s+){0,3}?"
    r"(?:correct|answer|most\s+(?:likely|appropriate|accurate|suitable|consistent|probable|correct)"
    r"|(?:right|best)(?=\s*(?:$|[.,;:!)\n]|answer|option|choice|one\b|because|since|as\b|for\b|here"
    r"|fit|match|explanation|diagnosis|next|initial|treatment)))(?![-\w])",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"\n|;|[!?]\s|(?<!\b[A-Za-z])\.\s")
_CLAUSE = re.compile(r"\b(?:that|think|believe|say|so|therefore|thus|hence|why|conclude)\b[:,]?\s+")
_THEREFORE = re.compile(
    r"\b(?:therefore|thus|hence|so|conclusion|it\s+is|it['\u2019]s|(?:this|that)\s+is|would\s+be)"
    r"[,:]?\s+(?:it(?:['\u2019]s|\s+is)\s+)?(?:(?:option|choice)\s+)?[(\[\"']{0,3}((?-i:[A-Z]))"
    r"[)\]\"'.!]{0,4}[ \t]{0,9}$",
    re.IGNORECASE | re.MULTILINE,
)
_LETTERED = re.compile(
    r"^[^\w\n]{0,8}(?:(?:[Oo]ption|[Cc]hoice|[Ll]etter)[ \t]{1,9})?"
    r"([A-Z](?=[^\w\s'\u2019]|[ \t]{0,9}$|[ \t]{1,3}[-\u2013\u2014(])[^\n]{0,1000})",
    re.MULTILINE,
)
_BOLD = re.compile(r"\*\*\(?([A-Z][.):]\)?\s{0,3}[^*\n]{1,300})\*\*")
_MENTION = re.compile(
    r"\(([A-Z])\)|\b(?:[Oo]ption|[Cc]hoice)\s+\(?([A-Z])(?![\w'\u2019-])|\*\*([A-Z])\*\*"
)
_DOUBT = re.compile(
    r"\b(?:not|no|never|neither|nor|without|incorrect|wrong|false|unlikely|less|least|rather|except"
    r"|exclude[sd]?|eliminate[sd]?|rul(?:e[sd]?|ing)\s+out|(?:could|might|may|can)\s+be|possibl[ey]"
    r"|perhaps|either|if|whether|versus|vs|instead)\b|n['\u2019]t\b",
    re.IGNORECASE,
)
_HEDGE = re.compile(
    r"\b(?:cannot|can['\u2019]t|can\s+not|unable|unsure|uncertain|not\s+(?:sure|certain|enough)|unclear"
    r"|impossible|insufficient|depends|sorry|difficult\s+to)\b",
    re.IGNORECASE,
)
RETRACTION = re.compile(
    r"(?:^|[.!?\n])[\s*>_-]{0,9}(?:(?:hmm|oh|no|but|actually)[,.\s]{1,3}){0,2}(?:wait\s?[,.!\u2014-]"
    r"|hold on|I was wrong|I made a mistake|my mistake|scratch that|correction:"
    r"|on (?:second thought|reflection)|let me (?:re\w+|correct))",
    re.IGNORECASE,
)
"""Words by which a completion takes back what it has said."""
_NO_EVIDENCE = frozenset({"true", "false", "none", "both", "maybe", "other", "unknown", "normal"})
"""Option texts that stand in any prose; their mention says nothing."""


@lru_cache(maxsize=1024)
def options_of(choices: tuple[str, ...]) -> Options:
    """Return the reader of these options; those of recent questions are kept."""
    return Options(choices)


def _squeeze(text: str) -> str:
    """Return `text` without case, doubled spaces, marks of emphasis and a last full stop."""
    return " ".join(unify(text).casefold().split()).strip(" *`\"'").removesuffix(".")


def _plain(text: str) -> str:
    """Return `text` without the marks of bold and code."""
    return text.replace("*", "").replace("`", "")


def _last_ones(pattern: re.Pattern[str], text: str) -> Iterable[re.Match[str]]:
    return deque(pattern.finditer(text), maxlen=_MANY)


def _without_lead(value: str) -> str:
    """Return `value` from its first word that can be an answer."""
    lead = _LEAD.match(value)
    return value[lead.end() :] if lead else value


def _outside_lists(lettered: Sequence[re.Match[str]]) -> Iterator[re.Match[str]]:
    """Yield the lines that are no part of a list, whose letters ascend from line to line."""
    for i, match in enumerate(lettered):
        letter = match[1][0]
        follows = i > 0 and lettered[i - 1][1][0] < letter
        leads = i + 1 < len(lettered) and letter < lettered[i + 1][1][0]
        if not follows and not leads:
            yield match


def _is_token(match: re.Match[str], token: str) -> bool:
    return fold(match[0]) == token


def _tells(key: tuple[str, ...]) -> bool:
    """Return whether the mention of an option's text in prose says that it is meant."""
    return sum(map(len, key)) >= 4 and " ".join(key) not in _NO_EVIDENCE


class Options:
    """The options of one question; readings are a letter, "" (nothing) or "?" (unclear)."""

    def __init__(self, choices: tuple[str, ...]) -> None:
        self.letters = string.ascii_uppercase[: len(choices)]
        texts: dict[tuple[str, ...], str] = {}
        for letter, choice in zip(self.letters, choices, strict=False):
            key = tokens(choice)
            texts[key] = UNCLEAR if key in texts else letter
        texts.pop((), None)
        exact: dict[str, str] = {}
        for letter, choice in zip(self.letters, choices, strict=False):
            exact[_squeeze(choice)] = UNCLEAR if _squeeze(choice) in exact else letter
        self._exact = {text: letter for text, letter in exact.items() if letter != UNCLEAR}
        longest = max(map(len, choices), default=0) + 50
        self._line, self._reach = max(_LINE, longest), max(_REACH, longest)
        self._texts = sorted(texts.items(), key=lambda item: -len(item[0]))
        self._own = {letter: tokens(c) for letter, c in zip(self.letters, choices, strict=False)}
        self._telling = [
            (f" {' '.join(key)} ", letter) for key, letter in self._texts if _tells(key)
        ]

    def exact(self, text: str) -> str:
        """Return the option whose text, signs included, is all of `text`."""
        key = _squeeze(text) if len(text) <= self._line else ""
        return "" if key.upper() in self._own else self._exact.get(key, "")

    def read(self, value: str) -> str:
        """Return the option that `value` begins with, as a letter or as its whole text."""
        value = value[: self._line]
        if letter := self.exact(value):
            return letter
        rest = _without_lead(value)
        bare = rest.rstrip(_CLOSERS + " \t\n.,:;!")
        if len(bare) == 1 and bare.isascii() and bare.isalpha():
            return self.exact(rest) or self._known(bare)
        by_text, length = self._text_at(value)
        if not by_text:
            by_text, length = self._text_at(rest)
        if by_text and length > 1:
            return by_text
        return self._letter_at(rest) or by_text

    def stated(self, text: str) -> str:
        """Return the option that `text` states without marking it as final."""
        if len(text) > _HEAD + _TAIL:
            text = f"{text[:_HEAD]}\n\n{text[-_TAIL:]}"
        plain = _plain(text)
        votes: set[str] = set()
        for reading in self._statements(text, plain):
            votes.add(reading)
            if len(votes) > 1:
                return UNCLEAR
        if not votes and len(text) <= _SHORT and not _HEDGE.search(plain):
            votes = self._mentions(text, plain)
        return votes.pop() if len(votes) == 1 else UNCLEAR if votes else ""

    def answers_after(self, text: str) -> Iterator[str]:
        """Yield the options of which `text`, which follows a final answer, says `answer is`."""
        plain = _plain(text)
        for match in _last_ones(_ANSWER_IS, plain):
            if re.search(r"\bis\W*$", match[0]):
                yield from self._answer_at(plain, match.end())

    def _answer_at(self, plain: str, at: int) -> tuple[str, ...]:
        value = self._line_at(plain, at)
        return self._if_any(self.read(value) or self._named(_SENTENCE_END.split(value)[0]))

    def _statements(self, text: str, plain: str) -> Iterator[str]:
        yield from self._lines(plain)
        for match in _last_ones(_ANSWER_IS, plain):
            yield from self._answer_at(plain, match.end())
        for match in _last_ones(_MOST_IS, plain):
            if (reading := self.read(self._line_at(plain, match.end()))) in self._own:
                yield reading
        for match in _last_ones(_CHOOSE, plain):
            before = plain[max(0, match.start() - 40) : match.start()]
            if _CHOOSER.search(before) and not _DOUBT.search(before):
                yield from self._if_any(self.read(self._line_at(plain, match.end())))
        for match in _last_ones(_IS_RIGHT, plain):
            yield from self._if_any(
                self._subject(plain[max(0, match.start() - 200) : match.start()])
            )
        for match in _last_ones(_THEREFORE, plain):
            yield from self._if_any(match[1] if match[1] in self._own else "")
        for match in _last_ones(_BOLD, text):
            if text[match.start() - 1 : match.start()] not in ("", "\n") and self._is_own(match[1]):
                yield match[1][0]

    def _line_at(self, text: str, start: int) -> str:
        """Return the rest of the line, as far as a stated value can reach."""
        end = text.find("\n", start, start + self._reach)
        return text[start : end if end >= 0 else start + self._reach]

    @staticmethod
    def _if_any(reading: str) -> tuple[str, ...]:
        return (reading,) if reading else ()

    def _lines(self, plain: str) -> Iterator[str]:
        """Yield what single lines state; a list of the options states nothing."""
        lines = [line for line in plain.split("\n") if line.strip()]
        if not lines:
            return
        lettered = list(islice(_LETTERED.finditer(plain), _MANY + 1))
        if len(lettered) > _MANY:
            return
        lettered = [m for m in lettered if self._letter_at(m[1]) and not self.exact(m[1])]
        at = len(plain) - len(plain.lstrip())
        if not any(m.start() <= at < m.end() for m in lettered):
            yield from self._if_any(self._first_line(lines))
        for match in _outside_lists(lettered):
            if match.start() <= at < match.end() or self._is_own(match[1]):
                yield self._letter_at(match[1])
        if len(lines) > 1 and (letter := self._whole(lines[-1])):
            yield letter

    def _first_line(self, lines: Sequence[str]) -> str:
        """Return what a first line without a leading letter says, unless it opens a list."""
        reading = self.read(lines[0])
        begun = {letter for line in lines[:50] if (letter := self._text_at(line)[0])}
        if len(begun) > 1:
            return ""
        is_text = not _LETTER.match(_without_lead(lines[0])) and not self._whole(lines[0])
        tells = any(letter == reading for _, letter in self._telling)
        return "" if is_text and tells and _DOUBT.search(lines[0]) else reading

    def _letter_at(self, rest: str) -> str:
        """Return the letter that `rest` begins with, if it stands there as a letter."""
        if not _LETTER.match(rest):
            return ""
        letter, tail = rest[0].upper(), rest[1:]
        if self._is_own(rest):
            return letter
        second = _SECOND.match(tail) or _LISTED.match(tail)
        if second and second[1].isupper() == rest[0].isupper():
            other = second[1].upper()
            if other in self._own and other != letter:
                return UNCLEAR
        after = tail.lstrip(_CLOSERS)
        is_closed = len(after) < len(tail)
        if (is_closed or _MARK.match(after)) and self._text_at(after)[0]:
            return UNCLEAR
        if _DISMISSED.match(after):
            return ""
        stands = _AFTER_LETTER.match(after) or (is_closed and after[:1].isspace())
        return self._known(letter) if stands else ""

    def _known(self, letter: str) -> str:
        return letter.upper() if letter.upper() in self._own else UNCLEAR

    def _is_own(self, lettered: str) -> bool:
        """Return whether a letter is followed by nothing, or by the text of its option."""
        own = self._own.get(lettered[0].upper())
        if own is None or (lettered[0].islower() and len(lettered) > 1 and lettered[1] == " "):
            return False
        is_alone = not lettered[1:].strip(_CLOSERS + " \t.,:;!-\u2013\u2014([{<")
        return is_alone or self._matches(lettered[1:], own) is not None

    def _matches(self, text: str, own: tuple[str, ...]) -> int | None:
        """Return where `own` ends if `text` begins with it as a whole, else None."""
        found = list(islice(TOKEN.finditer(text[: self._line]), len(own) + 1))
        has_article = _ARTICLE.match(text[found[0].start() :]) if found else None
        for skip in (0, 1) if has_article else (0,):
            words = found[skip : skip + len(own)]
            if own and len(words) == len(own) and all(map(_is_token, words, own)):
                end = words[-1].end()
                return end if _AFTER_TEXT.match(text[end:]) else None
        return None

    def _text_at(self, text: str) -> tuple[str, int]:
        """Return the option whose text `text` begins with, the longest first, and its length."""
        for own, letter in self._texts:
            end = self._matches(text, own)
            if end is not None:
                other = _OTHER_LETTER.match(text, end)
                is_other = other is not None and other[1] in self._own and other[1] != letter
                is_other = is_other or self._names_another(text, end, letter)
                return (UNCLEAR if is_other else letter), len(own)
        return "", 0

    def _names_another(self, text: str, end: int, letter: str) -> bool:
        """Return whether the text of another option follows, as in `yes, maybe`."""
        joint = _OTHER_TEXT.match(text, end)
        if joint is None:
            return False
        rest = text[joint.end() : joint.end() + self._reach]
        return any(
            other != letter and self._matches(rest, own) is not None for own, other in self._texts
        )

    def _whole(self, line: str) -> str:
        """Return the option whose text is all of `line`."""
        key = tokens(line[: self._line])
        return next((letter for own, letter in self._texts if own == key), "")

    def _subject(self, before: str) -> str:
        """Return the option of which a sentence goes on to say that it is right."""
        subject = _SENTENCE_END.split(before)[-1]
        if re.search(r"\b(?:is|are|was|were)\b", subject):
            subject = re.split(r"\b(?:and|but|while|whereas)\b|,", subject)[-1]
        subject = _CLAUSE.split(subject)[-1].strip(" \t,")
        return self._letter_at(_without_lead(subject)) or self._whole(subject)

    def _named(self, sentence: str) -> str:
        """Return the one option whose text stands in a sentence without doubt or negation."""
        return "" if _DOUBT.search(sentence) else self._only(self._texts_in(sentence))

    def _mentions(self, text: str, plain: str) -> set[str]:
        """Return the options that a short text mentions outside sentences of doubt."""
        found: set[str] = set()
        for sentence in _SENTENCE_END.split(text):
            if not _DOUBT.search(sentence):
                found |= {m[1] or m[2] or m[3] for m in _MENTION.finditer(sentence)}
                found |= self._texts_in(sentence)
        return {letter if letter in self._own else UNCLEAR for letter in found}

    def _texts_in(self, sentence: str) -> set[str]:
        words = f" {' '.join(tokens(sentence))} "
        found = set()
        for text, letter in self._telling:
            if text in words:
                found.add(letter)
                words = words.replace(text, " | ")
        return found

    @staticmethod
    def _only(found: set[str]) -> str:
        return next(iter(found)) if len(found) == 1 else ""
