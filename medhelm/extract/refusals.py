"""Tell replies that decline in words. They are counted beside the unparsed ones, and score nothing."""

from __future__ import annotations

import re

from medhelm.extract import visible_text

_BEGINNING = 400
_DECLINES = re.compile(
    r"\b(?:I|we)(?:['’]m| am| are|['’]re)?\b[^.]{0,20}?\b(?:can(?:not|['’]?t| not)|could(?: not|n['’]t)|(?:will|would) not|won['’]t|must decline"
    r"|(?:un|not )able to|not (?:comfortable|allowed|permitted|in a position|qualified)|decline to)\b"
    r".{0,40}?\b(?:help|assist|answer|provid|compl(?:y|ies)|fulfil|giv|offer|diagnos|advi[sc]|recommend"
    r"|discuss|engag|continu|support|respond|generat|determin|select|choos)"
    r"|\b(?:no puedo|no me es posible|não posso|nao posso|je ne (?:peux|suis) pas|kann ich\b.{0,40}?\bnicht"
    r"|ich kann\b.{0,40}?\b(?:nicht|kein\w*))\b.{0,40}?\b(?:ayudar|responder|proporcionar|ofrecer|dar|ajudar|fornecer"
    r"|aider|r[ée]pondre|fournir|donner|helfen|antworten|beantworten|geben|beraten|diagnos\w*)"
    r"|(?:抱歉|对不起|很遗憾|我)[^。]{0,12}(?:无法|不能|不可以)[^。]{0,12}(?:提供|回答|帮助|协助|诊断|给出|建议)",
    re.IGNORECASE | re.DOTALL,
)
"""Matches that someone cannot do something, and that it is to help or answer: English, Spanish, Portuguese, French, German, Chinese."""


def looks_like_refusal(text: str) -> bool:
    """Return whether the beginning of a reply declines to help or to answer."""
    return _DECLINES.search(visible_text(text)[:_BEGINNING]) is not None
