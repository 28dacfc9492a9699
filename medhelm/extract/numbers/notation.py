"""Markdown, LaTeX and Unicode -> plain characters, for the readers of numbers and dates.

Every search is linear in the text's length.
"""

from __future__ import annotations

import re
from functools import lru_cache

from medhelm.extract.late import late

_GROUPED = late("(?<=\\d)(?:[\u00a0\u2009\u202f]|\\\\,)(?=\\d{3}(?!\\d))")
"""Spaces between thousands."""
_RAISED = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b\u207a"
_LOWERED = str.maketrans(_RAISED, "0123456789-+")
_POWER = late(rf"[{_RAISED}]{{1,4}}")
_HALVES = {"\u00bd": ".5", "\u00bc": ".25", "\u00be": ".75"}
_HALF = late("[\u00bc-\u00be]")
_PLAIN = {0xFF10 + d: str(d) for d in range(10)}
_PLAIN |= dict(zip(map(ord, "\uff0e\uff0c\uff0d\uff0b\uff05\uff1a\uff1d"), ".,-+%:=", strict=True))
_PLAIN |= {0x2080 + d: str(d) for d in range(10)}
_PLAIN |= dict.fromkeys(map(ord, "\u2212\u2010\u2011\ufe63"), "-")
_PLAIN |= dict.fromkeys(map(ord, "\u00a0\u2009\u202f\u2003\u2002\u2007"), " ")
_PLAIN |= dict.fromkeys(map(ord, "\u2248\u2243\u2245\u2252\u223c"), "\u2248")
_PLAIN |= dict.fromkeys(map(ord, "\u21d2\u27f9\u2794\u279c\u27a1\u27f6"), "\u2192")
_PLAIN |= {0x22C5: "\u00b7", 0x2217: "\u00d7", 0x00F7: "/", 0x2215: "/", 0x2044: "/"}
_PLAIN |= {0x3A3: " total ", 0x2211: " total ", 0x2234: "therefore ", 0x2026: "..."}
_PLAIN |= {0x2A7D: "\u2264", 0x2A7E: "\u2265", 0x2019: "'", 0x3002: ". ", 0x2500: "-"}

_ESCAPED_LINE_END = late(r"\\n(?![a-z])")
"""A line end within a JSON string. The names of LaTeX commands are in lower case."""
_COMMAND = late(
    r"\\(?:begin|end)\{[^{}]{0,20}\}|\\([A-Za-z]{1,20})\s?(\{)?|\\(.)|([\^_])\{|([{}])", re.DOTALL
)
_NAMES = {
    "Delta": "\u0394",
    "times": " \u00d7 ",
    "cdot": " \u00d7 ",
    "ast": " \u00d7 ",
    "div": " / ",
    "pm": " \u00b1 ",
}
_NAMES |= dict.fromkeys(("approx", "simeq", "sim", "cong", "approxeq"), " \u2248 ")
_NAMES |= dict.fromkeys(("le", "leq", "leqslant", "lt"), " \u2264 ")
_NAMES |= dict.fromkeys(("ge", "geq", "geqslant", "gt"), " \u2265 ")
_NAMES |= dict.fromkeys(
    ("to", "rightarrow", "Rightarrow", "longrightarrow", "implies", "Longrightarrow"), " \u2192 "
)
_NAMES |= {"therefore": " therefore ", "mu": "\u00b5", "circ": "\u00b0", "sqrt": "sqrt"}
_NAMES |= {"ln": " ln", "log": " log", "exp": " exp", "quad": " ", "qquad": " ", "newline": "\n"}
_FRACTIONS = ("frac", "dfrac", "tfrac", "cfrac")
_SIGNS = {"(": " ", ")": " ", "[": "\n", "]": "\n", "\\": "\n", "*": " * ", "!": ""}
_SPACES = ",;: >"

