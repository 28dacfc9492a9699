from __future__ import annotations

import hashlib
import importlib
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from medhelm.data.dataset import open_dataset
from medhelm.data.fetch import verify
from medhelm.errors import DataError
from medhelm.schema.data import Benchmark, FileDataset, Instance
from medhelm.schema.episode import Response
from medhelm.schema.score import Metric, Score, Scoring
from medhelm.store.records import find_gradings, read_record
from tests.benchmarks.conftest import load, prompt, sample_file
from tests.cases import cases
from tests.graded import grade
from tests.shell import Shell

SAMPLES = sample_file("ehrsql").parent
PLUGIN = importlib.import_module("medhelm_benchmarks.ehrsql.metrics")
DATABASE = {
    "database": "ehrsql.sql",
    "database_sha256": hashlib.sha256((SAMPLES / "ehrsql.sql").read_bytes()).hexdigest(),
}
SCHEMA = "CREATE TABLE lab\n(\n    labid INT,\n    labname TEXT,\n    labresult NUMERIC(11,4)\n) ;"
ROW: dict[str, Any] = {
    "db_id": "eicu",
    "question": "What was the lowest potassium?",
    "query": "select min(lab.labresult) from lab where lab.labname = 'potassium'",
    "value": {"lab_name": "potassium"},
    "para_type": "human",
    "is_impossible": False,
    "split": "valid",
    "id": "0123456789abcdef01234567",
    "schema": SCHEMA,
} | DATABASE


def metric(name: str = "execution_accuracy", scoring: Scoring = "fixed") -> Metric:
    (found,) = (
        m for m in PLUGIN.medhelm_metrics() if (m.name, m.scoring) == (f"ehrsql_{name}", scoring)
    )
    assert isinstance(found, Metric)
    return found.prepare(SAMPLES)


def case(gold: str | None, constants: int = 1) -> Instance:
    return Instance(
        id="i",
        context=SCHEMA,
        question="?",
        references=(PLUGIN.ABSTENTION if gold is None else gold,),
        answer_key=DATABASE | {"constants": str(constants)},
    )


def said(text: str, own: Metric, instance: Instance) -> Score:
    return grade(own, instance, Response(instance_id="i", text=text))


def test_a_row_and_its_prompt() -> None:
    benchmark = load("ehrsql")
    instance = benchmark.to_instance(ROW)
    assert instance is not None
    assert instance == Instance(
        id="0123456789abcdef01234567",
        context=SCHEMA,
        question="What was the lowest potassium?",
        references=(ROW["query"],),
        answer_key={**DATABASE, "constants": "1"},
        cluster=instance.cluster,
        metadata={"answerable": "yes", "question_set": "valid", "phrasing": "human"},
    )
    shown = prompt(benchmark, instance)
    assert shown == f"{benchmark.instruction}\n\n{SCHEMA}\n\nWhat was the lowest potassium?"
    for told in ("<sql>", PLUGIN.ABSTENTION, PLUGIN.NOW, "one column", "60 to 100"):
        assert told in benchmark.instruction
    assert "/" not in instance.answer_key["database"], "no place on this machine is stored"


def test_a_question_that_stands_twice_is_one_cluster() -> None:
    """20 questions of the later release repeat an earlier one, none of MedHELM's."""
    texts = (ROW["question"], f" {ROW['question'].upper()} ", "What was the highest potassium?")
    found = [load("ehrsql").to_instance(ROW | {"question": text}) for text in texts]
    first, second, other = (i.cluster for i in found if i is not None)
    assert first == second != other


def test_an_unanswerable_row_is_answered_by_the_declared_word() -> None:
    row = {k: v for k, v in ROW.items() if k != "value"} | {"query": "null", "is_impossible": True}
    instance = load("ehrsql").to_instance(row)
    assert instance is not None
    assert instance.references == ("UNANSWERABLE",)
    assert instance.answer_key["constants"] == "0"
    assert instance.metadata["answerable"] == "no"
    with pytest.raises(DataError, match="query is empty.*is_impossible is false"):
        load("ehrsql").to_instance(ROW | {"query": " "})


