"""Items that a person has ticked on a sheet, as a judge: stored encounters are scored by hand.

`jury.judges=[rater/anna.csv]` names a filled sheet. Its reply to a batch of items has the form of any
evaluator's and is read by the same rules: an item counts that is named verbatim, once, under its own
competency, and is met only by the turns that show it. A corrected sheet is another judge.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from medhelm import DataError, ModelSpec, Provider, Request, Response
from medhelm.errors import ModelError, UsageError
from medhelm.schema.episode import Usage
from medhelm.tables.clinicians.ratings import check_columns
from medhelm.tables.format.spreadsheet import read_filled, unguarded
from medhelm_benchmarks.encounters.grading.evaluator import parts_of

PROVIDER = "rater"
COLUMNS = ("unit", "competency", "item", "met", "turns")
_MET = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


class Tick(NamedTuple):
    """A row of a filled sheet."""

    competency: str
    item: str
    met: bool
    turns: tuple[int, ...]


def unit_of(case: str, encounter: str) -> str:
    """Return the blind name of an encounter as an evaluator reads it: 10 hex digits."""
    return hashlib.sha256(f"{case}\0{encounter}".encode()).hexdigest()[:10]


def plain(text: str) -> str:
    """Return a text as a sheet gives it back."""
    return unguarded(text.replace("\r\n", "\n").replace("\r", "\n").strip())


def read_ticks(path: Path) -> dict[str, list[Tick]]:
    """Return the rows of a sheet that are filled in, by unit; raises DataError with file and row."""
    found: dict[str, list[Tick]] = {}
    for row, cells in read_filled(path):
        where = f"{path.name}, row {row}"
        check_columns(path.name, cells, COLUMNS)
        if not cells["met"]:
            continue
        met = _MET.get(cells["met"].casefold())
        if met is None:
            raise DataError(f"{where}: met is {cells['met'][:20]!r}; it is yes or no, or empty")
        named = cells["turns"].replace(",", " ").replace(";", " ").split()
        if not all(turn.isdecimal() for turn in named):
            raise DataError(f"{where}: turns are numbers, such as 2, 5")
        tick = Tick(plain(cells["competency"]), plain(cells["item"]), met, tuple(map(int, named)))
        found.setdefault(cells["unit"], []).append(tick)
    return found


@dataclass
class SheetModel:
    """A filled sheet in the place of an evaluator's model."""

    spec: ModelSpec
    ticks: Mapping[str, list[Tick]]

    async def acquire(self, place: int = 0) -> None:
        """Need no slot."""

    def release(self) -> None:
        """Give nothing back."""

    async def respond(self, request: Request) -> Response:
        """Return the verdicts on the items of a request; an error for what is not on the sheet."""
        parts = parts_of(request.messages[1].content) if len(request.messages) > 1 else None
        if parts is None:
            raise ModelError(f"{self.spec.name} is a filled sheet; it judges items of encounters")
        encounter, items = parts
        own = self.ticks.get(unit_of(request.instance_id, encounter))
        done = Response(
            instance_id=request.instance_id,
            repeat=request.repeat,
            usage=Usage(input_tokens=0, cached_tokens=0, output_tokens=0),
            served_model=self.spec.name,
            finished_at=time.time(),
        )
        if own is None:
            return _with(done, finish="error", error="the encounter is not filled in on the sheet")
        return _with(done, text=_reply(own, items))

    async def close(self) -> None:
        """Close nothing."""


def _with(response: Response, **changes: str) -> Response:
    return msgspec.structs.replace(response, **changes)


def _reply(ticks: Iterable[Tick], items: list[dict[str, str]]) -> str:
    """Return the rows that name an item of the list, as an evaluator would write them."""
    texts = {plain(item["item"]): item["item"] for item in items}
    rows = [
        {"competency": t.competency, "item": texts[t.item], "met": t.met, "turns": t.turns}
        for t in ticks
        if t.item in texts
    ]
    return json.dumps({"items": rows}, ensure_ascii=False)


def spec_of(name: str) -> ModelSpec:
    """Return the judge that a filled sheet is; raises UsageError where it is not there."""
    path = Path(name)
    try:
        content = path.read_bytes()
    except OSError:
        raise UsageError(
            f"{PROVIDER}/{name}: there is no sheet {name}; "
            "`medhelm agreement --encounter-items RESULTS --template SHEET.csv` writes one to fill in"
        ) from None
    digest = hashlib.sha256(content).hexdigest()
    return ModelSpec(
        name=f"{PROVIDER}/{path.stem}",
        provider=PROVIDER,
        model=name,
        endpoint_class="local",
        extra_body={"sha256": digest},
    )


def _open(spec: ModelSpec) -> SheetModel:
    if spec_of(spec.model).extra_body != spec.extra_body:
        raise UsageError(f"{spec.model} has changed; name the sheet as {PROVIDER}/FILE.csv")
    return SheetModel(spec, read_ticks(Path(spec.model)))


RATERS = Provider(
    name=PROVIDER,
    help="filled sheets of encounters' items",
    open_model=_open,
    spec_of=spec_of,
    is_local=True,
    is_ranked=False,
    model_of=lambda spec: Path(spec.model).stem,
    uses=("extra_body",),
)
"""The sheets that people have filled in. Rater and content decide, not the place: two raters may agree in all."""