_STARS = late(r"\*+")
_UNDERSCORE = late(r"(?<!\w)_{1,3}(?=\S)|(?<=\S)_{1,3}(?!\w)")
_WORKED_OUT = late(
    r"((?:=\s?[\d.]{1,12}\s?/|[\d.]\s?[*\u00d7]|[\d.]\s?[-+]\s)\s?[\d.]{1,12})\s?\u2192\s?(?=[\d.-])"
)
"""An arrow from a calculation to its result (`8/10 \u2192 0.8`)."""
_ARROW = late(r"[-=]{1,3}>")
_COMPARISON = late(r"([<>])=|~=|==+|&lt;|&gt;|<br ?/?>")
_COMPARED = {"<=": "\u2264", ">=": "\u2265", "~=": "\u2248", "&lt;": "<", "&gt;": ">"}
_EXPONENT = late(r"\^\s?\(\s?([-+]?\d{1,3}(?:\.\d{1,6})?)\s?\)")
_LEADERS = late(
    r"(?<=[\w)%])(?:[ \t]?\.){3,60}[ \t.]{0,3}(?=[-+]?\.?\d)|(?<=[\w)%])[ \t]\.{1,2}[ \t](?=[-+]?\d)"
    r"|(?<=[\w)%])[ \t]?(?:[-_\u2013\u2014][ \t]?){3,60}(?=\d)"
)
"""Dots or dashes that lead from a name to its value."""
_LEADING = late(r"\.[ \t]?\.|[ \t]\.|[-_\u2013\u2014][ \t]?[-_\u2013\u2014]")
"""A part of them, which is looked for first."""
_TIMES = late(
    r"(?<=[\w)\]])\sx\s(?=[\[({\d]|(?:min|max)\b|[A-Za-z\u0391-\u03c9]{1,14}\s?[\[(/^])",
    re.IGNORECASE,
)
"""The letter x between two factors of a formula."""
_ABOUT = late(r"~(?=[ \t]{0,2}[-+]?\.?\d)")
_SPAN = late(r"(?<=\d)\s?[~\u301c\uff5e]\s?(?=\d)")
"""The sign between the ends of a range."""
_ROUND_CALL = late(r"\bround\(([^(),\n]{1,40}),\s?\d\)")
_PROMPT = late(r"^>>>[ \t]?", re.MULTILINE)
_DAY = late(
    r"\.(?:(?<=(?<![\d.])\d\.)|(?<=(?<![\d.])\d\d\.))(?=\s(?:Jan|Feb|M\u00e4r|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez)[a-z]{0,6}\.?\s\d{4})"
)
"""The point behind a day before a German month. It ends no sentence."""
_DECIMAL_COMMA = late(
    r"(?<![\d.,])(?:0,\d+|\d{1,4},\d{1,2}(?=\s?(?:%|mmHg\b|m?Osm|m?Eq\b|MME\b|I?U/|ms(?:ec)?\b|"
    r"[kcmd\u00b5n]?(?:g|[lL]|m|mol)(?![A-Za-z]))))(?![\d,])"
)
"""A number with a unit that a comma can only divide into a whole and its decimals."""
_LONE_COMMA = late(r"(?<![\d.,])0,(?=\d{1,6}(?![\d,])\s?(?:%|[^\W\d_]{1,6}/))")
"""A comma behind a zero, before a percent sign or a rate."""
_WORKED_COMMA = late(
    r"(?<![\d.,])\d{1,4},\d{1,2}(?=\s?[-+*/\u00d7=\u2248)}])(?![\d,])|[-+*/\u00d7\u2248=<>{]\s?\d{1,4},\d{1,2}(?![\d,])"
)
"""A number with a decimal comma in a calculation."""
_POINT = late(r"\d\.(?!\d{3}(?:,\d|(?!\d)))\d|\d,\d{3},\d{3}(?!\d)")
"""Matches a sign that a text writes decimals with a point, or thousands with a comma."""
_ROUNDED_COMMA = late(
    r"(?<![\d.,])(\d{1,3}),\d{3}(?![\d,]|\.\d)(?:[^\d\n]|\^\d){1,40}(?<![\d.,])\1,\d{1,2}(?![\d,]|\.\d)"
)
"""A number whose comma is a decimal one, since its own rounding follows (`27,635, gerundet 27,6`)."""
_EITHER_COMMA = late(r"\d,\d{3}(?!\d)(?<!\D0,\d{3})")
"""A comma that may also divide thousands."""
_THOUSANDS = late(r"(?<=\d)\.(?=\d{3}(?!\d))")
_BESIDE_HAN = late(
    r"(?<=[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])(?=-?\d)|(?<=[\dA-Za-z%])(?=[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])"
)
"""Between a number or its unit and a character of Chinese, Japanese or Korean, which would be letters of one word."""
_OF_MOST = late(
    r"(\b(?:score|total|points|result|tally)\b[^\w\n]{0,12}\d{1,2})\s/\s(?=\d{1,2}(?:\W{0,4}(?:\n|$)|\s?[.,;(]))",
    re.IGNORECASE,
)
"""Points and a space before the slash and their maximum (`Final score 6 / 9.`)."""
_SLASH = late(r"/(?<=\s/)\s")
_COMMA = late(r",(?<=\d,)(?=\d)")
_BODY_SURFACE = late(r"(?:/|\bper\b)\s{0,3}1\.73\s{0,3}\(?m", re.IGNORECASE)


