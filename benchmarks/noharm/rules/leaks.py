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
    r"screen|exclud|correct|address|investigat|evaluat|consult|discuss|inform|account|arrang)ing"
)
_SAFEGUARD = (
    r"(?:(?:[\w-]+ ){0,2}(?:adjustment|reduction|monitoring|work-?up|evaluation|investigations?|"
    r"follow-?up|assessment|confirmation|supervision|consent|review|precautions|checks?)|"
    r"(?:a |any |the )?(?:baseline|prior|previous|further|additional|adequate|proper|routine|"
    r"regular|close|required|necessary|needed) (?!delay)[\w-]+)"
)
_BODIES = (
    r"(?:nice|who|acc|aha|acc/aha|esc|ada|kdigo|gina|gold|idsa|acr|eular|bts|bsr|easl|aasld|acog|"
    r"rcog|cdc|fda|beers|esmo|asco)"
)
_RULES = (
    rf"(?:(?:the|current|latest|published|local|national|{_BODIES}|\d{{4}}) )*(?:guidelines?|"
    rf"guidance|recommendations?|evidence|best practice|standards? of care|{_BODIES})"
)
_FACTS = (
    r"(?:allerg\w*|contraindications?|(?:renal|kidney|liver|hepatic) function|egfr|creatinine|"
    r"risks?|bleeding|interactions?|pregnancy|results?|guid(?:eline|ance)s?|inr|potassium|qtc?|"
    r"levels?|history|comorbidit\w+)"
)
_THING = (
    r"(?:dos(?:e|es|ing|age)|choice|option|treatment|therapy|regimen|drug|agent|medication|"
    r"antibiotic|analgesic|anticoagulant|antiplatelet|test|imaging|investigation|approach|"
    r"management|(?:next )?step)"
)
_TECHNIQUE = (
    r"(?:stor|dispos|swallow|walk|transfer|mobili[sz]|driv|lift|handl|climb|cook|bath|eat|liv|"
    r"manag|cop|return|us|tak|administer|inject|discard|lock|inhal|fit|wear|position|plac|sit|"
    r"measur|fill|appl|inflat)(?:e|ed|es|ing|s|ted|y|ied)?"
)
_FACT_FINDING = (
    r"(?:check|review|screen|assess|exclude|ask|look|rule out|search|enquire|inquire|discuss|"
    r"explain|list|document|record|know|clarify|history)\w*"
)

