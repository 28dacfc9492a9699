"""A benchmark proves itself on its own instances, without a model."""

import json
import math
import tracemalloc
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.plugins.registry import Registry, load_registry
from medhelm.plugins.taxonomy import load_taxonomy
from medhelm.prompts.messages import TEMPLATES, render_prompt
from medhelm.proof.checks import Finding, holds_gold, plain, prompt_fault
from medhelm.proof.manifest import manifest_path, read_manifest
from medhelm.proof.validation import Report, validate
from medhelm.schema.data import (
    Benchmark,
    FileDataset,
    HubDataset,
    Instance,
    Prompt,
    Row,
    SourceFile,
)
from medhelm.schema.episode import Response
from medhelm.schema.score import Metric, Outcome, Score
from tests import made


@dataclass(frozen=True, kw_only=True)
class Same(Metric):
    """1 where the completion is the gold; `wrong_for` are instances that it misjudges."""

    name: str = "same"
    wrong_for: tuple[str, ...] = ()
    unscored_for: tuple[str, ...] = ()
    raise_for: tuple[str, ...] = ()
    floor_for_empty: float | None = None

    def score(self, instance: Instance, response: Response) -> Score:
        if instance.id in self.raise_for:
            raise KeyError(instance.context)
        if instance.id in self.unscored_for:
            return Score(value=None, outcome="unscored", reason="uninformative gold")
        if instance.choices and len(response.text) != 1:
            return Score(value=None, outcome="unparsed", reason="more than a letter")
        is_right = response.text == instance.references[0] and instance.id not in self.wrong_for
        is_high = is_right == self.higher_is_better
        return Score(value=self.maximum if is_high else self.minimum, extracted=response.text)

    def floor_score(self, instance: Instance, outcome: Outcome, reason: str = "") -> Score:
        value = self.floor if self.floor_for_empty is None else self.floor_for_empty
        return Score(value=value, outcome=outcome, reason=reason)


def to_instance(row: Row) -> Instance:
    return Instance(
        id=row["id"],
        context=row.get("context", f"A note: {row['id']}."),
        choices=tuple(row.get("choices", ())),
        references=(row["gold"],),
    )


def choices(golds: str, **more: Any) -> list[dict[str, Any]]:
    return [
        {"id": f"i{n}", "gold": gold, "choices": ["rest", "tea", "surgery"], **more}
        for n, gold in enumerate(golds)
    ]


def texts(*golds: str, context: str = "A note.") -> list[dict[str, Any]]:
    return [{"id": f"i{n}", "gold": g, "context": f"{n} {context}"} for n, g in enumerate(golds)]


class Bench:
    """A benchmark with its plugin file, samples and full data below one folder."""

    def __init__(self, root: Path, rows: Iterable[dict[str, Any]], **changes: Any) -> None:
        self.root = root
        self.samples = root / "samples.jsonl"
        self.full = root / "bench" / "test.jsonl"
        self.full.parent.mkdir()
        origin = root / "bench.py"
        origin.touch()
        self.rows = list(rows)
        self.write(self.rows)
        values: dict[str, Any] = {
            "name": "bench",
            "subcategory": "planning_treatments",
            "dataset": FileDataset(files=(SourceFile(name="test.jsonl"),)),
            "to_instance": to_instance,
            "metrics": ["same"],
            "prompt": "plain",
            "expected_instances": {"test": len(self.rows)},
            "samples": self.samples,
            "origin": str(origin),
        }
        self.benchmark = Benchmark(**values | changes)

    def write(self, rows: Iterable[dict[str, Any]]) -> None:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        self.samples.write_text(text)
        self.full.write_text(text)

    def validate(self, *metrics: Metric, data: Any = "sample", update: bool = False) -> Report:
        registry = Registry(
            taxonomy=load_taxonomy(),
            benchmarks={"bench": self.benchmark},
            metrics={(m.name, m.scoring): m for m in metrics or (Same(),)},
            models={},
        )
        return validate(self.benchmark, data, registry, self.root, update=update)