@lru_cache(maxsize=8)
def plain(text: str) -> str:
    """Return `text` with plain digits and operators, without marks of emphasis and LaTeX.

    Of `*` only operators are left. A power is written with `^`, a fraction with `/`.
    """
    text = _DAY.sub("", text).replace("{,}", ",")
    if "\\," in text or not text.isascii():
        text = _GROUPED.sub(",", text)
    if not text.isascii():
        text = text.replace("\ufe0f", "")
        text = _HALF.sub(lambda m: _half(m), text).translate(_PLAIN)
        text = _POWER.sub(lambda m: "^" + m[0].translate(_LOWERED), text)
        text = _BESIDE_HAN.sub(" ", text)
    if "\\n" in text:
        text = _ESCAPED_LINE_END.sub("\n", text)
    if "\\" in text or "{" in text:
        text = _without_latex(text)
    text = _STARS.sub(lambda m: _operator(m), text)
    text = text.replace("`", "").replace("$", " ")
    if "_" in text:
        text = _UNDERSCORE.sub("", text)
    if ">>>" in text or "round(" in text:
        text = _PROMPT.sub("", _ROUND_CALL.sub(r"\1", text))
    if any(tilde in text for tilde in "~\u301c\uff5e"):
        text = _ABOUT.sub("\u2248", _SPAN.sub("\u2013", text))
    if " x " in text:
        text = _TIMES.sub(" \u00d7 ", text)
    text = _ARROW.sub("\u2192", text)
    if "\u2192" in text:
        text = _WORKED_OUT.sub(r"\1 = ", text)
    if _LEADING.search(text):
        text = _LEADERS.sub(": ", text)
    if _SLASH.search(text):
        text = _OF_MOST.sub(r"\1/", text)
    if "," in text:
        text = with_points(text)
        text = _COMPARISON.sub(lambda m: _COMPARED.get(m[0], "\n" if m[0][0] == "<" else "="), text)
    if "^" in text:
        text = _EXPONENT.sub(r"^\1", text)
    return _BODY_SURFACE.sub("/m", text) if "1.73" in text else text


def with_points(text: str) -> str:
    """Return `text` with decimal points. How the whole text writes decimals decides of a comma."""
    text = text.replace("{,}", ",")
    if not _COMMA.search(text):
        return text
    text = _ROUNDED_COMMA.sub(lambda match: match[0].replace(",", "."), text)
    is_sure = _DECIMAL_COMMA.search(text) is not None or len(_WORKED_COMMA.findall(text)) > 1
    if is_sure and _EITHER_COMMA.search(text):
        is_sure = len(_DECIMAL_COMMA.findall(text)) + len(_WORKED_COMMA.findall(text)) > 1
    if is_sure and not _POINT.search(text):
        return _COMMA.sub(".", _THOUSANDS.sub("", text))
    return _LONE_COMMA.sub("0.", text)


def _half(match: re.Match[str]) -> str:
    has_digit = match.string[match.start() - 1 : match.start()].isdigit()
    return ("" if has_digit else "0") + _HALVES[match[0]]


def _operator(match: re.Match[str]) -> str:
    """Return the meaning of stars: a product, a power, a bullet or nothing (emphasis)."""
    text, start, end = match.string, match.start(), match.end()
    before, after = text[start - 1 : start] if start else "\n", text[end : end + 1] or "\n"
    is_operand = (before.isalnum() or before in ")]%") and (after.isalnum() or after in "([-+")
    if end - start == 1:
        if is_operand and not before.isspace():
            return "*"
        if before == " " and after == " ":
            line = text[max(0, start - 6) : start]
            return (
                "-"
                if "\n" in line + "\n" * (start < 6) and not line.split("\n")[-1].strip()
                else "*"
            )
        return "-" if before == "\n" and after == " " else ""
    return "^" if end - start == 2 and is_operand and (after.isdigit() or after in "(-+") else ""


def _without_latex(text: str) -> str:
    """Return `text` with LaTeX commands written plainly; other braces stay."""
    out: list[str] = []
    closers: list[str] = []
    at, denominator = 0, -1
    for match in _COMMAND.finditer(text):
        out.append(text[at : match.start()])
        at = match.end()
        name, opened, sign, script, brace = match.groups()
        if name:
            is_fraction = name in _FRACTIONS
            if opened:
                closers.append("/" if is_fraction else ")" if name == "sqrt" else "")
            opening = "(" if is_fraction else "sqrt(" if name == "sqrt" else _NAMES.get(name, "")
            out.append(opening if opened else _NAMES.get(name, ""))
        elif sign:
            out.append(_SIGNS.get(sign, " " if sign in _SPACES else sign))
        elif script:
            out.append("^(" if script == "^" else "_")
            closers.append(")" if script == "^" else "")
        elif brace == "{":
            is_denominator = match.start() == denominator
            out.append("" if is_denominator else "{")
            closers.append(")" if is_denominator else "}")
        elif brace == "}":
            closer = closers.pop() if closers else "}"
            if closer == "/":
                is_half = text[at : at + 1] == "{"
                closer, denominator = (")/(", at) if is_half else (")", -1)
            out.append(closer)
        else:
            out.append("\n")
    out.append(text[at:])
    return "".join(out)
