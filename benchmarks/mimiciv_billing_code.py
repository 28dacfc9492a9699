"""MIMIC-IV Billing Code: the ICD-10 codes under which a hospital stay was billed, from its note.

Johnson et al., 2023, doi 10.1038/s41597-022-01899-x. The task follows Edin et al., 2023,
arXiv 2304.10909. Notes and codes come from two releases and are joined by the stay (hadm_id). The
split `prepared` is the file that Edin et al. make of them, from which MedHELM was run.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from operator import itemgetter
from pathlib import Path

from medhelm import (
    Benchmark,
    DataError,
    FileDataset,
    Instance,
    LeftOut,
    Row,
    SourceFile,
    hookimpl,
    is_code,
    read_table,
)

NOTES = ("note_id", "subject_id", "hadm_id", "text")
CODES = ("hadm_id", "seq_num", "icd_code", "icd_version")
VERSIONS = ("9", "10")
PREPARED = ("text", "target")

_ROWS = 256
"""Rows of the prepared file that are read at a time."""


def read(paths: Sequence[Path], split: str) -> Iterator[Row | LeftOut]:
    """Yield the notes of the stays that have ICD-10 codes."""
    yield from read_prepared(paths[0]) if split == "prepared" else read_releases(paths)


def read_releases(paths: Sequence[Path]) -> Iterator[Row | LeftOut]:
    """Yield the notes of a release with the codes of another, diagnoses before procedures.

    Notes are streamed. The codes lie in a temporary database on disk, which is deleted when the
    reading ends. So neither table needs to fit into memory.
    """
    notes, *tables = paths
    with closing(sqlite3.connect("")) as database:
        database.execute("create table codes (stay text, kind int, place int, code text)")
        for kind, table in enumerate(tables):
            rows = ((*code[:1], kind, *code[1:]) for code in read_codes(table))
            database.executemany("insert into codes values (?, ?, ?, ?)", rows)
        database.execute("create index by_stay on codes (stay)")
        ask = "select code from codes where stay = ? order by kind, place, rowid"
        for number, note in read_table(notes, NOTES):
            row = {name: note[name] for name in NOTES}
            codes = [code for (code,) in database.execute(ask, (row["hadm_id"],))]
            if codes and not row["text"].strip():
                raise DataError(f"{notes.name}, row {number}: text is empty")
            yield {**row, "codes": codes} if codes else LeftOut("a stay without ICD-10 codes")


def read_prepared(path: Path) -> Iterator[Row]:
    """Yield the rows of the prepared file. The keys of note and patient may be missing."""
    import pyarrow
    from pyarrow import ipc

    keys = ("note_id", "subject_id")
    try:
        with pyarrow.memory_map(str(path)) as file, ipc.open_file(file) as reader:
            names = reader.schema.names
            if missing := [name for name in PREPARED if name not in names]:
                raise DataError(f"{path.name}: there is no column {', '.join(missing)}")
            columns = [name for name in (*keys, *PREPARED) if name in names]
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number).select(columns)
                for start in range(0, batch.num_rows, _ROWS):
                    for row in batch.slice(start, _ROWS).to_pylist():
                        shown = {key: str(row.get(key) or "") for key in keys}
                        codes = [code.rstrip(".") for code in row["target"] or []]
                        yield {**shown, "text": row["text"] or "", "codes": codes}
    except (pyarrow.ArrowException, OSError) as e:
        raise DataError(f"{path.name}: not readable as Feather ({type(e).__name__})") from None


def read_codes(path: Path) -> Iterator[tuple[str, int, str]]:
    """Yield (stay, place, code) of the ICD-10 codes of a table."""
    of_row = itemgetter(*CODES)
    for number, row in read_table(path, CODES):
        stay, place, code, version = of_row(row)
        code, fault = code.strip(), ""
        if version not in VERSIONS:
            fault = f"icd_version is none of {', '.join(VERSIONS)}"
        elif version == "9":
            continue
        elif not is_code(code):
            fault = "icd_code has not the form of an ICD-10 code"
        elif not place.isdecimal():
            fault = "seq_num is not a number"
        if fault:
            raise DataError(f"{path.name}, row {number}: {fault}")
        yield stay, int(place), code


def to_instance(row: Row) -> Instance:
    """Return a note with the codes of its stay, each once."""
    if not row["text"].strip():
        raise DataError("text is empty; a note of a stay must hold its text")
    if not row["codes"] or not all(map(is_code, row["codes"])):
        raise DataError("codes must be ICD-10 codes, at least one")
    return Instance(
        id=row["note_id"],
        context=row["text"].strip(),
        references=tuple(dict.fromkeys(row["codes"])),
        cluster=row["subject_id"] or None,
    )


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="mimiciv_billing_code",
            title="MIMIC-IV Billing Code",
            description="Discharge notes, to be given all ICD-10 codes of the stay.",
            subcategory="overseeing_financial_activities",
            tasks=("generate_billing", "document_billing"),
            dataset=FileDataset(
                files=(
                    SourceFile(name="note/discharge.csv.gz", splits=("test",)),
                    SourceFile(name="hosp/diagnoses_icd.csv.gz", splits=("test",)),
                    SourceFile(name="hosp/procedures_icd.csv.gz", splits=("test",)),
                    SourceFile(name="mimiciv_icd10.feather", splits=("prepared",)),
                ),
                read=read,
                splits=("test", "prepared"),
                source=(
                    "MIMIC-IV-Note 2.2 and MIMIC-IV 2.2, PhysioNet (test); the same as prepared "
                    "by JoakimEdin/medical-coding-reproducibility (prepared)"
                ),
            ),
            to_instance=to_instance,
            prompt="plain",
            instruction=(
                "Below is the discharge note of a hospital stay. Give all ICD-10 codes under "
                "which the stay is to be billed: ICD-10-CM codes of its diagnoses and ICD-10-PCS "
                "codes of its procedures, each in full.\n"
                "Reply with the codes alone, separated by commas."
            ),
            metrics=["micro_f1", "mean_f1", "label_precision", "label_recall"],
            published_metric="mean_f1",
            answer="labels",
            how_to_get=(
                "Become a credentialed user of physionet.org and sign the data use agreements of "
                "MIMIC-IV (mimiciv) and MIMIC-IV-Note (mimic-iv-note), version 2.2 of both.",
                "Download note/discharge.csv.gz of MIMIC-IV-Note, and hosp/diagnoses_icd.csv.gz "
                "and hosp/procedures_icd.csv.gz of MIMIC-IV.",
                "Put the folders note and hosp with these files, packed as they are, into "
                "<data dir>/mimiciv_billing_code.",
                "The file that MedHELM was run on, mimiciv_icd10.feather (columns text and target) "
                "of JoakimEdin/medical-coding-reproducibility, is the split prepared: put it into "
                "the same place and run with `benchmark.split=prepared`.",
            ),
            max_output_tokens=1024,
            data_class="gated",
            licence="PhysioNet Credentialed Health Data License 1.5.0",
            citation=(
                "Johnson et al. MIMIC-IV. Scientific Data 10, 1 (2023); Edin et al. Automated "
                "medical coding on MIMIC-III and MIMIC-IV. SIGIR 2023. arXiv 2304.10909"
            ),
            cluster="patient",
        )
    ]