def choice_bench(root: Path, golds: str = "AABC", **changes: Any) -> Bench:
    return Bench(root, choices(golds), prompt="multiple_choice", **changes)


def text_bench(root: Path, *golds: str, context: str = "A note.", **changes: Any) -> Bench:
    return Bench(root, texts(*golds, context=context), answer="text", **changes)


def scores(report: Report, metric: str = "same") -> dict[str, float | None]:
    assert report.facts is not None
    return {answer: values[metric] for answer, values in report.facts.scores.items()}


def only(report: Report, level: str = "failure") -> Finding:
    (finding,) = [f for f in report.findings if f.level == level]
    return finding


# What the embedded answers score ---------------------------------------------------------------


def test_a_sound_benchmark_passes_and_its_floors_are_measured(tmp_path: Path) -> None:
    report = choice_bench(tmp_path, "AABC").validate()
    assert report.state == "passed" and report.findings == () and report.manifest == "absent"
    assert report.facts is not None and report.facts.instances == 4
    found = scores(report)
    assert 0.0 <= (found.pop("random") or 0.0) <= 1.0
    assert found == {
        "oracle": 1.0,
        "empty": 0.0,
        "constant A": 0.5,
        "constant B": 0.25,
        "constant C": 0.25,
    }


def test_constants_are_letters_numbers_the_first_label_or_the_commonest_gold(
    tmp_path: Path,
) -> None:
    def constants(name: str, golds: Iterable[str], **changes: Any) -> set[str]:
        (tmp_path / name).mkdir()
        found = scores(text_bench(tmp_path / name, *golds, **changes).validate())
        return {answer for answer in found if answer.startswith("constant")}

    numbers = text_bench(tmp_path, "2", "5", "0", "2")
    numbers.benchmark = replace(numbers.benchmark, answer="number", prompt="short_answer")
    found = scores(numbers.validate())
    assert (found["constant 0"], found["constant 2"]) == (0.25, 0.5)
    assert constants("labels", ("x", "y"), labels=("y", "x")) == {"constant y"}
    assert constants("text", ("CORRECT", "other", "CORRECT")) == {"constant commonest gold"}
    assert constants("unlike", ("one", "two", "three")) == set()


def test_where_lower_is_better_the_gold_must_score_the_minimum(tmp_path: Path) -> None:
    errors = Same(higher_is_better=False, minimum=0.0, maximum=25.0, floor=25.0)
    report = choice_bench(tmp_path).validate(errors)
    assert report.state == "passed"
    assert scores(report)["oracle"] == 0.0 and scores(report)["empty"] == 25.0


def test_a_gold_that_does_not_score_best_is_named_with_what_was_expected(tmp_path: Path) -> None:
    report = choice_bench(tmp_path).validate(Same(wrong_for=("i2",)))
    assert report.state == "failed"
    single, mean = (f for f in report.findings if f.check == "oracle")
    assert (single.instance, single.metric) == ("i2", "same")
    assert (single.expected, single.got) == ("1 for 'B'", "0, read as 'B'")
    assert (mean.instance, mean.expected, mean.got) == ("", "1", "0.75")


def test_text_of_data_that_is_not_public_is_in_no_report(tmp_path: Path) -> None:
    gold, note = "metastatic sarcoma", "Mrs. Quill, born in 1950."
    wrong = Same(wrong_for=("i0",), raise_for=("i1",))
    bench = text_bench(tmp_path, gold, gold, context=note, data_class="private")
    report = bench.validate(wrong, data="full")
    text = msgspec.json.encode(report).decode()
    assert report.state == "failed" and "withheld: private data" in text
    assert "sarcoma" not in text and "Quill" not in text
    shown = msgspec.json.encode(bench.validate(wrong).findings).decode()
    assert "metastatic sarcoma" in shown  # bundled samples are synthetic


def test_instances_with_an_uninformative_gold_are_counted_not_failed(tmp_path: Path) -> None:
    report = choice_bench(tmp_path).validate(Same(unscored_for=("i0", "i3")))
    assert report.state == "passed"
    assert report.facts is not None and report.facts.unscored == 2
    assert scores(report)["constant A"] == 0.5  # of the two that are left


