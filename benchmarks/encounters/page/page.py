"""The page Encounters: the table of its runs, and an encounter turn by turn with its rubric ticked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from medhelm import Episode, Instance, Page, PageData, PublishedRuns
from medhelm_benchmarks.encounters.packets import Packets
from medhelm_benchmarks.encounters.record import Encounter

_HERE = Path(__file__).parent


def page_data(runs: PublishedRuns) -> PageData | None:
    """Return the tables of encounters and of their cast; None where nothing was an encounter."""
    from medhelm import TableRequest
    from medhelm_benchmarks.encounters.tables.cast import fidelity
    from medhelm_benchmarks.encounters.tables.encounters import ACCURACY, COMPLETION, encounters

    study = runs.study
    found = [b for b in study.panels if {COMPLETION, ACCURACY} & set(study.metrics(b))]
    if not found:
        return None
    asked = TableRequest(study=study, metadata=runs.metadata)
    return PageData(benchmarks=found, tables=[encounters(asked), fidelity(asked)])


def item_lines(instance: Instance) -> list[dict[str, str]] | None:
    """Return competency and text of the items of a case; None where the instance is not a case."""
    try:
        packets = msgspec.convert(instance.payload, Packets)
    except msgspec.ValidationError:
        return None
    return [{"competency": i.competency, "text": i.text} for i in packets.evaluator.items]


def encounter_lines(
    episode: Episode, scores: Mapping[str, float | None]
) -> dict[str, object] | None:
    """Return ending, opening, states and turns of an encounter; None where there is none."""
    try:
        found = msgspec.convert(episode.state, Encounter)
    except msgspec.ValidationError:
        return None
    own = {"opening": found.opening, "states": found.states, "turns": found.turns}
    return {"ending": episode.ending, **own}


ENCOUNTERS = Page(
    name="encounters",
    title="Encounters",
    script=_HERE / "encounters.js",
    style=_HERE / "encounters.css",
    data=page_data,
    instance=item_lines,
    answer=encounter_lines,
)
