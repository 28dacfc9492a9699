"""Completion text -> the option that it commits to, or why none is read. Nothing is guessed.

Statements are found (`marks` of a final answer, `statements` in sentences and lines), ranked (marks, then
statements of the answer, then of what is best, then a mention in a short reply) and settled: those of the
first rank that has any must agree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from medhelm.extract.languages import with_english_yes, with_latin_letters
from medhelm.extract.late import late
from medhelm.extract.lists import SHARE, begins_list, without_lists
from medhelm.extract.marks import Mark, Reading, all_marks, own_text, unify
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
    THIS_IS_WRONG,
    UNTIL_PROVEN,
    taken_back,
)
from medhelm.extract.relabelled import with_letters
from medhelm.extract.sentences import SENTENCE_END
from medhelm.extract.statements import OF_OTHERS, SHORT, Statement, statements

_HEAD, _TAIL = 2_000, 14_000
"""Characters at both ends of a long completion in which statements are looked for."""
_NEAR_CUT = 40
"""Characters behind a marked line within which a cut makes it unclear whether it begins a list."""
_MENTION = late(
    r"\(([A-Z])\)|\b(?:[Oo]ption|[Cc]hoice)\s+\(?([A-Z])(?![\w'\u2019-])|\*\*([A-Z])\*\*"
)
_IN_BRACKETS = late(
    r"(?:^\W*(?!(?i:see|compare|cf|consider|refer|note|like|as|per|unlike|first|next|take|look|start\w*)\b)"
    r"[^\W\d_][\w'\u2019-]*(?:\s[\w'\u2019-]+){0,3}|\b(?i:this|it|that)(?:['\u2019]s|\sis)\s[^,:;()]{1,80})"
    r"\s{0,2}\((?:[Oo]ption\s|[Cc]hoice\s)?[A-Z]\)\W*$"
)
"""A few words, or what it is, and the letter in brackets."""
_IS_OPTION = late(
    r"(?:\b(?:is|are)|\bit['\u2019]s)\s(?:(?:an?|the)\s)?\s?\|\s?[\s.!]*$", re.IGNORECASE
)
"""A sentence that ends by saying that something is the option."""
_ASIDE_END = late(r",\s(?:while|whereas|unlike)\b")
_BUT = late(r",\s+(?:but|although|though|however)\b", re.IGNORECASE)
"""A withdrawal of a mere mention. A statement outlives it."""
_LETTER_LAST = late(r"\b(?:option|choice|answer|one)\b[^.;,]{0,40}\bis\s\W{0,3}[A-Z]\W{0,4}$")
"""A sentence that ends with the letter of an option, whatever it says of it."""
_ONE_LETTER = late(r"([A-Z])(?:[\s,.]{1,3}\1){2,500}")
_UNDECIDED = late(
    r"\b(?:(?:could|may|might|can)\s(?:well\s)?be\s(?:either\s)?(?:option\s)?(?-i:[A-Z])\sor\s(?:option\s)?(?-i:[A-Z])\b"
    r"|(?:can['\u2019]t|cannot|can\snot|unable\sto|no\sway\sto|impossible\sto)\s(?:\w+\s)?"
    r"(?:decide|choose|tell|prefer|pick)\s(?:between|among|which|one\sof)\b)[^A-HJ-Z]{0,160}$"
)
"""The end of a reply that leaves it open which of two options is meant."""
_TEXT_KEY = late(
    r"[\"'](?:\w{1,12}_)?text[\"']\s{0,3}:\s{0,3}[\"']([^\"'\n]{1,300})[\"']", re.IGNORECASE
)
"""The text of what a JSON object answers, beside its letter."""
_TURNS = late(
    r"(?:[.!?;]\s{1,3}|\n\s{0,3})\W{0,4}(?:however|but|yet|although|though|that\ssaid|on\sthe\sother\shand"
    rf"|nevertheless|alternatively)\b[^.!?\n]{{0,300}}{CUT}",
    re.IGNORECASE,
)
"""The beginning of a sentence against what was said before, which the budget cut."""
_NEXT_LETTER = late(r"\W{0,9}([A-Z])[.):]\s")
"""The letter with which the line behind a mark begins."""


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
    return _read_choice(text, tuple(choices), is_cut, tuple(labels))


@lru_cache(maxsize=8)
def _read_choice(
    text: str, choices: tuple[str, ...], is_cut: bool, labels: tuple[str, ...]
) -> Reading[str]:
    """Read as `read_choice` says, once for all metrics of an instance."""
    if labels:
        text = with_letters(text, choices, labels)
    options = options_of(choices)
    own = options.before_next_question(with_latin_letters(unify(own_text(text))))
    if not own.strip():
        return Reading(None, "the reply is empty" if not text.strip() else "no answer of its own")
    if {("yes",), ("no",)} <= {*options.own.values()}:
        own = with_english_yes(own)
    bare = own.strip(CLOSERS + " .([{<")
    if own != bare and bare in options.own and choices[ord(bare) - ord("A")] != own in choices:
        return Reading(None, "the letter of one option is the text of another")
    if letter := _whole_reply(options, own, is_cut):
        return Reading(letter)
    marks = all_marks(own)
    if not marks and _UNDECIDED.search(own[-SHORT:]):
        return Reading(None, "it leaves open which option is meant")
    for choice in choices:
        if "?" in choice:  # an option that asks: its words state nothing else than themselves
            asks = unify(choice).strip()
            own = own.replace(asks, asks.replace("?", ""))
    if is_cut or "?" in "".join(choices):
        own += CUT * is_cut
        marks = all_marks(own)
    letters = _marked(options, own, marks) if marks else _stated(options, own)
    if len(letters) == 1 and letters != {UNCLEAR}:
        return Reading(letters.pop())
    return Reading(None, _why_not(options, own, letters, is_cut))


def extract_choice(text: str, choices: Sequence[str], *, is_cut: bool = False) -> str | None:
    """Return the letter (A is the first choice) of the option that a completion states, or None.

    `read_choice` gives the reason as well.
    """
    return read_choice(text, choices, is_cut=is_cut).value


def _whole_reply(options: Options, own: str, is_cut: bool) -> str:
    """Return the option that is all of a reply: its text, or a letter."""
    if same := _ONE_LETTER.fullmatch(own if not is_cut else own[: own.rfind(" ")]):
        return same[1] if same[1] in options.own else ""
    if len(own) < 9 and (bare := own.strip(CLOSERS + " \n.([{<")) in options.own:
        return bare
    return "" if is_cut else options.exact(own)


def _why_not(options: Options, own: str, letters: set[str], is_cut: bool) -> str:
    """Return why no single option is read, in words that hold nothing of the reply."""
    known = sorted(letters - {UNCLEAR})
    if len(known) > 1:
        named = f"{', '.join(known[:-1])} and {known[-1]}"
        return f"{'two' if len(known) == 2 else 'several'} options are stated: {named}"
    if UNCLEAR in letters and taken_back(own[-_TAIL:], 0):
        return "an answer is stated and taken back"
    prose = without_lists(options, own)
    if len(prose) < len(own):
        if SHARE.search(own):
            return "probabilities of several options"
        if len(prose.strip(" \n.,;:!" + CUT)) < max(20, len(own) // 10):
            return "the options are only listed"
    if is_cut:
        return "the reply was cut before it chose"
    if UNCLEAR in letters:
        return "what is stated names no single option"
    if options.texts_in(own[:_TAIL]) or _MENTION.search(own[:_TAIL]):
        return "an option is mentioned, not chosen"
    return "no option is stated"


def _marked(options: Options, own: str, marks: Sequence[Mark]) -> set[str]:
    """Return what the marks of a final answer read as, with what is stated beside them."""
    last = marks[-1]
    readings = [_read_mark(options, own, mark) for mark in marks]
    rest = own[last.start :]
    if not readings[-1]:
        found = {s.letter for s in statements(options, last.value)}
        readings[-1] = found.pop() if len(found) == 1 else UNCLEAR if found else ""
    if not readings[-1] and last.value[0].isdigit():
        return {UNCLEAR}
    if not readings[-1]:
        found = _stated(options, rest)
        if found or not any(readings) or HEDGE.search(last.value) or DOUBT.search(last.value):
            return found
    if readings[-1] == UNCLEAR:
        return {UNCLEAR}
    letters = {reading for reading in readings if reading and reading != UNCLEAR}
    letters |= {options.whole(match[1]) for match in _TEXT_KEY.finditer(own)} - {""}
    before = [s for s in statements(options, own[: marks[0].start][-SHORT:]) if s.is_strong]
    letters |= {s.letter for s in sorted(before, key=lambda s: s.start)[-1:]} - {UNCLEAR}
    if back := taken_back(rest[:_TAIL]):
        letters |= {UNCLEAR, *(s.letter for s in statements(options, rest[back[0] :]))}
    after = (s for s in statements(options, rest) if s.is_strong and s.start > 0)
    return letters | {s.letter for s in after} - {UNCLEAR}


def _read_mark(options: Options, own: str, mark: Mark) -> str:
    """Return what is marked, unless it begins a list of the options or is cut."""
    is_on_next_line = own[: mark.start].endswith("\n")
    if mark.value.endswith(CUT):
        bare = without_lead(mark.value.rstrip(CUT)).strip(CLOSERS + " ")
        if is_on_next_line or bare in options.own:
            return "" if is_on_next_line else bare
    if is_on_next_line and CUT in own[mark.start : mark.end + _NEAR_CUT]:
        return UNCLEAR
    bare = mark.value.strip(CLOSERS + " .")
    following = _NEXT_LETTER.match(own, mark.end)
    if not is_on_next_line and bare in options.own and following and following[1] <= bare:
        return bare  # a letter alone, and then the options once more
    return UNCLEAR if begins_list(options, own, mark.start) else options.read(mark.value)


def _stated(options: Options, text: str) -> set[str]:
    """Return the options that `text` states without marking one as final."""
    if len(text) > _HEAD + _TAIL:
        text = f"{text[:_HEAD]}\n\n{text[-_TAIL:]}"
    found = statements(options, text)
    if CUT in text and _TURNS.search(text) and not any(s.is_strong for s in found):
        return set()
    letters = _settle(found)
    if letters and (back := taken_back(text)):  # a "no" that leads may be an option
        before = _settle(statements(options, text[: back[0]]))
        after = _settle(statements(options, text[back[1] :]))
        if before and before != after:
            letters |= before | after | {UNCLEAR}
    if not letters and len(text) <= SHORT and CUT not in text and not HEDGE.search(text):
        letters = _mentions(options, without_lists(options, text))
    return letters


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
            if _LETTER_LAST.search(sentence) or OF_OTHERS.search(sentence):
                found.add(UNCLEAR)
            continue
        if NOT_CHOSEN.search(rest) or OF_ANOTHER.search(rest):
            found.add(UNCLEAR)
            continue
        found |= {letter if letter in options.own else UNCLEAR for letter in named}
        is_chosen = is_chosen or _chooses(rest, number in (0, len(sentences) - 1))
    return found if is_chosen or len(found) > 1 else set()


def _chooses(rest: str, is_edge: bool) -> bool:
    """Return whether a sentence names an option as the answer, or does nothing but name it.

    At an edge of the text its letter may end it in brackets.
    """
    plain = rest.replace("*", "")
    if _BUT.search(plain):
        return False
    if is_edge and _IN_BRACKETS.search(plain):
        return True
    if is_edge and (is_ := _IS_OPTION.search(plain)):
        return not OTHER_ANSWER.search(plain[: is_.start() + 1])
    around = re.findall(r"[^\W\d_]+", _MENTION.sub(" ", rest).lower())
    return bool(CHOSEN.search(rest)) or {*around} <= FILLERS
