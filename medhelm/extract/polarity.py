"""The English words that turn a mention of an option into a choice, a denial or neither: data."""

from __future__ import annotations

import re

from medhelm.extract.languages import find_word
from medhelm.extract.late import Lower, late


class Phrases(Lower):
    """English words and phrases, with words of other languages beside them."""

    def __init__(self, pattern: str, kinds: tuple[str, ...] = ()) -> None:
        super().__init__(pattern)
        self._kinds = kinds

    def search(self, text: str, *span: int) -> re.Match[str] | None:
        """Return the first match, or that of another language's word."""
        if found := super().search(text, *span):
            return found
        rest = text[span[0] :] if span else text
        return next((m for kind in self._kinds if (m := find_word(kind, rest))), None)


_DENIALS = (
    r"not|no|never|neither|nor|without|cannot|incorrect|inaccurate|wrong|false|unlikely|improbable"
    r"|less|least|rather|except|exclud\w+|eliminat\w+|rul(?:e[sd]?|ing)\s+(?:it\s+)?out|dismiss\w*"
    r"|contra-?indicat\w+|avoid\w*|inappropriate|unsuitable|ineffective|unnecessary|unsafe|harmful"
    r"|dangerous|useless|inadequate|insufficient|worse\w*|worst|discourag\w+|against|reject\w*"
    r"|refus\w+|declin\w+|withh[eo]ld\w*|hold(?:ing)?|stop\w*|discontinu\w+|ceas\w+|omit\w*|instead"
    r"|unable|fail\w*|lacks?|absen[ct]\w*|negative\s+for|denie[sd]|deny|premature|suboptimal"
    r"|distract\w+|mistak\w+|misconception|trap|tempt\w+|myth|disfavou?r\w*|unrelated|irrelevant"
    r"|isn.t|aren.t"
)
_HISTORY = (
    r"allerg\w+|intoleran\w+|anaphyla\w+|previous\w*|prior|earlier|formerly|history|past|recent\w*"
    r"|ago|yesterday|last\s+\w+|since|already|was|were|had|been|took|taken|taking|received|underwent"
    r"|used\s+to|home\s+medications?|mother|father|parents?|brother|sister|sibling|family|husband"
    r"|wife|resist\w*|induced|overdose\w*|poisoning|refractory|childhood|started\s+on|prescribed|given|treated|tried|did|known|currently|baseline"
)
_COMPARISONS = (
    r"versus|vs|unlike|like|compar\w+|than|as\s+opposed|similar\w*|resembl\w+|mimic\w*|differentia\w+"
    r"|distinguish\w*|differential|such\s+as|e\.g|for\s+example|including|side[\s-]effects?|adverse"
    r"|toxicity|toxic|complication\w*|risks?|interact\w*|second[\s-]line|alternative\w*|both|either"
    r"|also|another|others?|after|before|until|once|when|although|though|despite|while|whereas|even"
)
_DOUBTS = (
    r"(?:could|might|may|can|would)\s+(?:\w+\s+)?(?:be|have)|could|might|possibl[ey]|perhaps|maybe"
    r"|if|whether|unless|doubt\w*|unsure|uncertain\w*|unclear|wonder\w*|question\w*|suppos\w+"
    r"|consider\w*|hypothe\w+|let['\u2019]?s|let\s+(?:me|us)|need\s+to|sometimes|occasionally|unknown"
    r"|impossible|depends|sorry|hesita\w+|tough|hard\s+to|difficult\s+to|some\s+\w+\s+(?:say|think|argue)"
)

DOUBT = Phrases(
    r"\b(?:not|no|never|neither|nor|without|incorrect|wrong|false|unlikely|less|least|rather|except"
    r"|exclude[sd]?|eliminate[sd]?|rul(?:e[sd]?|ing)\s+out|(?:could|might|may|can)\s+be|possibl[ey]"
    r"|perhaps|either|if|whether|versus|vs|instead|doubt\w*|cannot|unsure|tempt\w+|avoid\w*)\b"
    r"|n['\u2019]t\b",
    ("negation",),
)
"""Words of a clause that states no option."""

DENIED = Phrases(rf"\b(?:{_DENIALS}|{_HISTORY})\b|n['\u2019]t\b", ("negation",))
"""Words of a sentence whose mention of an option is a denial, or an account of the past."""