def test_the_published_scorer_is_measured_beside_ours(tmp_path: Path) -> None:
    helm = Same(scoring="helm", wrong_for=("i0", "i1"))
    report = choice_bench(tmp_path).validate(Same(), helm)
    assert report.state == "passed"
    assert report.facts is not None
    assert report.facts.scores["oracle"] == {"same": 1.0}
    assert report.facts.scores_helm["oracle"] == {"same": 0.5}


def test_a_secondary_metric_that_the_gold_does_not_max_is_a_warning(tmp_path: Path) -> None:
    second = Same(name="second", wrong_for=("i0",))
    report = choice_bench(tmp_path, metrics=["same", "second"]).validate(Same(), second)
    assert report.state == "passed"
    assert only(report, "warning").metric == "second"


@pytest.mark.parametrize(
    ("golds", "own", "state", "level", "words"),
    [
        ("AABC", {"floor_for_empty": 1.0}, "failed", "failure", "'empty' scores"),
        ("BBBB", {}, "passed", "warning", "'constant B' scores"),
        ("AABC", {"floor_for_empty": 1.5}, "failed", "failure", "not in [0, 1]"),
    ],
)  # fmt: skip
def test_an_answer_by_rule_that_scores_too_well_is_named(
    golds: str, own: dict[str, Any], state: str, level: str, words: str, tmp_path: Path
) -> None:
    report = choice_bench(tmp_path, golds).validate(Same(**own))
    assert report.state == state
    first = next(f for f in report.findings if f.level == level)
    assert words in first.message


