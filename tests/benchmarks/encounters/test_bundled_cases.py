"""The six bundled cases: what they hold, and that rules can play them from end to end."""

from collections import Counter
from pathlib import Path

import pytest

from medhelm import Instance
from medhelm.data.dataset import open_dataset
from medhelm_benchmarks.encounters.data.medsp1000 import MEDSP1000
from medhelm_benchmarks.encounters.matches import folded, is_asked
from medhelm_benchmarks.encounters.packets import COMPETENCIES, packets_of


@pytest.fixture(scope="module")
def cases() -> list[Instance]:
    return list(open_dataset(MEDSP1000, "sample", root=Path("none")).instances())


def test_six_cases_in_four_specialties_marked_as_not_validated(cases: list[Instance]) -> None:
    assert len(cases) == 6 and len({i.cluster for i in cases}) == 6
    assert len({i.metadata["specialty"] for i in cases}) == 4
    assert {i.metadata["validated"] for i in cases} == {"no"}
    packets = [packets_of(i) for i in cases]
    assert {len(p.controller.states) for p in packets} == {2, 3, 4}
    for instance, p in zip(cases, packets, strict=True):
        items = p.evaluator.items
        assert 12 <= len(items) <= 25 and {i.competency for i in items} == set(COMPETENCIES)
        assert all(state.results for state in p.controller.states)
        assert all(state.changes for state in p.controller.states[1:]), instance.id
    assert any(not p.patient.can_speak and p.patient.companions for p in packets)


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


def test_the_oracle_gets_an_answer_to_every_order(cases: list[Instance]) -> None:
    open_orders: Counter[str] = Counter()
    for instance in cases:
        packets = packets_of(instance)
        for item in packets.evaluator.items:
            assert item.deed is not None
            assert is_asked(item.deed.wordings[1:] or item.deed.wordings, item.deed.wordings[0]), (
                f"{instance.id}: {item.text}"
            )
            if item.deed.channel == "actions":
                upto = packets.controller.states[: item.deed.state + 1]
                results = [r for state in upto for r in state.results]
                if not any(is_asked(r.asked_by, item.deed.wordings[0]) for r in results):
                    open_orders[f"{instance.id}: {item.deed.wordings[0]}"] += 1
    assert not open_orders