UNTIL_PROVEN = late(
    r"\buntil\s(?:proven|shown)\s(?:otherwise|to\sthe\scontrary)\b"
    r"|\bthe\s(?:first|second|third|fourth|fifth|last)\s(?:statement|option|choice|answer)(?=:)",
    re.IGNORECASE,
)
"""Words that only seem to doubt, or to speak of the past."""

NOT_CHOSEN = Phrases(
    rf"\b(?:{_DENIALS}|{_HISTORY}|{_COMPARISONS}|{_DOUBTS})\b|n['\u2019]t\b|\?", ("negation",)
)
"""Words of a sentence whose mention of an option is not a choice."""

CHOSEN = Phrases(
    r"\b(?:likely|probabl[ey]|diagnos[ei]s|diagnosed|diagnostic|consistent|suggest(?:s|ing|ive)?"
    r"|indicat(?:es?|ed|ing)|points?\s+to(?:wards?)?|suspect|due|caused?|causes|explains?|accounts?"
    r"|should|recommend(?:s|ed)?|give|add|administer|start|begin|initiate|order|perform|obtain|prescribe"
    r"|next\s+step|needs?|requires?|best|appropriate|correct|right|treatment|therapy|first-line"
    r"|first\s+line|of\s+choice|has|have|fits?|match(?:es)?|corresponds|classic|characteristic|typical|must|supports?"
    r"|confirms?|go\s+with|answer|choose|pick|select|hallmark|represents?|reflects?|proceed|injured|injury|damaged|affected|involved|responsible|lesion|suppli(?:es|ed)|innervate[sd]|leads?\s+to|results?\s+in)\b",
    ("right", "answer", "choose"),
)
"""Words of a sentence whose mention of an option is a choice, where it holds none of the others."""

FILLERS = frozenset(
    word
    for line in (
        "a an the it its is s this that he she they i we my so then thus hence therefore clearly",
        "would definitely certainly surely obviously probably likely most be are think believe say",
        "guess patient with option choice answer letter and here ok okay yes sure well indeed of",
        "immediately now urgently today right away first next daily for to in es la el è il die das est le",
    )
    for word in line.split()
)
"""Words that may be around an option in a sentence that does nothing but name it."""

HEDGE = Phrases(
    r"\b(?:cannot|can['\u2019]t|can\s+not|unable|unsure|uncertain|not\s+(?:sure|certain|enough)|unclear"
    r"|impossible|insufficient|depends|sorry|difficult\s+to)\b"
)
"""Words of a short reply that does not want to choose."""

DISMISSED = late(
    r"(?:[^\w,.\n;]{0,6}|\.\s(?=(?:is|are|was|failed)\b)|,\s{1,3}(?:which|that|(?:but|although|though|yet)\s(?:it|this|that|is))\s)"
    r"(?:(?:this|that|it|they|option|choice|answer|one)\s){0,2}"
    r"(?:(?:is|are|was|were|would|should|must|can|could|cannot|may|might|will|has|have|be|been|seems?"
    r"|appears?|looks?|being|to|a|an|the|also|clearly|definitely|probably|likely|very|relatively"
    r"|generally|usually|absolutely|strongly|most|more|too)\s){0,5}"
    r"(?:incorrect|inaccurate|wrong|false|not\b(?!\s+\(?(?-i:[A-Z])\b)|never\b|cannot\b|unlikely|less\b|least\b|ruled\sout"
    r"|rule\sout|exclu\w+|eliminat\w+|contra-?indicat\w+|avoid\w*|inappropriate|unsuitable|worse"
    r"|ineffective|unnecessary|unsafe|harmful|dangerous|insufficient|inadequate|out\b(?!of)|no\b(?=[.!]|$)"
    r"|fail\w*|doesn|isn|wouldn|won|can['\u2019]t|tempting|distractor|possible\b|plausible|suboptimal)",
    re.IGNORECASE,
)
"""Matches the words behind an option that is mentioned to dismiss it."""

_THIS_IS_WRONG = (
    r"\b(?:this|that|it|option|choice|answer)(?:\s(?:option|choice|answer|one))?"
    r"\s(?:is|was|would\sbe|seems)\s(?:\w+ly\s)?"
    r"(?:incorrect|wrong|false|not\s(?:correct|right|the)|contra-?indicated|inappropriate)"
)
THIS_IS_WRONG = Phrases(_THIS_IS_WRONG)
"""Matches a statement that an option named before is wrong."""
DISOWNED = late(
    r"[.,;:\s\u2013\u2014-]{1,4}(?:(?:no|wrong|incorrect|false|not\s(?:correct|right|true))"
    rf"(?=\s{{0,3}}(?:[.!,;]|$|\n))|{_THIS_IS_WRONG})",
    re.IGNORECASE,
)
"""Matches a sentence of its own behind an option that calls it wrong."""

