"""MedCalc-Bench accuracy (Khandekar et al., 2024, arXiv 2406.12036): is the value right?"""

import datetime
import re
from dataclasses import dataclass
from typing import Literal

from medhelm import (
    DataError,
    Episode,
    Glossary,
    Instance,
    Metric,
    Quantity,
    Score,
    hookimpl,
    read_date,
    read_number,
    read_weeks_days,
)

_CATEGORIES = frozenset(
    {
        "lab",
        "lab test",
        "physical",
        "risk",
        "severity",
        "diagnosis",
        "date",
        "dosage",
        "dosage conversion",
    }
)
"""The spellings of all releases."""
_SHOWN = 50
"""Characters of an answer that the score keeps."""
_QUOTED_PAIR = re.compile(r"\('(\d+) weeks', '(\d+) days'\)")


# The quantities that the questions ask for and that solutions name beside them. Of two names at
# one place the first one counts, so that a longer name comes before its parts.
_SCORE = ""
"""The unit of a score or a ratio."""

_QUANTITIES = {
    "albumin corrected delta ratio": Quantity(
        names=r"(?:albumin[- ])?(?:corrected|adjusted) delta[- ]?ratio|(?:albumin[- ])?corrected (?:delta[- /]delta|Δ/Δ)|delta[- /]?(?:delta )?ratio,? \(?(?:corrected|adjusted) for (?:the )?(?:low )?albumin",
        unit=_SCORE,
        parts=(
            "adjusted",
            "delta ratio",
        ),
    ),
    "albumin corrected delta gap": Quantity(
        names=r"(?:albumin[- ])?(?:corrected|adjusted) delta(?:[- ](?:anion[- ])?gap)?",
        parts=(
            "adjusted",
            "delta gap",
        ),
    ),
    "delta ratio": Quantity(
        names=r"delta[- ]?ratio|delta[- /]?delta|Δ[/ ]Δ|(?:delta|Δ)\s?(?:AG|anion gap|gap)\W{0,3}/\W{0,3}(?:delta|Δ)\s?(?:HCO_?3\S{0,2}|bicarb\w*)",
        unit=_SCORE,
    ),
    "delta gap": Quantity(names=r"(?:delta|Δ)[- ]?(?:anion[- ])?gap|(?:delta|Δ)\s?AG"),
    "albumin corrected anion gap": Quantity(
        names=r"(?:albumin[- ]?)?(?:corrected|adjusted) (?:anion[- ])?(?:gap|AG)|anion gap,? \(?(?:corrected|adjusted) for (?:the )?(?:low )?albumin|cAG|AGc(?:orr)?|AG_?corr\w*|ACAG",
        parts=("adjusted",),
    ),
    "osmolar gap": Quantity(names=r"osmol\w* gap"),
    "anion gap": Quantity(names=r"anion[- ]gap|AG"),
    "bicarbonate change": Quantity(names=r"(?:delta|Δ)\s?(?:HCO3\S{0,2}|bicarb\w*)"),
    "measured osmolality": Quantity(names=r"tonicity|(?:measured|urine|effective) osm\w*"),
    "serum osmolality": Quantity(
        names=r"(?:serum |calculated |plasma )*osmol\w*|(?:serum|calculated|plasma) osm"
    ),
    "corrected calcium": Quantity(
        names=r"(?:albumin[- ])?(?:corrected|adjusted) (?:total )?(?:serum )?(?:calcium|Ca(?:\W?2\+)?)|(?:calcium|Ca),? \(?(?:corrected|adjusted) for (?:the )?(?:low )?albumin|(?:calcium|Ca)[_ ]?\(?corr\w*",
        parts=("adjusted",),
    ),
    "corrected sodium": Quantity(
        names=r"(?:glucose[- ])?(?:corrected|adjusted) (?:serum )?(?:sodium|Na\+?)|(?:sodium|Na\+?),? \(?(?:corrected|adjusted) for (?:the )?(?:high )?(?:glucose|hyperglyc\w+)|(?:sodium|Na)[_ ]?\(?corr\w*",
        parts=("adjusted",),
    ),
    "free water deficit": Quantity(names=r"(?:free )?water deficit|FWD"),
    "total body water": Quantity(names=r"total body water|TBW"),
    "fractional excretion": Quantity(
        names=r"fractional (?:sodium )?excretion(?: of (?:sodium|Na))?|FE_?Na", unit="%"
    ),
    "fractional excretion of urea": Quantity(names=r"fractional excretion of urea|FEurea"),
    "LDL": Quantity(names=r"LDL(?:-C\b)?(?: cholest\w+)?|low[- ]density lipo\w+(?: cholest\w+)?"),
    "other cholesterol": Quantity(
        names=r"(?:non-)?HDL(?:-C\b)?|VLDL|total cholesterol|triglycerides"
    ),
    "HOMA-IR": Quantity(names=r"HOMA(?:-?IR)?|homeostatic model\w*", unit=_SCORE),
    "FIB-4": Quantity(names=r"FIB-?4(?: index| score)?|fibrosis-?4", unit=_SCORE),
    "APRI": Quantity(names=r"APRI|NAFLD\S*(?: fibrosis score)?", unit=_SCORE),
    "creatinine clearance": Quantity(names=r"(?:creatinine )?clearance|CrCl|CCr|C_?Cr|Cl_?Cr"),
    "glomerular filtration rate": Quantity(
        names=r"(?:estimated )?glomerular filtration(?: rate)?|e?GFR"
    ),
    "adjusted body weight": Quantity(
        names=r"adj(?:usted)?\.? ?(?:body )?(?:weight|wt|BW)|ABW|Adj?BW",
        parts=("adjusted",),
    ),
    "adjusted": Quantity(names=r"adj(?:usted)?(?=[^A-Za-z]*$)"),
    "ideal body weight": Quantity(names=r"(?:ideal|predicted) (?:body )?(?:weight|wt|BW)|IBW|PBW"),
    "target weight": Quantity(names=r"(?:target|goal|desired|recommended) (?:body )?weight"),
    "actual weight": Quantity(names=r"(?:actual|current|total|lean|real) (?:body )?weight|TBW"),
    "body mass index": Quantity(names=r"body mass (?:mass )?index|BMI", unit="kg/m2"),
    "body surface area": Quantity(names=r"body surface(?: area)?|BSA", unit="m2"),
    "mean arterial pressure": Quantity(
        names=r"mean (?:arterial |blood )*pressure|MAP|presi[o\u00f3]n arterial media|PAM|pression art\u00e9rielle moyenne",
        unit="mm Hg",
    ),
    "pulse pressure": Quantity(names=r"pulse pressure|PP"),
    "corrected QT": Quantity(
        names=r"(?:heart[- ]rate[- ])?(?:corrected|rate-corrected) (?:QT(?: interval)?|interval)|QT_?c\w*",
        unit="ms",
        parts=("adjusted",),
    ),
    "RR interval": Quantity(names=r"R-?R(?: interval)?"),
    "maintenance fluid": Quantity(
        names=r"maintenance(?: (?:IV )?(?:fluids?|rate|requirement))*", unit="mL/h"
    ),
    "bolus": Quantity(names=r"(?:fluid )?bolus"),
    "equivalent dose": Quantity(names=r"equivalent dos(?:e|age)", unit="mg"),
    "MME": Quantity(
        names=r"morphine (?:milligram|miligram|mg|equivalent)\w*(?: equivalents?)?|MMEs?|OMEs?",
        unit="MME",
    ),
    "CHA2DS2-VASc": Quantity(names=r"CHA_?2?_?DS_?2?[-_ ]?VASc(?: score)?", unit=_SCORE),
    "CHADS2": Quantity(names=r"CHADS_?2?", unit=_SCORE),
    "HAS-BLED": Quantity(names=r"HAS[- ]?BLED(?: score)?", unit=_SCORE),
    "Wells": Quantity(names=r"Well(?:s['’]?s?|['’]s)(?: criteria| score)*", unit=_SCORE),
    "Geneva": Quantity(names=r"(?:revised )?Geneva(?: score)?|YEARS", unit=_SCORE),
    "PERC": Quantity(names=r"PERC(?: rule| criteria)?", unit=_SCORE),
    "RCRI": Quantity(names=r"(?:revised )?cardiac risk index|RCRI|Lee index", unit=_SCORE),
    "HEART": Quantity(names=r"(?-i:HEART)(?: score)?", unit=_SCORE),
    "Centor": Quantity(names=r"(?:modified )?(?:Centor|McIsaac)(?: score)?", unit=_SCORE),
    "FeverPAIN": Quantity(names=r"Fever ?PAIN(?: score)?", unit=_SCORE),
    "MELD": Quantity(names=r"MELDA? ?-?Na(?: score)?", unit=_SCORE, parts=("plain MELD",)),
    "plain MELD": Quantity(names=r"MELD(?:\(i\)| \(i\)|i| 3\.0)?(?: score)?", unit=_SCORE),
    "Child-Pugh": Quantity(names=r"Child[- ](?:Turcotte[- ])?Pugh(?: score)?|CTP", unit=_SCORE),
    "Glasgow-Blatchford": Quantity(
        names=r"(?:Glasgow[- ])?Blatchford(?: bleeding)?(?: score)?|GBS", unit=_SCORE
    ),
    "Glasgow Coma": Quantity(
        names=r"Glasgow coma (?:score|scale)|GCS|E\d[, ]?V\dT?[, ]?M\d", unit=_SCORE
    ),
    "Charlson": Quantity(names=r"Charlson(?: comorbidity)?(?: index)?|CCI", unit=_SCORE),
    "CURB-65": Quantity(names=r"CURB-?65(?: score)?", unit=_SCORE),
    "PSI": Quantity(names=r"pneumonia severity index|PSI|PORT score", unit=_SCORE),
    "SIRS": Quantity(names=r"SIRS(?: criteria)?", unit=_SCORE),
    "qSOFA": Quantity(names=r"q-?SOFA|quick SOFA", unit=_SCORE),
    "SOFA": Quantity(names=r"SOFA(?: score)?|sequential organ failure\w*", unit=_SCORE),
    "APACHE": Quantity(names=r"APACHE(?: ?-?II)?(?: score)?", unit=_SCORE),
    "acute physiology score": Quantity(names=r"APS|acute physiology score", unit=_SCORE),
    "another score": Quantity(
        names=r"(?-i:TIMI|GRACE|NEWS2?|NIHSS|ABCD2?|CRUSADE|ATRIA|ORBIT|SAPS|BISAP|LODS|MODS|REACH|"
        r"SMART-COP|AIMS-?65)|EuroSCORE|Rockall|Ranson|Maddrey|Lille|Gupta",
        unit=_SCORE,
    ),
    "Caprini": Quantity(names=r"Caprini(?: score)?", unit=_SCORE),
    "Padua": Quantity(names=r"Padua(?: score)?", unit=_SCORE),
    "Framingham risk": Quantity(
        names=r"Framingham(?: (?:risk|heart|CHD) (?:score|study|estimate))?",
        share=r"(?:(?:10|ten)[- ]?years? |absolute |coronary |CHD |CVD |cardiovascular )risk|^\W*risk|risk\W*$|(?:risk|chance|probability) of (?:an? )?(?:MI|myocardial|coronary|CHD|heart|cardi|developing|having)\w*",
    ),
    "due date": Quantity(
        names=r"(?:estimated )?(?:due date|date of (?:delivery|confinement))|EDD|EDC|due"
        r"|geburtstermin|fecha (?:probable |estimada )?de parto|data (?:prov\u00e1vel |prevista )?do parto"
        r"|(?:date|terme) (?:pr\u00e9vue? )?(?:d['\u2019]|de l['\u2019])accouchement|\u9884\u4ea7\u671f"
    ),
    "conception": Quantity(
        names=r"(?:estimated )?(?:date of )?conception|conceived|fertili[sz]ation"
    ),
    "gestational age": Quantity(names=r"gestational age|gestation|EGA|GA"),
    "given": Quantity(
        names=r"(?:age|aged|height|heart rate|HR|pulse|respiratory rate|SBP|DBP|BP|temperature|temp|"
        r"INR|bilirubin|platelets|AST|ALT|BUN|urea|glucose|WBC|hematocrit|hemoglobin|Hb|"
        r"(?:serum )?creatinine|SCr|Cr|albumin|insulin|potassium)(?=\W*$)"
    ),
    "menstrual period": Quantity(names=r"last (?:menstrual )?(?:period|menses)|LMP|cycle day"),
}
_METHODS = (
    r"Bazett\w*",
    r"Fridericia\w*",
    r"Framingham\w*",
    r"Hodges\w*",
    r"Rautaharju\w*",
    r"CKD-?EPI\w*",
    r"MDRD\w*",
    r"Coc?kcroft\w*|CG",
    r"Schwartz\w*",
)
_SUBSTANCES = (
    r"betamethasone",
    r"dexamethasone",
    r"hydrocortisone",
    r"cortisone",
    r"methylprednisolone",
    r"prednisolone",
    r"prednisone",
    r"triamcinolone",
)
GLOSSARY = Glossary(_QUANTITIES, _METHODS, _SUBSTANCES)
"""The names of MedCalc-Bench."""


