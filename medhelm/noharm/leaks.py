"""The wordings in an action's text that give its class away, found by rules.

An action is to say what would be done, and nothing on whether that is right: a model that reads
"despite the known allergy" needs no medicine. A rule is a phrase with its surroundings, not a bare
word, since most such words have an honest use too ("avoid grapefruit juice", "safe discharge").
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_GAP = r"(?:[\w'/-]+,? ){0,3}"
"""At most three words between two parts of a phrase."""

_CHECK = (
    r"(?:check|confirm|verify|measur|monitor|adjust|consider|assess|obtain|review|reassess|test|"
    r"screen|exclud|correct|address|investigat|evaluat|consult|discuss|inform|account)ing"
)
_SAFEGUARD = (
    r"(?:(?:dose |renal |further |prior |baseline |blood |drug |level |close |proper |adequate |"
    r"any |required |needed |a |an |the |laboratory |cardiac |ecg |follow-up )*"
    r"(?:(?:dose )?(?:adjustment|reduction)|monitoring|work-?up|evaluation|investigations?|"
    r"follow-?up|assessment|testing|confirmation|supervision|consent|review))"
)
_BODIES = (
    r"(?:nice|who|acc|aha|acc/aha|esc|ada|kdigo|gina|gold|idsa|acr|eular|bts|bsr|easl|aasld|acog|"
    r"rcog|cdc|fda|beers|esmo|asco|chest)"
)
_FACTS = (
    r"(?:allerg\w*|contraindications?|(?:renal|kidney|liver|hepatic) function|egfr|creatinine|"
    r"risks?|bleeding|interactions?|pregnancy|results?|guid(?:eline|ance)s?|inr|potassium|qtc?|"
    r"levels?|history|comorbidit\w+)"
)

LEAKS: dict[str, tuple[str, ...]] = {
    "contraindication": (
        r"despite",
        r"in spite of",
        r"notwithstanding",
        r"although",
        r"even though",
        r"in the face of",
        rf"(?:regardless|irrespective) of {_GAP}{_FACTS}",
        r"(?:absolutely |relatively |strictly |not )?contraindicated",
        r"(?:known|clear|absolute|relative|documented|no) contraindications?",
        rf"(?:known|documented|reported|severe) {_GAP}(?:allergy|hypersensitivity|intolerance)",
        r"(?:to|in) (?:a|an|the|this|her|his) [\w-]+[- ]allergic patient",
        r"to which (?:he|she|the patient|they) (?:is|are|was|were) allergic",
        r"(?:while|when|though) allergic",
    ),
    "recommendation": (
        r"(?:guideline|evidence|protocol|consensus)s?[- ](?:recommended|directed|based|supported|"
        r"concordant|endorsed|adherent|backed|driven|indicated|approved)",
        rf"(?:as per|per|following|according to|in line with|consistent with|in accordance with|"
        rf"in keeping with|as advised by|recommended by|supported by|endorsed by) (?:the |current "
        rf"|latest |published |{_BODIES} |\d{{4}} )*(?:guidelines?|guidance|recommendations?|"
        rf"evidence|best practice|standards? of care|{_BODIES})",
        r"first-? ?line",
        r"(?:highly |strongly |not |is |are |as |currently )?recommended",
        r"(?:as|if|when|where|is|are|clinically|medically|not|strongly) indicated(?! by)",
        r"(?:as |if |when |where |clinically |most |more )?appropriate(?:ly)?",
        r"safely",
        r"safe (?:and|&|or|yet) (?:effective|appropriate)",
        r"(?:considered|known to be|regarded as|generally|proven) safe",
        r"safe in (?:pregnancy|(?:renal|kidney|liver|hepatic) \w+|breastfeeding|lactation|ckd)",
        r"safe(?:r|st) (?:option|choice|alternative|drug|agent|dose|course|approach)",
        r"(?:to )?(?:ensure|ensuring|maximi[sz]e|for) patient safety",
        r"correctly",
        r"correct (?:dose|dosing|choice|option|step|drug|treatment)",
        r"proper(?:ly)? (?:dose|dosed|dosing|adjust\w+|renal\w*|indicated)",
        r"(?:drug|treatment|agent|therapy|test|investigation|antibiotic|imaging) of choice",
        r"preferred (?:agent|drug|option|treatment|choice|therapy|antibiotic|test|approach)",
        r"(?:gold|golden)[- ]standard",
        r"standards? of care",
        r"best practice",
        r"(?:optimal|ideal|best) (?:dose|choice|option|treatment|therapy|next step|approach)",
        r"with (?:due |great |extreme )?caution",
        r"cautiously",
        r"(?:judicious|prudent)(?:ly)?",
        r"life-?saving",
        r"(?:clearly |fully |well |is |are )(?:justified|warranted)",
        r"unless (?:there is )?(?:a )?contraindicat\w+",
    ),
    "judgement": (
        r"unnecessar(?:y|ily)",
        r"needless(?:ly)?",
        r"dangerous(?:ly)?",
        r"hazardous(?:ly)?",
        r"inappropriate(?:ly)?",
        r"unsafe(?:ly)?",
        r"harmful(?:ly)?",
        r"potentially (?:fatal|lethal|nephrotoxic|toxic)",
        r"incorrect(?:ly)?",
        r"(?:wrong|mistaken|erroneous|improper)(?:ly)?",
        r"(?:reckless|careless|negligent|unwise|inadvisable|ill-advised|risky)(?:ly)?",
        r"prematurely",
        r"un(?:justified|warranted|supported|proven|indicated)",
        r"not (?:justified|warranted|needed|necessary|advised|advisable|evidence-based)",
        r"(?:excessive|excessively high|too high|too low|inadequate|insufficient|suboptimal|"
        r"(?:sub|supra)-?therapeutic) (?:a )?(?:dos(?:e|es|ing|age)|strength|monitoring|work-?up|"
        r"follow-?up)",
        r"over-?aggressive(?:ly)?|overly aggressive(?:ly)?",
        r"(?:outdated|obsolete|low-value|futile|pointless|useless|ineffective)",
        r"(?:should|must|is to|are to|best|usually|generally|ought to)(?: be)? avoided",
        r"(?:which|this|it|and|but) (?:should|must|ought) (?:not|never)",
        r"(?:which|this|that) (?:may|might|could|will|would|can) (?:cause|worsen|precipitate|"
        r"increase|raise|mask|delay|harm|lead to|trigger|provoke)",
        r"risking",
        r"at the (?:risk|cost|expense) of",
        r"(?:increasing|raising|adding to) (?:the |her |his )?(?:\w+ )?(?:risk|danger)",
        rf"without (?:first |ever |even |properly |adequately )?{_CHECK}",
        rf"without {_SAFEGUARD}",
        r"(?:ignor|disregard|overlook|neglect|dismiss|bypass)ing",
        r"(?:ignore|disregard|overlook)s? (?:the|her|his|any|this|all|\w+ (?:allergy|result))",
        r"(?:fail|neglect|forgett?)ing to",
        rf"(?:skip|omitt|defy|violat)p?ing (?:the |any |all |{_GAP})(?:required|necessary|"
        r"recommended|mandatory|needed|usual|guidelines?|monitoring|adjustment|work-?up|checks?)",
        r"(?:against|contrary to|in violation of|outside) (?:the |current |\w+ )?(?:guidelines?|"
        r"guidance|recommendations?|evidence|medical advice|best practice)",
        r"malpractice",
        r"medical error",
        r"(?:over|under)(?:treat|dos)(?:ment|ing)",
    ),
    "intent": (
        r"\w*trap",
        r"distract[oe]r",
        r"decoy",
        r"red herring",
        r"(?:correct|wrong|right|best|incorrect|expected) answer",
        r"answer key",
        r"rubric",
        r"(?:score|rating|rated|median|consensus):? ?\d(?: ?/ ?9)?",
        r"[1-9] ?/ ?9\)",
        r"(?:omission|commission)(?: error| harm|:)",
        r"(?:label|class|intent|tag|provenance|option type|harm): ?\w+",
        r"(?:blind|conditional|firstline|first_line) option",
    ),
}
"""Kind -> phrases: what contradicts the case, praises, blames, or names the writer's intent."""

