"""The commands `medhelm agreement WORD`: each is a value that says what is rated.

The form makes the sheet and the tables; files and printing are here, options in `commands.toml`.
"""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

from medhelm.cli.options import DEFAULT_RESULTS
from medhelm.cli.tables import chosen_format, emit
from medhelm.errors import UsageError, closest

if TYPE_CHECKING:
    from medhelm.tables.clinicians.sheet import RatingSheet, Sample
    from medhelm.tables.format.table import Settings, Table
    from medhelm.tables.study.selection import RunChoice

DATA_FORMATS = ("csv", "json", "parquet")
"""Formats that hold every row and column."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A number or a word that a table or a sheet depends on; `--set NAME=VALUE` changes it."""

    default: str | float | None = None
    """None: what the table finds right, or nothing."""
    least: float | None = None
    words: tuple[str, ...] = ()
    """All values that it may have, where it is no number."""

    def read(self, name: str, text: str) -> str | float:
        """Return the value that a text names; raises UsageError."""
        if self.words:
            if text not in self.words:
                raise UsageError(f"{name} is {' or '.join(self.words)}, not {text!r}")
            return text
        try:
            value = float(text)
            if not math.isfinite(value):
                raise ValueError
        except ValueError:
            raise UsageError(f"{name} is a number, not {text!r}") from None
        if self.least is not None and not value >= self.least:
            raise UsageError(f"{name} must be at least {self.least:g}, not {text}")
        return int(value) if value == int(value) and "." not in text else value


STATISTICS: Mapping[str, Setting] = {
    "seed": Setting(default=0, least=0),
    "draws": Setting(default=1000, least=1),
    "confidence": Setting(default=0.95),
}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The request of one line of `medhelm agreement`."""

    source: str
    """The word for what is rated, where the command takes one."""
    files: tuple[Path, ...]
    tables: tuple[str, ...]
    show: tuple[str, ...]
    settings: Settings
    own: Mapping[str, str | float | None]
    """The form's settings."""
    sample: Sample
    text_of: tuple[str, ...]
    runs: RunChoice
    is_text: bool
    """True if the tables are to be read by people, who do not want every row."""

    def number(self, name: str) -> int | None:
        """Return a whole number among the settings."""
        value = self.own[name]
        return None if value is None else int(value)


