"""The published scorers against HELM's rules, worked out here from their description alone."""

from __future__ import annotations

import hashlib
import json
import random
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean

import pytest

import medhelm
from medhelm.errors import PluginError
from medhelm.plugins.registry import load_registry
from medhelm.schema.data import Instance
from medhelm.schema.score import Metric, Scoring
from medhelm.tables.format.table import Settings
from medhelm_benchmarks import mimiciv_billing_code
from medhelm_benchmarks.ehrsql import metrics as ehrsql
from medhelm_metrics import label_sets
from tests.graded import grade, said
from tests.shell import Shell

SAMPLES = Path(__file__).parents[2] / "benchmarks" / "ehrsql" / "samples"
DIAGNOSES = [
    "I10", "I130", "I5023", "N1830", "E119", "Z7984", "M1A0710", "I5022", "S72002A", "D62",
    "W000XXA", "K3580", "G459", "I4891", "E785", "F17210", "O34211", "Z370", "Z3A39", "R079",
    "C7A012", "E43", "X58XXXA", "H401110", "C441021", "T8619", "J189", "J9601",
]  # fmt: skip
PROCEDURES = [
    "0S9F3ZX", "0QS706Z", "30233N1", "0DTJ4ZZ", "10D00Z1", "GZHZZZZ", "B2111ZZ", "F07M6ZZ",
    "XW03331", "X2A5312",
]  # fmt: skip
ANSWERS = 400


def metric(hooks: list[Metric], name: str, scoring: Scoring = "helm") -> Metric:
    (found,) = (m for m in hooks if (m.name, m.scoring) == (name, scoring))
    return found


def pointed(code: str) -> str:
    """Return a code of a diagnosis as the file of MedHELM has it: I10 becomes 'I10.'"""
    return f"{code[:3]}.{code[3:]}"


def published_f1(golds: list[str], answer: str) -> float:
    """Return HELM's F1 of one note, from the facts on its scorer; golds as MedHELM's file has them."""

    def read(text: str) -> set[str]:
        found = re.findall(r"\b[A-Z]\d{1,3}(?:\.\d{1,4})?\.?\b", text.replace("**", ""))
        return {code.rstrip(".") for code in found}

    gold, own = read(",".join(golds)), read(answer.strip())
    hits = len(gold & own)
    return 2 * hits / (len(gold) + len(own)) if gold or own else 0.0


def made_up_codes(rng: random.Random) -> tuple[list[str], list[str], str]:
    """Return golds in MIMIC's form and in MedHELM's, and an answer about them in some style."""
    diagnoses = rng.sample(DIAGNOSES, rng.randint(1, 8))
    procedures = rng.sample(PROCEDURES, rng.randint(0, 3))
    told = [c for c in diagnoses if rng.random() < 0.7] + rng.sample(DIAGNOSES, rng.randint(0, 3))
    spellings: list[Callable[[str], str]] = [pointed, pointed, str, str.lower]
    write = rng.choice(spellings)
    codes = [write(c).rstrip(".") for c in told]
    codes += [c for c in procedures if rng.random() < 0.5]
    rng.shuffle(codes)
    styles: list[Callable[[list[str]], str]] = [", ".join, "\n".join, bulleted, bold, prose]
    answer = rng.choice(styles)(codes)
    return diagnoses + procedures, [*procedures, *map(pointed, diagnoses)], answer


def bulleted(codes: list[str]) -> str:
    return "\n".join(f"{n}. {code}: billed" for n, code in enumerate(codes, 1))


def bold(codes: list[str]) -> str:
    return "ICD-10 codes: " + ", ".join(f"**{code}**" for code in codes) + "."


def prose(codes: list[str]) -> str:
    return "The stay is billed under " + " and ".join(codes) + "."