NEUTRAL: tuple[str, ...] = (
    # an event or a state, not the case: "if pain persists despite two doses"
    r"(?:if|when|where|should|unless|once|persist\w*|remain\w*|recur\w*|ongoing|continu\w+|"
    r"uncontrolled|refractory|wors\w+|respon[ds]\w*|no better|falls?|drops?|rises?|below|above) "
    r"(?:[\w'/%.,-]+ ){0,8}despite",
    rf"(?:check|review|screen|assess|exclude|ask|look|rule out|search|enquire|inquire)\w* {_GAP}"
    rf"(?:for |about |out )?{_GAP}contraindications?",
    rf"(?:refer\w*|clinic|test\w*|evaluat\w+|assess\w*|letter|record|document|history|details|"
    rf"card|bracelet|label|clarify|ask|explore|review|delabel\w*|remove) {_GAP}(?:known|"
    rf"documented|reported|severe) {_GAP}(?:allergy|hypersensitivity|intolerance)",
    rf"(?:fail\w*|after|beyond|if|intolera\w+|refractory|respon[ds]\w*|stop\w*) {_GAP}first-? ?line",
    r"recommended (?:daily|weekly|dietary|calorie|sodium|salt|alcohol|fluid|intake|allowance|"
    r"limits?)",
    r"(?:age|size|weight|culturally|developmentally|language|gender)[- ]appropriate",
    r"appropriate (?:footwear|shoes|clothing|clothes|seating|cushion|housing|language|adult|"
    r"interpreter|cuff|school|equipment|transport)",
    r"(?:stor|dispos|swallow|walk|transfer|mobili[sz]|driv|lift|handl|climb|cook|bath|eat|"
    r"liv|manag|cop|return|us|tak|administer|inject|discard|lock)(?:e|ed|es|ing|s)? "
    r"(?:[\w'-]+ ){0,4}safely",
    r"safely (?:stor|dispos|swallow|walk|transfer|mobili[sz]|driv|lift|handl|climb|cook|bath|eat|"
    r"liv|inject|discard|lock)\w*",
    r"dangerous (?:activit\w+|machinery|sports?|driving|objects?|work)",
    r"hazardous (?:drink\w+|alcohol|activit\w+|work|substances?|materials?|drugs?)",
    r"harmful (?:drink\w+|alcohol|use)",
    r"inappropriate (?:antidiuresis|antidiuretic|adh|secretion|sinus|shocks?|therap\w+ from)",
    r"potentially inappropriate (?:medic\w+|prescri\w+)",
    r"unsafe (?:at home|home|swallow\w*|housing|sex|injecti\w+|environment)",
    rf"(?:check|correct|review|look|observe|ask)\w* {_GAP}(?:incorrect|improper|wrong) {_GAP}"
    r"(?:technique|use|position\w*)",
    r"wrong-(?:site|side|level)",
    r"(?:use|uses|using|take|takes|taking|inhal\w+|inject\w*|fitted|worn|positioned|placed|"
    rf"sited|measur\w+) {_GAP}correctly",
    r"(?:bathing|sun|light|fly|mosquito|tick|insect|mucus|sputum|suction|specimen|air) ?traps?",
    r"(?:not|never) (?:to )?(?:ignore|disregard|overlook) \w+",
    r"(?:explain|tell|advise|inform|warn|counsel|teach|discuss)\w* (?:[\w',-]+ ){0,8}(?:it|this|"
    r"that|which|and|but) (?:should|must|may|might|could|will|would|can) (?:not|never|cause|worsen|"
    r"precipitate|increase|raise|mask|delay|harm|lead to|trigger|provoke)",
    r"(?:with or|or) without \w+ing",
)
"""Ordinary phrases that hold one of the above; a leak that touches one is none."""

