"""The gold in many wordings: a reading of answers that a bare gold does not try."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest

from medhelm.data.dataset import open_dataset
from medhelm.plugins.registry import Registry, load_registry
from medhelm.proof.manifest import manifest_path, read_manifest
from medhelm.proof.phrasings import phrasings_of
from medhelm.schema.data import Benchmark, Instance
from medhelm.schema.episode import Response
from medhelm.schema.score import Metric, Score
from tests.proof.test_validation import Bench, choice_bench, choices


@dataclass(frozen=True, kw_only=True)
class FirstLetter(Metric):
    """1 where the first capital letter that stands alone is the gold: reads what it should not."""

    name: str = "same"

    def score(self, instance: Instance, response: Response) -> Score:
        found = re.search(r"\b[A-C]\b", response.text)
        if found is None:
            return Score(value=None, outcome="unparsed", reason="no letter")
        return Score(value=float(found[0] in instance.references), extracted=found[0])


@pytest.fixture(scope="module")
def registry() -> Registry:
    return load_registry()


def sample_instances(benchmark: Benchmark) -> list[Instance]:
    return list(open_dataset(benchmark, "sample", root=Path()).instances())


def test_a_reader_that_takes_any_letter_fails_and_is_named(tmp_path: Path) -> None:
    report = choice_bench(tmp_path).validate(FirstLetter())
    assert report.state == "failed" and report.facts is not None
    readings = report.facts.readings
    assert readings["sentence"].read == 1 and readings["sentence"].wrong == 0
    assert readings["text_alone"].read == 0 and readings["text_alone"].wrong == 0  # unread
    # "Both B and A are reasonable, but A is preferred.": the first letter is the other option
    assert readings["preferred"].wrong == 1
    assert readings["echo_line"] == readings["probabilities"]
    assert readings["echo_line"].wrong == 1
    finding = next(f for f in report.findings if "'preferred'" in f.message)
    assert (finding.level, finding.check, finding.instance) == ("failure", "reading", "i0")
    assert (finding.expected, finding.got) == ("'A'", "'B'")


def test_what_is_only_left_unread_does_not_fail_but_is_pinned(tmp_path: Path) -> None:
    bench = choice_bench(tmp_path)
    assert bench.validate(update=True).state == "passed"
    stored = read_manifest(bench.benchmark, "sample")
    assert stored is not None and stored.readings["boxed"].read == 0
    path = manifest_path(bench.benchmark)
    manifest = msgspec.json.decode(path.read_bytes())
    manifest["sample"]["readings"]["boxed"]["read"] = 1.0
    path.write_bytes(msgspec.json.encode(manifest))
    finding = next(f for f in bench.validate().findings if f.check == "manifest")
    assert "share of 'boxed'" in finding.message
    assert (finding.expected, finding.got) == ("1.000000", "0.000000")


@pytest.mark.parametrize("stored", [{}, {"a_wording_of_old": {"read": 1.0, "wrong": 0.0}}])
def test_a_manifest_of_other_wordings_still_agrees(tmp_path: Path, stored: object) -> None:
    bench = choice_bench(tmp_path)
    bench.validate(update=True)
    path = manifest_path(bench.benchmark)
    manifest = msgspec.json.decode(path.read_bytes())
    manifest["sample"]["readings"] = stored
    path.write_bytes(msgspec.json.encode(manifest))
    assert bench.validate().manifest == "agrees"


def test_the_text_of_private_options_is_in_no_finding(tmp_path: Path) -> None:
    rows = choices("AB")
    bench = Bench(
        tmp_path,
        [row | {"choices": ["sarcoma of Quill", "tea", "rest"]} for row in rows],
        prompt="multiple_choice",
        data_class="private",
    )
    report = bench.validate(FirstLetter(), data="full")
    assert report.state == "failed"
    assert "Quill" not in msgspec.json.encode(report).decode()


def test_of_many_instances_a_part_is_tried_that_does_not_hang_on_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("medhelm.proof.reading_trial._TRIED", 20)
    tried: list[list[str]] = []

    def recording(benchmark: Benchmark, instance: Instance) -> list[object]:
        tried[-1].append(instance.id)
        return []

    monkeypatch.setattr("medhelm.proof.reading_trial.phrasings_of", recording)
    bench = choice_bench(tmp_path, "ABC" * 40)
    for rows in (bench.rows, bench.rows[::-1]):
        tried.append([])
        bench.write(rows)
        bench.validate()
    first, second = tried
    assert first == second[::-1] and 8 <= len(first) <= 35


def test_every_benchmark_whose_answer_is_read_is_tried_in_a_dozen_wordings(
    registry: Registry,
) -> None:
    tried = 0
    for benchmark in registry.benchmarks.values():
        if benchmark.metrics[0].startswith(("jury", "rubric_")):
            continue  # judged: nothing is read out of the answer
        if registry.protocol(benchmark.protocol).proofs is not None:
            continue  # proved by whole episodes, which no wording of one answer makes
        names: Counter[str] = Counter()
        for instance in sample_instances(benchmark):
            found = list(phrasings_of(benchmark, instance))
            names.update({p.name for p in found if p.gives_gold})
            assert len({p.name for p in found}) == len(found), benchmark.name
        assert len(names) >= 12, benchmark.name
        tried += 1
    assert tried >= 20


def test_the_wordings_say_what_they_should(registry: Registry) -> None:
    instance = Instance(
        id="q", choices=("Rest", "Tea", "Iron"), references=("B",), question="What helps?"
    )
    choice = replace(registry.benchmark("headqa"), phrasings=None)
    texts = {p.name: p.text for p in phrasings_of(choice, instance)}
    assert texts["with_text"] == "B. Tea" and texts["boxed"].endswith("$\\boxed{B}$.")
    assert texts["reasoned_before"].startswith("Let me go through the options.\n\nOption A (Rest)")
    assert texts["echo_lines"] == "A. Rest\nB. Tea\nC. Iron"
    assert texts["probabilities"] == "A: 33%, B: 33%, C: 33%"
    calc = registry.benchmark("medcalc_bench")
    days = Instance(id="w", references=("('14 weeks', '1 day')",))
    assert {"Answer: 14 weeks and 1 days"} <= {p.text for p in phrasings_of(calc, days)}
    date = Instance(id="d", references=("03/16/2000",))
    assert "**03/16/2000**" in {p.text for p in phrasings_of(calc, date)}
    number = Instance(id="n", references=("-3.5",))
    assert "Somewhere between -3.5 and 5.75." in {p.text for p in phrasings_of(calc, number)}


@pytest.mark.slow
def test_no_bundled_sample_is_read_wrongly(registry: Registry) -> None:
    for benchmark in registry.benchmarks.values():
        stored = read_manifest(benchmark, "sample")
        assert stored is not None
        is_reply = registry.protocol(benchmark.protocol).proofs is None
        is_judged = benchmark.metrics[0].startswith(("jury", "rubric_"))
        if is_reply and not is_judged:
            assert stored.readings, benchmark.name
        assert {n: r.wrong for n, r in stored.readings.items() if r.wrong} == {}, benchmark.name