# Reading -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("completion", "expected"), cases(__file__, "read"))
def test_what_is_read_out_of_a_completion(completion: str, expected: str | None) -> None:
    assert PLUGIN.read_answer(completion) == expected


@pytest.mark.parametrize(
    ("completion", "expected"), cases(__file__, "a_query_that_the_budget_cut_is_not_run")
)
def test_a_query_that_the_budget_cut_is_not_run(completion: str, expected: str | None) -> None:
    assert PLUGIN.read_answer(completion, is_cut=True) == expected


def test_a_cut_query_that_would_give_the_golds_rows_is_truncated() -> None:
    gold = case("select distinct routeadmin from medication")
    reply = Response(instance_id="i", text="<sql>select distinct routeadmin from medication")
    assert grade(metric(), gold, reply).value == 1.0
    cut = grade(metric(), gold, msgspec.structs.replace(reply, finish="length"))
    assert (cut.value, cut.outcome) == (0.0, "truncated")


@pytest.mark.slow
def test_reading_long_nonsense_takes_no_time() -> None:
    started = time.process_time()
    for text in ("```" * 40_000, "<sql>" * 20_000, "/*" * 50_000, "''" * 50_000, "with " * 20_000):
        for shown in (text, f"select {text}", f"<sql>{text}</sql>"):
            PLUGIN.read_answer(shown)
            PLUGIN.prepare_sql(shown[:50_000])
    assert time.process_time() - started < 20, "15 texts of 100,000 characters"


@pytest.mark.parametrize(
    ("sql", "expected"), cases(__file__, "upstreams_rewrites_for_gold_and_model_alike")
)
def test_upstreams_rewrites_for_gold_and_model_alike(sql: str, expected: str) -> None:
    assert PLUGIN.prepare_sql(sql) == expected


# Scoring -----------------------------------------------------------------------------------

ROUTES = "select medication.routeadmin from medication where medication.drugname = 'ceftriaxone'"
LATEST = "select labresult from lab where labname = 'potassium' order by labresulttime desc"
"""4.4, 3.9, 3.1"""


@pytest.mark.parametrize(("gold", "answer", "value"), cases(__file__, "rows_decide"))
def test_rows_decide(gold: str | None, answer: str, value: float) -> None:
    score = said(answer, metric(), case(gold))
    assert (score.value, score.outcome) == (value, "scored")
    assert score.extracted == answer


@pytest.mark.slow
def test_a_query_that_fails_or_meets_a_limit_is_wrong_and_says_why() -> None:
    own = replace(metric(), seconds=0.3)  # type: ignore[call-arg]
    for answer, reason in (
        ("select x from lab", "the query failed: no such column: x"),
        ("select 1; select 2", "the query forbidden: more than one statement"),
        (
            "with recursive c(x) as (select 1 union all select x+1 from c) select count(*) from c",
            "the query timeout: out of the time allowed",
        ),
    ):
        score = said(answer, own, case(ROUTES))
        assert (score.value, score.outcome, score.reason) == (0.0, "scored", reason)


EMPTY_GOLD = "select drugname from medication where drugname = 'aspirin'"


@pytest.mark.parametrize(
    "answer", [EMPTY_GOLD, "select 1 where 0", "select 1", "UNANSWERABLE", "who knows", "", " "]
)
def test_a_gold_without_rows_tells_nothing_whatever_the_answer_is(answer: str) -> None:
    score = said(answer, metric(), case(EMPTY_GOLD))
    assert (score.value, score.outcome) == (None, "uninformative")
    assert score.reason == "the gold query gives no row on this database"
    broken = said(answer, metric(), case("select nothing from nowhere"))
    assert (broken.value, broken.outcome) == (None, "uninformative")
    assert broken.reason == "the gold query does not run on this database (failed)"