WRONG = Phrases(
    r"^(?:(?!\b(?:because|since|as|others?|rest|unlike|so|not)\b)[^.\n]){0,200}?"
    r"\b(?:wrong|incorrect|contra-?indicated|inappropriate|false)\b"
)
"""Matches the rest of a line behind its letter that calls the option wrong."""

ASIDE = Phrases(
    r"\b(?:if|unless|whether|were|had\s(?:she|he|it|they|the|this)|in\scase|suppose|doubt\w*|unsure"
    r"|not\s+(?:\w+\s+)?(?:sure|certain|convinced|believe|think|agree|clear|say|claim|mean|the\s+case)"
    r"|(?:don|doesn|wouldn|can|isn)['\u2019]?t|cannot|unlikely|wonder\w*|tempt\w+|mistak\w+|myth|never"
    r"|(?:some|many|others?|most|people|students?|one|you|someone|they)\s+(?:\w+\s+){0,2}"
    r"(?:might|may|could|would|say|think|argue|choose|pick|select|believe)"
    r"|initial(?:ly)?|at\sfirst|first(?:\s+(?:glance|thought|instinct|impression|guess))|originally"
    r"|previous(?:ly)?|earlier|used\sto|until|i\s+thought|considered|colleague|wrongly|hypothetical\w*|wrong\sto|nobody|no\sone|assum\w+|let['\u2019]?s\ssay|before\s\w+ing|textbook\w*|key"
    r"|(?:hard|difficult)\sto\s(?:believe|see|accept|imagine)"
    r"|(?:attending|resident|intern|physician|doctor|professor|teacher|tutor|friend|user|author|consultant|examiner|specialist|he|she|you)"
    r"\s(?:\w+\s)?(?:said|says|suggest(?:s|ed)|claim(?:s|ed)?|told|argue[sd]|insist(?:s|ed)|thought|thinks|believe[sd])"
    r"|(?:can|could|may|might)\sbe\s(?:argued|said|claimed)|(?:has|have)\sbeen\s(?:argued|suggested|claimed|said)"
    r"|on\sthe\sone\shand|for\sexample|e\.g|in\sthe\s(?:form|format)|format"
    r"|i\swas\s(?:just\s)?(?:going|about|inclined|tempted|planning|ready)|i\swas(?=\s$)|i\s(?:almost|nearly))\b"
)
"""Words before a statement that make it conditional, doubted, or someone else's."""

OTHER_ANSWER = Phrases(
    r"\b(?:wrong|incorrect|false|inaccurate|worst|not|no|never|other|alternative|tempting|distract\w+"
    r"|usual|initial|first|original|previous|earlier|second|next|runner-?up|least\s\w+|less\s\w+|their|his"
    r"|her|student\W?s|possible|plausible|potential|attractive|popular|obvious|close\w*|also|only\sother"
    r"|every|each|any|which|what|whose|last|bad|poor|unlikely|common|example|sample|backup|fallback|dummy|second-best|next-best|\w+['\u2019]s"
    r"|(?:half|part|rest|portion|beginning|end|section|sentence|bit)\s+of\s+the)\s+(?:\w+\s+)?$"
)
"""Words right before `answer is` that name another answer than the one given."""

