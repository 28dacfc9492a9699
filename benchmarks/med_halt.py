"""Med-HALT, reasoning part: wrong proposals, no right option, and senseless questions.

Pal et al., 2023, arXiv 2307.15343.
"""

import ast
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
PARTS = ("proposal_right", "proposal_wrong", "none_right", "senseless")
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
    """Return a question in the form of its configuration."""
    config = row["config"]
    options, proposed = options_of(row["options"])
    options = [text for text in options if text.casefold() != NONE.casefold()]
    if config == "fake":
        if len(options) == 1 and "\n" in options[0]:
            return LeftOut("a senseless question whose options are all in one text")
        options = options[:OF_SENSELESS]
    if len(options) < 2:
        raise DataError("options has fewer than two texts")
    lines = [row["question"].strip()]
    if config == "FCT":
        proposed = proposed or str(row["student_answer"]).strip()
        is_right = proposed.casefold() == str(row["correct_answer"]).strip().casefold()
        lines += ["", *options, "", f"Proposed answer: {proposed}"]
        options, gold = ["yes", "no"], "A" if is_right else "B"
        part = PARTS[0] if is_right else PARTS[1]
    else:
        last, part = (NONE, PARTS[2]) if config == "nota" else (SENSELESS, PARTS[3])
        gold = ascii_uppercase[len(options)]
        options.append(last)
    return Instance(
        id=f"{config}/{row['id']}",
        question="\n".join([*lines, "", _ASKS[config]]),
        choices=tuple(options),
        references=(gold,),
        metadata={"part": part},
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    """Return the benchmark."""
    return [
        Benchmark(
            name="med_halt",
            title="Med-HALT, reasoning",
            description="Wrong proposals, questions without a right option, and senseless questions.",
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
            prompt="multiple_choice",
            instruction=(
                "Below is a question as in a medical examination. It may have no right option, and "
                "it may make no sense."
            ),
            metrics=["exact_match"],
            parts=PARTS,
            how_to_get=(
                "Export the configurations reasoning_FCT, reasoning_nota and reasoning_fake of "
                "openlifescienceai/Med-HALT to CSV and note the revision: none is known to us.",
                "Put reasoning_FCT.csv, reasoning_nota.csv and reasoning_fake.csv into <data dir>/med_halt.",
            ),
            max_output_tokens=64,
            redistributable=False,
            licence="Apache-2.0 by the hub's card; the repository has none",
            citation="Pal, Umapathi and Sankarasubbu. Med-HALT. CoNLL 2023. arXiv 2307.15343",
            exposure=Exposure(
                public_since="2023-07-28",
                overlaps=("Made of questions of med_mcqa, headqa and others.",),
            ),
            unverified=True,
            version="2",
            mended=(
                "Nearly all proposals are wrong, so that always no wins: right and wrong proposals "
                "are parts of their own, and the score is the mean of the parts.",
                "The published score takes a quarter point off for an error; here it is the share of "
                "right answers, and the rule of a quarter is not needed once parts are balanced.",
                "None of the above and the remark that a question makes no sense are options to "
                "choose; the published scorer looks for phrases such as `absurd` in the reply.",
                "Senseless questions have four options as a rule, then one that gives up in long words, "
                "then `I do not know`: the last two say what our own last option says. The first three "
                "are shown and ours after them. One question with all options in one text is left out.",
                "In its parts none_right and senseless the last option is always right: read them beside "
                "a set in which it is not.",
            ),
        )
    ]