_DASHES = str.maketrans({c: "-" for c in "\u2010\u2011\u2012\u2013\u2014\u2212"})
_HIDDEN = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")


def _compiled(phrases: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(phrases)})(?![^\W_])", re.IGNORECASE)


_LEAKS = {kind: _compiled(phrases) for kind, phrases in LEAKS.items()}
_NEUTRAL = _compiled(NEUTRAL)


@dataclass(frozen=True)
class Leak:
    """One wording and the kind of hint that it is."""

    kind: str
    phrase: str
    start: int
    """Of the phrase in the text, whitespace taken as single spaces."""


def find_leaks(text: str) -> tuple[Leak, ...]:
    """Return the leaks of an action's text from left to right; of two that overlap the longer."""
    text = " ".join(_HIDDEN.sub("", text).translate(_DASHES).split())
    ordinary = [m.span() for m in _NEUTRAL.finditer(text)]
    found = [
        Leak(kind, m[0], m.start())
        for kind, rule in _LEAKS.items()
        for m in rule.finditer(text)
        if not any(m.start() < end and start < m.end() for start, end in ordinary)
    ]
    kept: list[Leak] = []
    for leak in sorted(found, key=lambda one: -len(one.phrase)):
        if not any(_overlap(leak, other) for other in kept):
            kept.append(leak)
    return tuple(sorted(kept, key=lambda leak: leak.start))


def _overlap(one: Leak, other: Leak) -> bool:
    first, second = sorted((one, other), key=lambda leak: leak.start)
    return first.start + len(first.phrase) > second.start


def leak_phrases(text: str) -> tuple[str, ...]:
    """Return the wordings that give an action's class away, in its order; empty where neutral."""
    return tuple(leak.phrase for leak in find_leaks(text))
