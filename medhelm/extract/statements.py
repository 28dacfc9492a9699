"""The sentences and lines in which a text states an option.

Each sentence that can name an option is held against a few frames: words before an option (`the answer
is`, `I choose`), words behind it (`is correct`), or a letter in a place of its own (`Therefore, C.`). A frame
counts where the sentence means it: no condition, no doubt, no question, nobody else's opinion.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from medhelm.extract.languages import answer_is, is_right, languages_of, words
from medhelm.extract.late import late
from medhelm.extract.lists import ticked, without_lists
from medhelm.extract.options import CLOSERS, CUT, LETTER, UNCLEAR, Options, without_lead
from medhelm.extract.polarity import (
    ASIDE,
    CONCEDED,
    CONTRAST,
    CROSS,
    DENIED,
    DOUBT,
    ELSEWHERE,
    NOT_CHOSEN,
    OTHER_ANSWER,
    UNDONE,
    UNSETTLED,
    WRONG,
)
from medhelm.extract.sentences import SENTENCE_END

SHORT = 400
"""Characters of a completion that may answer without a statement."""
_MANY = 400
"""Sentences of a text that are read, the last ones."""
_CLAUSE_END = late(r"[,:;]|\b(?:and|but|while|whereas|so|therefore|thus|hence|yet|however)\b")

_ANSWER_IS = late(
    r"\b(?:answer|option|choice|label|verdict|letter(?=\s?[:=]))(?:\s+(?:choice|option|letter|here))?"
    r"(?:\s+(?:to|for)\s+(?:this|the)\s+question)?"
    r",?\s{0,9}(?:(?:(?:clearly|therefore|thus|definitely|then|probably|likely|most\s+likely)\s+)?"
    r"(?:is|(?:would|should|must|will|has\s+to)\s+be)\b|['\u2019]s(?=\s)|[:=])\s{0,9}",
    re.IGNORECASE,
)
_CHOOSE = late(
    r"(?:\b(?:I|[Ww]e|[Ll]et['\u2019]s)(?:['\u2019]\w+)?(?:\s+\w+){0,3}|^\W*|,(?=\s(?:so\s|then\s)?go\swith))\s*\b(?:(?:so|then)\s)?"
    r"(?P<verb>(?i:choos(?:e|ing)|select(?:ing)?|pick(?:ing)?|opt(?:ing)?\s+for|go(?:ing)?\s+with|vote\s+for"
    r"|say|think|believe|guess|answer|prefer|favou?r|lean(?:ing)?\s+(?:\w+\s+)?towards?|settle\s+on|bet\s+on|mark(?=\s\W{0,3}[A-Z]\W{0,4}$)"
    r"|conclude|(?:rate|label|classify|grade|put)\s+(?:it|this(?:\s+\w+)?)(?:\s+(?:as|at|with))?))"
    r"\s+(?:that\s+)?(?:it(?:['\u2019]s|\s+is)\s+)?"
)
_FORCED = late(
    r"\bif\s+(?:I\s+(?:\w+\s+)?(?:had|have|were|was|am)\s+(?:(?:forced|pressed|made|asked|required)\s+)?to"
    r"\s+(?:choose|pick|guess|bet|answer|say|decide|commit|select|name|settle|go\s+with|give\s+an\s+answer)|(?:forced|pressed|pushed|I\s+must))(?:\s+[\w'\u2019-]+){0,4},\s+(?:then\s+)?(?:(?:it|that)\s+(?:would|will)\s+be"
    r"|it(?:['\u2019]s|\s+is)|(?:I['\u2019]d|I\s+would|I\s+will|I['\u2019]ll)\s+(?:\w+\s+)?(?:say|pick|choose|go\s+with|take|select))\s+",
    re.IGNORECASE,
)
"""A choice that is made as if under pressure. The condition is one of manners."""
_HEADED = late(
    r"(?:^|[.!?]\s)\W*(?:bottom\sline|(?:final\s|my\s)?pick|conclusion|the\s(?:false|incorrect|untrue|wrong)\s(?:one|statement)(?:\sis)?)\s?:?\s",
    re.IGNORECASE,
)
"""Words that head a conclusion, or name the one statement that is wrong, as a question may ask."""
_IS_THUS = late(r"\b(?:is|are)\s(?:therefore|thus|hence|then)\s(?:(?:an?|the)\s)?", re.IGNORECASE)
_LAST = late(
    r"(?:(?<=[a-z)\]%\d][.!?,\u2192])|(?<=[a-z)\]%\d]\s[\u2192\u2013\u2014])|(?<==>))\s(?:(?:thus|hence|so)\s)?[(\[]?([A-Z])[)\]]?\.?\s*$"
)
"""The letter with which a reply ends, set off from the words before it."""
_BOLD = late(r"\*\*\(?([A-Z][.):]\)?\s{1,3}[^*\n]{1,300})\*\*")
"""A lettered option in bold."""
_LEAVES = late(
    r"(?:\b(?:this|that|which|it|these|those|elimination|exclusion|process|out)\s+leaves?|(?:^|[,.;\u2013\u2014]\s{1,3})leaving"
    r"|\b(?:I|we)(?:['\u2019](?:m|re)|\s+a[mr]e?)\s+left\s+with|\bnarrow(?:s|ed|ing)?\s+(?:it|this|things|the\s+choice)?\s*(?:down\s+)?to)"
    r"\s+(?:(?:us|me|you)\s+)?(?:with\s+)?(?:only\s+|just\s+)?",
    re.IGNORECASE,
)
_MOST_IS = late(
    r"(?<!-)\b(?:most\s+\w+|best|correct|right|true)(?:\s+(?!alternatives?\b|distractors?\b|mistakes?\b)[\w'\u2019-]+){0,6}?"
    r"\s+(?:is|would\s+be)\b:?\s{0,9}"
    r"|^\W*(?:most\s+(?:likely|probable|appropriate|suitable)|best|correct|final|working|leading)"
    r"(?:\s+[\w'\u2019-]+){1,4}:\s{0,9}",
    re.IGNORECASE,
)
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
_OWN_LETTER = r"(?:(?:option|choice|answer)\s+)?[(\[\"']{0,3}((?-i:[A-Z]))"
_THEREFORE = late(
    r"(?:\u2192|[=-]>|\bfinal:|\b(?:therefore|thus|hence|so|conclusion|it\s+is|it['\u2019]s|it\s+(?:must|has\s+to)\s+be"
    r"|(?:this|that)\s+is|that['\u2019]s|(?:this|that|it)\s+would\s+be|I\s+meant?|actually|by\s+elimination))"
    r"[,:]?\s+(?:it(?:['\u2019]s|\s+is)\s+)?(?:(?:the|answer|is)\s+){0,2}"
    rf"{_OWN_LETTER}"
    r"(?=[)\]\"'.!]{0,4}\s*$|[)\]\"']{0,2}(?:[;!]|,(?!\s?(?-i:[A-Z])\b))|[)\]\"']{0,2}\s+because\b"
    r"|[)\]\"']{0,2}\.\s+(?-i:[A-Z])|\sit\s+is\b|\)\s(?-i:[A-Z])|\sis\s(?:the|an?|what)\s(?![^.]*\b(?:not\sthe|wrong|incorrect|distractor|trap)\b)|\s\((?-i:[a-z ]{2,20})\)[\s.]*$)",
    re.IGNORECASE,
)
_CONCLUDED = late(
    r"^\W*(?:so|thus|therefore|hence|consequently|accordingly|overall|in\s(?:short|sum|conclusion|summary))\b"
    r"[^?]{0,200}?(?:\u2192|=>?|\b(?:is|are|remains|leaves|must\sbe|would\sbe)(?:\sthen)?)\s"
    rf"{_OWN_LETTER}[)\]\"']{{0,2}}"
    r"(?=[.!]?\s*$|\s?[\u2013\u2014:(]|\s-\s|,\s(?:because|since|as|which|given)\b)"
    r"|(?:[:;,\u2013\u2014(]\s?|\s-\s|\b(?:so|thus|hence|therefore)\s)(?:the\s)?answer\s(?:is\s)?"
    r"[(\[]?((?-i:[A-Z]))[)\]]{0,2}(?=\)?[.!]?\s*$|[.,;]\s)"
    r"|^\W*answer\s(?:option|choice|letter)\s[(\[]?((?-i:[A-Z]))[)\]]?(?=[.!]?\s*$)",
    re.IGNORECASE,
)
_IS_IT = late(
    r"(?:^\W*|[,:\u2013\u2014]\s|\b(?:so|option|choice|statement)\s)\(?((?-i:[A-Z]))\)?\sit\sis(?=[.,;:!]|\s*$)"
    r"|\b(?:option|choice|statement)\s\(?((?-i:[A-Z]))\)?\sis\sthe\s(?:true|correct|right)\sone\b",
    re.IGNORECASE,
)
_GOES_ON = late(
    r"(?:(?:the\s+)?(?:option|choice|answer|letter)\s+)?[(\[\"']{0,2}([A-Z])[)\]\"']{0,2}\s+"
    r"(?:(?:and|then|to)\s+(?=[a-z]{2})|(?:here|now|overall|at\s+this\s+(?:point|stage|time)"
    r"|in\s+(?:this|that|the)\s+(?:present\s+)?(?:case|patient|man|woman|child|setting|situation|scenario|instance|question|context))"
    r"(?=\s*(?:[.,;:!\n]|$))|(?:for|in|with)\s+(?:him|her|them|this|the\s)|as\s+(?:the|my)\s+(?:\w+\s+){0,3}(?:answer|choice|step|option))"
)
"""A letter that is chosen, with what the sentence goes on with."""
_WITH_MORE = late(
    r"(?:(?:option|choice|answer)\s)?[(]?[A-Z][)]?\s(?:with|plus)\s(?!(?:him|her|them|this|the)\b)"
)
"""A letter that is chosen together with something else."""
_MAY = late(r"\b(?:might|may|could|can|either)\b", re.IGNORECASE)
_LONE_LETTER = late(r"[A-Z](?<!\w[A-Z])(?!\w)")
_STANDALONE = late(r"(?<![\w'\u2019-])\(?[A-Z]\)?(?![\w'\u2019-])")
_QUOTED = late(r"\S{0,3}[\"'\u201d\u2019]\s+(?:is|was|would|may|seems)\b")
_NEAR_CUT = 20
"""Characters behind a lettered line within which a cut makes it unclear."""
_REACH = 300  # characters beside a statement that may change it: a reply may be one long sentence
OF_OTHERS = late(
    r"\b(?:why\snot|(?:the\s)?others?|incorrect|wrong|rejected|eliminated|ruled\sout|(?:less|un)\s?likely)\b"
    r"[^.]{0,60}$",
    re.IGNORECASE,
)
"""A heading of options that are not chosen."""
_HEADING = late(r"\W{0,9}\|\W{0,4}(?::\W{0,4}|\([A-Z]\)\s(?!because|since|as\b|due|given|which))\w")
_NOT_OTHER = late(r"[,(\s]{1,3}(?:not|rather\sthan|instead\sof|over)\s(?:the\s)?\s?\|")
_ONLY_IF = late(r"\b(?:if|unless|only\s+when)\b", re.IGNORECASE)
_CONDITION = late(words("condition"), re.IGNORECASE)
_OTHERS = late(words("others"), re.IGNORECASE)
_WOULD = late(r"\b(?:w\u00e4re|ser\u00eda|seria|serait|sarebbe)\b", re.IGNORECASE)
_NOT_BEHIND = late(
    "\\s?\\S{0,2}\\s?(?:\uc544\ub2c8|\uc544\ub2d9|\uc54a|\u3067\u306f\u306a|\u3067\u306f\u3042\u308a|\u3058\u3083\u306a)"
)
"""Denials behind the word that they deny, in Korean and Japanese."""
_CONCLUSION = late(r"[,;]\s(?:and\s)?(?:so|thus|hence|therefore)\b", re.IGNORECASE)
_CLAUSE = late(
    r"\b(?:that|think|believe|say|so|therefore|thus|hence|why|conclude|but|however)\b[:,]?\s+"
)


@dataclass(frozen=True)
class Statement:
    """One place where a text states an option."""

    letter: str
    start: int
    """Its position, and -1 for lines that hold nothing else."""
    is_strong: bool
    """A statement of the answer, not of what is best in some respect."""


class _Place(NamedTuple):
    """A sentence of a text, and a match of a frame in it."""

    options: Options
    text: str
    start: int
    sentence: str
    match: re.Match[str]

    @property
    def before(self) -> str:
        return self.sentence[max(0, self.match.start() - _REACH) : self.match.start()]

    @property
    def behind(self) -> str:
        return self.sentence[self.match.end() : self.match.end() + _REACH]

    @property
    def line(self) -> str:
        """The rest of the line, as far as a stated value can reach."""
        at = self.start + self.match.end()
        end = self.text.find("\n", at, at + self.options.reach)
        return self.text[at : end if end >= 0 else at + self.options.reach]


def statements(options: Options, text: str) -> list[Statement]:
    """Return what a text states, lists left out."""
    found = [Statement(letter, -1, True)] if (letter := ticked(options, text)) else []
    bare = without_lists(options, text)
    found += _set_in_bold(options, bare) if "**" in bare else []
    plain = bare.replace("*", "").replace("`", "")
    if " if " in plain or plain[:3] in ("If ", "if "):
        plain = _FORCED.sub("I choose ", plain)
    found += _lines(options, plain)
    sides: dict[_Frame, list[Statement]] = {}
    for start, sentence in _sentences(plain):
        if not options.may_name(sentence):
            continue
        lower = sentence.casefold()
        is_question = options.blanked(sentence).rstrip(CLOSERS + " \n").endswith("?")
        words = () if is_question else filter(lower.__contains__, _BY_WORD)
        has_letter = _LONE_LETTER.search(sentence) is not None
        for number in sorted({n for word in words for n in _BY_WORD[word]}):
            frame = _FRAMES[number]
            if frame.is_lettered and not has_letter:
                continue
            for match in frame.pattern.finditer(sentence):
                place = _Place(options, plain, start, sentence, match)
                if (letter := frame.read(place)) and _is_meant(place):
                    stated = Statement(letter, start + match.start(), frame.is_strong)
                    sides.setdefault(frame, []).append(stated)
        end = start + len(sentence) + _NEAR_CUT
        is_whole = len(plain) <= SHORT and not is_question and CUT not in plain[start:end]
        if is_whole and len(sentence.strip(" .")) > 1 and (letter := options.whole(sentence)):
            sides.setdefault(_WHOLE, []).append(Statement(letter, start, True))
    for frame, each in sides.items():
        if frame.several == "last":
            found.append(replace(each[-1], is_strong=each[-1].letter != UNCLEAR))
        else:
            found += _in_one_way(each) if frame.several == "none" else each
    return found + list(_in_other_languages(options, plain, languages_of(text)))


def _set_in_bold(options: Options, text: str) -> Iterator[Statement]:
    """Yield the lettered options that a sentence, no line or list, sets in bold."""
    stated = []
    for match in _BOLD.finditer(text):
        before = SENTENCE_END.split(text[max(0, match.start() - 200) : match.start()])[-1]
        if (
            before.strip()
            and options.is_own(match[1])
            and not NOT_CHOSEN.search(options.blanked(before))
        ):
            stated.append(Statement(options.letter_at(match[1]), match.start(), True))
    return _in_one_way(stated)


def _sentences(text: str) -> Iterable[tuple[int, str]]:
    """Return the last sentences of a text with their marks, each with its place."""
    ends = [0, *(match.end() for match in SENTENCE_END.finditer(text)), len(text)]
    found = [(a, text[a:b]) for a, b in zip(ends, ends[1:], strict=False) if b > a]
    return found[-_MANY:]


def _in_one_way(found: Sequence[Statement]) -> Iterator[Statement]:
    """Yield what is stated in one way; several options so are gone through, and left open."""
    several = len({s.letter for s in found} - {UNCLEAR}) > 1
    for s in found:
        yield replace(s, letter=UNCLEAR, is_strong=False) if several else s


def _is_meant(place: _Place) -> bool:
    """Return whether a sentence means what it states: not if, not others."""
    before = CONTRAST.split(place.before)[-1]
    aside = ASIDE.search(before)
    if aside and aside[0].lower().endswith(("n't", "n\u2019t", "not")):
        before = _CONCLUSION.split(before)[-1]  # "it isn't X, so the answer is Y"
    if ASIDE.search(before) or OTHER_ANSWER.search(before) or CONCEDED.search(before):
        return False
    behind = place.behind
    if _QUOTED.match(behind) or UNDONE.search(behind):
        return False
    if place.match[0].lower().startswith("would") and ELSEWHERE.match(behind):
        return False
    return not _ONLY_IF.search(place.options.blanked(behind))


def _answer(place: _Place) -> str:
    """Return the option behind `the answer is`, or the only one that the rest of the sentence names."""
    options, line = place.options, place.line
    if letter := options.read(line):
        return letter
    sentence = SENTENCE_END.split(line)[0]
    found = options.texts_in(sentence)
    is_other = len(found) != 1 or NOT_CHOSEN.search(options.blanked(sentence))
    return "" if is_other else found.pop()


def _best(place: _Place) -> str:
    letter = "" if DENIED.search(place.match[0]) else place.options.read(place.line)
    return letter if letter != UNCLEAR else ""


def _choice(place: _Place) -> str:
    """Return what is chosen; behind a letter the sentence may go on."""
    before = place.sentence[: place.match.start("verb")]
    clause = _CLAUSE_END.split(before)[-1]
    if _MAY.search(clause) or DOUBT.search(clause) or ASIDE.search(before):
        return ""
    options, value = place.options, place.line
    if goes_on := _GOES_ON.match(value):
        others = options.texts_in(SENTENCE_END.split(value)[0]) - {goes_on[1]}
        return UNCLEAR if others else options.known(goes_on[1])
    return UNCLEAR if _WITH_MORE.match(value) else options.read(value)


def _left(place: _Place) -> str:
    """Return the one option that is left, unless the sentence leaves more open."""
    behind = place.options.blanked(place.behind)
    if UNSETTLED.search(place.before) or UNSETTLED.search(behind):
        return ""
    return "" if DENIED.search(behind) else place.options.read(place.line)


def _subject(place: _Place) -> str:
    """Return the option of which a sentence goes on to say that it is right."""
    options, subject = place.options, place.before
    if re.search(r"\b(?:is|are|was|were)\b", subject) or "," in subject:
        subject = re.split(r"\b(?:and|but|while|whereas)\b|,", subject)[-1]
    subject = _CLAUSE.split(subject)[-1].strip(" \t,")
    return options.letter_at(without_lead(subject)) or options.whole(subject)


def _letter(place: _Place) -> str:
    letter = next(group for group in place.match.groups() if group)
    return letter if letter in place.options.own else ""


def _headed(place: _Place) -> str:
    return place.options.read(place.line)


def _last(place: _Place) -> str:
    """Return the letter at the end of a reply whose last sentence names no other one."""
    letter = _letter(place)
    is_end = not place.text[place.start + len(place.sentence) :].strip() and CUT not in place.text
    others = {
        m[0].strip("() .") for m in _STANDALONE.finditer(place.before)
    } & place.options.own.keys()
    before = place.options.blanked(place.before)
    is_denied = NOT_CHOSEN.search(before) is not None
    return letter if is_end and not others and not is_denied else ""


def _concluded(place: _Place) -> str:
    before = place.options.blanked(place.before + place.match[0])
    return "" if DOUBT.search(before) or DENIED.search(before) else _letter(place)


class _Frame(NamedTuple):
    """A form in which sentences state an option."""

    pattern: re.Pattern[str]
    words: tuple[str, ...]
    """A sentence without any of these has no match."""
    read: Callable[[_Place], str]
    is_strong: bool = True
    is_lettered: bool = False
    """True if a sentence without a letter of its own has no match."""
    several: str = "all"
    """The ones that count where a text has several in this form: `all`, the `last`, `none` (a walk through them)."""


_ANSWERS: tuple[str, ...] = ("answer", "option", "choice", "label", "verdict", "letter")
_CHOICES = (
    *("choos", "select", "pick", "opt", "go", "vote", "say", "think", "believe", "guess"),
    *("answer", "prefer", "favo", "lean", "settle", "bet", "conclude", "rate", "label"),
    *("classify", "grade", "put"),
)
_RIGHT = ("correct", "answer", "true", "right")
_THUS = (
    *("\u2192", "=>", "->", "final:", "therefore", "thus", "hence", "so", "conclusion"),
    *("it", "this", "that", "mean", "actually", "elimination"),
)
_FRAMES = (
    _Frame(_ANSWER_IS, _ANSWERS, _answer),
    _Frame(_CHOOSE, _CHOICES, _choice),
    _Frame(_IS_CORRECT, _RIGHT, _subject, several="none"),
    _Frame(_THEREFORE, _THUS, _letter, is_lettered=True),
    _Frame(
        _CONCLUDED,
        ("so", "thus", "therefore", "hence", "ly", "overall", "in ", *_ANSWERS),
        _concluded,
        is_lettered=True,
    ),
    _Frame(_IS_IT, (" it is", " one"), _letter, is_lettered=True),
    _Frame(
        _HEADED, ("line", "pick", "conclusion", "false", "incorrect", "untrue", "wrong"), _headed
    ),
    _Frame(_IS_THUS, ("therefore", "thus", "hence", "then"), _headed),
    _Frame(_LAST, ("",), _last, is_lettered=True),
    _Frame(_LEAVES, ("leav", "left", "narrow"), _left, several="last"),
    _Frame(
        _MOST_IS, ("most", "best", "final", "working", "leading", *_RIGHT), _best, is_strong=False
    ),
    _Frame(
        _IS_BEST, ("most", "prefer", "better", "best"), _subject, is_strong=False, several="none"
    ),
)
_BY_WORD = {
    word: [n for n, frame in enumerate(_FRAMES) if word in frame.words]
    for word in dict.fromkeys(word for frame in _FRAMES for word in frame.words)
}
"""The frames by each of their words: most sentences hold few of them."""
_WHOLE = _Frame(SENTENCE_END, (), _letter, several="none")
"""A sentence that is an option's text and nothing else."""


