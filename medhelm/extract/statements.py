"""The sentences and lines in which a text states an option."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from medhelm.extract.emphasis import emphasised
from medhelm.extract.language_forms import answer_is, is_right
from medhelm.extract.languages import languages_of, words
from medhelm.extract.late import late
from medhelm.extract.listings import SHARE, ticked, without_lists
from medhelm.extract.options import CLOSERS, CUT, LETTER, UNCLEAR, Options, without_lead
from medhelm.extract.polarity import (
    ASIDE,
    CONCEDED,
    CONTRAST,
    CROSS,
    DENIED,
    DOUBT,
    ELSEWHERE,
    IN_PART,
    NOT_CHOSEN,
    OTHER_ANSWER,
    UNDONE,
    UNSETTLED,
    WRONG,
)

SHORT = 400
"""Characters of a completion that may answer without a statement."""
_MANY = 30
"""Statements of one kind that are read, the last ones."""
_ANSWER_IS = late(
    r"\b(?:answer|option|choice|label|verdict|letter(?=\s?[:=]))(?:\s+(?:choice|option|letter|here))?"
    r"(?:\s+(?:to|for)\s+(?:this|the)\s+question)?"
    r",?\s{0,9}(?:(?:(?:clearly|therefore|thus|definitely|then|probably|likely|most\s+likely)\s+)?"
    r"(?:is|(?:would|should|must|will|has\s+to)\s+be)\b|['\u2019]s(?=\s)|[:=])\s{0,9}",
    re.IGNORECASE,
)
_NAMED_WRONG = late(
    r"^\W{0,4}(?:so\s+|thus\s+|hence\s+)?the\s+(?:incorrect|false|wrong|untrue)\s+(?:statement|assertion|affirmation)\s+is\b:?\s{0,9}"
    r"|^\W{0,4}(?:so\s+|thus\s+|hence\s+)?the\s+(?:false|untrue)\s+one\s+is\b:?\s{0,9}",
    re.IGNORECASE | re.MULTILINE,
)
"""The one statement that is wrong, which only a question that asks for it makes a reply name."""
_MOST_IS = late(
    r"(?<!-)\b(?:most\s+\w+|best|correct|right|true)(?:\s+(?!alternatives?\b|distractors?\b|mistakes?\b)[\w'\u2019-]+){0,6}?"
    r"\s+(?:is|would\s+be)\b:?\s{0,9}"
    r"|^\W*(?:most\s+(?:likely|probable|appropriate|suitable)|best|correct|final|working|leading)"
    r"(?:\s+[\w'\u2019-]+){1,4}:\s{0,9}",
    re.IGNORECASE | re.MULTILINE,
)
_CHOOSE = late(
    r"\b(?:choos(?:e|ing)|select(?:ing)?|pick(?:ing)?|opt(?:ing)?\s+for|go(?:ing)?\s+with|vote\s+for"
    r"|say|think|believe|guess|answer|prefer|favou?r|lean(?:ing)?\s+(?:\w+\s+)?towards?|settle\s+on|bet\s+on|mark(?=\s(?:option\s|choice\s|answer\s)?\W{0,3}(?-i:[A-Z])\W{0,4}(?:$|\n))"
    r"|conclude|(?:rate|label|classify|grade|put)\s+(?:it|this(?:\s+\w+)?)(?:\s+(?:as|at|with))?)\s+(?:that\s+)?(?:it(?:['\u2019]s|\s+is)\s+)?",
    re.IGNORECASE,
)
_CHOOSER = late(r"\b(?:I|[Ww]e|[Ll]et['\u2019]s)(?:['\u2019]\w+)?(?:\s+\w+){0,3}\s*$")
_FORCED = late(
    r"\bif\s+(?:I\s+(?:really\s+|absolutely\s+|just\s+)?(?:had|have|were|was|am)\s+(?:(?:forced|pressed|made|asked|required)\s+)?to"
    r"\s+(?:choose|pick|guess|bet|answer|say|decide|commit|select|name|settle|go\s+with|give\s+an\s+answer)|(?:forced|pressed|pushed|I\s+must))"
    r"(?:\s+[\w'\u2019-]+){0,4},\s+(?:then\s+)?(?:(?:it|that)\s+(?:would|will)\s+be|it(?:['\u2019]s|\s+is)"
    r"|(?:I['\u2019]d|I\s+would|I\s+will|I['\u2019]ll)\s+(?:\w+\s+)?(?:say|pick|choose|go\s+with|take|select))\s+",
    re.IGNORECASE,
)
"""A choice that is made as if under pressure. The condition is one of manners."""
_LEAVES = late(
    r"(?:\b(?:this|that|which|it|these|those|elimination|exclusion|process|out)\s+leaves?|(?:^|[,.;\u2013\u2014]\s{1,3})leaving"
    r"|\b(?:I|we)(?:['\u2019](?:m|re)|\s+a[mr]e?)\s+left\s+with|\bnarrow(?:s|ed|ing)?\s+(?:it|this|things|the\s+choice)?\s*(?:down\s+)?to)"
    r"\s+(?:(?:us|me|you)\s+)?(?:with\s+)?(?:only\s+|just\s+)?",
    re.IGNORECASE | re.MULTILINE,
)
"""Matches a statement that the others are ruled out."""
_FAVOURS = late(
    r"\b(?:in\s+favou?r\s+of|favou?rs|argu(?:es?|ing)\s+for|speaks?\s+for|points?\s+(?:me\s+)?(?:to|towards?)"
    r"|makes\s+(?:it|this)|gives?\s+the\s+(?:edge|nod)\s+to|fits|matches)\s+(?:option\s+|choice\s+)?"
    r"[(\[]?((?-i:[A-Z]))[)\]]?(?=\s*$|[.!](?:\s|$))",
    re.IGNORECASE,
)
"""Matches words in favour of a letter."""
_NAMED_LAST = late(
    r"(?:(?:[\u2013\u2014(,;]|\s-)\s?(?:so\s+)?(?:(?:the\s+)?(?:answer|option|choice)|which\s+is\s+(?:option|choice))\s+|(?:(?:\u2192|=>|\b(?:[Ss]o|[Hh]ence|[Tt]hus|[Tt]herefore)\b)[^.,;:\n]{1,60},|(?:[a-z]{3}|[)\]])[.!?]|\]|\b(?:called|termed|named|known\sas))\s(?=[(\[]?[A-Z][)\].]{0,2}\s*$))[(\[]?([A-Z])[)\]]{0,2}(?=\s*$|[.!]\)?(?:\s|$)|\n)"
)
"""`answer B`, set off at the end of a sentence."""
_ONLY_RIGHT = late(
    r"\b(?:only|just)\s+(?=[^.\n]{1,200}?\s(?:(?:is|are|remains?|would\s+be)"
    r"\s+(?:(?:considered|regarded|seen|deemed)\s+(?:as\s+|to\s+be\s+)?)?"
    r"(?:safe|appropriate|indicated|correct|right|suitable|recommended|consistent|compatible"
    r"|acceptable|effective|true)|fits|explains|accounts\s+for|meets|matches)\b)",
    re.IGNORECASE,
)
"""Of the options only one is right."""
_GOES_ON = late(
    r"(?:(?:the\s+)?(?:option|choice|answer|letter)\s+)?[(\[\"']{0,2}([A-Z])[)\]\"']{0,2}\s+"
    r"(?:(?:and|then|to)\s+(?=[a-z]{2})|(?:here|now|overall|at\s+this\s+(?:point|stage|time)"
    r"|in\s+(?:this|that|the)\s+(?:present\s+)?(?:case|patient|man|woman|child|setting|situation|scenario|instance|question|context))"
    r"(?=\s*(?:[.,;:!\n]|$))|(?:for|in|with)\s+(?:him|her|them|this|the\s)|as\s+(?:the|my)\s+(?:\w+\s+){0,3}(?:answer|choice|step|option))"
)
"""A letter that is chosen, with what the sentence goes on with."""
_MAY = late(r"\b(?:might|may|could|can|either)\b[^,.;]*$", re.IGNORECASE)
_QUOTED = late(r"\S{0,3}[\"'\u201d\u2019]\s+(?:is|was|would|may|seems)\b")
_BE = r"\b(?:is|are|seems?|appears?|remains?|(?:would|must|should)\s+be)\s+"
_HOW = (
    r"(?:(?!(?:not|never|less|least|no|hardly|rarely|seldom|scarcely|part\w*ly|partially|sometimes"
    r"|occasionally|only|neither|almost|nearly|second|third|next|trap|trick|decoy|distractor|wrong|incorrect"
    r"|false|worst|worse|opposite|far(?=\sfrom)|half|halfway|anything|close(?=\sto)|mostly|alternative|superficially|tempting)\b)[a-z]+\s+){0,3}?"
)
_IS_CORRECT = late(
    rf"{_BE}{_HOW}(?:correct|answer|true(?=\s(?:one|answer|option|choice)\b)|right(?=\s*(?:$|[.,;:!)\n]|answer|option|choice|one\b|because"
    r"|since|as\b|for\b|here)))(?![-\w])",
    re.IGNORECASE,
)
_IS_BEST = late(
    rf"{_BE}{_HOW}(?:most\s+(?:likely|appropriate|accurate|suitable|consistent|probable)"
    r"|prefer(?:red|able)|better(?=\s*(?:$|[.,;:!)\n]|answer|option|choice|one\b))"
    r"|best(?=\s*(?:$|[.,;:!)\n]|answer|option|choice|one\b|because|since|as\b|for\b|here"
    r"|fit|match|explanation|diagnosis|next|initial|treatment)))(?![-\w])",
    re.IGNORECASE,
)
SENTENCE_END = late(
    r"\n|;|[!?]\s|(?<!(?<!['\u2019])\b[A-Za-z])\.\s|(?<=[a-z,] [A-Z])\.\s(?=[A-Z])|[\u3002\uff61\u0964\u1362]"
)
_CLAUSE_END = late(r"[,:;]|\b(?:and|but|while|whereas|so|therefore|thus|hence|yet|however)\b")
_SUBJECT = late(
    r"\W{0,9}\|\s{0,3}\([A-Z]\)\s(?!(?:because|since|as|due|given|based|which|rather|over)\b)\w"
)
_ITEM = late(r"\s*[-\u2022\u2013]\s")
_ITEMS = late(r"^\s*[-\u2022\u2013]\s", re.MULTILINE)
"""The items of a list, which may name an option in passing."""
_HEADING = late(r"\W{0,9}\|\W{0,4}:\W{0,4}\w")
_NOT_OTHER = late(r"[,(\s]{1,3}(?:not|rather\sthan|instead\sof|over)\s(?:the\s)?\s?\|")
_ONLY_IF = late(r"\b(?:if|unless|only\s+when)\b", re.IGNORECASE)
_CONDITION = late(words("condition"), re.IGNORECASE)
_OTHERS = late(words("others"), re.IGNORECASE)
_WOULD_ABROAD = late(r"\b(?:w\u00e4re|ser\u00eda|seria|serait|sarebbe)\b", re.IGNORECASE)
_NOT_BEHIND = late(
    "\\s?\\S{0,2}\\s?(?:\uc544\ub2c8|\uc544\ub2d9|\uc54a|\u3067\u306f\u306a|\u3067\u306f\u3042\u308a|\u3058\u3083\u306a)"
)
"""Denials behind the word that they deny, in Korean and Japanese."""
_CONCLUSION = late(r"[,;]\s(?:and\s)?(?:so|thus|hence|therefore)\b", re.IGNORECASE)
_CLAUSE = late(
    r"\b(?:that|think|believe|say|so|therefore|thus|hence|why|conclude|but|however)\b[:,]?\s+"
)
_THEREFORE = late(
    r"(?:\u2192|[=-]>|\bfinal:|\b(?:therefore|thus|hence|so|conclusion|it\s+is|it['\u2019]s|it\s+(?:must|has\s+to)\s+be"
    r"|(?:this|that)\s+is|that['\u2019]s|(?<=this )would\s+be|(?<=that )would\s+be|(?<=it )would\s+be|would\s+be(?=\s\S{1,4}$)|I\s+meant?|actually|by\s+elimination))"
    r"[,:]?\s+(?:it(?:['\u2019]s|\s+is)\s+)?(?:(?:the|answer|is)\s+){0,2}(?:(?:option|choice)\s+)?"
    r"[(\[\"']{0,3}((?-i:[A-Z]))"
    r"(?=[)\]\"'.!]{0,4}[ \t]{0,9}(?:$|\n)|[)\]\"']{0,2}(?:[;!]|,(?!\s?(?-i:[A-Z])\b))|[)\]\"']{0,2}\s+because\b"
    r"|[)\]\"']{0,2}\.\s+(?-i:[A-Z])|\sit\s+is\b|\s\((?-i:[a-z ]{2,20})\)[\s.]*$)",
    re.IGNORECASE | re.MULTILINE,
)
_NAMED_SO = late(
    r"(?:^\W*|[.!?,;:\u2013\u2014]\s|\b(?:so|option|choice|statement)\s)\(?((?-i:[A-Z]))\)?\sit\sis(?=[.,;:!]|\s*$)"
    r"|\b(?:option|choice|statement)\s\(?((?-i:[A-Z]))\)?\sis\sthe\s(?:true|correct|right)\sone\b"
    r"|(?:^|[.!]\s)(?:option|choice|statement)\s\(?((?-i:[A-Z]))\)?\s(?![^.;\n]{0,100}\b(?:not|n['\u2019]t|if|but)\b)"
    r"[^.;,()\n]{3,100}\band\s(?:so\s|therefore\s)?is\s(?:the\s)?(?:correct|right|best)\s(?:answer|choice|option|one)\b"
    r"|\b(?:choose|pick|guess|vote)(?:\s?:|\sis)\s\(?((?-i:[A-Z]))\)?(?=[.!]?\s*$)|(?:\u2192|^)\s?((?-i:[A-Z]))\s?[\u2705\u2713\u2714\u2611](?=\W*$)",
    re.IGNORECASE | re.MULTILINE,
)
"""A letter that short forms of a conclusion name."""
_BOTTOM_LINE = late(r"^\W*bottom\sline\s?:\s{0,3}", re.IGNORECASE | re.MULTILINE)
_NOT_SETTLED = (NOT_CHOSEN, DENIED)
"""The same of what alone is right, and of what is left."""
_THEN_VERB = late(r"(?:(?:option|choice|answer)\s)?([A-Z])\s(?=[a-z]{2})(?!(?:and|or)\b)")
_WITH_MORE = late(
    r"(?:(?:option|choice|answer)\s)?[(]?[A-Z][)]?\s(?:with|plus)\s(?!(?:him|her|them|this|the)\b)"
)
"""A letter that is chosen together with something else."""


@dataclass(frozen=True)
class Statement:
    """One place where a text states an option."""

    letter: str
    start: int
    """Gives its position, and -1 for lines that hold nothing else."""
    is_strong: bool
    """A statement of the answer, not of what is best in some respect."""


def _plain(text: str) -> str:
    """Return `text` without the marks of bold and code."""
    return text.replace("*", "").replace("`", "")


def _last_ones(pattern: re.Pattern[str], text: str) -> Iterable[re.Match[str]]:
    return deque(pattern.finditer(text), maxlen=_MANY)


def statements(options: Options, text: str) -> Iterator[Statement]:
    """Yield what a text states, lists left out."""
    if letter := ticked(options, text):
        yield Statement(letter, -1, True)
    text = _FORCED.sub("I choose ", without_lists(options, text))
    plain = _plain(text)
    yield from _lines(options, plain)
    if len(plain) <= SHORT:
        yield from _in_one_way(_whole_sentences(options, plain))
    for match in _last_ones(_ANSWER_IS, plain):
        if _is_meant(options, plain, match):
            yield from _if_any(_answer_at(options, plain, match.end()), match, True)
    for match in _last_ones(_NAMED_SO, plain):
        if _is_meant(options, plain, match):
            yield from _if_any(options.known(match[match.lastindex or 1]), match, True)
    for match in (*_last_ones(_BOTTOM_LINE, plain), *_last_ones(_NAMED_WRONG, plain)):
        yield from _if_any(options.read(_line_at(options, plain, match.end())), match, True)
    yield from _in_other_languages(options, plain)
    for match in _last_ones(_MOST_IS, plain):
        reading = options.read(_line_at(options, plain, match.end()))
        if reading in options.own and _is_meant(options, plain, match):
            yield from _if_any(reading, match, False)
    for match in _last_ones(_CHOOSE, plain):
        before = plain[max(0, match.start() - 40) : match.start()]
        if (
            _CHOOSER.search(before)
            and not _MAY.search(before)
            and not DOUBT.search(_CLAUSE_END.split(SENTENCE_END.split(before)[-1])[-1])
            and _is_meant(options, plain, match)
        ):
            yield from _if_any(_choice_at(options, plain, match.end()), match, True)
    yield from _by_elimination(options, plain)
    for pattern, is_strong in ((_IS_CORRECT, True), (_IS_BEST, False)):
        right: list[Statement] = []
        for match in _last_ones(pattern, plain):
            if _is_meant(options, plain, match):
                before = plain[max(0, match.start() - 200) : match.start()]
                right += _if_any(_subject(options, before), match, is_strong)
        yield from _in_one_way(right)
    for match in _last_ones(_THEREFORE, plain):
        if _is_meant(options, plain, match):
            yield from _if_any(match[1] if match[1] in options.own else "", match, True)
    for letter, match in emphasised(options, text):
        if _is_meant(options, text, match):
            yield from _if_any(letter, match, True)


def _in_one_way(found: Iterable[Statement]) -> Iterator[Statement]:
    """Yield what is stated in one way; several options so are gone through, and left open."""
    stated = list(found)
    several = len({s.letter for s in stated} - {UNCLEAR}) > 1
    for s in stated:
        yield Statement(UNCLEAR, s.start, False) if several else s


def _by_elimination(options: Options, plain: str) -> Iterator[Statement]:
    """Yield what is left in the end, what alone is right, and the letter that a text concludes with.

    What leaves several options open states none of them, and a later statement outranks it.
    """
    for pattern in (_LEAVES, _ONLY_RIGHT):
        left: list[Statement] = []
        for match in _last_ones(pattern, plain):
            before = _sentence_before(plain, match.start())
            behind = options.blanked(_sentence_behind(plain, match.end()))
            if not UNSETTLED.search(before) and not (
                UNSETTLED.search(behind) or _NOT_SETTLED[pattern is _LEAVES].search(behind)
            ):
                reading = options.read(_line_at(options, plain, match.end()))
                reading = reading or _name_then(options, plain, match.end())
                if reading and _is_meant(options, plain, match):
                    is_strong = pattern is _LEAVES and reading != UNCLEAR
                    left.append(Statement(reading, match.start(), is_strong))
        yield from left[-1:] if pattern is _LEAVES else left
    for pattern in (_FAVOURS, _NAMED_LAST):
        found = list(_last_ones(pattern, plain))
        is_conclusion = bool(found) and not plain[found[-1].end() :].strip(" .!)\n")
        for match in found if is_conclusion else ():
            clause = _sentence_before(plain, match.start())
            clause = _CLAUSE_END.split(clause)[-1] if pattern is _FAVOURS else clause
            is_denied = DENIED.search(clause) or UNSETTLED.search(clause) or IN_PART.match(clause)
            if _is_meant(options, plain, match) and not is_denied:
                yield from _if_any(options.known(match[1]), match, True)


def _name_then(options: Options, plain: str, at: int) -> str:
    """Return the option that is named at a place, whatever the sentence goes on with."""
    if letter := _THEN_VERB.match(plain, at):
        return options.known(letter[1])
    found = next(options.find_texts(plain[at : at + options.reach]), None)
    return options.whole(found[0]) if found and found.start() == 0 else ""


def _choice_at(options: Options, plain: str, at: int) -> str:
    """Return what is chosen at a place; behind a letter the sentence may go on."""
    value = _line_at(options, plain, at)
    goes_on = _GOES_ON.match(value)
    if goes_on:
        others = options.texts_in(SENTENCE_END.split(value)[0]) - {goes_on[1]}
        return UNCLEAR if others else options.known(goes_on[1])
    return UNCLEAR if _WITH_MORE.match(value) else options.read(value)


def _whole_sentences(options: Options, plain: str) -> Iterator[Statement]:
    """Yield the sentences of a short text that are the text of an option and nothing else."""
    at = 0
    for end in [*(m.start() for m in SENTENCE_END.finditer(plain)), len(plain)]:
        sentence = plain[at:end]
        letter = options.whole(sentence) if len(sentence.strip(" .")) > 1 else ""
        is_item = _ITEM.match(sentence) and len(_ITEMS.findall(plain)) > 1
        if letter and not is_item and CUT not in sentence and not _is_question(options, plain, at):
            yield Statement(letter, at, True)
        at = end + 1


def _in_other_languages(options: Options, plain: str) -> Iterator[Statement]:
    for language in languages_of(plain):
        for match in _last_ones(answer_is(language), plain):
            if _is_meant_abroad(options, plain, match):
                value = _line_at(options, plain, match.end())
                yield from _if_any(options.read(value), match, True)
        right: list[Statement] = []
        for match in _last_ones(is_right(language), plain):
            if _is_meant_abroad(options, plain, match):
                before = _sentence_before(plain, match.start())
                right += _if_any(_subject(options, before), match, True)
        yield from _in_one_way(right)


def _is_meant_abroad(options: Options, plain: str, match: re.Match[str]) -> bool:
    """Return whether a sentence in another language means what it states."""
    before = _sentence_before(plain, match.start())
    clause = _CLAUSE_END.split(before)[-1]
    is_denied = DOUBT.search(match[0]) or DOUBT.search(clause) or _CONDITION.search(before)
    is_denied = is_denied or ASIDE.search(clause)  # "is correct" is Dutch too
    behind = _sentence_behind(plain, match.end())
    is_denied = is_denied or UNDONE.search(behind) or _OTHERS.search(before)
    is_denied = is_denied or _NOT_BEHIND.match(behind)
    is_denied = is_denied or (_WOULD_ABROAD.search(match[0]) and _CONDITION.search(behind))
    return not is_denied and not _is_question(options, plain, match.end())


def _if_any(reading: str, match: re.Match[str], is_strong: bool) -> Iterator[Statement]:
    if reading:
        yield Statement(reading, match.start(), is_strong)


def _sentence_before(text: str, at: int) -> str:
    """Return the part of a sentence that is before a place in it."""
    return SENTENCE_END.split(text[max(0, at - 200) : at])[-1]


def _is_meant(options: Options, text: str, match: re.Match[str]) -> bool:
    """Return whether a sentence means what it states: not if, not others, no question."""
    before = CONTRAST.split(_sentence_before(text, match.start()))[-1]
    aside = ASIDE.search(before)
    if aside and aside[0].lower().endswith(("n't", "n\u2019t", "not")):
        before = _CONCLUSION.split(before)[-1]  # "it isn't X, so the answer is Y"
    if ASIDE.search(before) or OTHER_ANSWER.search(before) or CONCEDED.search(before):
        return False
    sentence = _sentence_behind(text, match.end())
    if _QUOTED.match(sentence) or UNDONE.search(sentence):
        return False
    if match[0].lower().startswith("would") and ELSEWHERE.match(sentence):
        return False
    return not _is_question(options, text, match.end()) and not _ONLY_IF.search(
        options.blanked(sentence)
    )


def _sentence_behind(text: str, at: int) -> str:
    """Return the part of a sentence that is behind a place in it, with its last mark."""
    behind = text[at : at + 200]
    end = SENTENCE_END.search(behind)
    return behind[: end.start() + 1] if end else behind


def _is_question(options: Options, text: str, at: int) -> bool:
    return options.blanked(_sentence_behind(text, at)).rstrip(CLOSERS + " \n").endswith("?")


def _answer_at(options: Options, plain: str, at: int) -> str:
    value = _line_at(options, plain, at)
    return options.read(value) or _named(options, SENTENCE_END.split(value)[0])


def _line_at(options: Options, text: str, start: int) -> str:
    """Return the rest of the line, as far as a stated value can reach."""
    end = text.find("\n", start, start + options.reach)
    return text[start : end if end >= 0 else start + options.reach]


def _lines(options: Options, plain: str) -> Iterator[Statement]:
    """Yield what single lines state: the first, the last, and lettered ones."""
    lines = [line for line in plain.split("\n") if line.strip()]
    lettered = options.lettered_lines(plain)
    if not lines or lettered is None:
        return
    at = len(plain) - len(plain.lstrip())
    if not any(m.start() <= at < m.end() for m in lettered) and CUT not in lines[0]:
        yield from _of_line(_first_line(options, lines))
    items = []
    for match in lettered:
        if CROSS.search(plain, match.start(), match.start(1)):
            continue
        is_first = match.start() <= at < match.end()
        is_own = options.is_own(match[1])
        if CUT not in match[0] and (is_own or (is_first and not WRONG.match(match[1]))):
            letter = options.letter_at(plain[match.start(1) : match.end() + options.reach])
            if is_first:
                yield from _of_line(letter)
            elif letter:
                items.append(Statement(letter, match.start(), True))
    yield from _in_one_way(items)
    if len(lines) > 1 and (letter := options.whole(lines[-1])) and CUT not in lines[-1]:
        yield from _of_line(letter)


def _of_line(letter: str) -> Iterator[Statement]:
    if letter:
        yield Statement(letter, -1, True)


def _first_line(options: Options, lines: Sequence[str]) -> str:
    """Return what a first line without a leading letter says, unless it opens a list."""
    line = lines[0]
    reading = options.read(line)
    begun = {letter for line in lines[:50] if (letter := options.text_at(line)[0])}
    if len(begun) > 1:
        return ""
    is_text = not LETTER.match(without_lead(line)) and not options.whole(line)
    if is_text and _SUBJECT.match(options.blanked(line)):
        return ""
    is_telling = any(letter == reading for _, letter in options.telling)
    if is_text and _HEADING.match(options.blanked(line)) and (is_telling or SHARE.search(line)):
        return ""
    if is_text and is_telling and NOT_CHOSEN.search(_first_sentence(options, line)):
        return ""
    return reading


def _first_sentence(options: Options, line: str) -> str:
    """Return the first sentence without the options' texts, nor those that are set against one."""
    return _NOT_OTHER.sub("", SENTENCE_END.split(options.blanked(line.strip()))[0])


def _subject(options: Options, before: str) -> str:
    """Return the option of which a sentence goes on to say that it is right."""
    subject = SENTENCE_END.split(before)[-1]
    if re.search(r"\b(?:is|are|was|were)\b", subject) or "," in subject:
        subject = re.split(r"\b(?:and|but|while|whereas)\b|,", subject)[-1]
    subject = _CLAUSE.split(subject)[-1].strip(" \t,")
    return (
        options.letter_at(without_lead(subject)) or options.whole(subject) or options.head(subject)
    )


def _named(options: Options, sentence: str) -> str:
    """Return the one option whose text is in a sentence without doubt or negation."""
    is_other = NOT_CHOSEN.search(options.blanked(sentence))
    found = set() if is_other else options.texts_in(sentence)
    return found.pop() if len(found) == 1 else ""
