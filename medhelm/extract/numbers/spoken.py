"""Statements of a value in other languages -> their English form, for the readers of numbers."""

from __future__ import annotations

import re

from medhelm.extract.late import late

_VALUE = r"(?=[^\w\n]{0,4}\d)"
_ABOUT = late(
    r"\b(?:aproximadamente|approximativement|environ|circa|etwa|rund|ungef\u00e4hr|cerca de|ca\.)\s"
    + _VALUE
    + rf"|(?:\u5927\u7ea6|[\u7ea6\u7d04\uc57d])\s?{_VALUE}"
)
_IS = late(
    r"\b(?:risulta|resulta|\u00e8|es|\u00e9|est)\s(?:pari|\u00e9gale?|igual|uguale)\s(?:a|\u00e0|ao|al)\s"
    + _VALUE
    + r"|\b(?:s'\u00e9l\u00e8ve \u00e0|revient \u00e0|donne|ammonta a|asciende a|equivale a|corresponde a|"
    r"se sit\u00faa en|se situa em|fica em|queda en|ergibt sich zu|risulta|resulta(?: em| en)?|entspricht|erreicht)\s"
    + r"(?=(?:about\s)?[^\w\n]{0,4}\d)"
)
_LIES = late(r"\bliegt\s([^.\n]{0,80}?)\s?\bbei\s(?=(?:about\s)?[^\w\n]{0,4}\d)")
_OBTAINED = late(
    r"\b(?:on obtient|obtenemos|obtemos|otteniamo|si ottiene|se obtiene|obt\u00e9m-se|erhalten wir|ergibt sich)\s"
    r"([^.\n\d]{0,60}?)\s(?:d[ei]|von)\s(?=(?:about\s)?[^\w\n]{0,4}\d)"
)
_TOPIC = late(r"(?:(?<=[\w)\]])|(?<=[\w)\]]\s))(?:\u306f|[\uc740\ub294])\s?(?=(?:about\s)?-?\d)")
"""The Japanese or Korean mark of a sentence's subject, before a value."""
_OUT_OF = late(r"(?<=\d)\s(?:su|sur|sobre|von)\s(?=\d)")
_WITH_COMMA = late(
    r"\b(?:der|die|das|ist|und|von|betr\u00e4gt|liegt|mit|le|la|les|est|et|du|des|donc|une?|il|\u00e8|di|del|della|con|quindi|pari"
    r"|el|los|es|por|\u00e9|do|da|com|de|que)\b"
)
_ENGLISH = late(r"\b(?:the|is|of|and|with|this|for)\b", re.IGNORECASE)


def writes_commas(text: str) -> bool:
    """Return whether a text is in a language that divides decimals by a comma."""
    return len(_WITH_COMMA.findall(text)) > 2 and _ENGLISH.search(text) is None


def in_english(text: str) -> str:
    """Return a text in which `liegt bei 5`, `on obtient un score de 5` and the like are `is 5`."""
    text = _OUT_OF.sub(" out of ", _ABOUT.sub("about ", text))
    text = _IS.sub("is ", text)
    if "liegt" in text:
        text = _LIES.sub(r"\1 is ", text)
    text = _OBTAINED.sub(r"obtain \1 is ", text)
    return text if text.isascii() else _TOPIC.sub(" is ", text)
