"""Items that a person has ticked on a sheet, as a judge: stored encounters are scored by hand.

`jury.judges=[rater/anna.csv]` names a filled sheet, `[rater/all.csv@anna]` one rater of several. Its replies are read
as any evaluator's; a corrected sheet is another judge.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from medhelm import DataError, ModelError, ModelSpec, Provider, Request, Response, Usage, UsageError
from medhelm.plugin import Model, ratings
from medhelm_benchmarks.encounters.grading.evaluator import QUOTE_WORDS, parts_of
from medhelm_benchmarks.encounters.matches import folded

PROVIDER = "rater"
TURNS = "turns"
"""The column with the numbers of the turns that show an item."""


class Tick(NamedTuple):
    """A row of a filled sheet."""

    text: str
    met: bool
    turns: tuple[int, ...]


def unit_of(case: str, encounter: str) -> str:
    """Return the blind name of an encounter as an evaluator reads it."""
    return ratings.blind_name(f"{case}\0{encounter}")


def item_text(competency: str, item: str) -> str:
    """Return an item as a sheet has it."""
    return f"{competency}: {item}"


def turns_of(cells: Mapping[str, str], where: str) -> tuple[int, ...]:
    """Return the turns that a row names; raises DataError."""
    ratings.check_columns(where, cells, [TURNS])
    named = cells[TURNS].replace(",", " ").replace(";", " ").split()
    if not all(turn.isdecimal() for turn in named):
        raise DataError(f"{where}: turns are numbers, such as 2, 5")
    return tuple(map(int, named))


def read_ticks(path: Path, rater: str = "") -> dict[str, list[Tick]]:
    """Return the rows that a rater has filled in, by unit; raises DataError with file and row."""
    rows = ratings.read_rows([path])
    raters = sorted({row.rater for row in rows if row.cells["value"]})
    if (rater and rater not in raters) or (not rater and len(raters) > 1):
        raise DataError(
            f"{path.name} has ratings of {', '.join(raters)}; name one: {PROVIDER}/{path}@NAME"
        )
    found: dict[str, list[Tick]] = {}
    for where, cells in ((row.where, row.cells) for row in rows if rater in ("", row.rater)):
        turns, value = turns_of(cells, where), cells["value"]
        if not value:
            continue
        if (met := ratings.YES_NO.read(value)) is None:
            raise DataError(
                f"{where}: the value is {value[:20]!r}; it is {ratings.YES_NO}, or empty"
            )
        tick = Tick(cells.get("text", ""), bool(met), turns)
        found.setdefault(cells["unit"], []).append(tick)
    return found


class SheetModel(Model):
    """A filled sheet in the place of an evaluator's model."""

    def __init__(self, spec: ModelSpec, ticks: Mapping[str, list[Tick]]) -> None:
        self.spec, self.ticks = spec, ticks

    async def respond(self, request: Request) -> Response:
        """Return the verdicts on the items of a request; an error for what is not on the sheet."""
        parts = parts_of(request.messages[1].content) if len(request.messages) > 1 else None
        if parts is None:
            raise ModelError(f"{self.spec.name} is a filled sheet; it judges items of encounters")
        encounter, items = parts
        own = self.ticks.get(unit_of(request.instance_id, encounter))
        reply = partial(
            request.reply,
            usage=Usage(input_tokens=0, cached_tokens=0, output_tokens=0),
            served_model=self.spec.name,
        )
        if own is None:
            return reply(finish="error", error="the encounter is not filled in on the sheet")
        return reply(text=_reply(own, items, encounter))


def _reply(ticks: Iterable[Tick], items: Sequence[Mapping[str, Any]], encounter: str) -> str:
    """Return the rows that name an item of the list, as an evaluator would write them."""
    rows = [
        item
        | {"met": tick.met, "turns": tick.turns}
        | {"evidence": [_evidence(encounter, turn) for turn in tick.turns]}
        for tick in ticks
        for item in map(dict, items)
        if ratings.is_same_text(tick.text, item_text(item["competency"], item["item"]))
    ]
    return json.dumps({"items": rows}, ensure_ascii=False)


def _evidence(encounter: str, turn: int) -> dict[str, Any]:
    """Return a turn with the first words that the clinician says or does in it: a person names no words."""
    lines = (line for line in encounter.split("\n") if line.startswith(f'{{"turn": {turn},'))
    shown = json.loads(next(lines, "{}"))
    texts = (shown.get("clinician_says", ""), *shown.get("clinician_does", ()))
    first = next((text for text in texts if folded(text)), "")
    return {"turn": turn, "quote": " ".join(first.split()[:QUOTE_WORDS])}


def _sheet_and_rater(name: str) -> tuple[Path, str]:
    sheet, mark, rater = name.rpartition("@")
    return (Path(sheet), rater) if mark and not Path(name).is_file() else (Path(name), "")


def spec_of(name: str) -> ModelSpec:
    """Return the judge that a filled sheet is; raises UsageError where it is not there."""
    path, rater = _sheet_and_rater(name)
    try:
        content = path.read_bytes()
    except OSError:
        raise UsageError(
            f"{PROVIDER}/{name}: there is no sheet {path}; "
            "`medhelm agreement items RESULTS --template SHEET.csv` writes one to fill in"
        ) from None
    return ModelSpec(
        name=f"{PROVIDER}/{rater or path.stem}",
        provider=PROVIDER,
        model=name,
        endpoint_class="local",
        extra_body={"sha256": hashlib.sha256(content).hexdigest()},
    )


def _open(spec: ModelSpec) -> SheetModel:
    if spec_of(spec.model).extra_body != spec.extra_body:
        raise UsageError(f"{spec.model} has changed; name the sheet as {PROVIDER}/FILE.csv")
    return SheetModel(spec, read_ticks(*_sheet_and_rater(spec.model)))


RATERS = Provider(
    name=PROVIDER,
    help="filled sheets of encounters' items",
    open_model=_open,
    spec_of=spec_of,
    is_local=True,
    is_ranked=False,
    model_of=lambda spec: _sheet_and_rater(spec.model)[1] or Path(spec.model).stem,
    uses=("extra_body",),
)
"""The sheets that people have filled in. Rater and content decide, not the place: two raters may agree in all."""
