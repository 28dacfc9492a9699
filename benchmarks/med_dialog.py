"""MedDialog: one sentence on what a patient asks a doctor online.

Zeng et al., 2020, arXiv 2004.03329; prepared by Yuan et al., 2022, arXiv 2204.03905. The parts are
two web sites. Split `test` has the 1,000 dialogues of each that published results are of, split
`all` has all of them.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from medhelm import Benchmark, DataError, Exposure, FileDataset, Instance, Row, SourceFile, hookimpl

PARTS = ("healthcaremagic", "icliniq")
DRAWN = 1000


def read(paths: Sequence[Path], split: str) -> Iterator[Row]:
    """Yield the records of both parts with their position, in the order of the files."""
    for part, path in zip(PARTS, paths, strict=True):
        records = _records(part, path)
        kept = set(range(len(records))) if split == "all" else draw(len(records))
        for position, record in enumerate(records):
            if position in kept:
                yield {**record, "part": part, "position": str(position)}


def _records(part: str, path: Path) -> list[Row]:
    name = f"{part}/{path.name}"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as e:
        raise DataError(f"{name}: not JSON in UTF-8 ({type(e).__name__})") from None
    records = content.get("data") if isinstance(content, dict) else None
    if not isinstance(records, list):
        raise DataError(f"{name}: has no list under 'data'")
    for position, record in enumerate(records):
        texts = [record.get(key) for key in ("src", "tgt")] if isinstance(record, dict) else []
        if not texts or not all(isinstance(text, str) for text in texts):
            raise DataError(f"{name}: record {position} has no texts under 'src' and 'tgt'")
    return records


def draw(count: int) -> set[int]:
    """Return the positions that published results are of, drawn as those were: seed 0."""
    import numpy as np

    if count <= DRAWN:
        return set(range(count))
    drawn = np.random.RandomState(0).choice(count, DRAWN, replace=False)
    return {int(position) for position in drawn}


def to_instance(row: Row) -> Instance:
    """Return a dialogue with the title that the site gives it."""
    return Instance(
        id=f"{row['part']}-{row['position']}",
        context=row["src"].strip(),
        question="Say in one sentence what this patient wants to know, with the facts that matter.",
        references=(row["tgt"].strip(),),
        metadata={"part": row["part"]},
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    bundle = "0x82f0c47f6d3e4462ae9ef8ea39eebe64"
    folder = f"https://worksheets.codalab.org/rest/bundles/{bundle}/contents/blob"
    return [
        Benchmark(
            name="med_dialog",
            title="MedDialog",
            description="Online dialogues of patients and doctors, to be summed up in one sentence.",
            subcategory="patient_provider_messaging",
            tasks=("triage_messages", "analyze_symptoms", "draft_responses"),
            dataset=FileDataset(
                files=tuple(
                    SourceFile(name=f"{part}/test.json", url=f"{folder}/{part}/test.json")
                    for part in PARTS
                ),
                read=read,
                splits=("test", "all"),
                source=f"CodaLab bundle {bundle}",
            ),
            to_instance=to_instance,
            prompt="plain",
            instruction=(
                "Below is what a patient wrote to a doctor online, and what the doctor answered. "
                "Reply with one sentence and nothing else."
            ),
            metrics=["jury", "rouge_l", "rouge_1", "rouge_2"],
            rubric="dialogue_summary",
            parts=PARTS,
            answer="text",
            licence="copyright of healthcaremagic.com and icliniq.com",
            citation="Zeng et al. MedDialog. EMNLP 2020. arXiv 2004.03329",
            exposure=Exposure(public_since="2020-04-07"),
            expected_instances={"test": 2000, "all": 25750},
        )
    ]