def _in_other_languages(
    options: Options, plain: str, languages: Sequence[str]
) -> Iterator[Statement]:
    for language in languages:
        right: list[Statement] = []
        for start, sentence in _sentences(plain):
            if not options.may_name(sentence) or sentence.rstrip(CLOSERS + " \n").endswith("?"):
                continue
            for match in answer_is(language).finditer(sentence):
                place = _Place(options, plain, start, sentence, match)
                if _is_meant_abroad(place) and (letter := options.read(place.line)):
                    yield Statement(letter, start + match.start(), True)
            for match in is_right(language).finditer(sentence):
                place = _Place(options, plain, start, sentence, match)
                if _is_meant_abroad(place) and (letter := _subject(place)):
                    right.append(Statement(letter, start + match.start(), True))
        yield from _in_one_way(right)


def _is_meant_abroad(place: _Place) -> bool:
    """Return whether a sentence in another language means what it states."""
    clause = _CLAUSE_END.split(place.before)[-1]
    said, behind = clause + place.match[0], place.behind
    is_denied = DOUBT.search(said) or ASIDE.search(clause) or _CONDITION.search(place.before)
    is_denied = is_denied or _OTHERS.search(place.before) or _NOT_BEHIND.match(behind)
    is_denied = is_denied or (_WOULD.search(said) and _CONDITION.search(behind))
    return not (is_denied or UNDONE.search(behind))


