"""Completion text -> the option that it commits to, or why none is read. Nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from medhelm.extract.conclusions import concluded
from medhelm.extract.language_forms import with_english_yes
from medhelm.extract.languages import with_latin_letters
from medhelm.extract.late import late
from medhelm.extract.listings import SHARE, begins_list, without_lists, without_others
from medhelm.extract.marks import Mark, all_marks, own_text, unify
from medhelm.extract.options import CLOSERS, CUT, UNCLEAR, Options, options_of, without_lead
from medhelm.extract.polarity import (
    CHOSEN,
    DENIED,
    DOUBT,
    FILLERS,
    HEDGE,
    NOT_CHOSEN,
    OF_ANOTHER,
    OTHER_ANSWER,
    RETRACTION,
    THIS_IS_WRONG,
    UNTIL_PROVEN,
)
from medhelm.extract.reading import Reading
from medhelm.extract.relabelled import with_letters
from medhelm.extract.statements import SENTENCE_END, SHORT, Statement, statements

_HEAD, _TAIL = 2_000, 14_000
"""Characters at both ends of a long completion in which statements are looked for."""
_MENTION = late(
    r"\(([A-Z])\)|\b(?:[Oo]ption|[Cc]hoice)\s+\(?([A-Z])(?![\w'\u2019-])|\*\*([A-Z])\*\*"
)

_ASIDE_END = late(r",\s(?:while|whereas|unlike)\b")
"""Matches the words at which a sentence leaves its own statement."""
_REST_OF_FEW = late(r"(?:\s(?!(?:and|or|is|are|to|of|in|per|with)\b)[a-z][a-z-]+){1,3}")
"""Matches the words that a short text adds to the option that it begins with."""
_IN_BRACKETS = late(
    r"(?:^\W*(?!(?i:see|compare|cf|consider|refer|note|like|as|per|unlike|first|next|take|look|start\w*)\b)"
    r"[^\W\d_][\w'\u2019-]*(?:\s[\w'\u2019-]+){0,3}|\b(?i:this|it|that)(?:['\u2019]s|\sis)\s[^,:;()]{1,80})"
    r"\s{0,2}\((?:[Oo]ption\s|[Cc]hoice\s)?[A-Z]\)\W*$"
)
"""A few words, or what it is, and the letter in brackets."""
_SO_IT_IS = late(
    r"(?:\b(?:so|therefore|thus|hence|consequently|accordingly)\b|[:\u2014]),?\s"
    r"(?:it|this|that|he|she|the\s(?:answer|diagnosis|patient|drug))(?:['\u2019]s|\s(?:is|has|needs|must\sbe|has\sto\sbe))\s"
    r"(?:(?:a|an|the|almost|certainly|most|likely|probably|clearly)\s){0,3}\s?\|",
    re.IGNORECASE,
)
_IS_OPTION = late(r"\s(?:is|are)\s(?:(?:a|an|the)\s)?\s?\|\s?[\s.!]*$", re.IGNORECASE)
"""Matches a sentence that asks for the option with which it ends."""
_ONE_LETTER = late(r"([A-Z])(?:[\s,.]{1,3}\1){2,500}")
_CHANGED = late(
    r"(?:^|[.!?\n]\s{0,3}|\b[Ss]o\s|\bNo,\s)I\s(?:hereby\s|therefore\s)?(?:(?:change|am\schanging|revise|correct)\smy\s(?:final\s)?(?:answer|pick|choice|guess)(?:\sto|:)|(?:stay|stick|remain)\swith)\s"
    r"(?=\(?(?:[Oo]ption\s)?[A-Z][).,;!\s]|\(?(?:[Oo]ption\s)?[A-Z]$|[^.;:()\n]{3,100}\s\([A-Z]\))"
)
"""Words that settle what a completion has wavered about."""
_AGAIN = late(
    r"(?:[.!?\u2013\u2014]\s|\n)\W*(?:(?:so|thus|therefore|hence|then),?\s)?(?:the|my)\sanswer\s(?:is|must\sbe|should\sbe)"
    r"(?:\s(?:therefore|thus|then|actually))?\s(?=\W{0,3}(?:option\s)?(?-i:[A-Z])\W{0,4}$)",
    re.IGNORECASE,
)
"""The answer in a whole sentence at the end, behind one that was withdrawn in its own sentence."""
_UNDECIDED = late(
    r"\b(?:(?:could|may|might|can)\s(?:well\s)?be\s(?:either\s)?(?:option\s)?(?-i:[A-Z])\sor\s(?:option\s)?(?-i:[A-Z])\b"
    r"|(?:can['\u2019]t|cannot|can\snot|unable\sto|no\sway\sto|impossible\sto)\s(?:\w+\s)?"
    r"(?:decide|choose|tell|prefer|pick)\s(?:between|among|which|one\sof)\b)[^A-HJ-Z]{0,160}$"
)
"""The end of a reply that leaves it open which of two options is meant; no option is named behind it."""
_IN_MIDST = ",;-\u2013\u2014"
_LED = late(
    r"\W{0,4}([B-Z])\W{0,4}?(?:\s[-\u2013\u2014]|[,:])?\s((?:(?:because|given)\b|(?:he|she|they|his|her|their)\s"
    r"|(?:the|this)\s(?:patient|man|woman|child|boy|girl|infant|newborn)\b)[^.;\n]{10,200})[.;\n]"
)
"""A letter, but not the first, which may begin a walk through all, and a whole clause of reasons."""
_TURNS = late(
    r"(?:[.!?;]\s{1,3}|\n\s{0,3})\W{0,4}(?:however|but|yet|although|though|that\ssaid|on\sthe\sother\shand"
    rf"|nevertheless|alternatively)\b[^.!?\n]{{0,300}}{CUT}",
    re.IGNORECASE,
)
"""The beginning of a sentence against what was said before, which the budget cut."""
_LETTER_LAST = late(r"\b(?:option|choice|answer|one)\b[^.;,]{0,40}\bis\s\W{0,3}[A-Z]\W{0,4}$")
"""A sentence that ends with the letter of an option, whatever it says of it."""
_NEXT_LETTER = late(r"\W{0,9}([A-Z])[.):]\s")
"""The letter with which the line behind a mark begins."""
_TEXT_KEY = late(
    r"[\"'](?:\w{1,12}_)?text[\"']\s{0,3}:\s{0,3}[\"']([^\"'\n]{1,300})[\"']", re.IGNORECASE
)
"""The text of what a JSON object answers, beside its letter."""
_BUT = late(r",\s+(?:but|although|though|however)\b", re.IGNORECASE)
"""Matches a withdrawal of a mere mention. A statement outlives it."""


def read_choice(
    text: str, choices: Sequence[str], *, is_cut: bool = False, labels: Sequence[str] = ()
) -> Reading[str]:
    """Return the letter (A is the first choice) of the option that a completion commits to.

    What counts, in this order: what is marked as final (`Answer: B`, a box, a JSON key), where all
    marks agree; statements, where they agree; in a short completion the one option that is
    mentioned as the answer. A completion that was cut by the budget is read by what it marks or
    states, never by a mention, and what touches the cut is not complete. Options that were shown under
    `labels` are read by those, and the letter of their place is returned.
    """
    if labels:
        text = with_letters(text, choices, labels)
    options = options_of(tuple(choices))
    own = options.before_next_question(with_latin_letters(unify(own_text(text))))
    if {("yes",), ("no",)} <= {*options.own.values()}:
        own = with_english_yes(own)
    own = without_others(options, own)
    changes = [] if all_marks(own) else [*_CHANGED.finditer(own)]
    if not changes and (again := _AGAIN.search(own)):
        back = _taken_back(own[: again.start() + 1], 1)
        changes = [again] if back and back[0][0] in _IN_MIDST and not all_marks(own) else []
    for change in changes[-1:]:
        own = f"I choose {own[change.end() :]}"
    if not own.strip():
        return Reading(None, "the reply is empty" if not text.strip() else "no answer of its own")
    bare = own.strip(CLOSERS + " .([{<")
    if (
        own != bare
        and own in choices
        and bare in options.own
        and choices[ord(bare) - ord("A")] != own
    ):
        return Reading(None, "the letter of one option is the text of another")
    letter = _whole_reply(options, own, is_cut)
    if letter:
        return Reading(letter)
    if _UNDECIDED.search(own) and not all_marks(own):
        return Reading(None, "it leaves open which option is meant")
    for choice in choices:
        if "?" in choice:  # an option that asks: its words state nothing else than themselves
            asks = unify(choice).strip()
            own = own.replace(asks, asks.replace("?", ""))
    if not is_cut and (letter := _few_words(options, own)):
        return Reading(letter)
    if is_cut:
        own += CUT
    marks = all_marks(own)
    letters = _marked(options, own, marks) if marks else _stated(options, own)
    if is_cut and not letters and not marks:
        letters = _led(options, own)
    if len(letters) == 1 and letters != {UNCLEAR}:
        return Reading(letters.pop())
    return Reading(None, _why_not(options, own, letters, is_cut))


def extract_choice(text: str, choices: Sequence[str], *, is_cut: bool = False) -> str | None:
    """Return the letter (A is the first choice) of the option that a completion states, or None.

    `read_choice` gives the reason as well.
    """
    return read_choice(text, choices, is_cut=is_cut).value


def _whole_reply(options: Options, own: str, is_cut: bool) -> str:
    """Return the option that is all of a reply: its text, or a letter where the budget is one."""
    if same := _ONE_LETTER.fullmatch(own if not is_cut else own[: own.rfind(" ")]):
        return same[1] if same[1] in options.own else ""
    if is_cut and (bare := own.strip(CLOSERS + " \n.([{<")) in options.own and len(own) < 9:
        return bare
    return "" if is_cut else options.exact(own)


def _few_words(options: Options, own: str) -> str:
    """Return the option whose text leads a reply of a few words that names no other."""
    words = own.split("(")[0].strip(" .*")
    if "\n" in own or len(own) > 60 or len(words.split()) > 6:
        return ""
    found = [match for match in options.find_texts(words)]
    if len(found) != 1 or found[0].start() > 0 or not _REST_OF_FEW.fullmatch(words, found[0].end()):
        return ""
    letter = options.whole(found[0][0])
    is_telling = found[0][0].isdigit() or letter in options.texts_in(words)
    rest = options.blanked(own)
    is_denied = NOT_CHOSEN.search(rest) or OF_ANOTHER.search(rest) or HEDGE.search(own)
    return "" if is_denied or not is_telling or letter == UNCLEAR else letter


def _why_not(options: Options, own: str, letters: set[str], is_cut: bool) -> str:
    """Return why no single option is read, in words that hold nothing of the reply."""
    known = sorted(letters - {UNCLEAR})
    if len(known) > 1:
        named = f"{', '.join(known[:-1])} and {known[-1]}"
        return f"{'two' if len(known) == 2 else 'several'} options are stated: {named}"
    if UNCLEAR in letters and RETRACTION.search(own[-_TAIL:]):
        return "an answer is stated and taken back"
    prose = without_lists(options, own)
    if len(prose) < len(own):
        listed = len(prose.strip(" \n.,;:!" + CUT)) < max(20, len(own) // 10)
        if SHARE.search(own):
            return "probabilities of several options"
        if listed:
            return "the options are only listed"
    if is_cut:
        return "the reply was cut before it chose"
    if UNCLEAR in letters:
        return "what is stated names no single option"
    if options.texts_in(own[:_TAIL]) or _MENTION.search(own[:_TAIL]):
        return "an option is mentioned, not chosen"
    return "no option is stated"


def _marked(options: Options, own: str, marks: Sequence[Mark]) -> set[str]:
    """Return what the marks of a final answer read as, with what is stated after the last one."""
    last = marks[-1]
    readings = [_read_mark(options, own, mark) for mark in marks]
    if not readings[-1]:
        found = {s.letter for s in statements(options, last.value)}
        readings[-1] = found.pop() if len(found) == 1 else UNCLEAR if found else ""
    if not readings[-1]:
        found = _stated(options, own[last.start :])
        if found or not any(readings) or HEDGE.search(last.value) or DOUBT.search(last.value):
            return found
    if readings[-1] == UNCLEAR:
        return {UNCLEAR}
    letters = {reading for reading in readings if reading and reading != UNCLEAR}
    letters |= {options.whole(match[1]) for match in _TEXT_KEY.finditer(own)} - {""}
    letters |= _stated_before(options, own[: marks[0].start])
    rest = own[last.start :]
    if back := _taken_back(rest, 1):
        letters |= {UNCLEAR, *(s.letter for s in statements(options, rest[back.start() :]))}
    letters |= {
        s.letter
        for s in statements(options, rest)
        if s.is_strong and s.letter != UNCLEAR and s.start > 0
    }
    return letters


def _stated_before(options: Options, text: str) -> set[str]:
    """Return what the end of a text states as the answer before a mark, taken back or not."""
    end = text[-SHORT:]
    strong = [s for s in statements(options, end) if s.is_strong and s.letter != UNCLEAR]
    return {max(strong, key=lambda s: s.start).letter} if strong else set()


def _read_mark(options: Options, own: str, mark: Mark) -> str:
    """Return what is marked, unless it begins a list of the options or is cut."""
    is_on_next_line = own[: mark.start].endswith("\n")
    if mark.value.endswith(CUT):
        bare = without_lead(mark.value.rstrip(CUT)).strip(CLOSERS + " ")
        if is_on_next_line or bare in options.own:
            return "" if is_on_next_line else bare
    bare = mark.value.strip(CLOSERS + " .")
    following = _NEXT_LETTER.match(own, mark.end)
    if not is_on_next_line and bare in options.own and following and following[1] <= bare:
        return bare  # a letter alone, and then the options once more
    if begins_list(options, own, mark.start):
        return UNCLEAR
    return options.read(mark.value)


def _taken_back(text: str, start: int) -> re.Match[str] | None:
    """Return where a completion takes back what it said, in its last characters from `start`."""
    return RETRACTION.search(text, max(start, len(text) - _TAIL))


def _stated(options: Options, text: str) -> set[str]:
    """Return the options that `text` states without marking one as final."""
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]}\n\n{text[-_TAIL:]}"
    found = list(statements(options, text))
    if _TURNS.search(text) and not any(s.is_strong for s in found):
        return set()
    letters = _settle(found) or concluded(options, text)
    if letters and (back := _taken_back(text, 1)):  # a "no" that leads may be an option
        before = _settle(list(statements(options, text[: back.start()])))
        after = _settle(list(statements(options, text[back.end() :])))
        if before and before != after:
            letters |= before | after | {UNCLEAR}
    if not letters and len(text) <= SHORT and CUT not in text and not HEDGE.search(text):
        letters = _mentions(options, without_lists(options, text))
    return letters


def _led(options: Options, own: str) -> set[str]:
    """Return the letter that leads a reply which was cut after a whole clause of its reasons."""
    led = _LED.match(own)
    if led is None or DENIED.search(led[2]) or without_lists(options, own) != own:
        return set()
    lettered = options.lettered_lines(own)
    if lettered is None or len(lettered) > 1 or _taken_back(own, 1):
        return set()
    letter = options.letter_at(own.lstrip("*([ ").replace("*", ""))
    return {letter} if letter == led[1] else set()


def _settle(found: Sequence[Statement]) -> set[str]:
    """Return the options on which statements settle: what is stated as the answer weighs more."""
    strong = [s for s in found if s.is_strong]
    if any(s.letter != UNCLEAR for s in strong):
        strong = [s for s in strong if s.letter != UNCLEAR or s.start >= 0]
    if not strong:
        return {s.letter for s in found}
    last = max(s.start for s in strong)
    weak = (s for s in found if not s.is_strong and s.start > last)
    return {s.letter for s in (*strong, *weak)}


def _mentions(options: Options, text: str) -> set[str]:
    """Return the options that a short text mentions, where one is mentioned as the answer."""
    found = {UNCLEAR} if THIS_IS_WRONG.search(text) else set()
    is_chosen = False
    text = re.sub(r"\?(?=\s)", "??", text)  # one of them ends the sentence
    sentences = [s for s in SENTENCE_END.split(text + " ") if s.strip()]
    for number, sentence in enumerate(sentences):
        sentence = UNTIL_PROVEN.sub("", sentence)
        main = _ASIDE_END.split(sentence)[0]
        if not (options.texts_in(sentence[len(main) :]) or _MENTION.search(sentence, len(main))):
            sentence = main
        named = {m[1] or m[2] or m[3] for m in _MENTION.finditer(sentence)}
        named |= options.texts_in(sentence)
        if named:
            named |= {
                options.whole(m[0]) for m in options.find_texts(sentence) if m[0][0].isdigit()
            }
        rest = options.blanked(sentence)
        if not named or DOUBT.search(rest) or DENIED.search(rest):
            if _LETTER_LAST.search(sentence):
                found.add(UNCLEAR)
            continue
        if NOT_CHOSEN.search(rest) or OF_ANOTHER.search(rest):
            found.add(UNCLEAR)
            continue
        found |= {letter if letter in options.own else UNCLEAR for letter in named}
        is_edge = number in (0, len(sentences) - 1)
        is_chosen = is_chosen or _chooses(rest, is_edge, is_alone=len(sentences) == 1)
    return found if is_chosen or len(found) > 1 else set()


def _chooses(rest: str, is_edge: bool, is_alone: bool) -> bool:
    """Return whether a sentence names an option as the answer, or does nothing but name it.

    At an edge of the text its letter may end it in brackets; alone, it may say what is the option.
    """
    plain = rest.replace("*", "")
    if _BUT.search(plain):
        return False
    if _SO_IT_IS.search(plain) or (is_edge and _IN_BRACKETS.search(plain)):
        return True
    if (
        is_alone
        and (is_ := _IS_OPTION.search(plain))
        and not OTHER_ANSWER.search(plain[: is_.start() + 1])
    ):
        return True
    around = re.findall(r"[^\W\d_]+", _MENTION.sub(" ", rest).lower())
    return bool(CHOSEN.search(rest)) or {*around} <= FILLERS
