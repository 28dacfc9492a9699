"""Role packets of scenarios, read from `<case>/<scenario>/<role>/` or from the rows of a table.

Folders of roles have several names, English and Chinese. They are compared without case, spaces and
punctuation. The files of a role are joined in the order of their names, each under its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from medhelm import DataError, Row
from medhelm.plugin import closest, durable, entries, readers

PacketRole = Literal["clinician", "patient", "controller", "evaluator"]
PACKET_ROLES: tuple[PacketRole, ...] = get_args(PacketRole)
TEXTS = (".md", ".markdown", ".txt", ".json", ".yaml", ".yml", ".csv", ".html", ".xml")
"""Files that are read; others in a role's folder are not."""
META_FILE = "phase1_scenarios_meta.json"
"""In a case's folder: what its source says of each scenario."""
SOURCE = "source"
"""In a case's folder: the documents that it was made of. They are no packets, whatever their names are."""
META_FIELDS = (
    *("specialty", "department", "urgency_level", "patient_gender", "patient_age"),
    *("patient_race", "patient_nationality", "injury_body_part"),
)
_TABLES = (".jsonl", ".parquet", ".csv")
_NAMES: Mapping[PacketRole, Sequence[str]] = {
    "clinician": ["examinee", "scenario_initialization", "受试者", "受试者材料"],
    "patient": ["sp_actor", "sp", "standardized_patient_actor", "SP材料", "SP角色", "SP扮演者"],
    "controller": [
        "environment_controller",
        "environment",
        "环境控制",
        "环境控制者",
        "环境控制材料",
    ],
    "evaluator": ["evaluator", "评估者", "评估者资料", "评分标准"],
}
FOLDERS: Mapping[PacketRole, str] = {role: names[0] for role, names in _NAMES.items()}
"""The names under which cases are written."""
_CASE_COLUMNS, _SCENARIO_COLUMNS = ("case_id", "case"), ("scenario", "scenario_id")
_STRUCK = re.compile(r"(?<!~)~~(?!~)(?:(?!\n[ \t]*\n).)+?(?<!~)~~(?!~)", re.DOTALL)


def plain_name(name: str) -> str:
    """Return a name without case, spaces and punctuation."""
    return "".join(c for c in name.casefold() if c.isalnum())


_ALL_NAMES = tuple(name for names in _NAMES.values() for name in names)
_ROLE_OF = {plain_name(name): role for role, names in _NAMES.items() for name in names}


@dataclass(frozen=True)
class Scenario:
    """The packets of one scenario as texts."""

    case: str
    name: str
    texts: Mapping[PacketRole, str]
    metadata: Mapping[str, str] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    """Files in the folders of its roles that are not texts, as `role/name`: nobody is shown them."""

    @property
    def id(self) -> str:
        """Return `case/scenario`."""
        return f"{self.case}/{self.name}"


def without_struck(text: str) -> str:
    """Return a text without what is struck out in it (`~~...~~`, within one paragraph)."""
    return _STRUCK.sub("", text)


def read_scenarios(folder: Path) -> Iterator[Scenario]:
    """Yield the scenarios of a folder of cases, or of the tables in it, in the order of their names.

    Raises DataError, whose message holds no text of a packet.
    """
    shown = visible(folder, folder)
    tables = [p for p in shown if p.suffix in _TABLES and p.is_file()]
    found = False
    for table in tables:
        for number, row in readers.read_file(table):
            found = True
            yield _of_row(row, f"{table.name}, row {number}")
    for case in (p for p in shown if p.is_dir() and not tables):
        places = [p for p in visible(case, folder) if p.is_dir()]  # no link leads out of it
        meta = read_meta(case / META_FILE)
        for place in places:
            if (scenario := _of_folder(place, folder, meta.get(place.name, {}))) is not None:
                found = True
                yield scenario
    if not found:
        raise DataError(
            f"{folder}: there is no scenario; it needs <case>/<scenario>/<role>/ with the roles "
            f"{', '.join(FOLDERS.values())}, or a table with a column of each"
        )


def read_meta(path: Path) -> dict[str, dict[str, str]]:
    """Return the known fields of each scenario by its name; none where there is no such file."""
    if not path.exists():
        return {}
    try:
        with durable.os_errors_as(DataError, f"cannot read {path}"):
            found = json.loads(path.read_bytes())
        return {entry["scenario_id"]: _known(entry) for entry in found["scenarios"]}
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f'{_place(path)}: not JSON of the form {{"scenarios": [{{"scenario_id": ...}}]}}'
        ) from None


def _known(entry: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(entry[key]).strip() for key in META_FIELDS if entry.get(key) not in (None, "")}


def visible(folder: Path, root: Path, *, is_deep: bool = False) -> list[Path]:
    """Return what lies in a folder that is, or is a part of, the one that was given; raises DataError."""
    with durable.os_errors_as(DataError, f"cannot read {folder}"):
        found = entries(folder, root, is_deep=is_deep)
    return [p for p in found if "__MACOSX" not in p.relative_to(folder).parts]


def read_text(path: Path, place: str) -> str:
    """Return the text of a file; raises DataError, which names the place where it is not UTF-8."""
    try:
        with durable.os_errors_as(DataError, f"cannot read {path}"):
            return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as e:
        raise DataError(f"{place}: not UTF-8 at byte {e.start}; save it as UTF-8") from None


