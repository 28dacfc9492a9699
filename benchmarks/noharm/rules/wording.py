"""Words of clinical actions: what means the same, what is filler, what must not be taken for it."""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_NUMBERS = "one two three four five six seven eight nine ten eleven twelve"

_SAME: dict[str, str] = {
    # how often; the longer first, since "once a week" holds "a week"
    "freq_1w": r"(?:once (?:weekly|a week|per week|every week)|weekly|every week)",
    "freq_4": r"(?:(?:four|4) times (?:daily|a day|per day)|q\.?i\.?d\.?|qds|q6h|"
    r"(?:6|six)-hourly|every (?:6|six) (?:h|hours))",
    "freq_3": r"(?:(?:three|3) times (?:daily|a day|per day)|thrice daily|t\.?i\.?d\.?|tds|q8h|"
    r"(?:8|eight)-hourly|every (?:8|eight) (?:h|hours))",
    "freq_2": r"(?:twice[- ](?:daily|a day|per day)|(?:two|2) times (?:daily|a day|per day)|"
    r"b\.?i\.?d\.?|bd|q12h|(?:12|twelve)-hourly|every (?:12|twelve) (?:h|hours))",
    "freq_1": r"(?:once[- ](?:daily|a day|per day)|q\.?d\.?|od|daily|q24h|every (?:24|day)"
    r"(?: (?:h|hours))?|each day|a day|per day)",
    "freq_prn": r"(?:prn|(?:as|when|if) (?:needed|required|necessary))",
    # how and when
    "route_oral": r"(?:by mouth|orally|oral|per os|p\.?o\.?)",
    "route_iv": r"(?:intravenous(?:ly)?|i\.?v\.?)",
    "route_im": r"(?:intramuscular(?:ly)?|i\.?m\.?)",
    "route_sc": r"(?:subcutaneous(?:ly)?|s\.?c\.?|subcut)",
    "route_topical": r"topical(?:ly)?",
    "route_inhaled": r"(?:inhaled|nebuli[sz]ed|by inhalation)",
    "route_rectal": r"rectal(?:ly)?",
    "ed": r"(?:(?:accident and )?emergency (?:department|room)|a&e|ed)",
    "when_now": r"(?:now|today|tonight|immediate(?:ly)?|urgent(?:ly)?|emergent(?:ly)?|stat|"
    r"at once|same[- ]day|this (?:morning|afternoon|evening)|emergency|right away|straight away|"
    r"without delay|promptly|as soon as possible|asap)",
    "when_later": r"(?:tomorrow(?: morning)?|elective(?:ly)?|routine(?:ly)?|non-urgent(?:ly)?|"
    r"next (?:week|month|visit|appointment)|(?:as an )?outpatient|delayed)",
    "side_left": r"left(?:-sided)?",
    "side_right": r"right(?:-sided)?",
    "side_both": r"(?:bilateral(?:ly)?|both sides)",
    "compare_above": r"(?:above|more than|greater than|exceed(?:s|ing)?)",
    "compare_below": r"(?:below|under|less than|fewer than)",
    "compare_atleast": r"(?:at least|atleast|not less than)",
    "compare_atmost": r"(?:at most|atmost|up to|no more than|not more than)",
    # tests and places
    "ecg": r"(?:(?:12|twelve)-? ?lead )?(?:ecg|ekg|electrocardiogra(?:m|ph|phy))s?",
    "chest xray": r"cxr",
    "xray": r"(?:x-?rays?|x rays?|radiograph(?:s|y)?|plain films?)",
    "ct": r"(?:computed tomography|cat scans?|ct(?: scans?)?)",
    "mri": r"(?:magnetic resonance imaging|mri?)(?: scans?)?",
    "ultrasound": r"(?:ultrasound|ultrasonography|sonogra(?:m|phy))(?: scans?)?",
    "echocardiography": r"(?:echocardiogra(?:ms?|phy)|echo)",
    "eeg": r"(?:electroencephalogra(?:m|phy)|eeg)",
    "bloodcount": r"(?:(?:full|complete) blood (?:cell )?counts?|cbcs?|fbcs?|blood counts?)",
    "liverpanel": r"(?:(?:liver|hepatic) (?:function )?(?:tests?|panel|enzymes|biochemistry)|"
    r"lfts?)",
    "electrolytes": r"(?:urea and electrolytes|u&es?|bmp|basic metabolic panel)",
    "bloodgas": r"(?:arterial blood gas(?:es)?|abgs?)",
    "hba1c": r"(?:ha?emoglobin a1c|glycated ha?emoglobin|hba1c|a1c)",
    "glucose": r"(?:blood )?(?:glucose|sugar)",
    "tsh": r"(?:thyroid[- ]stimulating hormone|tsh)",
    "lumbarpuncture": r"(?:lumbar puncture|spinal tap|lp)",
    "bp": r"(?:blood pressure|bp)",
    "renal": r"(?:renal|kidney)",
    "hepatic": r"(?:hepatic|liver)",
    "icu": r"(?:intensive care(?: unit)?|critical care(?: unit)?|icu|itu)",
    "gp": r"(?:general practitioner|primary care (?:physician|doctor|clinician)|pcp|gp)",
    "lmwh": r"(?:low[- ]molecular[- ]weight heparin|lmwh)",
    "nsaid": r"(?:non-?steroidal anti-?inflammatory drugs?|nsaids?)",
    "paracetamol": r"(?:acetaminophen|paracetamol)",
    "adrenaline": r"(?:epinephrine|adrenaline)",
    "noradrenaline": r"(?:norepinephrine|noradrenaline)",
    "salbutamol": r"(?:albuterol|salbutamol)",
    "furosemide": r"frusemide",
    "lidocaine": r"lignocaine",
    "nitroglycerin": r"(?:glyceryl trinitrate|gtn|nitroglycerine)",
    "colecalciferol": r"cholecalciferol",
    # figures in words
    "1": r"(?:an?|one)(?= (?:single )?(?:hour|day|week|month|year)\b)",
    **{f"{i}": word for i, word in enumerate(_NUMBERS.split()[1:], 2)},
}
"""Name -> pattern of lower-case words that mean it. The first that fits at a place counts."""