@dataclass(frozen=True, kw_only=True)
class RatingForm:
    """Ratings of one kind: what is rated, and what is shown of it."""

    word: str
    """Of the command, and the plural of what is rated."""
    tables: tuple[str, ...]
    make_tables: Callable[[Asked], list[Table]]
    make_sheet: Callable[[Asked], RatingSheet]
    on_request: tuple[str, ...] = ()
    """Tables that are made only where `--table` names them."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    statistics: Collection[str] = tuple(STATISTICS)
    """Of seed, draws and confidence those on which its tables or its sheet depend."""

    @property
    def _default(self) -> tuple[str, ...]:
        return tuple(name for name in self.tables if name not in self.on_request)

    def run(self, args: argparse.Namespace) -> int:
        """Print tables, or write a sheet, and return the exit code."""
        if bool(args.files) == bool(args.template):
            fix = "name files of ratings, or write a sheet to rate on with --template FILE"
            raise UsageError(fix + ", not both" * bool(args.files))
        if args.template and Path(args.template).is_dir():
            raise UsageError(f"--template {args.template} is a folder; name a file: sheet.csv")
        for name in ("table", "show", "out", "format"):
            if args.template and getattr(args, name, None):
                raise UsageError(f"--{name} does not go with --template")
        for name in ("sample", "text_of"):
            if args.files and getattr(args, name, None):
                raise UsageError(f"--{name.replace('_', '-')} belongs to --template")
        if "results_dir" in args and self.on_request and args.table not in self.on_request:
            given = (args.benchmark, args.model, args.data, args.latest, args.scoring != "fixed")
            if any(given) or args.results_dir != DEFAULT_RESULTS:
                names = " or ".join(self.on_request)
                raise UsageError(f"options that choose runs belong to --table {names}")
        form = "terminal" if args.template else chosen_format(args.format, args.out)
        asked = self._asked(args, is_text=form not in DATA_FORMATS)
        if args.template:
            return self._write(asked, args)
        emit(self.make_tables(asked), form, args.out)
        return 0

    def _asked(self, args: argparse.Namespace, *, is_text: bool) -> Asked:
        from medhelm.tables.study.selection import RunChoice

        statistics, own = read_settings(args.set, self.settings, self.statistics)
        return Asked(
            source=getattr(args, "source", ""),
            files=tuple(map(Path, args.files)),
            tables=(args.table,) if args.table else self._default,
            show=tuple(getattr(args, "show", ())),
            settings=statistics,
            own=own,
            sample=_sample(args.sample, statistics.bootstrap_seed),
            text_of=tuple(getattr(args, "text_of", None) or ()),
            runs=run_choice(args) if "results_dir" in args else RunChoice(),
            is_text=is_text,
        )

    def _write(self, asked: Asked, args: argparse.Namespace) -> int:
        sheet = self.make_sheet(asked)
        then = ["agreement", self.word, *([asked.source] if asked.source else [])]
        if getattr(args, "results_dir", DEFAULT_RESULTS) != DEFAULT_RESULTS:
            then += ["--results-dir", args.results_dir]
        path, *key = sheet.write(Path(args.template), asked.sample.seed, then)
        rows = sum(len(unit.items) for unit in sheet.units)
        whose = [f"{file}: which model wrote which; keep it from the raters" for file in key]
        said = (f"{path}: {rows} rows to rate, of {len(sheet.units)} units", *whose, *sheet.notes)
        print(*said, sep="\n")
        if path.suffix == ".json":
            print(f"\nThen: medhelm review serve {shlex.quote(str(path))} --raters NAME ...")
            return 0
        print("\nEach rater fills a copy, named as the rater is to be called. In `value`:")
        for line in dict.fromkeys(unit.scale.legend for unit in sheet.units):
            print(indent(line, "  "))
        for column, meaning in sheet.rules:
            print(f"  {column}: {meaning}")
        print(f"\nThen: {shlex.join(['medhelm', *then, 'RATER.csv', '...'])}")
        return 0


def run_choice(args: argparse.Namespace) -> RunChoice:
    """Return which stored runs the options choose."""
    from medhelm.tables.study.selection import RunChoice

    return RunChoice(
        results_dir=Path(args.results_dir),
        benchmarks=tuple(getattr(args, "benchmark", None) or ()),
        models=tuple(args.model or ()),
        data=args.data,
        scoring=args.scoring,
        latest=args.latest,
    )


def read_settings(
    words: Sequence[str], own: Mapping[str, Setting], offered: Collection[str] = tuple(STATISTICS)
) -> tuple[Settings, Mapping[str, str | float | None]]:
    """Return the settings of statistics and those of the form; raises UsageError."""
    from medhelm.tables.format.table import Settings

    values = {name: setting.default for name, setting in {**own, **STATISTICS}.items()}
    known = {**own, **{name: STATISTICS[name] for name in offered}}
    for word in words:
        name, sign, text = word.partition("=")
        if name not in known or not sign:
            near = "".join(f"; did you mean {n}?" for n in closest(name, known, 1))
            raise UsageError(f"--set {word}: NAME=VALUE sets one of {', '.join(known)}{near}")
        values[name] = known[name].read(name, text)
    statistics = Settings(
        draws=int(str(values["draws"])),
        bootstrap_seed=int(str(values["seed"])),
        confidence=float(str(values["confidence"])),
    )
    return statistics, {name: values[name] for name in own}


def _sample(text: str | None, seed: int) -> Sample:
    from medhelm.tables.clinicians.sheet import Sample

    if text is None:
        return Sample(seed=seed)
    counts = [int(part) if part.isdecimal() else 0 for part in text.split("x")]
    if min(counts) < 1 or len(counts) > 2:
        raise UsageError(f"--sample {text}: a number such as 12, or 12x5 for five items of each")
    return Sample(counts[0], counts[1] if len(counts) > 1 else None, seed)
