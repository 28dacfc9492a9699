"""The words by which a sentence states a value, and those by which it says of what kind."""

from __future__ import annotations

from medhelm.extract.languages import LANGUAGES, any_of
from medhelm.extract.late import Lower, late

CLAUSE = Lower(
    r"[,;]\s|\s[\u2013\u2014-]\s(?=[a-z])|\u2192|(?<!is )(?<!are )(?<!was )\b(?:so|hence|thus|therefore)\b|\b(?:which|making|giving|but|then|and|"
    r"where|because|since|if|when|compared|using|based|assuming|given|unless|while|whereas|"
    r"although|whether|until|than)\b"
)
SUBORDINATE = frozenset(
    word
    for line in (
        "where because since if when compared unless while whereas although whether until",
        "than",
    )
    for word in line.split()
)
CONCLUDES = frozenset(("so", "thus", "hence", "therefore"))
PARTICIPLES = frozenset(("using", "based", "given", "assuming"))
WEAK = frozenset(("of", "at", "as", "has"))
"""Words that also join what is put in to its name (`a weight of 70 kg`)."""
HOLDS = frozenset(("has", "uses", "requires", "needs"))
PARTS = Lower(r"criteri|items?|components?|elements?|variables?|factors?|questions?")
"""The units of how many parts a score has (`the rule has 8 criteria`)."""
PART_NAME = Lower(
    r"(?:\b(?:numerator|denominator|z\u00e4hler|nenner|exponent|correction(?: term)?|linear predictor|(?:top|bottom)(?: part| half)?|baseline survival"
    r"|survival (?:term|function)|(?:beta|\u03b2)\S{0,3}[- ]?sum|sum of (?:the )?(?:beta|\u03b2|coefficient)\S{0,9}(?: \S{1,6})?)"
    r"|^\W*(?:l|s_?0|exp))(?:\W*|\s(?:is|was|equals)\s[^a-z]*)$"
)
"""The name of a part of a formula, whose value is on the way to the result."""
FILLER = (
    r"(?:[\s~\u2248:\"'({\[\]|]|\b(?:either|approximately|approx|about|around|roughly|nearly|almost|exactly|"
    r"estimated|calculated|computed|rounded|therefore|thus|then|now|only|just|still|simply|also|equal to|equivalent to|"
    r"to be|as|at|by|a|an|the|us|you|me|total|score|value|sum|of|on or|on|some)\b\.?)*"
)
_SPOKEN = ("Spanish", "German", "French", "Italian", "Portuguese")
_WOULD_BE = {"ser\u00eda", "seria", "serait", "sarebbe", "w\u00e4re"}
COPULAS = any_of({c for name in _SPOKEN for c in LANGUAGES[name].copula} - _WOULD_BE)
RELATION = Lower(
    r"(?P<verb>[=\u2248:\u2192]|\b(?:is|was|are|were|be|equals?|of|as|at|gives?|gave|giving|"
    r"yield(?:s|ing)?|result(?:s|ing)? (?:in|to)|(?:comes?|works?|turns?)(?: out)?(?: to| at| as)|"
    r"amounts? to|adds? up to|sums?(?: up)? to|totals|totall?ing|scores|becomes?|reaches|"
    r"rounds?(?: up| down)? to|rounded(?: up| down)? to|meets|has|earns|receives|fulfil+s|get|"
    r"obtain(?:s|ed|ing)?|calculates?|estimates?|finds?|found|satisf(?:y|ies|ied)|makes|making|stays(?: at)?|remains(?: at)?|scored|increases to|"
    r"totals? up to|adding up to|leaves?(?: (?:us|me|you))?(?: with)?|left with|arrives? at|lands? (?:at|on)|"
    r"brings? (?:us|me|it|this|(?:the|his|her|their|its) (?:[a-z-]{1,24} ){0,4}[\w-]{1,24}) to|ends? up (?:at|with)|returns|prints|shows|takes|receives|"
    r"takes? (?:us|you|me) to|(?:occur(?:s|red)|happened|took place|fell|falls) on|(?:that|it|this|s?he|which)'s|thats|deliver|due|gets|needs|(?:stay|stick|go|settle)(?:ing)? (?:with|on)|report|quote|requires|falls on|conceived|vaut(?: donc| alors)?|betr\u00e4gt(?: also| somit| rund| etwa)?|ergibt)|"
    + COPULAS
    + r"(?:\s(?:de|von|di|der|am|el|le|il))?|(?:\u4e3a|\u662f|\u7b49\u4e8e|\u5f97\u51fa|\u5171\u8ba1|\u5408\u8ba1)\u7ea6?)(?P<filler>"
    + FILLER
    + r")$"
)
AFTER_EQUALS = Lower(
    "[=\u2248]" + FILLER + r"(?:[a-z][\w-]{0,20}\s{1,2}){0,3}(?:score\s|index\s)?(?:of\s)?" + FILLER
)
OWN_SCORE = Lower(r"\bscore of\b")
"""Words behind a verb that name what it states (`gets a score of 0`)."""
BESIDE = Lower(
    r"\s*[\w%/^.]{0,12}\s*,?\s*\b(?:or|and|versus|vs|i\.?e\.?|that is)(?![a-z])(?!\s(?:at|as|by|of)\b)"
    + FILLER
)
EQUALS = late("[=\u2248]")

