"""MIMIC-RRS: write the impression of a radiology report from its findings.

Chen et al., 2023, arXiv 2211.08584. The MIMIC-III reports of all anatomies, test split: two files of
one report a line, which belong together line by line.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from itertools import zip_longest
from pathlib import Path

from medhelm import Benchmark, DataError, FileDataset, Instance, LeftOut, Row, hookimpl


def read(paths: Sequence[Path], split: str) -> Iterator[Row]:
    """Yield the findings and the impression of each line; raises DataError for a lone line."""
    findings, impressions = paths
    with closing(read_lines(findings)) as first, closing(read_lines(impressions)) as second:
        for number, (finding, impression) in enumerate(zip_longest(first, second), 1):
            if finding is None or impression is None:
                short = findings if finding is None else impressions
                raise DataError(
                    f"{short.name} ends behind line {number - 1}, the other file goes on; "
                    "take both from one release"
                )
            yield {"line": str(number), "findings": finding, "impression": impression}


def read_lines(path: Path) -> Generator[str, None, None]:
    """Yield the lines of a file, which end at line feeds alone; raises DataError."""
    number = 0
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            for number, line in enumerate(file, 1):  # noqa: B007 - used below
                yield line.strip()
    except UnicodeDecodeError:
        raise DataError(f"{path.name}: not UTF-8 behind line {number}") from None


def to_instance(row: Row) -> Instance | LeftOut:
    """Return the findings of a report; pairs with an empty side are left out."""
    if not row["findings"].strip() or not row["impression"].strip():
        return LeftOut("a side of the pair is empty")
    return Instance(
        id=row["line"],
        context=f"Findings:\n{row['findings'].strip()}",
        question="Write the impression of this report.",
        references=(row["impression"].strip(),),
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="mimic_rrs",
            title="MIMIC-RRS",
            description="Findings of radiology reports, of which to write the impression.",
            subcategory="documenting_diagnostic_reports",
            tasks=("generate_imaging_reports",),
            dataset=FileDataset.brought(
                "test.findings.tok",
                "test.impression.tok",
                source="MIMIC-RRS, reports of MIMIC-III, all anatomies",
                read=read,
            ),
            to_instance=to_instance,
            prompt="plain",
            instruction=(
                "Below are the findings of a radiology report. Write its impression for the "
                "referring clinician: what the findings mean, the most important first, in a few "
                "short sentences. Add nothing that the findings do not support. Reply with the "
                "impression alone."
            ),
            metrics=["jury", "rouge_l", "rouge_1", "rouge_2"],
            rubric="radiology_impression",
            answer="text",
            how_to_get=(
                "Become a credentialed user of physionet.org and sign the data use agreement of "
                "MIMIC-III (mimiciii).",
                "Get MIMIC-RRS (arXiv 2211.08584) as its authors share it with credentialed users, "
                "and take the reports of MIMIC-III, all anatomies.",
                "Put test.findings.tok and test.impression.tok (one report a line, the same line "
                "in both) into <data dir>/mimic_rrs.",
            ),
            max_output_tokens=512,
            data_class="gated",
            curation="formulated",
            licence="PhysioNet Credentialed Health Data License 1.5.0",
            citation=(
                "Chen et al. Toward expanding the scope of radiology report summarization to "
                "multiple anatomies and modalities. ACL 2023. arXiv 2211.08584"
            ),
        )
    ]
