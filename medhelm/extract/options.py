"""Find the options of a question in a text: by letter, or by their texts."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from os.path import commonprefix
from typing import TypeVar

from medhelm.extract.languages import LANGUAGES, any_of, words
from medhelm.extract.late import late
from medhelm.extract.marks import TOKEN, fold, tokens, unify, without_invisible
from medhelm.extract.polarity import DISMISSED, DISOWNED

K = TypeVar("K")

UNCLEAR = "?"
"""The reading of something that is stated but names no single option."""
CUT = "\ue000"
"""Put at the end of a reply that was cut: nothing that touches it is complete."""
CLOSERS = "\"'\u201c\u201d\u2018\u2019)]}>$*_`|\u300d\u3011"
_LINE = 1000
"""Characters that are read where a value begins."""
_REACH = 300
"""Characters after the words of a statement in which its value is."""
_FEW = 12
"""Characters of a sentence that may be a letter in lower case and its marks."""
_LONG = 6
"""Letters that two words have to begin with to be alike."""
_MANY = 50
"""Lettered lines of a text, beyond which none is an answer."""
_NO_EVIDENCE = frozenset({"true", "false", "none", "both", "maybe", "other", "unknown", "normal"})
"""Option texts that occur in any prose. Their mention says nothing."""

_NOT_LATIN = r"(?=[^\x00-\u024f\u2000-\u2bff\ue000])"
_ARTICLES = any_of({a for spoken in LANGUAGES.values() for a in spoken.article if len(a) > 1})
_LEAD = late(
    r"(?:[\s\"'\u201c\u201d\u2018\u2019({\[<$:=>*_#`|\u300c\u3010]+|\\[(\[]|-+(?!\d)"
    rf"|\\(?:text|textbf|mathrm|mathbf|f?boxed)\s{{0,9}}\{{|(?-i:[ao])\s(?=(?-i:\(?[A-Z]\b)|{words('option')})"
    r"|(?:the|correct|best|option|choice|letter|answer|is|that|it(?:['\u2019]s)?|clearly|therefore"
    r"|definitely|probably|likely|most|thus|hence|so|then|indeed|actually|to|indicated)\b(?!['\u2019-]),?"
    rf"|{words('option')}|{_ARTICLES}|{words('answer')}|{words('right')}|{words('copula')}"
    r"){1,16}",
    re.IGNORECASE,
)
"""Words and signs before an option."""
_REASON = (
    rf"(?:(?:because|since|as|due|given|based|which|rather|over|instead)\b|{words('because')})"
)
_AFTER_TEXT = late(
    rf"\s{{0,9}}(?:$|[.,;:)\]}}>\"'\u201d\u2019!(\n|*%\u3002\u3001\u300d]|[-\u2013\u2014]\s|{_REASON}"
    rf"|{words('tail')})",
    re.IGNORECASE,
)
_AFTER_LETTER = late(
    rf"[ ]?[,;:!=\u3002\u3001\uff61\u0964\u1362\u1361\u060c\u061b]|\s{{0,9}}(?:$|\n|\("
    rf"|[-\u2013\u2014=]+>?\s|{_REASON}|{words('tail')})|{_NOT_LATIN}"
    r"|\.(?=$|[\s\"'\u201d\u2019)*\]}$|])(?!\s*(?-i:[a-z]))",
    re.IGNORECASE,
)
_IN_SCRIPT = late(rf"\s?{_NOT_LATIN}[^\n,;\u3002\uff61\u0964\u1362]{{0,300}}")
_NEGATED = late(f"{words('negation')}|{words('others')}")
LETTER = late(r"[A-Za-z](?![A-Za-z0-9_'\u2019\u00aa-\u024f])")
_ARTICLE = late(r"(?:an?|the)\s", re.IGNORECASE)
_MARK = late(
    r",?\s(?:(?:which|that)\s(?:is|says|reads|states)|i\.e\.,?|namely|meaning)[\s:\"'\u201c]{1,3}|\s{0,3}[.:,;(=\u2013\u2014-]"
)
"""Signs that set a letter off from the text that says which option it is."""
_SECOND = late(
    r"[\s.)\]*\"']{0,4}(?:,|/|&|\+|[\u3001\u548c\u53ca\uc640]|\u6216\u8005?|\u307e\u305f\u306f|\ub610\ub294"
    r"|\b(?:or|and|versus|vs|to|y|et|und|e|ou|o|oder|lub|veya|atau|\u0438\u043b\u0438)\b|[-\u2013])"
    r"\.?\s{0,3}(?:(?:and|or|but|then|also|maybe|perhaps|possibly|option|choice)\s){0,3}[(\[*\"']{0,3}"
    r"([A-Za-z])(?![\w'\u2019-])(?!\s+(?!(?:and|or)\b)[a-z])"
)
"""A second letter beside the first (`A or B`)."""
_BRACKET = late(r"[)\]]?\s{0,3}\([^()\n]{2,200}\)(?=\s)")
_BARE = late(r"[^\W\d_]\.?")
_CLOSED = late(r"\.?[)\]}\"'\u201d\u2019%]{1,4}(?=\s)")
_OTHER_TEXT = late(
    r"\s{0,3}(?:[,;/&|>]|\b(?:or|and|but)\b)\s{0,3}(?:(?:or|and|but|then|perhaps|possibly|probably)\s)?",
    re.IGNORECASE,
)
"""The text between an option and another one."""
_OTHER_LETTER = late(
    r"\s{0,3}(?:[(\[](?:[Oo]ption |[Cc]hoice )?|[,:]\s(?:[Oo]ption|[Cc]hoice|[Ll]etter)\s)([A-Z])(?:[)\]]|(?=[.!]?\s*$))"
)
_IN_BRACKETS = late(r"[(\[]?([A-Z])[)\]]")
_LETTERED = late(
    r"^[^\w\n]{0,8}(?:(?:[Oo]ption|[Cc]hoice|[Ll]etter)[ \t]{1,9})?"
    r"([A-Z](?=[^\w\s'\u2019]|[ \t]{0,9}$|[ \t]{1,3}[-\u2013\u2014(=|:])[^\n]{0,1000})",
    re.MULTILINE,
)
MARKERS = tuple(
    late(pattern)
    for pattern in (
        r"(?<![\w(])([A-Z])[.)](?=\s|[A-Z])",
        r"(?<!\w)\(([A-Z])\)",
        r"(?<!\w)\[([A-Z])\]",
        r"(?<!\w)\"?([A-Z])\"?\s?[:=]",
        r"(?<!\w)([A-Z])\s?[-\u2013\u2014]\s",
        r"(?<!\w)([A-Z])\s\(",
    )
)
"""Match the forms in which the letters of a list on one line are set off."""
_NAMED_AS_WELL = late(
    r"(?:\b[A-Z],?\s(?:and|or|nor)|\b(?:against|than|over|excludes?|[Nn]ot|out|unlike|is))\s\W{0,3}$"
)
"""Matches the text before a letter that is not the next of a list."""
_STANDALONE = late(r"[A-Z](?<![\w'\u2019-][A-Z])(?![\w'\u2019])")
_QUESTION = late(r"\?[*_ \t]{0,9}\n\s{0,9}(?:[-*]\s{1,3})?\(?[Aa][.):]\s{0,3}([^\n]{1,300})")

_CONCLUDES = late(
    r"\n\W*(?:so|thus|therefore|hence|overall|in\s(?:conclusion|summary))\b[^\n]{1,200}$",
    re.IGNORECASE,
)
"""A last line that draws a conclusion: a question before it is one on the way."""


@lru_cache(maxsize=1024)
def options_of(choices: tuple[str, ...]) -> Options:
    """Return the reader of these options. Those of recent questions are kept."""
    return Options(tuple(map(without_invisible, choices)))


def without_lead(value: str) -> str:
    """Return `value` from its first word that can be an answer."""
    lead = _LEAD.match(value)
    return value[lead.end() :] if lead else value


def _squeeze(text: str) -> str:
    """Return `text` without case, doubled spaces, marks of emphasis and a last full stop."""
    return " ".join(unify(text).casefold().split()).strip(" *`\"'").removesuffix(".")


def _is_dismissed(text: str, end: int = 0) -> bool:
    """Return whether a text goes on to say that the option which ends there is wrong."""
    closed = _CLOSED.match(text, end)
    end = closed.end() if closed else end
    return bool(DISMISSED.match(text, end) or DISOWNED.match(text, end))


class Options:
    """The options of one question; readings are a letter, "" (nothing) or "?" (unclear)."""

    def __init__(self, choices: tuple[str, ...]) -> None:
        self.letters = string.ascii_uppercase[: len(choices)]
        lettered = list(zip(self.letters, choices, strict=False))
        self.own = {letter: tokens(choice) for letter, choice in lettered}
        self._exact = _unique((_squeeze(choice), letter) for letter, choice in lettered)
        texts = _unique((key, letter) for letter, key in self.own.items() if key)
        self._texts = sorted(texts.items(), key=lambda item: -len(item[0]))
        longest = max(map(len, choices), default=0) + 50
        self._line, self.reach = max(_LINE, longest), max(_REACH, longest)
        self.telling = [
            (f" {' '.join(key)} ", letter)
            for key, letter in self._texts
            if sum(map(len, key)) >= 4 and " ".join(key) not in _NO_EVIDENCE
        ]
        self._firsts = tuple({key[0] for key, _ in self._texts})
        spelt = {" ".join(unify(choice).split()) for choice in choices} - {""}
        self.texts = sorted((t for t in spelt if not _BARE.fullmatch(t)), key=len, reverse=True)
        patterns = [
            r"\s{1,9}".join(map(re.escape, t.removesuffix(".").split())) for t in self.texts
        ]
        self._texts_pattern = late(rf"(?<!\w)(?:{'|'.join(patterns)})(?!\w)", re.IGNORECASE)
        self._place = {tokens(choice): i for i, choice in enumerate(choices)}

    def may_name(self, sentence: str) -> bool:
        """Return whether a sentence can name an option, by a letter or a word of its text."""
        if len(sentence) < _FEW or _STANDALONE.search(sentence):
            return True
        lower = sentence.casefold()
        return any(first in lower for first in self._firsts)

    def exact(self, text: str) -> str:
        """Return the option whose text, signs included, is all of `text`."""
        key = _squeeze(text) if len(text) <= self._line else ""
        return "" if key.upper() in self.own else self._exact.get(key, "").strip(UNCLEAR)

    def read(self, value: str) -> str:
        """Return the option that `value` begins with, as a letter or as its whole text."""
        value = value[: self._line]
        if letter := self.exact(value):
            return letter
        rest = without_lead(value)
        bare = rest.rstrip(CLOSERS + " \t\n.,:;!\u3002\u0964\u1362")
        if len(bare) == 1 and bare.isascii() and bare.isalpha():
            return self.exact(rest) or self.known(bare)
        by_text, length, end = self.text_at(value)
        if not by_text:
            by_text, length, end = self.text_at(rest)
            value = rest
        if by_text and length > 1:
            return "" if _is_dismissed(value, end) else by_text
        by_letter = self.letter_at(rest)
        if by_letter or not by_text:
            return by_letter
        return "" if _is_dismissed(value, end) else by_text

    def letter_at(self, rest: str) -> str:
        """Return the letter that `rest` begins with, if it is there as a letter."""
        if not LETTER.match(rest):
            return ""
        letter, tail = rest[0].upper(), rest[1:]
        end, bracket = self.own_end(rest), _BRACKET.match(rest, 1)
        is_aside = bracket is not None and (end is None or end <= bracket.end())
        if bracket and is_aside and not _AFTER_TEXT.match(rest, bracket.end()):
            return ""
        if self._opens_list(rest, end or 0):
            return UNCLEAR
        if end is not None:
            if self._names_another(rest, end, letter):
                return UNCLEAR
            return "" if _is_dismissed(rest, end) else letter
        second = _SECOND.match(tail)
        if second and second[1].isupper() == rest[0].isupper():
            other = second[1].upper()
            if other in self.own and other != letter:
                return UNCLEAR
        after = tail.lstrip(CLOSERS)
        is_closed = len(after) < len(tail)
        if is_closed or _MARK.match(after):
            text, _, end = self.text_at(after)
            if text == letter:
                return "" if _is_dismissed(after, end) else letter
            if text or self._begins_other(after, letter) or self._is_cut_text(after):
                return UNCLEAR
            if self._is_dismissed_behind(after, letter):
                return ""
        if _is_dismissed(after):
            return ""
        if (script := _IN_SCRIPT.match(after)) and _NEGATED.search(script[0]):
            return ""
        stands = _AFTER_LETTER.match(after) or (is_closed and after[:1].isspace())
        return self.known(letter) if stands else ""

    def known(self, letter: str) -> str:
        """Return the letter of an option, or that it is beyond the options."""
        return letter.upper() if letter.upper() in self.own else UNCLEAR

    def is_own(self, lettered: str) -> bool:
        """Return whether a letter is followed by nothing, or by the text of its option."""
        end = self.own_end(lettered)
        return end is not None and not self._opens_list(lettered, end)

    def whole(self, line: str) -> str:
        """Return the option whose text is all of `line`."""
        if len(line) > self._line:
            return ""
        line = fold(unify(line))
        first = TOKEN.search(line)
        if first is None or first[0] not in self._firsts:
            return ""
        key = tuple(TOKEN.findall(line))
        return next((letter for own, letter in self._texts if own == key), "")

    def texts_in(self, sentence: str) -> set[str]:
        """Return the options whose texts are in a sentence, the longest where they overlap."""
        found: set[str] = set()
        lower = sentence.casefold()
        if not any(first in lower for first in self._firsts):
            return found
        spelt = f" {' '.join(tokens(sentence))} "
        for text, letter in self.telling:
            if text in spelt:
                found.add(letter)
                spelt = spelt.replace(text, " | ")
        return found

    def blanked(self, text: str) -> str:
        """Return `text` with a bar for every option's text, whose own words say nothing."""
        return self._texts_pattern.sub(" | ", text) if self.texts else text

    def find_texts(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the places of texts of the options, the longest where they overlap."""
        return self._texts_pattern.finditer(text) if self.texts else iter(())

    def place(self, text: str) -> int:
        """Return which of the options has this text."""
        return self._place.get(tokens(text), 0)

    def before_next_question(self, text: str) -> str:
        """Return `text` up to a question that it adds itself: one with a list of other options."""
        if "?" not in text or _CONCLUDES.search(text):
            return text
        for match in islice(_QUESTION.finditer(text), _MANY):
            own = self.own.get("A", ())
            if own and tokens(match[1])[: len(own)] != own and not self.texts_in(match[1]):
                return text[: text.rfind("\n", 0, match.start()) + 1].rstrip()
        return text

    def lettered_lines(self, text: str) -> list[re.Match[str]] | None:
        """Return the lines that begin with an option's letter; None where they are too many."""
        lettered = list(islice(_LETTERED.finditer(text), _MANY + 1))
        if len(lettered) > _MANY:
            return None
        return [m for m in lettered if self._may_list(m[1]) and not self.exact(m[1])]

    def _may_list(self, lettered: str) -> bool:
        return lettered[0] in self.own and bool(self.letter_at(lettered) or len(lettered) > 1)

    def _opens_list(self, rest: str, own_end: int) -> bool:
        """Return whether another letter follows on the same line, set off in the same way."""
        line = rest[: self._line].split("\n", 1)[0]
        for markers in MARKERS:
            if first := markers.match(line):
                second = markers.search(line, max(own_end, first.end()))
                if second is None or second[1] == first[1] or second[1] not in self.own:
                    return False
                return not _NAMED_AS_WELL.search(line, max(0, second.start() - 40), second.start())
        return False

    def own_end(self, lettered: str) -> int | None:
        """Return where the text of a letter's own option ends, if it or nothing follows."""
        own = self.own.get(lettered[0].upper())
        if own is None or (lettered[0].islower() and len(lettered) > 1 and lettered[1] == " "):
            return None
        if not lettered[1:].strip(CLOSERS + " \t.,:;!-\u2013\u2014([{<"):
            return len(lettered)
        end = self._matches(lettered[1:], own)
        return None if end is None else end + 1

    def _behind(self, after: str) -> tuple[int, set[str]]:
        """Return where the option's text that follows a letter ends, and whose it is."""
        mark = _MARK.match(after)
        at = mark.end() if mark else 0
        at += len(after[at:]) - len(after[at:].lstrip())
        found = self._texts_pattern.match(after, at) if self.texts else None
        return (found.end(), self.texts_in(found[0])) if found else (at, set())

    def _begins_other(self, after: str, letter: str) -> bool:
        """Return whether the text of another option follows a letter, alone or beside its own."""
        end, named = self._behind(after)
        if named:
            return named != {letter} or self._names_another(after, end, letter)
        word = TOKEN.match(after, end)
        return word is not None and self._is_like_other(fold(word[0]), letter)

    def _is_dismissed_behind(self, after: str, letter: str) -> bool:
        end, named = self._behind(after)
        return named == {letter} and _is_dismissed(after, end)

    def _is_cut_text(self, after: str) -> bool:
        """Return whether a reply was cut within an option's text, so that a list may begin here."""
        head = " ".join(after.partition(CUT)[0].split()).casefold().lstrip(" .:,)(-*")
        return CUT in after and any(text.casefold().startswith(head) for text in self.texts)

    def _is_like_other(self, word: str, letter: str) -> bool:
        """Return whether a word begins more like the text of another option than like its own."""
        if len(word) <= _LONG:
            return False
        alike = {of: len(commonprefix([word, key[0]])) for of, key in self.own.items() if key}
        return max(alike.values(), default=0) > max(_LONG, alike.get(letter, 0))

    def _matches(self, text: str, own: tuple[str, ...]) -> int | None:
        """Return where `own` ends if `text` begins with it as a whole, else None."""
        found = list(islice(TOKEN.finditer(text[: self._line]), len(own) + 1))
        has_article = _ARTICLE.match(text, found[0].start()) if found else None
        for skip in (0, 1) if has_article else (0,):
            spelt = found[skip : skip + len(own)]
            if own and len(spelt) == len(own) and all(map(_is_token, spelt, own)):
                end = spelt[-1].end()
                return end if _AFTER_TEXT.match(text, end) else None
        return None

    def text_at(self, text: str) -> tuple[str, int, int]:
        """Return the option whose text `text` begins with, its count of words, and its end."""
        head = [fold(match[0]) for match in islice(TOKEN.finditer(text[: self._line]), 2)]
        for own, letter in self._texts:
            if own[0] not in head:
                continue
            end = self._matches(text, own)
            if end is not None:
                other = _OTHER_LETTER.match(text, end)
                is_other = other is not None and other[1] in self.own and other[1] != letter
                behind = other.end() if other and not is_other else end
                is_other = is_other or self._names_another(text, behind, letter)
                return (UNCLEAR if is_other else letter), len(own), end
        return "", 0, 0

    def _names_another(self, text: str, end: int, letter: str) -> bool:
        """Return whether another option follows, as in `yes, maybe` and `(B) yes and (C) no`."""
        joint = _OTHER_TEXT.match(text, end)
        if joint is None:
            return False
        rest = text[joint.end() : joint.end() + self.reach]
        if (lettered := _IN_BRACKETS.match(rest)) and lettered[1] in self.own.keys() - {letter}:
            return self.own_end(rest[lettered.start(1) :]) is not None
        return any(
            other != letter and self._matches(rest, own) is not None for own, other in self._texts
        )


def _is_token(match: re.Match[str], token: str) -> bool:
    return fold(match[0]) == token


def _unique(pairs: Iterable[tuple[K, str]]) -> dict[K, str]:
    """Return what each text stands for, UNCLEAR where it is that of two options."""
    found: dict[K, str] = {}
    for text, letter in pairs:
        found[text] = UNCLEAR if text in found else letter
    return found