def test_billing_codes_get_helms_f1_on_400_made_up_answers() -> None:
    rng = random.Random(11)
    helm = metric(label_sets.medhelm_metrics(), "mean_f1")
    seen = set()
    for _ in range(ANSWERS):
        golds, as_published, answer = made_up_codes(rng)
        expected = published_f1(as_published, answer)
        for references in (golds, as_published):
            item = Instance(id="i", references=tuple(references))
            got = grade(helm, item, said(answer)).value
            assert got == pytest.approx(expected), (references, answer)
        seen.add(round(expected, 3))
    assert len(seen) > 25


@pytest.mark.parametrize(
    ("gold", "answer", "value"),
    [
        ("I10", "I10", 1.0),
        ("E119", "E11.9", 1.0),
        ("E119", "E119", 0.0),  # read as written, and E119 is not E11.9
        ("S72002A", "S72", 1.0),  # the letter at the end costs the gold its last four places
        ("B2111ZZ", "B21", 0.0),  # a procedure has no point and is lost
        ("X58XXXA", "X58", 1.0),
    ],
)
def test_golds_in_the_form_of_the_release(gold: str, answer: str, value: float) -> None:
    helm = metric(label_sets.medhelm_metrics(), "mean_f1")
    item = Instance(id="i", references=(gold,))
    assert grade(helm, item, said(answer)).value == value


@pytest.mark.parametrize("answer", ["Urology", ""])
def test_the_published_code_scorer_says_nothing_of_other_labels(answer: str) -> None:
    helm = metric(label_sets.medhelm_metrics(), "mean_f1")
    item = Instance(id="i", references=("Urology",))
    score = grade(helm, item, said(answer))
    assert (score.value, score.outcome) == (None, "uninformative")


# Validity of queries -------------------------------------------------------------------------

QUERIES = (
    "SELECT count(*) FROM lab",
    "SELECT drugname FROM medication WHERE drugname = 'ceftriaxone'",
    "SELECT max(heartrate) FROM vitalperiodic WHERE heartrate > heart_rate_upper",
    "SELECT labname FROM labs",
    "SELECT labname, FROM lab",
    "SELECT labname FROM lab WHERE labname = 'none'",
    "SELECT 1; SELECT 2",
    "I cannot tell",
    "-- nothing to ask",
    "UNANSWERABLE",
    "",
)
FORMS = (
    "{}",
    "{};",
    "<sql>{}</sql>",
    "Here it is: <sql> {} </sql> as asked",
    "```sql\n{}\n```",
    "`{}`",
    "sql\n{}",
    "The query is: {}",
)


def published_validity(answer: str, database: sqlite3.Connection) -> float:
    """Return HELM's query validity: whether what is taken for the query runs without an error."""
    if not answer.strip():
        return 0.0
    tags = re.search(r"<\s*sql\s*>(.*?)</?\s*sql\s*>", answer, re.S | re.I)
    sql = (tags[1] if tags else answer).strip().replace("`", "").strip()
    sql = re.sub(r"^sql\n", "", sql, flags=re.M)
    try:
        database.cursor().execute(sql).fetchall()
    except Exception:  # whatever it is, it is an error there
        return 0.0
    return float(bool(sql))


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:")
    connection.executescript((SAMPLES / "ehrsql.sql").read_text(encoding="utf-8"))
    yield connection
    connection.close()


def test_query_validity_is_helms_on_400_made_up_answers(database: sqlite3.Connection) -> None:
    rng = random.Random(12)
    helm = metric([*ehrsql.medhelm_metrics()], "ehrsql_query_validity").prepare(SAMPLES)
    key = {
        "database": "ehrsql.sql",
        "database_sha256": hashlib.sha256((SAMPLES / "ehrsql.sql").read_bytes()).hexdigest(),
        "constants": "0",
    }
    ran = 0.0
    for _ in range(ANSWERS):
        gold = rng.choice(["SELECT count(*) FROM lab", ehrsql.ABSTENTION])
        answer = rng.choice(FORMS).format(rng.choice(QUERIES))
        item = Instance(id="i", context="", references=(gold,), answer_key=key)
        score = grade(helm, item, said(answer))
        assert score.value == published_validity(answer, database), (gold, answer, score.reason)
        ran += score.value
    assert 0.2 < ran / ANSWERS < 0.8