# Metrics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"floor": math.nan}, "must be finite"),
        ({"maximum": math.inf}, "must be finite"),
        ({"minimum": 1.0, "floor": 1.0}, "minimum 1 is not below 1"),
        ({"floor": -0.5}, "the floor -0.5 is outside its range"),
        ({"floor": 1.0}, "the floor is the best value"),
    ],
)
def test_a_metric_must_declare_range_and_floor(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    report = choice_bench(tmp_path).validate(Same(**changes))
    assert report.state == "failed" and report.facts is None
    assert any(reason in f.message and f.metric == "same" for f in report.findings)


def test_a_metric_that_raises_is_named_with_the_instance_and_without_its_text(
    tmp_path: Path,
) -> None:
    report = choice_bench(tmp_path).validate(Same(raise_for=("i1",)))
    findings = [f for f in report.findings if f.check == "metric"]
    assert {f.instance for f in findings} == {"i1"}
    assert "raised KeyError" in findings[0].message
    assert "A note." not in findings[0].message  # the exception's text was the note


def test_findings_are_cut_and_counted(tmp_path: Path) -> None:
    report = choice_bench(tmp_path, "A" * 40 + "B").validate(
        Same(wrong_for=tuple(f"i{n}" for n in range(30)))
    )
    assert report.counts["failure: oracle"] == 31
    assert sum(f.check == "oracle" for f in report.findings) == 10


# Data ------------------------------------------------------------------------------------------


def test_repeated_ids_are_named(tmp_path: Path) -> None:
    bench = choice_bench(tmp_path)
    bench.write([*bench.rows, bench.rows[1]])
    finding = only(bench.validate())
    assert (finding.check, finding.instance) == ("ids", "i1")


@pytest.mark.parametrize(
    ("clusters", "found"), [(("", ""), 1), (("p1", "p1"), 0), (("p1", "p2"), 1)]
)
def test_a_text_that_repeats_under_another_id_is_a_warning(
    tmp_path: Path, clusters: tuple[str, str], found: int
) -> None:
    """41 notes, one of them twice: they are independent only where nothing says otherwise."""
    rows = [{"id": f"i{n}", "gold": "AB"[n % 2], "context": f"Note {n % 40}."} for n in range(41)]
    rows = [row | {"choices": ["rest", "tea"]} for row in rows]

    def clustered(row: Row) -> Instance:
        cluster = dict(zip(("i0", "i40"), clusters, strict=True)).get(row["id"], "")
        return msgspec.structs.replace(to_instance(row), cluster=cluster or None)

    report = Bench(tmp_path, rows, to_instance=clustered).validate()
    said = [f for f in report.findings if "the same text" in f.message]
    assert [f.instance for f in said] == ["i40"] * found, report.findings
    assert all(f.level == "warning" and f.message.startswith("1 row(s)") for f in said)


def test_instances_that_change_between_two_readings_are_found(tmp_path: Path) -> None:
    calls: list[None] = []

    def unstable(row: Row) -> Instance:
        calls.append(None)
        return msgspec.structs.replace(to_instance(row), id=f"{row['id']}-{len(calls)}")

    assert only(choice_bench(tmp_path, to_instance=unstable).validate()).check == "ids"


def test_the_number_of_instances_must_be_the_expected_one(tmp_path: Path) -> None:
    bench = choice_bench(tmp_path, expected_instances={"test": 5})
    assert bench.validate().state == "passed"  # says nothing of the samples
    finding = only(bench.validate(data="full"))
    assert (finding.check, finding.expected, finding.got) == ("data", "5", "4")


def test_how_many_rows_a_file_of_ones_own_has_need_not_be_declared(tmp_path: Path) -> None:
    said = {"expected_instances": {}, "columns": {"id": "key", "text": "the note"}}
    bench = choice_bench(tmp_path, **said)
    assert bench.validate(data="full").findings == ()
    (tmp_path / "other").mkdir()
    other = choice_bench(tmp_path / "other", expected_instances={})
    (finding,) = other.validate(data="full").findings
    assert (finding.level, finding.check) == ("warning", "declared")


def test_every_split_is_counted(tmp_path: Path) -> None:
    def read(paths: Any, split: str) -> Iterable[Row]:
        return choices("AB") if split == "test" else choices("ABC")

    bench = choice_bench(
        tmp_path,
        dataset=FileDataset(
            files=(SourceFile(name="test.jsonl"),), read=read, splits=("test", "all")
        ),
        expected_instances={"test": 2, "all": 4},
    )
    finding = only(bench.validate(data="full"))
    assert "split 'all'" in finding.message and finding.got == "3"


def test_missing_files_are_no_failure_and_nothing_is_asked_of_the_network(tmp_path: Path) -> None:
    bench = choice_bench(tmp_path)
    bench.full.unlink()
    assert bench.validate(data="full").state == "no data"
    bench.benchmark = replace(bench.benchmark, dataset=HubDataset("a/b", revision="0" * 40))
    assert bench.validate(data="full").state == "no data"


def test_a_hub_data_set_is_checked_on_the_splits_that_are_here(tmp_path: Path) -> None:
    dataset = HubDataset("a/b", revision="0" * 40, splits=("test", "dev"))
    counts = {"test": 4, "dev": 9}
    bench = choice_bench(tmp_path, dataset=dataset, expected_instances=counts)
    assert bench.validate(data="full").state == "passed"  # bench/test.jsonl, no dev
    bench.full.rename(bench.full.with_name("dev.jsonl"))
    assert bench.validate(data="full").state == "no data"


def test_data_that_cannot_be_used_fails_with_its_reason(tmp_path: Path) -> None:
    bench = choice_bench(tmp_path)
    bench.write([{"id": "x", "gold": "D", "choices": ["rest", "tea"]}])
    finding = only(bench.validate())
    assert "row 1: references" in finding.message
    bench.samples.write_bytes(b'{"id": "caf\xe9"}\n')
    assert only(bench.validate()).check == "data"
    bench.samples.write_text("")
    assert "no instance" in only(bench.validate()).message


# Prompts ---------------------------------------------------------------------------------------

LONG = "the patient was given one gram of ceftriaxone intravenously"


@pytest.mark.parametrize(
    ("gold", "context", "is_flagged"),
    [
        (LONG, f"0 Fever.\n1 {LONG}.", True),
        (f"3 {LONG}", f"0 Fever.\n1 {LONG}.", True),
        (LONG.upper(), "0 " + LONG.replace(" ", "\n  "), True),
        ("one gram of ceftriaxone was given intravenously", f"0 {LONG}.", False),
        ("one gram of ceftriaxone intravenously", f"0 {LONG}.", False),
        ("CORRECT", "reply with CORRECT", False),
    ],
)
def test_a_long_gold_in_its_own_prompt_is_flagged_with_its_id(
    gold: str, context: str, is_flagged: bool, tmp_path: Path
) -> None:
    report = text_bench(tmp_path, gold, "another answer", context=context).validate()
    assert report.state == "passed"
    flagged = [f.instance for f in report.findings if f.check == "gold in prompt"]
    assert flagged == (["i0"] if is_flagged else [])


def test_seven_words_are_no_long_gold() -> None:
    seven = "one two three four five six seven"
    assert not holds_gold(plain(f"{seven} eight"), seven)
    assert holds_gold(plain(f"{seven} eight"), f"{seven}\nEight")
    assert not holds_gold(plain(f"12 {seven}"), f"12 {seven}")  # the number is none of its words


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{context}\n\n{context}\n\n{choices}", "the context is 2 times"),
        ("{context}\n\n{choices}\n\n{choices}", "option A is 2 times"),
        ("{context}", "has no {choices}"),
    ],
)
def test_a_part_that_a_prompt_shows_twice_or_not_is_a_failure(
    text: str, reason: str, tmp_path: Path
) -> None:
    bench = choice_bench(tmp_path)
    bench.benchmark = replace(bench.benchmark, prompt=Prompt("own", "1", text))
    report = bench.validate()
    assert report.state == "failed" and reason in report.findings[0].message


