"""EHRSQL (eICU part): write the SQL query that answers a question, or decline to.

Lee et al., NeurIPS 2022, arXiv 2301.07695. Both published question sets together, in two releases:
the split `test` is the one that MedHELM was run on, `release_2026` a later one, in which every
question has other words and 183 gold queries are others.

The database that comes with the benchmark holds 5 patients, so most gold queries give no row on
it: those instances are unscored as uninformative (`ehrsql_canonical_match` scores them all).
Whoever builds the whole database (eICU demo or eICU, by upstream's preprocessing: the ten tables
of eicu.sql, texts in lower case) puts it into `<data dir>/ehrsql/user.sqlite` and runs
`benchmark=ehrsql benchmark.split=user_database`. Its hash is part of the run, none of its values
is stored. A query may take two seconds of processor time, so such a database needs indexes.
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from medhelm import (
    Benchmark,
    DataError,
    Exposure,
    FileDataset,
    GitHub,
    Instance,
    Phrasings,
    Row,
    SourceFile,
    hookimpl,
)
from medhelm_benchmarks.ehrsql.metrics import ABSTENTION
from medhelm_benchmarks.ehrsql.sandbox import open_sandbox

QUESTIONS = "e172ec8e61391ecae2d872c8d0ba02a622222f54"
LATER = "01241a3c55bda895561c76923251ea2421d2e892"
DATABASE = "52ba5528fd1ff1c6ec4ad1d0850126836404e71f"
_FIRST = {
    "valid.json": "e63ce19c6a55c7a97a010dabbd0297d30666e8631b36f6f0e1aa19ddd93c70a3",
    "test.json": "b511d9294b8dac50840173ab18b3e42a5f03abef88c326b5a4393e75c9c7ed8f",
}
_LATER = {
    "valid.json": "338834d2ff7b4e62687a8efd56dcf5b8d228858afefcc1872b42423e59737119",
    "test.json": "64dae91d50ab88140b10e994cb0f690286e8b62272101f9d911e75a588e757fa",
}


def read(paths: Sequence[Path], split: str) -> Iterator[Row]:
    """Yield the records of both question sets, each with the schema and the database's name."""
    *questions, script, database = paths
    schema = "\n".join(
        line.rstrip()
        for line in script.read_text(encoding="utf-8").splitlines()
        if line.strip() and not line.startswith("DROP TABLE")
    )
    if split == "user_database":
        _check_tables(schema, database)
    sha256 = open_sandbox(database).sha256
    shared = {"schema": schema, "database": database.name, "database_sha256": sha256}
    for path in questions:
        for record in json.loads(path.read_text(encoding="utf-8")):
            yield {**record, **shared}


def _check_tables(schema: str, database: Path) -> None:
    """Refuse a database without the tables and columns that the questions are about."""
    sandbox = open_sandbox(database)
    plain = sqlite3.connect(":memory:")
    try:
        plain.executescript(schema)
        names = [name for (name,) in plain.execute("SELECT name FROM pragma_table_list")]
        for table in (name for name in names if not name.startswith("sqlite_")):
            columns = [row[1] for row in plain.execute(f"PRAGMA table_info({table})")]
            found = sandbox.query(f"SELECT {', '.join(columns)} FROM {table} LIMIT 1")
            if found.status != "rows":
                raise DataError(
                    f"{database.name}: table {table} of eicu.sql cannot be read "
                    f"({found.detail}); build it with upstream's preprocessing"
                )
    finally:
        plain.close()


def to_instance(row: Row) -> Instance:
    """Return a question about the schema. The gold is the query as written, or the abstention."""
    is_answerable = not row["is_impossible"]
    if is_answerable and not row["query"].strip():
        raise DataError("query is empty although is_impossible is false")
    words = " ".join(row["question"].split()).casefold()
    return Instance(
        id=row["id"],
        context=row["schema"],
        question=row["question"],
        references=(row["query"] if is_answerable else ABSTENTION,),
        cluster=hashlib.sha256(words.encode()).hexdigest()[:16],
        answer_key={
            "database": row["database"],
            "database_sha256": row["database_sha256"],
            "constants": str(len(row.get("value") or {})),
        },
        metadata={
            "answerable": "yes" if is_answerable else "no",
            "question_set": row["split"],
            "phrasing": row["para_type"],
        },
    )