# What is ranked by, and what has no published form ---------------------------------------------


def under_helm(benchmark: str, folder: Path) -> medhelm.Results:
    """Return two baselines on the samples of a benchmark under scoring=helm."""
    models = ["baseline/oracle", "baseline/lead"]
    return medhelm.evaluate(models, [benchmark], data="sample", scoring="helm", results_dir=folder)


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> medhelm.Results:
    return under_helm("mimiciv_billing_code", tmp_path_factory.mktemp("helm"))


def test_helms_main_metric_is_the_one_that_is_ranked_by(graded: medhelm.Results) -> None:
    rows = graded.typed("benchmarks", Settings(draws=10)).rows
    found = {(r["benchmark"], r["model"]): (r["metric"], r["score_all"]) for r in rows}
    lines = (
        (SAMPLES.parents[1] / "samples" / "mimiciv_billing_code.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    codes = [json.loads(line)["codes"] for line in lines]
    as_published = [[c if is_procedure(c) else pointed(c) for c in own] for own in codes]
    # the oracle writes the codes as the release does, without their points
    plain = fmean(published_f1(g, ", ".join(c)) for g, c in zip(as_published, codes, strict=True))
    metric, score = found["mimiciv_billing_code", "baseline/oracle"]
    assert (metric, score, plain) == ("mean_f1", 0.125, 0.125)


def is_procedure(code: str) -> bool:
    """Return whether a code of the samples is one of a procedure."""
    return code in {"0S9F3ZX", "0QS706Z", "30233N1", "0DTJ4ZZ", "10D00Z1"}


def test_what_has_no_published_form_is_named(graded: medhelm.Results, shell: Shell) -> None:
    note = next(n for n in graded.typed("overall").notes if n.startswith("scoring=helm"))
    assert note.endswith(" No published form, scored as fixed: micro_f1.")
    described = shell("describe", "mimiciv_billing_code")
    assert "micro_f1: no published form" in described
    assert "helm: the same rule" in shell("describe", "rouge_l")
    listed = shell("list", "metrics").splitlines()[-1]
    assert listed.startswith("Under scoring=helm no published form, scored as fixed: ")
    assert "ehrsql_abst" in listed
    assert "rouge" not in listed and "exact_match" not in listed


def test_records_say_by_which_rule_a_metric_was_scored(graded: medhelm.Results) -> None:
    study = graded.study(Settings(draws=10))
    refs = study.cells["mimiciv_billing_code"]["baseline/lead"].record.grading.metrics
    assert [(m.name, m.scoring) for m in refs] == [
        ("mean_f1", "helm"),
        ("micro_f1", "fixed"),
        ("label_precision", "helm"),
        ("label_recall", "helm"),
    ]


@pytest.mark.slow
def test_a_jury_leads_without_a_published_form(tmp_path: Path) -> None:
    found = under_helm("aci_bench", tmp_path)
    note = next(n for n in found.typed("overall").notes if n.startswith("scoring=helm"))
    assert note.endswith(
        "No published form, scored as fixed: jury. One of them is the main metric of aci_bench."
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mean_f2", "published_metric: unknown metric 'mean_f2'; did you mean"),
        ("micro_f1", "published_metric 'micro_f1' has no published form; write one"),
    ],
)
def test_a_published_metric_must_be_one(tmp_path: Path, name: str, message: str) -> None:
    source = Path(mimiciv_billing_code.__file__).read_text(encoding="utf-8")
    plugin = tmp_path / "codes.py"
    plugin.write_text(
        source.replace('published_metric="mean_f1"', f'published_metric="{name}"').replace(
            'name="mimiciv_billing_code"', 'name="codes"'
        )
    )
    with pytest.raises(PluginError, match=message):
        load_registry([str(plugin)])
