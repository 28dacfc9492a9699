"""The six bundled cases: what they hold, and that rules can play them from end to end."""

from pathlib import Path

import pytest

from medhelm import Instance
from medhelm.data.dataset import open_dataset
from medhelm_benchmarks.encounters.data.medsp1000 import MEDSP1000
from medhelm_benchmarks.encounters.matches import folded
from medhelm_benchmarks.encounters.packets import packets_of


@pytest.fixture(scope="module")
def cases() -> list[Instance]:
    return list(open_dataset(MEDSP1000, "sample", root=Path("none")).instances())


def test_no_item_stands_in_the_packet_of_the_clinician(cases: list[Instance]) -> None:
    for instance in cases:
        packets = packets_of(instance)
        shown = folded(instance.context)
        hidden = [item.text for item in packets.evaluator.items]
        hidden += [fact.answer for fact in packets.patient.facts]
        hidden += [r.text for s in packets.controller.states for r in s.results]
        assert not [text for text in hidden if folded(text) in shown], instance.id


def test_packets_for_models_hold_what_rules_answer(cases: list[Instance]) -> None:
    for instance in cases:
        packets = packets_of(instance)
        assert all(fact.answer in packets.patient.text for fact in packets.patient.facts)
        for state in packets.controller.states:
            assert all(change in packets.controller.text for change in state.changes)
            assert all(result.text in packets.controller.text for result in state.results)
        assert all(item.text in packets.evaluator.text for item in packets.evaluator.items)
