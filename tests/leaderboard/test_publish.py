"""The border between results and the site, function by function: what gets out and what does not."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from medhelm.config import chosen_asking
from medhelm.errors import RecordError
from medhelm.plugins.askings import load_askings
from medhelm.schema.asking import Asking
from medhelm.schema.data import MADE_BY, VALIDATION
from medhelm.schema.episode import Sampling
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import BenchmarkCard, GraderTerms, JurySpec, RunRecord
from medhelm.store.records import find_gradings, read_record, write_struct
from medhelm.tables.format.table import Settings
from medhelm.tables.loading import load_results
from medhelm.tables.study.selection import GradedRun
from medhelm_leaderboard import own_words, publish
from tests.build_runs import items, write_run

KEY = b"k" * 64


def run(
    tmp_path: Path, name: str = "triage", model: str = "a", data: str = "full", **card: Any
) -> GradedRun:
    path = write_run(tmp_path, name, model, items([1.0]), card=card, data=data)
    return GradedRun(path, "folder", read_record(path))


def card(tmp_path: Path, **fields: Any) -> BenchmarkCard:
    return run(tmp_path, **fields).record.card


@pytest.mark.parametrize(
    ("data_class", "is_free", "has_text", "has_instruction"),
    [
        ("public", True, True, True),
        ("public", False, False, True),
        ("gated", True, False, False),
        ("private", True, False, False),
        ("private", False, False, False),
    ],
)
def test_text_is_of_public_and_free_data_alone(
    tmp_path: Path, data_class: str, is_free: bool, has_text: bool, has_instruction: bool
) -> None:
    own = card(
        tmp_path, data_class=data_class, redistributable=is_free, instruction="CANARY: answer"
    )
    assert publish.has_text(own) is has_text
    assert (publish.instruction(own) is not None) is has_instruction


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_the_strictest_card_of_a_benchmark_counts_in_any_order(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    runs = [
        run(tmp_path, model="a"),
        run(tmp_path, model="b", data_class="gated"),
        run(tmp_path, model="c", redistributable=False),
        run(tmp_path, name="other", model="a"),
    ]
    found = publish.strictest([runs[i] for i in order], {})
    cards = {r.model + r.benchmark: r.record.card for r in found}
    for model in "abc":
        own = cards[f"{model}triage"]
        assert (own.data_class, own.redistributable) == ("gated", False)
    assert (cards["aother"].data_class, cards["aother"].redistributable) == ("public", True)


OURS = {"triage": "5a" * 32}
"""The samples that came with medhelm, as they were shipped."""


def on_samples(folder: Path, judge: str = "", **changes: Any) -> GradedRun:
    """Return a run on these samples of a public benchmark that may not be redistributed."""
    spec = {"model": "a", "data": "sample", "dataset_sha256": OURS["triage"], **changes}
    card = {"redistributable": False, **spec.pop("card", {})}
    settings = spec.pop("grader", {})
    path = write_run(folder, "triage", rows=items([1.0]), card=card, **spec)
    stored, change = read_record(path), msgspec.structs.replace
    jury = JurySpec(name="j", judges=(ModelSpec(name="j", system_prompt=judge),))
    terms = GraderTerms(grader="g", version="1", jury=jury, settings=settings)
    grading = change(stored.grading, graders=(terms,))
    return GradedRun(path, "folder", change(stored, grading=grading))


@pytest.mark.parametrize(
    ("changes", "is_shown"),
    [
        ({}, True),
        ({"grader": {"form": "published"}}, True),
        ({"dataset_sha256": "5b" * 32}, False),  # rows that the user changed
        ({"card": {"data_class": "gated"}}, False),
        ({"card": {"data_class": "private", "redistributable": True}}, False),
        ({"model": ModelSpec(name="a", system_prompt="CANARY")}, False),
        ({"model": ModelSpec(name="a", extra_body={"file": "CANARY"})}, False),
        ({"judge": "CANARY"}, False),
        ({"asking": Asking(name="own", instruction="CANARY")}, False),
        ({"asking": Asking(name="own", examples=1, examples_from="CANARY")}, False),
        ({"grader": {"rubric": "/opt/CANARY", "rubric_sha256": "5c" * 32}}, False),
    ],
)
def test_bundled_cases_are_shown_where_nothing_of_the_users_went_in(
    tmp_path: Path, changes: dict[str, Any], is_shown: bool
) -> None:
    """One run that holds anything else closes those beside it: their instances are written together."""
    runs = [on_samples(tmp_path / "a"), on_samples(tmp_path / "b", **changes)]
    for order in (runs, runs[::-1]):
        found = publish.strictest(order, OURS)
        assert [publish.has_text(r.record.card) for r in found] == [is_shown] * 2
    assert not any(publish.has_text(r.record.card) for r in publish.strictest(runs, {}))
    assert "CANARY" not in own_words.run_command(runs[1].record)


def test_samples_and_full_data_decide_each_for_themselves(tmp_path: Path) -> None:
    full = run(tmp_path / "full", data="full", redistributable=False)
    found = publish.strictest([on_samples(tmp_path / "s"), full], OURS)
    assert [publish.has_text(r.record.card) for r in found] == [True, False]
    gated = run(tmp_path / "gated", data_class="gated")
    found = publish.strictest([on_samples(tmp_path / "s"), gated], OURS)
    assert [publish.has_text(r.record.card) for r in found] == [False, False]


@pytest.mark.parametrize(
    ("data_class", "named"), [("public", {"Surgery"}), ("gated", set()), ("private", set())]
)
def test_a_specialty_of_five_public_cases_is_a_number(
    tmp_path: Path, data_class: str, named: set[str]
) -> None:
    said = ["Surgery"] * 5 + ["CANARY rare"] * 4 + [""] * 6
    rows = [
        replace(row, metadata={"specialty": name, "ward": "CANARY"} if name else {})
        for row, name in zip(items([1.0] * 15), said, strict=True)
    ]
    card = {"data_class": data_class, "redistributable": False}
    write_run(tmp_path, "closed", "a", rows, card=card)
    runs = publish.runs("fixed", load_results(tmp_path), Settings(draws=20), {})
    tags = runs.metadata(runs.study.cells["closed"]["a"])
    assert {name for own in tags.values() for name in own.values()} == named
    assert sum("specialty" in own for own in tags.values()) == 5 * len(named)


def test_a_judge_of_a_stated_family_is_marked_on_the_site_too(tmp_path: Path) -> None:
    own = on_samples(tmp_path, model=ModelSpec(name="house/ward", family="gpt"))
    jury = JurySpec(name="j", judges=(ModelSpec(name="openai/gpt-9"),))
    graders = (GraderTerms(grader="g", version="1", jury=jury),)
    change = msgspec.structs.replace
    write_struct(
        own.path / "summary.json",
        change(own.record, grading=change(own.record.grading, graders=graders)),
    )
    runs = publish.runs("fixed", load_results(tmp_path), Settings(draws=20), {})
    assert runs.study.cells["triage"]["house/ward"].family_judges == ("openai/gpt-9",)


def test_a_published_hash_is_keyed_and_of_one_benchmark() -> None:
    """Without the key it could be found by trying every record number."""
    own = publish.hashed_id(KEY, "notes", "4711")
    assert own == hmac.new(KEY, b"notes\x004711", hashlib.sha256).hexdigest()[:16]
    others = [("x" * 64, "notes", "4711"), ("k" * 64, "note", "s4711"), ("k" * 64, "notes", "4712")]
    assert own not in [publish.hashed_id(k.encode(), b, i) for k, b, i in others]
    assert publish.key_mark(KEY) not in (own, KEY.decode()) and len(publish.key_mark(KEY)) == 16


def test_a_key_that_was_cut_is_refused(tmp_path: Path) -> None:
    key = publish.publishing_key(tmp_path)
    assert len(key) == 64 and publish.publishing_key(tmp_path) == key
    (tmp_path / publish.KEY_FILE).write_bytes(key[:31])
    with pytest.raises(RecordError, match="is damaged"):
        publish.publishing_key(tmp_path)


def test_a_page_gets_nothing_of_closed_data_but_numbers(tmp_path: Path) -> None:
    """Of metadata: that an expert validated it, not who; no specialty, which is a word of the case."""
    said = {VALIDATION: "Dr CANARY, 2025", MADE_BY: "/opt/CANARY, lab/x", "specialty": "CANARY"}
    spec = ModelSpec(
        name="lab/x", model="x", base_url="http://CANARY", system_prompt="CANARY", note="CANARY"
    )
    rows = [replace(row, metadata=said) for row in items([0.5, 0.25, 1.0, None])]
    rows[1] = replace(rows[1], metadata={})
    for name, data_class in (("open", "public"), ("closed", "private")):
        more = {"data_class": data_class, "instruction": "CANARY", "source": "CANARY"}
        origin = {"host": "CANARY", "graded_at": "2026-01-01"}
        write_run(tmp_path, name, spec, rows, card=more, provenance=origin)
    results = load_results(tmp_path)
    runs = publish.runs("fixed", results, Settings(draws=20), {})
    assert runs.closed == {"closed"}
    own = {b: next(iter(cells.values())) for b, cells in runs.study.cells.items()}
    tags = {b: runs.metadata(cell) for b, cell in own.items()}
    closed = {VALIDATION: "", MADE_BY: "a path or an address, not published, lab/x"}
    assert sorted(tags["closed"]) == [0, 1, 2, 3]
    assert [list(tags["closed"].values()).count(tag) for tag in (closed, {})] == [3, 1]
    (ids,) = (s.ids.tolist() for s in own["closed"].scores.values())
    assert ids == [0, 1, 2] and tags["closed"][3] == closed  # the last one has no value
    assert "CANARY" not in repr(own["closed"]) and str(tmp_path) not in repr(own)
    assert list(tags["open"].values()).count(said) == 3
    raw = results.study(Settings(draws=20))
    for name in own:  # every number is that of the tables
        mine, theirs = (s.estimates(name)["lab/x"] for s in (runs.study, raw))
        assert (mine.score, mine.interval) == (theirs.score, theirs.interval)
        assert mine.draws.tolist() == theirs.draws.tolist()


def record(tmp_path: Path, **model: Any) -> RunRecord:
    spec = ModelSpec(name="lab/x", **model)
    provenance = {"graded_at": "2026-01-01", "version.numpy": "2", "host": "CANARY", "log": "/x"}
    served = {"/opt/CANARY/weights.gguf": 1, "gpt-4o-2024-08-06 fp_1": 2}
    path = write_run(
        tmp_path, "triage", spec, items([1.0]), provenance=provenance, served=served, seed=3
    )
    return read_record(path)


def test_settings_that_may_hold_text_are_published_as_a_number_or_a_hash(tmp_path: Path) -> None:
    own = record(
        tmp_path,
        model="/opt/CANARY/model",
        base_url="http://10.0.0.1:1/CANARY",
        system_prompt="You work at CANARY hospital",
        extra_body={"user": "CANARY"},
        sampling=Sampling(stop=("CANARY", "\n\n"), top_p=0.5),
    )
    found = dict(publish.settings(own))
    assert "CANARY" not in str(found)
    assert found["stop sequences"] == 2 and found["top p"] == 0.5 and found["seed"] == 3
    digest = hashlib.sha256(msgspec.json.encode("You work at CANARY hospital")).hexdigest()
    assert found["system prompt"] == f"sha256 {digest[:16]}"
    assert found["model at the endpoint"] == "a path or an address, not published"
    assert publish.served(own) == [
        ("a path or an address, not published", 1),
        ("gpt-4o-2024-08-06 fp_1", 2),
    ]
    assert dict(publish.provenance(own)) == {"graded_at": "2026-01-01", "version.numpy": "2"}
    plain = dict(publish.settings(record(tmp_path / "plain", model="x")))
    assert {"stop sequences", "system prompt", "extra fields of the request"}.isdisjoint(plain)


@pytest.mark.parametrize(
    ("base", "chosen", "words"),
    [
        ("default", {"form": "line"}, "form=line"),
        ("chain_of_thought", {}, "ask=chain_of_thought"),
        ("chain_of_thought", {"examples": 2}, "ask=chain_of_thought examples=2"),
        ("logprobs", {}, "ask=logprobs"),
        ("default", {"instruction": "OWN WORDS"}, None),
    ],
)
def test_the_command_of_a_run_asks_as_it_was_asked(
    tmp_path: Path, base: str, chosen: dict[str, Any], words: str | None
) -> None:
    asking = chosen_asking(load_askings()[base], **chosen)
    assert asking is not None
    write_run(tmp_path, "triage", f"a+{asking.name}", items([1.0]), asking=asking)
    (grading,) = find_gradings(tmp_path)
    record = read_record(grading)
    start = "medhelm run benchmark=triage model=a data=full"
    assert own_words.run_command(record) == ("" if words is None else f"{start} {words}")
    assert own_words.is_prompt_packaged(record.spec) is (words is not None)
