"""Med-HALT, reasoning part: wrong proposals, no right option, senseless questions, and their opposites.

Pal et al., 2023, arXiv 2307.15343.
"""

import ast
import hashlib
import json
from collections.abc import Mapping
from string import ascii_uppercase
from typing import Any

from medhelm import (
    Benchmark,
    DataError,
    Exposure,
    FileDataset,
    Instance,
    LeftOut,
    Row,
    SourceFile,
    hookimpl,
)

NONE = "None of the above"
SENSELESS = "The question makes no sense"
PARTS = (
    "proposal_right",
    "proposal_wrong",
    "none_right",
    "none_wrong",
    "senseless",
    "sensible",
)
"""Three pairs. In the second part of each the answer that is always right in the first is wrong, and the
other way round, so that no constant is right in more than half of the parts."""
OF_SENSELESS = 3
"""Options shown of a senseless question. Those after them are often ways of its makers to give up,
down to "I do not know": who chose one of those would be right, and counted as wrong."""
_ASKS = {
    "FCT": "Is the proposed answer right?",
    "nota": "Which option is right?",
    "fake": "Which option is right?",
}


def options_of(cell: Any) -> tuple[list[str], str]:
    """Return the options of a cell, an object or its text, and the proposed answer in it."""
    if isinstance(cell, str):
        try:
            cell = json.loads(cell)
        except ValueError:
            try:
                cell = ast.literal_eval(cell)
            except (ValueError, SyntaxError):
                cell = None
    if not isinstance(cell, Mapping):
        raise DataError("options is not an object of numbered texts")
    numbered = sorted((int(key), str(text)) for key, text in cell.items() if str(key).isdigit())
    return [text.strip() for _, text in numbered], str(cell.get("correct answer", "")).strip()


def to_instance(row: Row) -> Instance | LeftOut:
    """Return a question in the form of its part.

    Of the questions with a wrong proposal, a draw by their ids leaves a third as they are. Of the
    others the right option is known: they balance the questions without a right option, and the
    senseless ones.
    """
    config, name = row["config"], f"{row['config']}/{row['id']}"
    options, proposed = options_of(row["options"])
    options = [text for text in options if text.casefold() != NONE.casefold()]
    if config == "fake":
        if len(options) == 1 and "\n" in options[0]:
            return LeftOut("a senseless question whose options are all in one text")
        options = options[:OF_SENSELESS]
    if len(options) < 2:
        raise DataError("options has fewer than two texts")
    lines, right = [row["question"].strip()], -1
    if config == "FCT":
        proposed = proposed or str(row["student_answer"]).strip()
        known = str(row["correct_answer"]).strip().casefold()
        part = PARTS[0] if proposed.casefold() == known else PARTS[1]
        places = [n for n, text in enumerate(options) if text.casefold() == known]
        draw = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        if part == PARTS[1] and len(places) == 1 and len(options) > 2 and draw % len(_FORMS):
            part = _FORMS[draw % len(_FORMS)]
            count = len(options) - 1 if part == PARTS[3] else OF_SENSELESS
            options, right = _fewer(options, places[0], count, draw // len(_FORMS))
    else:
        part = PARTS[2] if config == "nota" else PARTS[4]
    if part in PARTS[:2]:
        lines += ["", *options, "", f"Proposed answer: {proposed}"]
        options, gold = ["yes", "no"], "A" if part == PARTS[0] else "B"
    else:
        gold = ascii_uppercase[right if right >= 0 else len(options)]
        options = [*options, NONE if part in PARTS[2:4] else SENSELESS]
    return Instance(
        id=name,
        question="\n".join([*lines, "", _ASKS["FCT" if part in PARTS[:2] else "nota"]]),
        choices=tuple(options),
        references=(gold,),
        metadata={"part": part},
    )


_FORMS = (PARTS[1], PARTS[3], PARTS[5])
"""The parts that questions with a wrong proposal are drawn into."""


def _fewer(options: list[str], right: int, count: int, draw: int) -> tuple[list[str], int]:
    """Return at most `count` of the options, the right one among them, and its place.

    As many are left as the question has that it balances, so that their number tells nothing.
    """
    wrong = [n for n in range(len(options)) if n != right]
    while len(wrong) >= count:
        draw, place = divmod(draw, len(wrong))
        del wrong[place]
    kept = sorted([*wrong, right])
    return [options[n] for n in kept], kept.index(right)


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="med_halt",
            title="Med-HALT, reasoning",
            description="Wrong proposals, questions without a right option, senseless ones, and their opposites.",
            subcategory="providing_clinical_knowledge_support",
            tasks=("answer_medical_knowledge_questions",),
            dataset=FileDataset(
                files=tuple(
                    SourceFile(name=f"reasoning_{config}.csv", cells={"config": config})
                    for config in _ASKS
                ),
                source="openlifescienceai/Med-HALT on the Hugging Face hub",
            ),
            to_instance=to_instance,
            instruction=(
                "Below is a question as in a medical examination. It may have no right option, and "
                "it may make no sense."
            ),
            metrics=["chance_corrected_accuracy", "exact_match"],
            parts=PARTS,
            how_to_get=(
                "Export the configurations reasoning_FCT, reasoning_nota and reasoning_fake of "
                "openlifescienceai/Med-HALT to CSV and note the revision: none is known to us.",
                "Put reasoning_FCT.csv, reasoning_nota.csv and reasoning_fake.csv into <data dir>/med_halt.",
            ),
            max_output_tokens=64,
            licence="Apache-2.0 by the hub's card; the repository has none",
            citation="Pal, Umapathi and Sankarasubbu. Med-HALT. CoNLL 2023. arXiv 2307.15343",
            exposure=Exposure(
                public_since="2023-07-28",
                overlaps=("Made of questions of med_mcqa, headqa and others.",),
            ),
            unverified=True,
            version="3",
            mended=(
                "As published, one answer is always right in each part: no, None of the above, the remark "
                "that the question makes no sense. The score is the mean of six parts in three pairs: right "
                "and wrong proposals, questions without and with a right option, senseless and sensible "
                "ones. The last option is right in all of three parts and in none of the other three.",
                "The headline is 2x - 1 of that mean: 0 for the last option throughout, and below 0 for any "
                "other constant. `exact_match` is beside it. `medhelm validate` and the table below have what "
                "each constant answer gets in each part.",
                "What balances are questions of FCT, whose right option is known: two thirds of those with "
                "a wrong proposal, drawn by their ids, are asked as questions with None of the above or the "
                "remark beside the right option, and with as many options as the questions that they balance.",
                "The published score takes a quarter point off for an error; here the parts are balanced.",
                "None of the above and the remark that a question makes no sense are options to "
                "choose; the published scorer looks for phrases such as `absurd` in the reply.",
                "Senseless questions have four options as a rule, then one that gives up in long words, "
                "then `I do not know`: the last two say what our own last option says. The first three "
                "are shown and ours after them. One question with all options in one text is left out.",
            ),
        )
    ]
