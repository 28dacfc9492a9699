"""SCT-Bench, public part: script concordance, how a new finding changes a hypothesis.

McCoy et al., NEJM AI 2025;2(10):AIdbp2500120. The other items are held back by the authors.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from medhelm import (
    Benchmark,
    Exposure,
    GitHub,
    Instance,
    Phrasings,
    Prompt,
    Row,
    hookimpl,
    text_key,
)

SCALE = {"-2": "-2", "-1": "-1", "0": "0", "1": "+1", "2": "+2"}
"""Columns of the panel's votes, and the values that a model is asked for."""


def to_instance(row: Row) -> Instance:
    """Return an item. Columns on students stay out."""
    votes = {value: float(row[column] or 0) for column, value in SCALE.items()}
    stem = restore(row["sct_stem"])
    return Instance(
        id=row["question_id"].strip(),
        context=stem,
        question=f"{restore(row['question'])}\n{restore(row['additional_info'])}",
        references=(max(votes, key=lambda value: votes[value]),),
        answer_key={value: f"{count:g}" for value, count in votes.items()},
        cluster=text_key(stem),
        metadata={"source": row["source"]},
    )


def restore(text: str) -> str:
    """Return a text whose UTF-8 was read as another encoding as it was before."""
    for encoding in ("latin-1", "cp1252"):
        try:
            return text.encode(encoding).decode("utf-8").strip()
        except UnicodeError:
            continue
    return text.strip()


def fields(instance: Instance) -> tuple[Sequence[str], Mapping[str, str]]:
    """Return the fields of replies by which the reading of a value of the scale is tried."""
    gold = instance.references[0]
    other = "-1" if gold != "-1" else "+1"
    return ("scale",), {"gold": gold, "plain": gold.removeprefix("+"), "other": other}


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    github = GitHub("tmabraham/med-lm-envs", "7ee045209857f85e909670bcab4a5b7260eafe92")
    return [
        Benchmark(
            name="sct_bench",
            title="SCT-Bench, public part",
            description="Script concordance: does a new finding make a hypothesis more or less likely?",
            subcategory="supporting_diagnostic_decisions",
            tasks=("generate_differential_diagnoses", "recognize_disease_patterns_from_symptoms"),
            dataset=github.dataset(
                "environments/sctpublic/sctpublic/data/sct_cleaned_full.csv",
                "1328f30945fd44b1557ebbf163d83d6113fbf0ae64db51149343fb42ea7814d8",
                source=f"SCT-Bench/sctpublic, copy in {github}",
            ),
            to_instance=to_instance,
            answer="number",
            labels=tuple(SCALE.values()),
            phrasings=Phrasings(Path(__file__).parent / "phrasings/sct_bench.yaml", fields),
            prompt=Prompt(
                name="script_concordance",
                version="1",
                text="{instruction}\n\n{context}\n\n{instruction}\n\n{question}",
                closing="Reply with one value alone: -2, -1, 0, +1 or +2.",
            ),
            instruction=(
                "Below are a clinical case, a hypothesis (a diagnosis, an investigation or a "
                "treatment that is considered) and a new finding. How does the finding change the "
                "hypothesis? -2: much less likely or appropriate; -1: less; 0: neither less nor "
                "more; +1: more; +2: much more."
            ),
            metrics=["sct_score", "sct_any_expert"],
            max_output_tokens=64,
            redistributable=True,
            licence="MIT",
            citation="McCoy et al. SCT-Bench. NEJM AI 2025;2(10):AIdbp2500120",
            expected_instances={"test": 174},
            cluster="case",
            exposure=Exposure(
                public_since="2025",
                overlaps=("The items of Open Medical SCT were on the web before.",),
            ),
            mended=(
                "174 items are on 75 cases: intervals resample cases.",
                "Votes of one source are counts, of the other shares of the largest: both are divided "
                "by the largest of the item. In 12 items two values share it, and both score 1.",
                "Other scorers want the text `Rating: +1` and score other spellings 0; here a "
                "missing plus sign, marks of emphasis and a leading word are read.",
                "47 items have letters that were encoded twice, which are restored.",
                "Always +1 scores 0.423, more than a value drawn at random (0.327): it is the floor to compare with.",
                "That the copy equals the authors' own file is not proven: that was not to be had.",
            ),
        )
    ]
