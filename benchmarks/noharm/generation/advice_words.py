"""Find the words by which a sentence advises, and the measures that a guideline advises on.

There are three strengths. Advice (`ADVICE`) also occurs in letters of facts, so it counts only beside
much of a recommendation. A judgement (`JUDGED`: essential, a mistake, cannot wait) counts beside one measure of
the guideline. An expectation (`EXPECTED`: the plan will be, due, comes once) is common in letters and
counts beside a measure and a further word of the same recommendation.
"""

from __future__ import annotations

import re

_WORTH = (
    r"essential(?! (?:hypertension|tremor|thrombocyt|oil|mixed|fatty))|vital(?! signs?)|crucial|"
    r"imperative|mandatory|obligatory|compulsory|necessary|unnecessary|needless|wise|wiser|unwise|"
    r"sensible|prudent|reasonable|pointless|useless|futile|superfluous|senseless|unjustified|"
    r"justified|warranted|unwarranted|inadvisable|advisable|dangerous|hazardous|perilous|foolish|"
    r"inappropriate|banned|taboo|barred|incompatible|ill-advised|risky|harmful|unhelpful|"
    r"of no (?:use|value|benefit|help)|called for|out of the question|out of place|off limits|off the table|"
    r"not an option|forbidden|prohibited|overdue|too (?:early|late|soon) (?:to|for)|"
    r"(?:the )?(?:best|better|safer|safest|right|wrong) (?:to|choice|drug|agent|partner|option|step|"
    r"move|way|course|thing)"
)
_IS = r"(?:is|are|be|seems?|remains?|becomes?)"
_NAMED = (
    r"mistake|error|folly|blunder|(?:poor|bad|good|sound|wise|unwise|right|wrong|safe) "
    r"(?:idea|choice|option|plan|move|step|partner|drug)|must|mainstay|cornerstone|gold standard|no-no|no-go|waste of time|"
    r"(?:drug|agent|treatment) of (?:first )?(?:choice|preference)|way (?:to go|forward)|culprits? (?:that|which|and) "
    r"(?:has|have|must|needs?|should)"
)
_NOT = r"(?:not|never|hardly|no longer)"