def _of_folder(place: Path, root: Path, metadata: Mapping[str, str]) -> Scenario | None:
    """Return the scenario of a folder; None where it is not one of packets."""
    shown = visible(place, root)
    roles: dict[PacketRole, Path] = {}
    for path in shown:
        role = _ROLE_OF.get(plain_name(path.name))
        if role is None or not path.is_dir():
            continue
        if role in roles:
            raise DataError(
                f"{_place(place)}: {roles[role].name!r} and {path.name!r} are both the folder of "
                f"the {role}; move one of them away"
            )
        roles[role] = path
    if not roles:
        if place.name != SOURCE:
            _refuse_other_names(place, root)
        return None
    texts: dict[PacketRole, str] = {}
    unread: list[str] = []
    for role, path in roles.items():
        files = {f.relative_to(path).as_posix(): f for f in _files(path, root)}
        others = [name for name, file in files.items() if not _is_text(file)]
        if len(others) == len(files) > 0:
            raise DataError(
                f"{_place(path)}: {', '.join(map(repr, others[:5]))} cannot be read as text; packets are "
                f"files of {' '.join(sorted(TEXTS))}"
            )
        read = (
            (name, read_text(file, f"{_place(path)}/{file.name}"))
            for name, file in files.items()
            if _is_text(file)
        )
        texts[role] = _joined(role, read)
        unread += [f"{path.name}/{name}" for name in others]
    unfit = [p.name for p in shown if p not in roles.values()]
    return _scenario(place.parent.name, place.name, texts, metadata, unfit, unread)


def _refuse_other_names(place: Path, root: Path) -> None:
    """Refuse a folder in a case that holds packets under names that are not of a role; raises DataError.

    A folder without texts (pictures of the source) is not one of packets.
    """
    if plain_name(place.name) in _ROLE_OF and any(map(_is_text, _files(place, root))):
        raise DataError(
            f"{place.parent.name}/{place.name}: the folder of a role lies in that of a case; put it into "
            f"{place.parent.name}/<scenario>/{place.name}"
        )
    inner = visible(place, root)
    names = [p.name for p in inner if p.is_dir() and any(map(_is_text, _files(p, root)))]
    names += [p.name for p in inner if _is_text(p) and plain_name(p.stem) in _ROLE_OF]
    if names:
        raise DataError(
            f"{place.parent.name}/{place.name}: there is no folder of a role; {_unfit(names)}; the folders of "
            f"roles are {', '.join(FOLDERS.values())}"
        )


def _unfit(names: Sequence[str]) -> str:
    """Return names that fit no role, each with the nearest that does."""
    near = [(name, closest(Path(name).stem, _ALL_NAMES, 1)) for name in names[:5]]
    shown = [
        f"{name!r}" + (f" (rename it to {found[0]!r}?)" if found else "") for name, found in near
    ]
    return f"{', '.join(shown)} {'fits' if len(names) == 1 else 'fit'} no role"


def _files(folder: Path, root: Path) -> list[Path]:
    """Return the files of a folder at any depth, in the order of their names, without hidden ones."""
    return [p for p in visible(folder, root, is_deep=True) if p.is_file()]


def _is_text(path: Path) -> bool:
    return path.is_file() and path.suffix.lower() in TEXTS


def _joined(role: PacketRole, files: Iterable[tuple[str, str]]) -> str:
    """Return texts under the names of their files, without what is struck out for who plays a role."""
    shown = ((n, t if role == "evaluator" else without_struck(t)) for n, t in files)
    return "\n\n".join(f"# {name}\n\n{text.strip()}" for name, text in shown if text.strip())


def _place(path: Path) -> str:
    """Return case, scenario and role of a path."""
    return "/".join(path.parts[-3:])


def _scenario(
    case: str,
    name: str,
    texts: Mapping[PacketRole, str],
    metadata: Mapping[str, str],
    others: Sequence[str] = (),
    unread: Sequence[str] = (),
) -> Scenario:
    """Return a scenario whose roles all have a text. `others`: names that fit no role."""
    for role in PACKET_ROLES:
        folder = f"({FOLDERS[role]!r})"
        if role not in texts:
            named = f"; {_unfit(others)}" if others else ""
            raise DataError(
                f"{case}/{name}: there is no folder or column of the {role} {folder}{named}"
            )
        if not texts[role].strip():
            raise DataError(f"{case}/{name}: the packet of the {role} is empty {folder}")
    return Scenario(case, name, texts, metadata, tuple(unread))


def _of_row(row: Row, place: str) -> Scenario:
    """Return the scenario of a row, whose columns have the names that folders have."""
    texts: dict[PacketRole, str] = {}
    for column, value in row.items():
        role = _ROLE_OF.get(plain_name(column))
        if role is None:
            continue
        if role in texts:
            raise DataError(f"{place}: two columns are of the {role}; leave one out")
        texts[role] = _cell_text(role, value, f"{place}, column {column!r}")
    case, scenario = _cell(row, _CASE_COLUMNS, place), _cell(row, _SCENARIO_COLUMNS, place)
    return _scenario(case, scenario, texts, _known(row))


def _cell(row: Row, names: tuple[str, ...], place: str) -> str:
    wanted = {plain_name(name) for name in names}
    for column, value in row.items():
        if plain_name(column) in wanted and isinstance(value, str) and value.strip():
            return value.strip()
    known, wants = ", ".join(sorted(row)), " or ".join(map(repr, names))
    raise DataError(f"{place}: there is no column {wants}; the columns are {known}")


def _cell_text(role: PacketRole, value: object, place: str) -> str:
    """Return a packet from a cell: a text, or texts by the names of their files."""
    if isinstance(value, str):
        return (value if role == "evaluator" else without_struck(value)).strip()
    if isinstance(value, Mapping) and all(isinstance(v, str) for v in value.values()):
        return _joined(role, sorted(value.items()))
    raise DataError(f"{place}: neither a text nor texts by the names of files")