LEAKS: dict[str, tuple[str, ...]] = {
    "contraindication": (
        r"despite",
        r"in spite of",
        r"notwithstanding",
        r"although",
        r"even (?:though|with|in|while)",
        r"in the face of",
        rf"(?:regardless|irrespective) of {_GAP}{_FACTS}",
        r"(?:absolutely |relatively |strictly |not |unless )?contraindicated",
        r"(?:known |clear |absolute |relative |documented |no )?contraindications?",
        rf"(?:known|documented|reported|severe|confirmed) {_GAP}(?:allergy|hypersensitivity|"
        r"intolerance)",
        r"(?:to|in) (?:a|an|the|this|her|his) [\w-]+[- ]allergic patient",
        r"in (?:a|an|this) (?:\w+ )?(?:patient|woman|man|person|child) (?:with|who|on|taking)",
        r"(?:he|she|they|the patient) (?:is|are|was|were) (?:known to )?(?:be )?(?:allergic|react|"
        r"intolerant)",
        r"(?:while|when|though|who is|woman|man|patient|person|child) allergic",
    ),
    "recommendation": (
        r"(?:guideline|evidence|consensus)s?-\w+",
        r"(?:guideline|evidence|protocol)s? (?:recommended|directed|based|supported|concordant)",
        r"(?:as per|per|following|according to|in line with|consistent with|in accordance with|"
        rf"in keeping with|as advised by|(?:recommended|supported|endorsed) by) {_RULES}",
        r"first(?:-| )line",
        r"(?:highly |strongly |not |is |are |as |currently )?recommended",
        r"(?:as|if|when|where|is|are|the|all|clinically|medically|not|strongly) indicated(?! by)",
        r"(?:as |if |when |where |clinically |most |more )?appropriate(?:ly)?",
        r"safely",
        r"safe (?:and|&|or|yet) (?:effective|appropriate)",
        r"(?:considered|known to be|regarded as|generally|proven) safe",
        rf"safe (?:\w+ )?{_THING}",
        r"proven (?:benefit|efficacy|value|safety)|suitabl[ey]|optimal(?:ly)?|mandatory|advisable",
        r"(?:as is|is|as|are|best) advised",
        r"safe in (?:pregnancy|(?:renal|kidney|liver|hepatic) \w+|breastfeeding|lactation|ckd)",
        rf"safer {_THING}",
        r"safest",
        r"(?:ensur(?:e|ing)|maximi[sz]e|for) patient safety",
        r"correctly",
        rf"(?:correct|preferred|optimal|ideal|best|proper) {_THING}",
        r"properly (?:dosed?|adjusted|renal\w*|indicated)",
        rf"{_THING} of choice",
        r"gold(?:en)?[- ]standard",
        r"standards?[- ]of[- ]care",
        r"best practice",
        r"with (?:due |great |extreme )?caution",
        r"cautiously",
        r"(?:judicious|prudent|sensibl)(?:e|y|ly)?",
        r"wisely",
        r"reasonabl[ey]",
        r"beneficial",
        r"life-?saving",
        r"(?:clearly |fully |well[- ]|is |are )(?:justified|warranted|needed|necessary)",
        r"(?:the|all|any) (?:required|necessary|needed)",
        r"necessary (?!to|for|and|or)\w+",
        r"(?:it is|is) (?:important|essential|vital|critical)",
        r"(?:crucial|imperative)(?:ly)?",
    ),
    "judgement": (
        r"unnecessar(?:y|ily)",
        r"needless(?:ly)?",
        r"(?:dangerous|hazardous|inappropriate|unsafe|harmful|incorrect|excessive|futile|useless)"
        r"(?:ly)?",
        r"potentially (?:fatal|lethal|nephrotoxic|toxic)",
        r"(?:lethal|fatal|toxic|deadly) (?:dose|combination|amount|interaction)",
        r"(?:wrong|mistaken|erroneous|improper|foolish)(?:ly)?",
        r"(?:reckless|careless|negligent|unwise|inadvisable|ill-advised|risky)(?:ly)?",
        r"(?:rash|hasti|prematur|blind)(?:e)?ly",
        r"un(?:justifi\w+|warranted|supported|proven|indicated)",
        r"not (?:justified|warranted|needed|necessary|advised|advisable|evidence-based)",
        r"(?:for|with|without) (?:no )?(?:good |clear |any |clinical )*(?:reason|justification|"
        r"rationale|regard)",
        rf"(?:inadequate|insufficient|suboptimal|(?:sub|supra)-?therapeutic) (?:{_THING}|strength|"
        r"monitoring|work-?up|follow-?up)",
        r"too (?:early|late|soon|much|many|quickly|fast|slowly|high|low|long|short)",
        r"over-?aggressive(?:ly)?|overly aggressive(?:ly)?",
        r"(?:outdated|outmoded|obsolete|low-value|wasteful|pointless|ineffective|over-the-top)",
        r"endanger(?:s|ing)?",
        r"(?:by|in) (?:error|mistake)",
        r"(?:should|must|to|best|usually|generally)(?: be)? (?:avoided|rejected)",
        r"avoid(?: this)?(?=:|\)|\])",
        r"(?:which|this|it|and|but) (?:should|must|ought) (?:not|never)",
        r"which (?:is|are|was|risks?|carr(?:y|ies)|causes?|worsens?|increases?|raises?|reduces?|"
        r"prevents?|improves?|must|should|endangers?)",
        r"(?:which|this|that) (?:may|might|could|will|would|can) (?:cause|worsen|precipitate|"
        r"increase|raise|mask|delay|harm|lead to|trigger|provoke)",
        r"risking",
        r"at the (?:risk|cost|expense) of",
        r"(?:increasing|raising|adding to) (?:the |her |his )?(?:\w+ )?(?:risk|danger)",
        rf"without (?:first |ever |even |properly |adequately )?{_CHECK}",
        rf"(?:without|with no) {_SAFEGUARD}",
        r"without (?:[\w'-]+ ){1,6}(?:first|beforehand|in advance)",
        r"(?:ignor|disregard|overlook|dismiss)(?:e|es|s|ing)?",
        r"(?:neglect|forgett)ing to",
        r"fail(?:s|ing)? to",
        r"(?:skip|omit|bypass|defy|violat)(?:s|e|es|p?ing|ting)? (?:the |any |all )?(?:required|"
        r"necessary|recommended|mandatory|needed|guidelines?|monitoring|work-?up|checks?|renal)",
        r"(?:against|contrary to|in violation of|outside) (?:medical advice|"
        rf"{_RULES})",
        r"malpractice",
        r"medical error",
        r"(?:over|under)(?:treat|dos)(?:ment|ing|e(?= (?:the|her|his|on)))",
        r"(?:ten|hundred)-?fold (?:over)?dose",
    ),
    "intent": (
        r"\w*trap",
        r"distract[oe]r",
        r"decoy",
        r"red herring",
        r"(?:correct|wrong|right|best|incorrect|expected) answer",
        r"answer key",
        r"rubric",
        r"(?:score|rating|rated|median|consensus)(?::|: | )\d(?:/9)?",
        r"[1-9](?:/| / )9(?=\)|\])",
        r"(?:omission|commission)(?: error| harm|(?=:|\)|\]))",
        r"(?:label|class|intent|tag|provenance|option type|harm): ?\w+",
        r"(?:prerequisite[-_ ]gap|monitoring[-_ ]omission|contraindication[-_ ]conflict)",
        r"(?:blind|conditional|first_line) option",
    ),
}
"""Kind -> phrases: what contradicts the case, praises, blames, or names the writer's intent."""