_NAMES = list(_SAME)
_ANY = re.compile(rf"(?<!\w)(?:{'|'.join(f'({p})' for p in _SAME.values())})(?!\w)")


def same_words(text: str) -> str:
    """Return a lower-case text with one spelling for what means the same."""
    return _ANY.sub(lambda m: f" {_NAMES[(m.lastindex or 1) - 1]} ", text)


_MASS = {"ug": 1e-3, "mcg": 1e-3, "microgram": 1e-3, "micrograms": 1e-3, "ng": 1e-6}
_MASS |= {"mg": 1.0, "milligram": 1.0, "milligrams": 1.0}
_MASS |= {"g": 1e3, "gram": 1e3, "grams": 1e3, "kg": 1e6}
_VOLUME = {"ml": 1.0, "millilitre": 1.0, "millilitres": 1.0, "milliliters": 1.0}
_VOLUME |= {"l": 1e3, "litre": 1e3, "litres": 1e3, "liter": 1e3, "liters": 1e3}
_TIME = {"s": 1 / 3600, "sec": 1 / 3600, "seconds": 1 / 3600}
_TIME |= dict.fromkeys(("min", "mins", "minute", "minutes"), 1 / 60)
_TIME |= dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 1.0)
_TIME |= dict.fromkeys(("day", "days"), 24.0) | dict.fromkeys(("week", "weeks"), 168.0)
_MONTHS = dict.fromkeys(("month", "months"), 1.0) | dict.fromkeys(("year", "years"), 12.0)
_OTHER = {"%": "%", "percent": "%", "mmol": "mmol", "meq": "meq", "mmhg": "mmhg", "bpm": "bpm"}
_OTHER |= {"cm": "cm", "mm": "mm", "iu": "units", "unit": "units", "units": "units"}
_OTHER |= {"dose": "doses", "doses": "doses", "x": "times", "times": "times"}

UNITS: dict[str, tuple[float, str]] = {
    **{unit: (factor, "mg") for unit, factor in _MASS.items()},
    **{unit: (factor, "ml") for unit, factor in _VOLUME.items()},
    **{unit: (factor, "h") for unit, factor in _TIME.items()},
    **{unit: (factor, "months") for unit, factor in _MONTHS.items()},
    **{unit: (1.0, name) for unit, name in _OTHER.items()},
}
"""A unit -> its size in the basic unit of its kind, and that unit."""