def test_no_answer_and_no_answer_that_can_be_read() -> None:
    for gold in (ROUTES, None):
        assert said("I do not know.", metric(), case(gold)).outcome == "unparsed"
        assert said("I do not know.", metric(), case(gold)).value == 0.0
        empty = said("", metric(), case(gold))
        assert (empty.value, empty.outcome) == (0.0, "empty")


def test_the_secondary_metrics() -> None:
    def values(gold: str | None, answer: str) -> tuple[float | None, ...]:
        names = ("canonical_match", "abstention_accuracy", "query_validity")
        return tuple(said(answer, metric(name), case(gold)).value for name in names)

    assert values(ROUTES, ROUTES) == (1, 1, 1)
    assert values(ROUTES, "select 'iv'") == (0, 1, 1)
    assert values(ROUTES, "select nothing") == (0, 1, 0)
    assert values(ROUTES, "UNANSWERABLE") == (0, 0, 0)
    assert values(ROUTES, "well") == (0, 0, 0)
    assert values(EMPTY_GOLD, EMPTY_GOLD + ";") == (1, 1, 1)
    assert values(EMPTY_GOLD, EMPTY_GOLD.upper().replace("'ASPIRIN'", "'aspirin'")) == (1, 1, 1)
    assert values(None, "UNANSWERABLE") == (1, 1, None)
    assert values(None, "select 1") == (0, 0, None)
    assert values(None, "") == (0, 0, None)


@pytest.mark.parametrize(
    ("gold", "constants", "answer", "value"), cases(__file__, "the_published_rule")
)
def test_the_published_rule(gold: str | None, constants: int, answer: str, value: float) -> None:
    score = said(answer, metric(scoring="helm"), case(gold, constants))
    assert score.value == value
    assert score.outcome == ("scored" if answer else "empty")


def test_a_metric_without_its_database_says_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"ehrsql\.sql is missing"):
        said("select 1", metric().prepare(tmp_path), case(ROUTES))
    (tmp_path / "ehrsql.sql").write_text("CREATE TABLE t (a);")
    with pytest.raises(DataError, match="were made with"):
        said("select 1", metric().prepare(tmp_path), case(ROUTES))
    key = {"database_sha256": "0", "constants": "0"}
    with pytest.raises(DataError, match=r"answer_key\['database'\] is missing"):
        said("select 1", metric(), Instance(id="i", references=(ROUTES,), answer_key=key))


# Data --------------------------------------------------------------------------------------


def test_the_samples_are_of_the_sample_database() -> None:
    benchmark = replace(load("ehrsql"), samples=SAMPLES / "ehrsql.jsonl")
    rows = list(open_dataset(benchmark, "sample", root=SAMPLES).rows())
    script = (SAMPLES / "ehrsql.sql").read_text()
    assert {(r["database"], r["database_sha256"]) for r in rows} == {tuple(DATABASE.values())}
    assert all(r["schema"] in script for r in rows)
    instances = list(open_dataset(benchmark, "sample", root=SAMPLES).instances())
    outcomes = Counter(said(i.references[0], metric(), i).outcome for i in instances)
    assert outcomes == {"scored": 10, "uninformative": 2}


@pytest.fixture
def own_files(tmp_path: Path) -> tuple[Benchmark, Path]:
    """The benchmark without pins, and a data folder in upstream's form with a small database."""
    benchmark = load("ehrsql")
    assert isinstance(benchmark.dataset, FileDataset)
    files = tuple(type(f)(name=f.name, splits=f.splits, url=f.url) for f in benchmark.dataset.files)
    folder = tmp_path / "ehrsql"
    (folder / "e172ec8").mkdir(parents=True)
    keep = {k: v for k, v in ROW.items() if k not in ("schema", *DATABASE)}
    later = keep | {"question": "Which potassium was the lowest?"}
    (folder / "e172ec8" / "valid.json").write_text(json.dumps([keep]))
    (folder / "valid.json").write_text(json.dumps([later]))
    other = keep | {"id": "f" * 24, "is_impossible": True, "query": "null", "split": "test"}
    for name in ("e172ec8/test.json", "test.json"):
        (folder / name).write_text(json.dumps([other]))
    (folder / "eicu.sql").write_text(f"DROP TABLE IF EXISTS lab;\n{SCHEMA}\n")
    write_database(folder / "eicu.sqlite", None)
    own = replace(benchmark, dataset=replace(benchmark.dataset, files=files))
    return own, tmp_path