_RETRACTION = late(
    r"(?:^|[.!?,;\n\u2014-])[\s*>_(-]{0,9}(?:(?:hmm+|oh|no|but|actually|sorry|ok|okay|well)[,.\s!-]{1,3}){0,2}"
    r"(?:(?:hmm+|er+m?|uh)[,.\s]{1,3}no\b|wait\s?(?:[,.!\u2026\u2013\u2014-]|no\b|actually|that)|hold on|i was wrong|i made an? (?:mistake|error)"
    r"|my mistake|scratch that|(?:correction|edit|erratum)\s?[:,]|(?:i )?(?:take|taking) (?:it|that) back|i meant\b"
    r"|i stand corrected|i (?:have )?changed? my mind|i misread|strike that|no,? (?:it|that)['\u2019]?s"
    r"|sorry,|on (?:second thoughts?|reflection)|let me (?:re-?(?:check|think|consider|evaluat|assess|examin|do|visit|read|calculat|analy[sz])\w*|correct)|(?:actually|rather),? (?:it|no)\b"
    r"|that(?:['\u2019]s| is) (?:wrong|incorrect|not right))",
)
"""Words by which a completion takes back what it has said."""
_BACK = (
    *(
        "wait",
        "hmm",
        "er no",
        "uh no",
        "hold on",
        "wrong",
        "mistake",
        "scratch that",
        "correct",
        "edit",
    ),
    *(
        "erratum",
        "back",
        "meant",
        "my mind",
        "misread",
        "strike that",
        "no it",
        "no, it",
        "no that",
    ),
    *("no, that", "sorry,", "on second", "on reflection", "let me", "actually", "rather", "right"),
)
"""Parts of them, one of which has to be there."""
_STOPS = ".!?,;\n\u2014\u3002"


def taken_back(text: str, start: int = 1) -> tuple[int, int] | None:
    """Return where a text takes back what it said, from `start` on."""
    lower = text.lower()
    if any(word in lower for word in _BACK) and (found := _RETRACTION.search(lower, start)):
        return found.span()
    found = find_word("retraction", text)
    is_led = found is not None and text[max(0, found.start() - 4) : found.start()].rstrip(" \n")[
        -1:
    ] in (*_STOPS, "")
    return found.span() if found and is_led and found.start() >= start else None


CONTRAST = late(
    r"\b(?:but|however|yet)\b|,\s(?=it['\u2019]?s\b|it\sis\b|rather\b)|^\W*(?:while|although|though|whereas|despite)\b[^,]{0,150},",
    re.IGNORECASE,
)
CONCEDED = Phrases(r"\b(?:although|though|even\sif|despite)\b[^,]*$")
"""The beginning of a clause that grants something against what the sentence states."""
UNSETTLED = Phrases(
    r"\b(?:or|but|however|yet|although|though|except|not|less|unless|questions?|room|doubt|nothing|none|nobody|little|hardly)\b|n['\u2019]t\b"
    r"|^\W*(?:[a-z]|\|)\W{0,4}(?:out|aside|alone|behind|for)\b"
)
"""Words with which a sentence takes back that one option is left."""

CROSS = late("[\u2717\u2718\u274c\u2716]")

UNDONE = Phrases(
    r"\b(?:at\sfirst\s(?:glance|sight|look)|on\sthe\ssurface|superficially)\b"
    r"|\bor\sso\s(?:i|it|we|they)\b|^[\"'\u2019\u201d]\s+is\swhat\b|^\s(?:for|in|among)\s[^.,;\n]{1,40},\s(?:but\s)?not\b"
    r"|[,\u2013\u2014-]\s?(?:but|and|yet|though|although)\s(?:(?:it|this|that|which)(?:['\u2019]s|\sis|\swas)\s(?:actually\s|only\s|really\s)?)?"
    r"(?:an?\s(?:trap|trick|distractor|decoy|mistake|myth|misconception)|(?:wrong|incorrect|false|mistaken|outdated)\b(?!\sto\b)"
    r"|not\s(?:here|in\s(?:this|his|her)|for\s(?:this|him|her))\b)"
    r"|^\s?(?:that\s|which\s)?(?:most|many|some)\s(?:\w+\s){0,2}(?:pick|choose|select|give|fall\sfor|tick)\b"
    r"|\b(?:but|though|although|yet|however),?\s(?:actually\s)?(?:it|this|that)(?:\s(?:is|was)\s(?:not\b|wrong|incorrect)|\sisn['\u2019]t)"
)
"""Words behind a statement that undo it."""

ELSEWHERE = Phrases(
    r"\s(?:answer\s|option\s|choice\s)?(?:in|for|with|when|among)\s(?!(?:this|these|that|the|our|him|her|it|them|me|most|all|such)\b)"
)
"""The case for which an option would be right, behind the words that say so."""

OF_ANOTHER = Phrases(
    r"\b(?:and|or)\s{1,3}\|\s{1,3}(?:are|were|have|all|both)\b|\|\s{0,3}(?:levels?|troughs?|concentrations?|dos(?:es?|ages?|ing)|monitoring|clearance)\b"
)
"""An option's text that only begins the name of something else, or is one of several subjects."""