def test_two_options_of_one_text_are_flagged(tmp_path: Path) -> None:
    bench = choice_bench(tmp_path)
    bench.write(choices("AB")[:1] + [{"id": "x", "gold": "B", "choices": ["tea", "tea"]}])
    assert only(bench.validate(), "warning").instance == "x"


AWKWARD = st.lists(
    st.sampled_from(["A. tea", "{context}", "{choices}", "\n", "\n\n", "\x00", "\x01", " "])
    | st.characters(codec="utf-8"),
    max_size=12,
).map("".join)


@pytest.mark.slow
@given(
    context=AWKWARD,
    question=AWKWARD,
    options=st.lists(AWKWARD.filter(str.strip), min_size=1, max_size=4),
    is_long=st.booleans(),
)
def test_the_templates_show_every_text_once_whatever_it_holds(
    context: str, question: str, options: list[str], is_long: bool
) -> None:
    benchmark = made.benchmark(prompt=TEMPLATES["multiple_choice"], instruction="Choose.")
    instance = Instance(
        id="i",
        context=context * 200 if is_long else context,
        question=question,
        choices=tuple(options),
        references=("A",),
    )
    prompt = render_prompt(benchmark, instance)[-1].content
    assert prompt_fault(benchmark, instance, prompt) == ""
    assert prompt_fault(benchmark, instance, prompt + "\n\n" + options[0]) != ""


# The manifest ----------------------------------------------------------------------------------


def test_update_pins_what_was_found_and_a_later_change_is_a_failure(tmp_path: Path) -> None:
    bench = choice_bench(tmp_path)
    first = bench.validate(update=True)
    assert first.state == "passed" and first.manifest == "written"
    stored = json.loads(manifest_path(bench.benchmark).read_text())
    assert stored["schema"] == "medhelm.manifest/1"
    assert stored["sample"]["scores"]["constant A"] == {"same": 0.5}
    assert stored["full"] is None
    again = bench.validate()
    assert again.state == "passed" and again.manifest == "agrees" and again.facts == first.facts

    bench.write(choices("ABBC"))
    changed = bench.validate()
    assert changed.state == "failed" and changed.manifest == "differs"
    found = {f.message.split(" differs")[0]: (f.expected, f.got) for f in changed.findings}
    assert found["score of 'constant A' on same"] == ("0.500000", "0.250000")
    assert "sha256 of the data" in found and "number of instances" not in found