ADVICE = re.compile(
    r"\b(should|must|ought|need(s|ed)? to|ha(s|ve) to|recommend\w*|advis\w*|advice|indicated|"
    r"contraindicated|contraindication|first[- ](choice|line)|of choice|prefer\w*|avoid\w*|"
    r"(is|are|be) (not |only |never )?(given|used|taken|checked|measured|started|stopped|held|"
    r"halved|repeated|offered|added|reduced|preferred|withheld)|always|halve\w*|"
    r"rather than|instead of|in place of|only (if|when|after|with)|requires?|protocol|pathway|"
    r"evidence|standard of care|safe (to|in|at)|unsafe|not suitable|unsuitable)\b",
    re.IGNORECASE,
)
"""Counts with a dose of the guideline or with much of one of its sentences."""
JUDGED = re.compile(
    rf"\b({_IS} (?:\w+ )?(?:{_WORTH})|(?:makes?|finds?|thinks?|considers?|holds?) it (?:{_WORTH})|"
    rf"(?:is|are|be) (?:a|an|the) (?:\w+ )?(?:{_NAMED})|"
    r"there (?:is|are|would be|will be|seems) (?:no|little|every|good) (?:\w+ )?(?:need|reason|point|"
    r"place|role|call|case|use|sense|justification|indication|time) (?:for|in|to|of)|"
    r"ha(?:s|ve) no (?:\w+ )?(?:place|role|business|indication|part to play)|"
    r"(?:makes?|making) (?:no|little|good|every|more)? ?sense|"
    rf"(?:can|may|could|will|must) ?{_NOT}? ?be (?:delayed|postponed|deferred|put off|held up|"
    r"skipped|omitted|left out|dropped|restarted|resumed|reintroduced|combined|withheld)|"
    r"(?:is|are|be) (?:not |clearly |strongly )*(?:recommended|advised|contraindicated|preferred|favou?red|"
    r"avoided|discouraged|counsell?ed against|the standard)|"
    r"never (?:be )?(?:restarted|resumed|reintroduced|combined|given again|started again)|"
    r"(?:can ?not|can't|could not|does not|do not|will not|must not) (?:wait|be allowed to wait) (?:for|until)|"
    r"brooks? no delay|"
    r"(?:do|does|will|would|should|can ?not|can) (?:not )?(?:go|mix|belong|be mixed|be paired) "
    r"(?:well |badly )?(?:together|with an?\b)|"
    r"ha(?:s|ve) to (?:go|come off|come out)(?=[.,;:]|$| and\b| now\b| at once\b| first\b)|"
    r"needs? (?:stopping|starting|adding|stopped|holding|replacing|measuring|repeating|checking)|"
    r"(?:cries|cry) out for|calls? for|(?:merits?|deserves?|warrants?)|"
    r"best (?:left|avoided|stopped|started|given|kept|dropped|withheld|not)|"
    r"better (?:left|avoided|stopped|not|off)|had better|"
    r"steers? clear of|stays? (?:clear of|away from)|keeps? (?:clear of|away from)|hands off|"
    r"nothing to gain|adds? (?:nothing|little)|more harm than|to blame and|"
    r"(?:is|are) not (?:for|to be)|shall|"
    r"(?:argues?|speaks?|militates?) (?:for|against)|rules? out (?:the use of|giving))\b",
    re.IGNORECASE,
)
"""Says by itself what is right: counts with one measure of the guideline."""
EXPECTED = re.compile(
    r"\b((?:the|our|his|her|their|whose) (?:\w+ )?(?:plan|aim|goal|target|intention|idea|next step|"
    r"answer|strategy|rule|policy|remedy|treatment|dose|agent|partner) (?:is|will be|would be|being)|"
    r"plans? (?:is |are )?to|will (?:\w+ )?(?:be|get|receive|need|have|go|run|continue|follow|start|"
    r"stop|come|replace|take)|would (?:\w+ )?(?:be|follow|come|need|get|receive|do|suffice|replace)|"
    r"(?:is|are) (?:to|going to) (?:be|get|have|go|receive|start|stop|follow|come)|"
    r"(?:is|are|falls?|becomes?) due (?:for|after|now|at|in|before|to(?:day|morrow)|once|as|when)|"
    r"(?:is|are) due(?=[.,;]|$)|(?:is|are) (?:expected|supposed|meant|bound|best|right|proper|owed)|"
    r"comes? (?:on top|next|first|in|once|when|only|after|before|later|off)|"
    r"follows? (?:if|when|once|only)|(?:is|are) (?:enough|sufficient)|suffices?|enough to|"
    r"(?:the|this|house) (?:rule|custom|policy|teaching)|before any|goes with|go with|can (?:be|go|start|stop|wait|follow)|known to|whatever the|"
    r"regardless of|irrespective of|no matter|even (?:if|when|without|before)|"
    r"as (?:is|for|with) (?:right|usual|proper|customary|normal|everyone|all|any|anyone|every)|"
    r"(?:for|in|of|to) (?:everyone|all|anyone|any|every|whoever|those|people|patients)"
    r"(?: (?:on|with|who|in|under|taking))?|people (?:on|with|who)|patients (?:on|with|who)|"
    r"those (?:on|with|who)|once|as soon as|so long as|as long as|unless|until|"
    r"does no good|without (?:delay|waiting)|at once|right away|straight away|"
    r"immediately(?! (?:started|given|begun|treated|taken|admitted|rushed))|"
    r"(?:reserved|kept) for|restricted to|for (?:life|good|ever)|lifelong|indefinitely|"
    r"if(?! (?:s?he|they|it)\b)|in case|in the event|before (?:anything|all) else|goes? first|"
    r"keen (?:to|on)|in favour of|against (?:giving|using|starting|adding)|insists?|urges?|suggests?|"
    r"proposes?|wants? (?:him |her |them |it )?(?:to|on|off)|opts? for|"
    r"(?:to|by) (?:swap|replace|switch|exchange|stop|drop|start|add|hold|omit|withhold)|"
    r"(?<!since )(?<!after )(?:swapping|replacing|switching|stopping|dropping|starting|adding|"
    r"withholding|continuing|omitting)|"
    r"not (?:wait\w*|hold\w*)|waiting for|ahead of|takes? precedence|priority|"
    r"lowers?|raises?|brings? (?:\w+ ){1,3}down|(?:drops?|drives?|pushes|shifts) (?:\w+ ){1,3}"
    r"(?:down|up|into)|protects?|by (?:itself|themselves|its own)|alone|suits?|"
    r"conditions|criteria|criterion|qualif(?:y|ies)|meets?)\b",
    re.IGNORECASE,
)
"""Looks ahead or states a rule: counts with a measure and another word of one recommendation."""