DIRECTIONS = {
    "do": "do start begin initiate commence give prescribe administer add use offer consider try "
    "institute obtain get order request perform check measure send take record arrange test run "
    "determine draw conduct organise schedule book undertake carry provide make have complete monitor follow track",
    "stop": "stop discontinue cease withdraw terminate end remove",
    "hold": "hold withhold suspend pause omit interrupt",
    "continue": "continue keep maintain leave",
    "restart": "restart resume reintroduce",
    "up": "increase raise uptitrate double escalate intensify",
    "down": "reduce lower decrease taper halve downtitrate wean cut",
    "switch": "switch change replace swap substitute convert episode",
    "defer": "defer delay postpone await",
    "avoid": "avoid restrict limit",
}
"""Lists the verbs that decide: starting is not stopping. `do` is the rule and decides nothing."""

LIKE = {
    "repeat": "repeat recheck remeasure reassess",
    "refer": "refer referral consult consultation",
    "advise": "advise advice counsel educate explain tell teach inform instruct warn discuss",
}
"""Further verbs of one meaning; words like others."""

NEGATIONS = _words("not no never without non don't dont nor neither unless except")

ORDER = _words("before after then until prior ahead followed instead rather than")
"""Words with which the order matters."""

IGNORED = _words(
    "a an the this that these those of on in at for with and by as be is are was were it its her "
    "his him he she they them their patient patients to from before after then until prior ahead "
    "followed once into onto or also via per if out up some any all further every each about"
)
"""Says nothing by itself."""

FILLER = _words(
    "serum plasma level concentration testing tests blood sample appointment clinic visit service "
    "team department review assessment evaluation treatment therapy medication drug dose tablet "
    "baseline initial new another formal specialist opinion input "
    "study imaging scan examination result value bedside laboratory please"
)
"""Weighs a tenth, and may replace another."""

_DRUG_ENDINGS = (
    "mab|pril|prilat|sartan|olol|alol|statin|cillin|penem|azole|prazole|floxacin|mycin|micin|cycline|"
    "xaban|gatran|grel|grelor|parin|parinux|lukast|gliptin|gliflozin|glutide|natide|dipine|zosin|"
    "triptan|setron|vir|tinib|zepam|zolam|barbital|caine|sone|solone|onide|terol|tropium|"
    "phylline|formin|glitazone|zide|amide|semide|tidine|tadine|rizine|oxetine|opram|triptyline|"
    "ipramine|apine|idone|peridol|azine|morphone|codone|fentanil|fentanyl|codeine|adol|oxin|"
    "darone|ainide|ocriptine|dronate|parib|ciclib|rubicin|platin|taxel|cristine|trexate|"
    "prine|mus|limus|profen|oxicam|coxib|actone|renone|thiazide|cef\\w+|sulfa\\w+|"
    "racetam|trigine|gabalin|pentin|valproate|plase|poetin|grastim|kinra|cept|tide"
)
_DRUG_NAMES = (
    "aspirin|warfarin|heparin|insulin|digoxin|clopidogrel|metformin|paracetamol|morphine|lithium|"
    "colchicine|allopurinol|febuxostat|hydralazine|phenytoin|carbamazepine|ketamine|propofol|"
    "adrenaline|noradrenaline|dopamine|dobutamine|vasopressin|nitroglycerin|nitroprusside|"
    "quinine|chloroquine|hydroxychloroquine|methotrexate|nitrofurantoin|trimethoprim|"
    "co-trimoxazole|levothyroxine|thyroxine|oxytocin|magnesium|potassium|calcium|bicarbonate|"
    "iron|thiamine|folate|albumin|lactulose|rifaximin|ribavirin|lmwh|nsaid|steroid|oestrogen|"
    "estrogen|progesterone|testosterone|tranexamic|acetylcysteine|naloxone|flumazenil|"
    "ticagrelor|prasugrel|dabigatran|clonidine|baclofen|orlistat|finasteride|sildenafil"
)
DRUG = re.compile(rf"(?:[a-z]{{2,}}(?:{_DRUG_ENDINGS})|{_DRUG_NAMES})s?")
"""A word that looks like a drug: international names by their endings, others by name."""