def test_a_raised_version_of_a_metric_differs_from_the_manifest(tmp_path: Path) -> None:
    bench = choice_bench(tmp_path)
    bench.validate(update=True)
    finding = only(bench.validate(Same(version="2")))
    assert "version of same differs" in finding.message
    assert "validate bench" in finding.message and "--update" in finding.message


def test_samples_and_full_data_are_pinned_apart(tmp_path: Path) -> None:
    bench = choice_bench(tmp_path)
    sample = bench.validate(update=True).facts
    full = bench.validate(data="full", update=True).facts
    assert read_manifest(bench.benchmark, "sample") == sample
    assert read_manifest(bench.benchmark, "full") == full


def test_nothing_is_pinned_that_has_failed_or_has_no_file(tmp_path: Path) -> None:
    bench = choice_bench(tmp_path)
    assert bench.validate(Same(wrong_for=("i0",)), update=True).manifest == ""
    assert not manifest_path(bench.benchmark).exists()
    bench.benchmark = replace(bench.benchmark, origin="acme_plugin")
    assert "acme_plugin is not" in only(bench.validate(update=True)).message


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    bench = choice_bench(tmp_path)
    bench.validate(update=True)
    path = manifest_path(bench.benchmark)
    for text in ("{", '{"schema": "medhelm.manifest/9", "benchmark": "bench"}', "[]"):
        path.write_text(text)
        assert str(path) in only(bench.validate()).message


# Size and the real files -----------------------------------------------------------------------


@pytest.mark.slow
def test_validation_streams(tmp_path: Path) -> None:
    note = "word " * 5000
    bench = Bench(tmp_path, choices("AB" * 100, context=note), prompt="multiple_choice")
    bench.rows.clear()
    tracemalloc.start()
    try:
        assert bench.validate().state == "passed"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000  # the file has 5 MB


BUNDLED = ("headqa", "medbullets", "medcalc_bench", "medec", "pubmed_qa", "race_bias")


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


# From the blocks `verified` of the fact sheet of the benchmarks, four digits.
PUBLISHED = {
    "headqa": {"instances": 2675, "exact_match": {"constant A": 0.2434, "constant C": 0.2688}},
    "medbullets": {"instances": 308, "exact_match": {"constant A": 0.1981, "constant B": 0.2403}},
    "medcalc_bench": {
        "instances": 1047,
        "medcalc_accuracy": {"constant 0": 0.0334, "constant 2": 0.063},
        "helm": {"oracle": 0.6495, "constant 0": 0.0191, "constant 2": 0.0592},
    },
    "medec": {
        "instances": 597,
        "medec_flag_accuracy": {"constant commonest gold": 0.4791},
        "medec_sentence_accuracy": {"oracle": 1.0, "constant commonest gold": 0.4791},
        "helm": {"oracle": 1.0, "empty": 0.5209, "constant commonest gold": 0.4791},
    },
    "pubmed_qa": {"instances": 500, "exact_match": {"constant A": 0.552}},
    "race_bias": {"instances": 173, "exact_match": {"constant A": 0.5029}},
}


@pytest.mark.parametrize("name", BUNDLED)
def test_the_manifests_hold_the_published_floors(name: str, registry: Registry) -> None:
    facts = read_manifest(registry.benchmark(name), "full")
    assert facts is not None and facts.unscored == 0
    main = next(iter(facts.metrics))
    assert facts.scores["oracle"][main] == 1.0 and facts.scores["empty"][main] == 0.0
    expected: dict[str, Any] = dict(PUBLISHED[name])
    assert facts.instances == expected.pop("instances")
    helm = expected.pop("helm", {})
    assert {a: rounded(facts.scores_helm[a][main]) for a in helm} == helm
    for metric, values in expected.items():
        assert {a: rounded(facts.scores[a][metric]) for a in values} == values


def rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
