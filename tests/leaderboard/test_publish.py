"""The border between results and the site, function by function: what gets out and what does not."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Any

import msgspec
import pytest

from medhelm.errors import RecordError
from medhelm.schema.episode import Sampling
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import BenchmarkCard, RunRecord
from medhelm.store.records import read_record
from medhelm.tables.selection import GradedRun
from medhelm.tables.table import Column, make_table
from medhelm.tables.validity import Validity
from medhelm_leaderboard import publish
from tests.build_runs import items, write_run

KEY = b"k" * 64


def run(tmp_path: Path, name: str = "triage", model: str = "a", **card: Any) -> GradedRun:
    path = write_run(tmp_path, name, model, items([1.0]), card=card)
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
    found = publish.strictest([runs[i] for i in order])
    cards = {r.model + r.benchmark: r.record.card for r in found}
    for model in "abc":
        own = cards[f"{model}triage"]
        assert (own.data_class, own.redistributable) == ("gated", False)
    assert (cards["aother"].data_class, cards["aother"].redistributable) == ("public", True)


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


def test_specialties_and_names_of_experts_stay_where_text_does(tmp_path: Path) -> None:
    """A specialty is a word of the case; who validated it is a person of that hospital."""
    cards = [
        card(tmp_path, name="open"),
        card(tmp_path, name="closed", data_class="private", redistributable=False),
        card(tmp_path, name="licensed", redistributable=False),
    ]
    columns = [
        Column(name=name, type="string", description=name)
        for name in ("benchmark", "level", "specialty")
    ]
    rows = [
        {"benchmark": own.name, "level": level, "specialty": f"{own.name}-{level}"}
        for own in cards
        for level in ("model", "category", "specialty")
    ]
    validity = {
        own.name: Validity(own.name, 5, (("Dr CANARY, 2025", 2), ("Dr ROE, 2026", 1)))
        for own in cards
    }
    notes = [note for own in validity.values() for note in own.validated()]
    found = publish.harm(make_table("harm", "Harm", columns, rows, notes, {}), cards, validity)
    assert [r["specialty"] for r in found.rows if r["level"] == "specialty"] == ["open-specialty"]
    assert sum(r["level"] != "specialty" for r in found.rows) == 6
    assert [n for n in found.notes if "Dr" in n] == list(validity["open"].validated())
    assert "closed: the ratings of 3 of 5 cases are experts'." in found.notes
    assert "licensed: the ratings of 3 of 5 cases are experts'." in found.notes
    assert any("not published of closed, licensed" in note for note in found.notes)
    line = publish.labelled_line("closed", cards[1], validity["closed"])
    assert line.validated == ("closed: the ratings of 3 of 5 cases are experts'.",)


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