def _dataset() -> FileDataset:
    published, later = (GitHub("glee4810/EHRSQL", commit) for commit in (QUESTIONS, LATER))
    folder = "dataset/ehrsql/eicu"
    first = ("test", "user_database")
    return FileDataset(
        files=(
            *(
                published.file(f"{folder}/{name}", sha256, f"e172ec8/{name}", first)
                for name, sha256 in _FIRST.items()
            ),
            *(
                later.file(f"{folder}/{name}", sha256, splits=("release_2026",))
                for name, sha256 in _LATER.items()
            ),
            published.file(
                f"{folder}/eicu.sql",
                "e423f49c2e45b7a4441f83dd69c18c7b01889958f58db4130a2b280de8b9ab28",
            ),
            GitHub("raulista1997/benchmarkdata", DATABASE).file(
                "eicu.sqlite",
                "a2996946babe6d5c5bbc5e19e26d16123e3dcfa8932c57a3299f91885b469266",
                splits=("test", "release_2026"),
            ),
            SourceFile(name="user.sqlite", splits=("user_database",)),
        ),
        read=read,
        splits=("test", "release_2026", "user_database"),
        source=(
            f"glee4810/EHRSQL at {QUESTIONS} (release_2026: at {LATER}); "
            f"raulista1997/benchmarkdata at {DATABASE}"
        ),
    )


def _fields(instance: Instance) -> tuple[Sequence[str], Mapping[str, str]]:
    gold = instance.references[0]
    kind = "declined" if gold == ABSTENTION else "query"
    return (kind,), {"gold": gold, "lower": gold.lower()}


@hookimpl
def medhelm_benchmarks() -> list[Benchmark]:
    return [
        Benchmark(
            name="ehrsql",
            version="2",
            title="EHRSQL",
            description="Questions about hospital records, answered by an SQL query or declined.",
            subcategory="analyzing_clinical_research_data",
            tasks=("conduct_cohort_studies", "assess_outcomes"),
            dataset=_dataset(),
            to_instance=to_instance,
            prompt="plain",
            instruction=(
                "Write one SQLite query that answers a question about the records of a hospital, "
                "from the tables below alone. All texts in the tables are in lower case. The "
                "present is 2105-12-31 23:59:00, which a query may call current_time. Normal "
                "ranges: temperature 35.5 to 38.1, SaO2 95 to 100, heart rate 60 to 100, "
                "respiration 12 to 18, blood pressure systolic 90 to 120, diastolic 60 to 90, "
                "mean 60 to 110.\n"
                "Let the query return what is asked in one column and nothing more; a yes is 1, "
                "a no is 0. Reply with the query alone, between <sql> and </sql>. If the tables "
                f"do not hold what the question needs, reply with the single word {ABSTENTION}."
            ),
            metrics=[
                "ehrsql_execution_accuracy",
                "ehrsql_canonical_match",
                "ehrsql_abstention_accuracy",
                "ehrsql_query_validity",
            ],
            answer="text",
            phrasings=Phrasings(Path(__file__).parent / "phrasings.yaml", _fields),
            how_to_get=(
                "The pinned files are fetched by `medhelm data fetch ehrsql`.",
                "For a database with more patients build one with the preprocessing of "
                "glee4810/EHRSQL from the eICU demo (open) or eICU (credentialed, PhysioNet).",
                "Put it into <data dir>/ehrsql/user.sqlite, with an index on each column of ids.",
                "Run with `benchmark=ehrsql benchmark.split=user_database`.",
            ),
            max_output_tokens=1024,
            redistributable=True,
            licence="CC BY 4.0 (questions), ODbL (database)",
            citation="Lee et al. EHRSQL. NeurIPS 2022. arXiv 2301.07695",
            exposure=Exposure(public_since="2023-01-16"),
            expected_instances={"test": 2909, "release_2026": 2909, "user_database": 2909},
            cluster="question",
        )
    ]