def write_database(path: Path, potassium: float | None) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(SCHEMA)
    if potassium is not None:
        connection.execute("INSERT INTO lab VALUES (1, 'potassium', ?)", [potassium])
    connection.commit()
    connection.close()


def test_two_releases_of_the_questions(own_files: tuple[Benchmark, Path]) -> None:
    """The default is MedHELM's, which fetches and needs nothing of the other."""
    benchmark, root = own_files
    first, _ = open_dataset(benchmark, "full", root=root).instances()
    later, _ = open_dataset(benchmark, "full", split="release_2026", root=root).instances()
    assert first.question == "What was the lowest potassium?"
    assert later.question == "Which potassium was the lowest?"
    assert isinstance(benchmark.dataset, FileDataset)
    pinned = load("ehrsql").dataset
    assert isinstance(pinned, FileDataset) and pinned.splits[0] == "test"
    commits = {f.url.split("/")[5] for f in pinned.needed("test") if "EHRSQL" in f.url}
    assert commits == {"e172ec8e61391ecae2d872c8d0ba02a622222f54"}
    for name in ("valid.json", "test.json"):
        (root / "ehrsql" / name).unlink()
    assert len(list(open_dataset(benchmark, "full", root=root).instances())) == 2


def test_a_database_of_the_users_own_is_another_split(own_files: tuple[Benchmark, Path]) -> None:
    benchmark, root = own_files
    plain = open_dataset(benchmark, "full", root=root)
    first, second = plain.instances()
    assert (first.context, second.id) == (SCHEMA, "f" * 24)
    assert first.answer_key["database"] == "eicu.sqlite"
    assert [s.name for s in verify(benchmark, root)] == [
        "e172ec8/valid.json",
        "e172ec8/test.json",
        "valid.json",
        "test.json",
        "eicu.sql",
        "eicu.sqlite",
    ], "without user.sqlite nothing is missing"
    with pytest.raises(DataError, match=r"put user\.sqlite into"):
        open_dataset(benchmark, "full", split="user_database", root=root)

    write_database(root / "ehrsql" / "user.sqlite", 3.5)
    (root / "ehrsql" / "eicu.sqlite").unlink()
    own = open_dataset(benchmark, "full", split="user_database", root=root)
    assert own.folder == root / "ehrsql"
    theirs, _ = own.instances()
    assert theirs.answer_key["database"] == "user.sqlite"
    assert own.sha256 != plain.sha256
    graded = metric().prepare(own.folder)
    assert said("select 3.5", graded, theirs).value == 1.0
    assert said("select 3.6", graded, theirs).value == 0.0

    (root / "ehrsql" / "user.sqlite").unlink()
    write_database(root / "ehrsql" / "user.sqlite", 3.6)
    changed = open_dataset(benchmark, "full", split="user_database", root=root)
    assert changed.sha256 != own.sha256, "the database is part of what was asked"
    with pytest.raises(DataError, match="were made with"):
        said("select 3.5", graded, theirs)


def test_a_database_without_the_tables_is_refused(own_files: tuple[Benchmark, Path]) -> None:
    benchmark, root = own_files
    path = root / "ehrsql" / "user.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE lab (labid INT, labname TEXT)")
    connection.commit()
    connection.close()
    dataset = open_dataset(benchmark, "full", split="user_database", root=root)
    with pytest.raises(DataError) as caught:
        next(dataset.instances())
    assert str(caught.value) == (
        "ehrsql: user.sqlite: table lab of eicu.sql cannot be read (no such column: labresult); "
        "build it with upstream's preprocessing"
    )