@dataclass(frozen=True, kw_only=True)
class MedCalcAccuracy(Metric):
    """1 where the stated value is right by the form of the gold, else 0.

    A gold of weeks and days is compared in days, a date as a date, an integer as a number; a
    decimal must lie within the published limits (95 % to 105 % of the gold), borders included.
    `answer_key` holds output_type, lower_limit and upper_limit; category is checked if given.
    """

    name: str = "medcalc_accuracy"
    version: str = "9"
    source: str = "arXiv 2406.12036; limits and output types of the data set"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return 0 or 1, or `unparsed`, with the reason, where the reply commits to no value."""
        gold = _gold(instance)
        category = instance.answer_key.get("category", "")
        if category and category not in _CATEGORIES:
            raise DataError(
                f"instance {instance.id!r} has the unknown category {category!r}; known are "
                f"{', '.join(sorted(_CATEGORIES))}"
            )
        text, is_cut = episode.text, episode.finish == "length"
        asked = GLOSSARY.asked_by(instance.question)
        if (duration := read_weeks_days(gold).value) is not None:
            pair = read_weeks_days(text, is_cut=is_cut, asked=asked)
            if pair.value is None:
                return _unread(pair.reason)
            weeks, days = pair.value
            is_right = _days(pair.value) == _days(duration)
            return Score(value=float(is_right), extracted=f"{weeks} weeks, {days} days")
        if (gold_date := read_date(gold).value) is not None:
            date = read_date(text, is_cut=is_cut, asked=asked)
            if date.value is None:
                return _unread(date.reason)
            return Score(value=float(date.value == gold_date), extracted=f"{date.value:%m/%d/%Y}")
        low, high = _range(instance, gold)
        number = read_number(text, is_cut=is_cut, asked=asked)
        if number.value is None:
            return _unread(number.reason)
        return Score(value=float(low <= number.value <= high), extracted=f"{number.value:.10g}")


@dataclass(frozen=True, kw_only=True)
class PublishedMedCalcAccuracy(Metric):
    """The published scorer, faults included.

    It decides by category and knows neither `lab` nor `dosage`, so that those are never right;
    rule-based scores are compared as text, weeks and days in one literal spelling.
    """

    name: str = "medcalc_accuracy"
    scoring: Literal["fixed", "helm"] = "helm"
    source: str = "HELM, medcalc_bench_metrics"

    def score(self, instance: Instance, episode: Episode) -> Score:
        """Return 0 or 1; what the published parsers refuse is `unparsed` and counts 0."""
        text, gold = episode.text.strip(), _gold(instance)
        category = _need(instance, "category")
        if category in ("risk", "severity", "diagnosis"):
            return Score(value=float(text == gold), extracted=text[:_SHOWN])
        if category not in ("date", "physical", "dosage conversion"):
            return Score(value=0.0, reason=f"the published scorer does not know {category!r}")
        low, high = _need(instance, "lower_limit"), _need(instance, "upper_limit")
        try:
            if category != "date":
                is_right = float(low) <= float(text) <= float(high)
            elif _QUOTED_PAIR.match(gold):
                is_right = _quoted_days(low) <= _quoted_days(text) <= _quoted_days(high)
            else:
                is_right = _us_date(low) <= _us_date(text) <= _us_date(high)
        except ValueError:
            return _unread("no single value in the published form is stated")
        return Score(value=float(is_right), extracted=text[:_SHOWN])


def _range(instance: Instance, gold: str) -> tuple[float, float]:
    """Return between which numbers an answer is right: the limits, or the integer itself."""
    output_type = _need(instance, "output_type")
    if output_type not in ("decimal", "integer"):
        raise DataError(
            f"instance {instance.id!r} has the output type {output_type!r} and a gold of another "
            "form; known are decimal, integer and date (with a gold as M/D/Y)"
        )
    if output_type == "integer":
        return _float(instance, "reference", gold), _float(instance, "reference", gold)
    low, high = (_float(instance, k, _need(instance, k)) for k in ("lower_limit", "upper_limit"))
    if low > high:
        raise DataError(f"instance {instance.id!r}: lower_limit is above upper_limit")
    return low, high


def _gold(instance: Instance) -> str:
    if not instance.references:
        raise DataError(f"instance {instance.id!r} has no reference; medcalc_accuracy needs one")
    return instance.references[0]


def _need(instance: Instance, key: str) -> str:
    if key not in instance.answer_key:
        raise DataError(
            f"instance {instance.id!r} has no {key!r} in answer_key; medcalc_accuracy needs it"
        )
    return instance.answer_key[key]


def _float(instance: Instance, key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise DataError(f"instance {instance.id!r}: {key} is not a number") from None


def _days(pair: tuple[int, int]) -> int:
    return 7 * pair[0] + pair[1]


def _quoted_days(text: str) -> int:
    """Return the days of a pair in the published spelling; raises ValueError on any other."""
    match = _QUOTED_PAIR.match(text)
    if match is None:
        raise ValueError("not a quoted pair of weeks and days")
    return _days((int(match[1]), int(match[2])))


def _us_date(text: str) -> datetime.datetime:
    return datetime.datetime.strptime(text, "%m/%d/%Y")


def _unread(reason: str) -> Score:
    return Score(value=None, outcome="unparsed", reason=reason)


@hookimpl
def medhelm_metrics() -> list[Metric]:
    """Return MedCalc accuracy by both rules."""
    return [MedCalcAccuracy(), PublishedMedCalcAccuracy()]