def _lines(options: Options, plain: str) -> Iterator[Statement]:
    """Yield what single lines state: the first, the last, and lettered ones."""
    lines = [line for line in plain.split("\n") if line.strip()]
    lettered = options.lettered_lines(plain)
    if not lines or lettered is None:
        return
    at = len(plain) - len(plain.lstrip())
    is_lettered = any(m.start() <= at < m.end() for m in lettered)
    if not is_lettered and CUT not in plain[at : at + len(lines[0]) + _NEAR_CUT]:
        yield from _of_line(_first_line(options, lines))
    items = []
    for match in lettered:
        if CUT in plain[match.start() : match.end() + _NEAR_CUT]:
            continue  # it may begin a list
        if OF_OTHERS.search(plain[: match.start()].rstrip().rpartition("\n")[2]) or CROSS.search(
            plain, match.start(), match.start(1)
        ):
            continue
        is_first = match.start() <= at < match.end()
        if options.is_own(match[1]) or (is_first and not WRONG.match(match[1][2:])):
            letter = options.letter_at(plain[match.start(1) : match.end() + options.reach])
            if is_first:
                yield from _of_line(letter)
            elif letter:
                items.append(Statement(letter, match.start(), True))
    yield from _in_one_way(items)
    if len(lines) > 1 and CUT not in lines[-1]:
        yield from _of_line(options.whole(lines[-1]))


def _of_line(letter: str) -> Iterator[Statement]:
    if letter:
        yield Statement(letter, -1, True)


def _first_line(options: Options, lines: Sequence[str]) -> str:
    """Return what a first line without a leading letter says, unless it opens a list."""
    line = lines[0]
    letter = options.read(line)
    if not letter or len({begun for line in lines[:50] if (begun := options.text_at(line)[0])}) > 1:
        return ""
    is_telling = any(letter == own for _, own in options.telling)
    if LETTER.match(without_lead(line)) or not is_telling or options.whole(line):
        return letter
    blanked = options.blanked(line.strip())
    first = _NOT_OTHER.sub("", SENTENCE_END.split(blanked)[0])
    return "" if _HEADING.match(blanked) or NOT_CHOSEN.search(first) else letter
