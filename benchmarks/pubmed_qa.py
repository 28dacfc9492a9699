"""PubMedQA: is the title's question answered yes, no or maybe by the abstract?

Jin et al., 2019, arXiv 1909.06146. The official test split of 500 is the default; all 1,000
labelled items are the split `all`, which earlier leaderboards used. The other 500 are `train`, for examples.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from medhelm import Benchmark, Exposure, FileDataset, GitHub, Instance, Row, hookimpl

LETTERS = {"yes": "A", "no": "B", "maybe": "C"}


def read(paths: Sequence[Path], split: str) -> Iterator[Row]:
    """Yield the records with their PMID; `test` keeps those of the ground-truth file, `train` the others."""
    records, test = (json.loads(path.read_text(encoding="utf-8")) for path in paths)
    for pmid, record in records.items():
        if split == "all" or (pmid in test) == (split == "test"):
            yield {"pmid": pmid, **record}


def to_instance(row: Row) -> Instance:
    """Return a question with the abstract's parts. The conclusion (LONG_ANSWER) stays out."""
    parts = zip(row["LABELS"], row["CONTEXTS"], strict=True)
    return Instance(
        id=row["pmid"],
        context="\n".join(f"{label.title()}. {part}" for label, part in parts),
        question=row["QUESTION"],
        choices=tuple(LETTERS),
        references=(LETTERS[row["final_decision"]],),
        metadata={"year": row.get("YEAR") or "not stated"},
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    github = GitHub("pubmedqa/pubmedqa", "1cbae8e92f72f20c8d3747cbb3bf5bc53554d997")
    return [
        Benchmark(
            name="pubmed_qa",
            title="PubMedQA",
            description="Yes/no/maybe questions about biomedical abstracts.",
            subcategory="conducting_literature_research",
            tasks=("screen_reviews", "summarize_papers"),
            dataset=FileDataset(
                files=(
                    github.file(
                        "data/ori_pqal.json",
                        "8b3276be8942ebbd77f3ddcda12c1749bf0e490045a736fd8438ee40cf37a41d",
                    ),
                    github.file(
                        "data/test_ground_truth.json",
                        "939fe566f09017d13b1ca64d2ddfee0bc2374b366048152997669cccedc44d51",
                    ),
                ),
                read=read,
                splits=("test", "all", "train"),
                source=str(github),
            ),
            to_instance=to_instance,
            examples="train",
            instruction=(
                "Below is the abstract of a biomedical study without its conclusion, and a "
                "question. Choose the answer that the findings support; maybe is for findings "
                "that do not settle it."
            ),
            metrics=["exact_match"],
            max_output_tokens=64,
            redistributable=True,
            licence="MIT",
            citation="Jin et al. PubMedQA. EMNLP 2019. arXiv 1909.06146",
            exposure=Exposure(public_since="2019-09-13"),
            expected_instances={"test": 500, "all": 1000, "train": 500},
        )
    ]