_CLAUSE = re.compile(r"(?<=[.!?;:])\s+|,\s+(?:and|but)\s+")
_OPENED = re.compile(
    r"(?:In|When|If|For|Without|With|After|Before|During|Among|Where|Once|At|On|Unless|As|Until)\b"
    r"[^,]*,\s*",
    re.IGNORECASE,
)
_VERB = re.compile(
    r"\b(is|are|should|must|may|can|will|has|have|ought|needs?|lowers?|raises?|runs?|remains?|shall)\b",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"\b(?:give|offer|consider|start|stop|avoid|use|add|measure|check|arrange|refer(?: to)?|prescribe|"
    r"administer|perform|monitor|repeat|withhold|switch to|treat with|recommend(?:ed|s)?|continue|"
    r"reduce|increase|replace|suggest(?:ed|s)?|advise|prefer|order|obtain|begin)\s+"
    r"((?:[\w-]+[ ,]*){1,6})",
    re.IGNORECASE,
)


def measures(text: str) -> list[str]:
    """Return the parts of a guideline's text that name what is to be done, used or left.

    A subject before its verb ("Bone protection with calcium is ...") or what an order names ("Give
    aspirin ...").
    """
    found = []
    for clause in _CLAUSE.split(" ".join(text.split())):
        # "In patients with a stent, aspirin is ..." is about aspirin
        clause = _OPENED.sub("", clause, count=1) if _OPENED.match(clause) else clause
        if verb := _VERB.search(clause):
            found.append(clause[: verb.start()])
        found += [order[1] for order in _ORDER.finditer(clause)]
        # "ticagrelor is not combined with an anticoagulant" has a second one behind the verb
        found += [m[1] for m in re.finditer(r"\bcombined with ((?:an? )?\w+)", clause)]
    return found


_COMMON_WORDS = """
acting acute adults affected after again age agent agents all alone anti because before
bleeding blood both care cell cells change changes children chronic clinic combined daily days
diagnosed diagnosis disease disorder doctor doctors dose doses drug drugs during early effect
effective effects either episode everyone evidence examples family fever first following
further guideline having heart high higher history hospital hour hourly hours increased
infection inhibitor inhibitors laboratory late latest least left level levels litre long lower
lowers management medical medication medicine medicines mild minute minutes month non normal
once one operation oral pain patient people person present pressure procedure programme rate
recent recommendation recommended reduced rest result results right risk routine same sample
samples second severe short should society solution such supplements surgery symptom symptoms
syndrome system systems tablet tablets target test tests therapy third time treat treatment
twice two under units until use used vision visit visits visual week weight while whose with
without women
"""
COMMON = frozenset(_COMMON_WORDS.split())
"""Words of letters of all kinds, which name no measure by themselves."""
