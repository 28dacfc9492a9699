"""Terms of graders: a setting that names a file counts with the file's content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medhelm.grading.graders.grader import GradedMetric, grader_terms
from medhelm.grading.rubric.grader import RUBRIC
from medhelm.schema.data import CriteriaRules, Instance
from medhelm.schema.episode import Episode
from medhelm.schema.run import JurySpec
from medhelm.schema.score import Score
from tests.made import benchmark

BENCHMARK = benchmark()
JURY = JurySpec(name="one", quorum=1, judges=())


@dataclass(frozen=True, kw_only=True)
class ByFile(GradedMetric):
    def score(self, instance: Instance, episode: Episode) -> Score:
        raise NotImplementedError


def chosen(**given: Any) -> Mapping[str, Any]:
    own = replace(RUBRIC, settings={"list": ""}, choices={}, files=("list",))
    (terms,) = grader_terms(BENCHMARK, [ByFile(name="by_file", grader=own)], JURY, given)
    return terms.settings


def test_a_benchmarks_own_rules_are_part_of_the_version() -> None:
    metric = ByFile(name="by_rules", grader=RUBRIC)
    versions = []
    for rules in (None, "1. By its words.", "1. By its own words."):
        own = rules and CriteriaRules(name="words", version="1", en=rules)
        (terms,) = grader_terms(replace(BENCHMARK, criteria_rules=own or None), [metric], JURY, {})
        versions.append(terms.version)
    assert versions[0] == RUBRIC.version and len(set(versions)) == 3
    assert all(v.startswith(f"{RUBRIC.version}, rules words 1 (") for v in versions[1:])


def test_a_file_is_named_with_its_hash_also_once_it_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "list.jsonl"
    assert chosen() == {}
    file.write_bytes(b"one")
    first = chosen(list=str(file))
    assert first == {"list": str(file), "list_sha256": hashlib.sha256(b"one").hexdigest()}
    file.write_bytes(b"two")
    assert chosen(**first)["list_sha256"] == hashlib.sha256(b"two").hexdigest()
    file.unlink()
    assert chosen(**first) == first