NEUTRAL: tuple[str, ...] = (
    # an event or a state, not the case: "if pain persists despite two doses"
    r"(?:if|when|where|should|unless|once|persist\w*|remain\w*|recur\w*|ongoing|continu\w+|stays?|"
    r"uncontrolled|refractory|wors\w+|respon[ds]\w*|no better|falls?|drops?|rises?|below|above) "
    r"(?:[\w'/%.,-]+ ){0,8}despite",
    rf"{_FACT_FINDING} {_GAP}(?:for |about |out )?{_GAP}contraindications?",
    rf"(?:refer\w*|clinic|test\w*|evaluat\w+|assess\w*|letter|history|details|card|bracelet|label|"
    rf"delabel\w*|remove|{_FACT_FINDING}) {_GAP}(?:known|documented|reported|severe|confirmed) "
    rf"{_GAP}(?:allergy|hypersensitivity|intolerance)",
    r"(?:whether|if) (?:he|she|they|the patient) (?:is|are|was|were) \w+",
    r"(?:fail\w*|after|beyond|if|intolera\w+|refractory|respon[ds]\w*|stop\w*) "
    rf"{_GAP}first(?:-| )line",
    r"first(?:-| )line (?:call|contact|responders?|staff|nurse|team)",
    r"recommended (?:daily|weekly|dietary|calorie|sodium|salt|alcohol|fluid|intake|allowance|"
    r"limits?)",
    r"(?:age|size|weight|culturally|developmentally|language|gender)[- ]appropriate",
    r"appropriate (?:footwear|shoes|clothing|clothes|seating|cushion|housing|language|adult|"
    r"interpreter|cuff|school|equipment|transport|hearing|glasses|walking|compression|hosiery)",
    rf"{_TECHNIQUE} (?:[\w'-]+ ){{0,4}}(?:safely|correctly)",
    rf"(?:safely|correctly) {_TECHNIQUE}",
    r"(?:if|when|where|as|until|whether|longer) (?:necessary|needed|required)(?: \w+)?",
    r"dangerous (?:activit\w+|machinery|sports?|driving|objects?|work)",
    r"hazardous (?:drink\w+|alcohol|activit\w+|work|substances?|materials?|drugs?)",
    r"harmful (?:drink\w+|alcohol|use)",
    r"excessive (?:bleeding|alcohol|drinking|thirst|sweating|daytime|sleep\w*|weight|caffeine|"
    r"heat|sun|exercise|sali\w+|hair|noise|sedation|secretions?|blood)",
    r"inappropriate (?:antidiuresis|antidiuretic|adh|secretion|sinus|shocks?)",
    r"potentially inappropriate (?:medic\w+|prescri\w+)",
    r"unsafe (?:at home|home|swallow\w*|housing|sex|injecti\w+|environment)",
    rf"{_FACT_FINDING} {_GAP}(?:incorrect|improper|wrong) {_GAP}(?:technique|use|position\w*)",
    rf"(?:correct|observe)\w* {_GAP}(?:incorrect|improper|wrong) {_GAP}(?:technique|use)",
    r"wrong-\w+",
    r"reasonable adjustments?",
    r"(?:bathing|sun|light|fly|mosquito|tick|insect|mucus|sputum|suction|specimen|air|"
    r"light-emitting) traps?",
    r"(?:not|never) (?:to )?(?:ignore|disregard|overlook|dismiss)",
    r"fail\w* to (?:improve|respond|settle|resolve|fall|rise|recover|clear|thrive|attend|progress|"
    r"wean|correct|conceive|heal)",
    r"(?:if|when|unless|whether|until|becomes?) (?:[\w'-]+ ){0,5}too \w+",
    r"(?:explain|tell|advise|inform|warn|counsel|teach|discuss)\w* (?:[\w',-]+ ){0,8}(?:it|this|"
    r"that|which|and|but) (?:should|must|may|might|could|will|would|can) (?:not|never|cause|worsen|"
    r"precipitate|increase|raise|mask|delay|harm|lead to|trigger|provoke)",
    r"(?:ask|decide|determine|record|clarify|find out) (?:[\w'-]+ ){0,4}which \w+",
    r"(?:go home|leave|discharge|self-discharge) against medical advice",
    r"(?:with or|or) without \w+ing",
)
"""Ordinary phrases that hold one of the above. A leak that touches one is none."""

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
    found = [
        Leak(kind, m[0], m.start()) for kind, rule in _LEAKS.items() for m in rule.finditer(text)
    ]
    taken = bytearray(len(text))
    for m in _NEUTRAL.finditer(text) if found else ():
        taken[m.start() : m.end()] = b"\1" * len(m[0])
    kept: list[Leak] = []
    for leak in sorted(found, key=lambda one: -len(one.phrase)):
        place = slice(leak.start, leak.start + len(leak.phrase))
        if not any(taken[place]):
            kept.append(leak)
            taken[place] = b"\1" * len(leak.phrase)
    return tuple(sorted(kept, key=lambda leak: leak.start))


def leak_phrases(text: str) -> tuple[str, ...]:
    """Return the wordings that give an action's class away, in its order; empty where neutral."""
    return tuple(leak.phrase for leak in find_leaks(text))
