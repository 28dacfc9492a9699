"""The quantities of MedCalc-Bench and those that solutions name beside them: data only.

Of two names at one place the first one counts, so that a longer name comes before its parts.
"""

from medhelm import Glossary, Quantity

SCORE = ""
"""The unit of a score or a ratio."""

QUANTITIES = {
    "albumin corrected delta ratio": Quantity(
        names=r"(?:albumin[- ])?(?:corrected|adjusted) delta[- ]?ratio|(?:albumin[- ])?corrected (?:delta[- /]delta|Δ/Δ)",
        unit=SCORE,
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
        names=r"delta[- ]?ratio|delta[- /]?delta|Δ[/ ]Δ|(?:delta|Δ)\s?(?:AG|anion gap|gap)\s?/\s?(?:delta|Δ)\s?(?:HCO3\S{0,2}|bicarb\w*)",
        unit=SCORE,
    ),
    "delta gap": Quantity(names=r"(?:delta|Δ)[- ]?(?:anion[- ])?gap|(?:delta|Δ)\s?AG"),
    "albumin corrected anion gap": Quantity(
        names=r"(?:albumin[- ]?)?(?:corrected|adjusted) (?:anion[- ])?(?:gap|AG)|cAG|AGc(?:orr)?|AG_?corr\w*|ACAG",
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
        names=r"(?:albumin[- ])?(?:corrected|adjusted) (?:total )?(?:serum )?(?:calcium|Ca(?:\W?2\+)?)|(?:calcium|Ca)[_ ]?\(?corr\w*",
        parts=("adjusted",),
    ),
    "corrected sodium": Quantity(
        names=r"(?:glucose[- ])?(?:corrected|adjusted) (?:serum )?(?:sodium|Na\+?)|(?:sodium|Na)[_ ]?\(?corr\w*",
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
    "HOMA-IR": Quantity(names=r"HOMA(?:-?IR)?|homeostatic model\w*", unit=SCORE),
    "FIB-4": Quantity(names=r"FIB-?4(?: index| score)?|fibrosis-?4", unit=SCORE),
    "APRI": Quantity(names=r"APRI|NAFLD\S*(?: fibrosis score)?", unit=SCORE),
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
        names=r"mean (?:arterial |blood )*pressure|MAP", unit="mm Hg"
    ),
    "pulse pressure": Quantity(names=r"pulse pressure|PP"),
    "corrected QT": Quantity(
        names=r"(?:heart[- ]rate[- ])?(?:corrected|rate-corrected) QT(?: interval)?|QT_?c\w*",
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
    "CHA2DS2-VASc": Quantity(names=r"CHA_?2?_?DS_?2?[-_ ]?VASc(?: score)?", unit=SCORE),
    "CHADS2": Quantity(names=r"CHADS_?2?", unit=SCORE),
    "HAS-BLED": Quantity(names=r"HAS[- ]?BLED(?: score)?", unit=SCORE),
    "Wells": Quantity(names=r"Wells['’]?s?(?: criteria| score)*", unit=SCORE),
    "Geneva": Quantity(names=r"(?:revised )?Geneva(?: score)?|YEARS", unit=SCORE),
    "PERC": Quantity(names=r"PERC(?: rule| criteria)?", unit=SCORE),
    "RCRI": Quantity(names=r"(?:revised )?cardiac risk index|RCRI|Lee index", unit=SCORE),
    "HEART": Quantity(names=r"(?-i:HEART)(?: score)?", unit=SCORE),
    "Centor": Quantity(names=r"(?:modified )?(?:Centor|McIsaac)(?: score)?", unit=SCORE),
    "FeverPAIN": Quantity(names=r"Fever ?PAIN(?: score)?", unit=SCORE),
    "MELD": Quantity(names=r"MELDA? ?-?Na(?: score)?", unit=SCORE, parts=("plain MELD",)),
    "plain MELD": Quantity(names=r"MELD(?:\(i\)| \(i\)|i| 3\.0)?(?: score)?", unit=SCORE),
    "Child-Pugh": Quantity(names=r"Child[- ](?:Turcotte[- ])?Pugh(?: score)?|CTP", unit=SCORE),
    "Glasgow-Blatchford": Quantity(
        names=r"(?:Glasgow[- ])?Blatchford(?: bleeding)?(?: score)?|GBS", unit=SCORE
    ),
    "Glasgow Coma": Quantity(
        names=r"Glasgow coma (?:score|scale)|GCS|E\d[, ]?V\dT?[, ]?M\d", unit=SCORE
    ),
    "Charlson": Quantity(names=r"Charlson(?: comorbidity)?(?: index)?|CCI", unit=SCORE),
    "CURB-65": Quantity(names=r"CURB-?65(?: score)?", unit=SCORE),
    "PSI": Quantity(names=r"pneumonia severity index|PSI|PORT score", unit=SCORE),
    "SIRS": Quantity(names=r"SIRS(?: criteria)?", unit=SCORE),
    "qSOFA": Quantity(names=r"q-?SOFA|quick SOFA", unit=SCORE),
    "SOFA": Quantity(names=r"SOFA(?: score)?|sequential organ failure\w*", unit=SCORE),
    "APACHE": Quantity(names=r"APACHE(?: ?-?II)?(?: score)?", unit=SCORE),
    "acute physiology score": Quantity(names=r"APS|acute physiology score", unit=SCORE),
    "another score": Quantity(
        names=r"(?-i:TIMI|GRACE|NEWS2?|NIHSS|ABCD2?|CRUSADE|ATRIA|ORBIT|SAPS|BISAP|LODS|MODS|REACH|"
        r"SMART-COP|AIMS-?65)|EuroSCORE|Rockall|Ranson|Maddrey|Lille|Gupta",
        unit=SCORE,
    ),
    "Caprini": Quantity(names=r"Caprini(?: score)?", unit=SCORE),
    "Padua": Quantity(names=r"Padua(?: score)?", unit=SCORE),
    "Framingham risk": Quantity(
        names=r"Framingham(?: (?:risk|heart|CHD) (?:score|study|estimate))?"
    ),
    "due date": Quantity(
        names=r"(?:estimated )?(?:due date|date of (?:delivery|confinement))|EDD|EDC|due"
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
METHODS = (
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
GLOSSARY = Glossary(QUANTITIES, METHODS)