EXPLICIT = Lower(
    r"\b(?:answer|solution|ergebnis|r[\u00e9e]sultat|resultado|risultato|requested format)\b|\b(?:final|end|overall)\s(?!step|criteri|line|note)|^\W*final\s?:"
    r"|^\W*(?:the\s)?(?:result|final)\W*$"
)
CONCLUDED = Lower(
    r"\b(?:therefore|thus|hence|consequently|accordingly|in (?:conclusion|summary|total)|to conclude|"
    r"finally|altogether|as a result|conclu\w+|summary|total(?!\s(?:bili|chol|prot|body|iron|calc|daily|serum|weight))|gives?|giving|gave|yield\w*|get|"
    r"obtain|result(?:s|ing)? (?:in|to)|adds? up|sums?|totals|totall?ing|comes?(?: out)? to|vaut donc|"
    r"works? out|amounts? to|rounds?|rounded|rounding|arrives? at|ends? up|leaves?(?: us| me)?(?: with)?|left with|"
    r"brings? (?:us|me|it|this|(?:the|his|her|their|its) (?:[a-z-]{1,24} ){0,4}[\w-]{1,24}) to|all told|in all|together(?!\swith\b)|combined|tally)\b"
    r"|^\W*(?:so|overall)\b|,\s?so\b|^\W*(?:that|this|which)\s(?:makes|leaves|totals|brings)\b"
    r"|\b(?:donc|ainsi|por (?:lo )?tanto|portanto|quindi|pertanto|somit|daher|damit|folglich|deshalb)\b|\u3057\u305f\u304c\u3063\u3066|\u56e0\u6b64|\u6240\u4ee5|\u7efc\u4e0a|\u603b\u5206|\u5408\u8ba1|\u5171\u8ba1"
)
NAMED = Lower(
    r"\b(?:scores?|index|total(?!\s(?:bili|chol|prot|body|iron|calc|daily|serum|weight|dose|of\b))|sum|points|criteria|clearance|e?gfr|crcl|gap|ratio|quotient|bmi|bsa|map|"
    r"osmolality|osmolarity|deficit|corrected|adjusted|estimated|calculated|computed|predicted|"
    r"ideal|equivalents?|mme|qtc\w*|homa\S*|fena|ldl\S*|fib\S*|meld\S*|requirements?|maintenance|"
    r"psi|rcri|cci|gcs|gbs|q?sofa|apache|cha2ds2\S*|has-?bled|curb\S*|centor|feverpain|wells|caprini|"
    r"news2?|abcd2|timi|mcisaac|blatchford|charlson|glasgow|crb-?65|fractional excretion|body mass|"
    r"surface area|heart|perc|sirs|child-?pugh|ibw|abw|ajbw|edd|edc|ega|target weight|(?:due|delivery) date|ga|ag|geburtstermin|de parto|do parto|accouchement|conception|gestational age|mean arterial)\b"
)
NAME_BEFORE = Lower(
    "(?:" + NAMED.pattern + r"|\b(?:result|answer)"
    r"|\b(?:corrected|adjusted|ideal|target)(?:\s[a-z+]{1,12}){1,3})\s{0,3}[:=|]?\s{0,3}$"
)
INPUT = Lower(
    r"\b(?:(?<!corresponds )(?<!equates )(?<!amounts )(?<!translates )to (?!be\b)[a-z]+|for|with|at|using|given|from|than|assuming)\s(?:(?!total|is\b|gives?\b|has\b)"
    r"[\w'-]+\s{1,2}){0,4}(?!total)[\w'-]+\s*$"
)
"""Matches a value that is put in (`to reach a BMI of 19`), before the word that joins it."""
WITH_MORE = Lower(r"\b(total|sum|score|points|result)\s(?:with|including|incl\.?|after|plus)\s.*$")
"""The parts of a total, behind its name (`sum with age`)."""
RUNNING = Lower(
    r"^\W*\+\s?\d|\b(?:current|so far|without (?:the )?age|before (?:adding )?(?:the )?age|running|initial|starting|start|previous|sub-?total|keeping|remains?|stays|"
    r"becomes?|new|updated|now|increases)\b"
)
SECONDARY = Lower(
    r"\b(?:risk|mortality|probability|likelihood|survival|chance|odds|prevalence|incidence|"
    r"sensitivity|specificity|death|dos(?:e|es|age|ing)|infusion|goal|confidence|error|difference|tolerance|class|stage|category|"
    r"percentile|rate of|percent of|example|previously|prior|would have|chart(?:ed| lists?| shows?)?|directly measured)\b"
)
RISK_SCORE = Lower(r"\brisk (?:score|index)(?:\sscore)?\W*$")
"""A name of a score whose own value is a risk."""
SHARE = Lower(
    r"[^a-z%\u2192,;]{0,10}(?:%|percent)\s(?:[\w-]+\s){0,2}(?:risk|chance|mortality|probability|survival|likelihood|per\b|a year|annual)"
    r"|[^a-z%\u2192,;]{0,10}(?:%|percent)\s?/\s?y|\s(?:[a-z]{1,12}\s){0,3}[a-z]{1,12}\s?(?:/|per)\s?(?:100|1,?000)\b"
)
PUT_IN = Lower(
    r"\s(?:of \d{1,2}\s)?(?:would be|is|are)\s(?:required|needed|necessary)\b"
    r"|\s{0,2}[\w%/^]{0,12}\s(?:(?:is|are|was|will be|should be|must be)\s(?:used|applied|inserted|plugged|entered|taken|chosen)"
    r"|items|components|parameters|variables|goes into|enters|above|below|more|less|higher|lower|longer|shorter|short of|beyond)\b"
)
"""Matches the text behind a value in a formula, or behind a result's distance to a limit."""
ARITHMETIC = Lower(
    r"^\W*(?:(?:add|subtract|multipl|divid)(?:y|es?|s|ing|ying|ed)?|minus|times)\b"
    r"|\d\s(?:plus|minus|times|divided by|multiplied by|over)\s[\d(]"
)
ATTAINED = late(r"scores|scored|meets|fulfil+s|satisfies|totals")
"""Verbs of a patient that state a score (`he scores 2 points`) unless points of an item follow."""
RECEIVES = Lower(r"^\W*(?:s?he|(?:the|this|our) patient)\s(?:gets|receives|earns|has)\s")
"""The beginning of a sentence on the points of a patient, which are all of them or those of an item."""
OF_EACH = Lower(r"\s{0,2}(?:points?\s)?(?:for (?:each|every|any)|each|apiece)\b")
"""Matches the text behind the points that each of several items gives."""
ITEM = Lower(r"\s{0,2}(?:points?\s)?(?:each|for|on|in|because|due|from|under)\b")
POINTS = Lower(
    r"\s{0,2}(?:points?|criteria|criterion)\s{0,2}(?:[;.!\u2192(]|[-\u2013\u2014]\s|,\s(?!for\b)|$)"
)
COUNTED = Lower(
    r"\s(?:altogether|in all|in total|all told)\b|\s{0,2}(?:(?:out )?of (?:the )?(?:\d{1,3}|[a-z]{3,5}) )?(?:[\w-]{1,15} ){0,2}(?:points?|criteria|criterion)\s{0,2}"
    r"(?:in total|in all|in sum|all told|altogether|overall|total\b|(?:(?:are|were|is) (?:now |thus |therefore )?)?(?:met|fulfilled|present|positive|failed|satisfied)\b)"
)
BETWEEN_WORDS = late(r"\)\s?[(\[]|[+\u00d7*]|\s[-\u2013/]\s")
ROUNDED = Lower(r"\bnearest\s(?:integer|whole|unit|point)|\bwhole number")
OTHER = Lower(
    r"\b(?:norm\w*|(?:optimal|average)\s(?!of\b)|reference|range|cut-?offs?|thresholds?|(?:max(?:imum)?|min(?:imum)?)(?!\s?\()|typical|"
    r"trimester|remaining|practical|convenient|marketed|commercial\w*|tablets?|viability|next visit|scan|starts|begins|capped|possible|limits?|conversion|factor|coefficient|constant|version|page|formula uses"
    r"|referenz\w*|referencia|r\u00e9f\u00e9rence|riferimento|soglia|seuil|umbral|limiar|grenz\w*|gemessen\w*|medido|mesur\u00e9e?|misurat[oa])\b"
    r"|\uc815\uc0c1|\u6b63\u5e38|\u57fa\u6e96|\u57fa\u51c6|\u6e2c\u5b9a|\u76ee\u6807|\u76ee\u6a19|\uae30\uc900"
)
INTERPRETS = Lower(
    r"\b(?:indicat\w+|suggest\w*|correspond\w*|means?(?!\sarterial)|meaning|places?|placing|(?<!the )falls?|falling|impl(?:y|ies|ying)|"
    r"reflect\w*|associated|consistent|considered|classified|classif\w+|within|above|below|"
    r"(?<!\bmorphine )equivalents?(?= (?:to|of)\b)|equals to|translat\w+|carries|confers|predicts|compared|versus|normal(?:ly)?|typically|"
    r"needed|required|needs|requires|aim\w*|sufficient|"
    r"usually|generally|higher than|lower than|greater than|less than|exceeds?|warrants?|recommend\w*)\b"
)
REACHED = Lower(
    r"\b(?:arrives? at|ends? up (?:at|with)|left with|leaves?(?: (?:us|me) with)?|brings? (?:us|me) to|"
    r"(?:comes?|adds?|sums?|amounts?|works?)(?: up| out)? to|(?<!to )(?:get|obtain|gives?|yields?|makes?|results? in|lead(?:s|ing) to))\b"
)
"""Words of arriving at a result (`I arrive at an adjusted weight of 93 kg`)."""
TOTALLING = Lower(
    r"^\W*(?:(?:so|thus|hence|therefore)\W{1,2})?(?:in (?:sum|total|all)|altogether|together(?!\swith\b.{0,60}?\b(?:indicat|suggest|point|mean|fit|support|argu)\w*)|overall|all told|"
    r"all in all|summing|adding|combined)\b"
)
DENIED = Lower(r"\bnot\b|n't\b|\b(?:never|rather than|instead of|unlike|as opposed to|without)\b")
WOULD = Lower(r"\bwould\b")
ALTERNATIVE = Lower(
    r"\b(?:with|using|by|without|under|had|taking)\b.{0,150}\b(?:it|this|that|the (?:result|value|estimate|score|number|answer))\s"
    r"(?:[a-z]{1,12}\s){0,2}(?:would|drops|falls|rises|becomes)\b"
    r"|\b(?:it|this|that|the (?:result|value|estimate|score|number|answer))\swould\b.{0,40}\b(?:with|using|by|without|if)\b"
    r"|\b(?:with|using|by|without|under|had|taking|adding|subtracting)\b.{0,80}\b(?:you|one|we|i|they|he|she)(?:'d|\swould)\b"
    r"|\b(?:adding|subtracting|counting)\b.{0,80}\bwould\b|^\W*(?:were|had)\s(?:it|this|the|s?he|we|you|i|they)\b"
)
"""The same quantity by other means (`with the actual weight it would come to 80`)."""
SOLELY = Lower(
    r"^\W*(?:so|thus|hence|therefore|that'?s|that is|altogether|in total|in sum|all told)\W{0,3}"
    + FILLER
)
"""The text before a value in a sentence that only concludes it (`So about 19 %.`)."""
CLOSE = late(
    r"\s{0,2}(?:[^\W\d][\w\u00b5/^.]{0,15}|%)?(?:\s(?:points?|percent|in total|in all))?"
    r"(?:\s(?:out )?of \d{1,3})?[\s.!)]{0,4}"
)
"""All that follows such a value."""
ALL = late(r"\s{0,2}(?:points?|%|(?:[\w-]{2,12}\s)?criteri(?:on|a))?(?:[\s.!)\]}\"']{1,4}|$)")
"""Matches what may follow a value that is all of a sentence."""
INDEFINITE = Lower(
    r"^\W*(?:an?|any|scores?|values?|ratios?|levels?|results?|patients|points?|stages?|class(?:es)?|the normal)\s"
    r"(?!total\b|sum\b)(?:[\w'/-]+\s){0,5}?(?:of|between|from|above|below|over|under|from|within|exceeding|at|\u2265|\u2264|<|>)\s"
    r"(?!.{0,80}\b(?:obtained|calculated|computed|results?|reached|assigned|found)\b)"
)
"""The beginning of a sentence about any value (`A ratio of 1 to 2 is usual`)."""
IF = Lower(
    r"\b(?:if|would have(?! to\b)|were to|suppose|for example|e\.g\.|for comparison|had (?:she|he|the))\b"
)
REMARKED = Lower(
    r",\s(?:(?:with|but|or) (?:less|more|fewer|lower|higher)\b|(?:which|that) (?:is|would (?!be\b|give|make|lead|bring)|means|places|puts|corresponds)|(?:ckd )?(?:stage|class|grade|category)|meaning|indicating"
    r"|suggesting|consistent|placing|putting)\b"
)
"""The beginning of a remark on a value."""
ITEM_POINTS = late(
    r"[^=\u2248\u2192,;:(]{0,30}(?:\(\+?\d{1,2}(?:\spoints?)?\)(?!\s?[-+*/\u00d7])"
    r"|\u2192\s?\+?\d{1,2}(?:\spoints?)?\W{0,3}$)"
)
"""Matches the points behind a finding (`BMI 31 (1)`)."""
STOP = frozenset(
    word
    for line in (
        "the a an of is was are be s patient patients his her their this that it we get",
        "obtain gives give so thus hence therefore then for and in to by our my value level",
        "calculated computed has with as at plugging values these into formula equation",
        "approximately about using he she i me let which would",
    )
    for word in line.split()
)
GENERAL_NAMES = frozenset(
    ("score", "result", "total", "sum", "points", "number", "value", "criteria")
)
"""Words by which a text names what was asked for, whatever it is."""
WORD = late(r"[^\W_][\w-]{0,30}")
FORMULA = late(r"[\u00d7*\u221a^]|\s[/+\u2013-]\s")
"""Matches a sign that names belong to a formula and are not that of its result."""
PARALLEL = Lower(
    r"\s{0,2}[\w%/^.]{0,12}\s?(?:\([^()\n]{2,60}\)|(?:when|with|using|by|for|before|after|if|at)\s[^.,;\n]{1,80}?,?)"
    r"\s?(?:/|\b(?:and|or|but|versus|vs)\b\.?)\s?(?:about\s)?"
)
"""Matches the text between two results of which each has its condition."""
LISTED = late(r"(?:\s?points?)?(?:,\s(?:then\s)?-?\d[\d.]{0,8}(?![\w/%]|\s[A-Za-z%])){2}")
"""Two further numbers behind one: a list, as of a sum that goes on (`3, 5, 7, 10`)."""