@pytest.mark.slow
def test_a_run_and_a_second_grading_of_its_answers(here: Path, shell: Shell) -> None:
    asked = ["run", "model=baseline/oracle,baseline/empty", "benchmark=ehrsql", "data=sample", "-m"]
    shell(*asked)
    shell("score", "--scoring", "helm")
    found = {}
    for path in find_gradings(here / "medhelm-results"):
        record = read_record(path)
        found[record.spec.model.name, record.grading.scoring] = record.results[0]
    oracle, empty = (found[f"baseline/{name}", "fixed"] for name in ("oracle", "empty"))
    assert (oracle.value, oracle.outcomes) == (1.0, {"scored": 10, "uninformative": 2})
    assert (empty.value, empty.outcomes) == (0.0, {"empty": 10, "uninformative": 2})
    assert found["baseline/oracle", "helm"].value == pytest.approx(9 / 12)
    assert found["baseline/empty", "helm"].value == pytest.approx(4 / 12)


@pytest.mark.slow
def test_a_run_on_files_elsewhere_is_graded_again_where_they_are(
    here: Path, real_data: Path, shell: Shell
) -> None:
    asked = ["run", "model=baseline/oracle", "benchmark=ehrsql", "data=full", "max_instances=40"]
    shell(*asked, f"data_dir={real_data}")
    shell("score", code=4)
    (line,) = shell.err.strip().splitlines()
    assert "eicu.sqlite is missing" in line and "--data-dir" in line
    shell("score", "--data-dir", real_data)


# The real files ----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_two_real_releases_differ(real_instances: Callable[..., list[Instance]]) -> None:
    """In the words of every question and in 183 gold queries, in nothing else."""
    first, later = (real_instances("ehrsql", split) for split in ("test", "release_2026"))
    assert {i.id for i in first} == {i.id for i in later}
    by_id = {i.id: i for i in later}
    pairs = [(i, by_id[i.id]) for i in first]
    assert sum(a.question != b.question for a, b in pairs) == 2909
    assert sum(a.references != b.references for a, b in pairs) == 183
    assert all(a.metadata == b.metadata for a, b in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("split", ["test", "release_2026"])
def test_the_real_files(
    split: str, real_instances: Callable[..., list[Instance]], real_data: Path
) -> None:
    instances = real_instances("ehrsql", split)
    kinds = Counter((i.metadata["question_set"], i.metadata["answerable"]) for i in instances)
    assert kinds == {
        ("valid", "yes"): 755,
        ("valid", "no"): 362,
        ("test", "yes"): 1204,
        ("test", "no"): 588,
    }
    (schema,) = {i.context for i in instances}
    assert schema.count("CREATE TABLE") == 10 and "DROP" not in schema
    assert Counter(i.answer_key["constants"] == "0" for i in instances) == {
        True: 950 + 230,
        False: 1729,
    }

    fixed = metric().prepare(real_data / "ehrsql")
    oracle = [said(i.references[0], fixed, i) for i in instances]
    assert Counter((s.value, s.outcome) for s in oracle) == {
        (1.0, "scored"): 884 + 950,
        (None, "uninformative"): 1075,
    }
    assert {s.reason for s in oracle} == {"", "the gold query gives no row on this database"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scoring", "shares"),
    [
        (
            "fixed",
            {
                "UNANSWERABLE": 0.3266,
                "select 0": 0.1959,
                "select null": 0.0828,
                "": 0.0,
                "select 1 where 0": 0.0,
            },
        ),
        ("helm", {None: 0.6171, "": 0.3836, "select 0": 0.1935, "select 1 where 0": 0.0}),
    ],
)
def test_what_one_answer_to_all_questions_wins(
    scoring: Scoring,
    shares: dict[str | None, float],
    real_instances: Callable[..., list[Instance]],
    real_data: Path,
) -> None:
    """None: the gold of each."""
    own, instances = metric(scoring=scoring).prepare(real_data / "ehrsql"), real_instances("ehrsql")
    for answer, share in shares.items():
        scores = [said(i.references[0] if answer is None else answer, own, i) for i in instances]
        assert round(sum(s.value or 0.0 for s in scores) / len(instances), 4) == share, answer
