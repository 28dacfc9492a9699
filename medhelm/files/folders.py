"""Folders as others may have packed them: nothing outside is read through what lies in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from medhelm.errors import DataError, PluginError


def inside(path: Path, *folders: Path) -> Path:
    """Return a path that lies in one of these folders, which may be links themselves.

    Raises DataError where a symbolic link or `..` leads it out of all of them.
    """
    real = os.path.realpath(path)
    homes = [os.path.realpath(folder) for folder in folders]
    if not any(os.path.commonpath((real, home)) == home for home in homes):
        raise DataError(
            f"{path} leads out of {folders[0]} by a symbolic link or `..`, which is not followed; put "
            "what is meant into the folder itself, or take it away"
        )
    return path


def beside(origin: str | Path, *names: str) -> Path | None:
    """Return a file in the folder of a plugin's own file; None where there is none.

    Installers may lay every file of a package as a link, so that the folder is also the one in which
    the plugin's file really lies. Raises PluginError for a file that lies elsewhere.
    """
    path = Path(origin).parent.joinpath(*names)
    try:
        return inside(path, *homes(origin)) if path.is_file() else None
    except DataError as e:
        raise PluginError(str(e)) from None


def homes(origin: str | Path) -> tuple[Path, Path]:
    """Return the folder of a file, and that of the file which it is a link to."""
    return Path(origin).parent, Path(origin).resolve().parent


def entries(
    folder: Path, *homes: Path, ends: tuple[str, ...] = ("",), is_deep: bool = False
) -> list[Path]:
    """Return what lies in a folder under names with one of these ends, in their order; nothing hidden.

    `is_deep`: also what lies in the folders below it. `homes`: the folder that was given, where this
    one is only a part of it. Raises DataError for a link that leads out, or back to a folder around
    it, and OSError.
    """
    homes = homes or (folder,)
    found = _walk(inside(folder, *homes), homes, ends, is_deep, (os.path.realpath(folder),))
    return sorted(found, key=Path.as_posix)


def _walk(
    folder: Path,
    homes: tuple[Path, ...],
    ends: tuple[str, ...],
    is_deep: bool,
    around: tuple[str, ...],
) -> Iterator[Path]:
    with os.scandir(folder) as listed:
        there = list(listed)
    for entry in there:
        if entry.name.startswith("."):
            continue
        path, is_link = folder / entry.name, entry.is_symlink()
        is_folder = is_deep and entry.is_dir()
        if not is_folder and not entry.name.endswith(ends):
            continue
        if is_link:
            inside(path, *homes)
        if entry.name.endswith(ends):
            yield path
        if is_folder:
            real = os.path.realpath(path) if is_link else os.path.join(around[-1], entry.name)
            if real in around:
                raise DataError(
                    f"{path} is a symbolic link to a folder that it lies in; take it away"
                )
            yield from _walk(path, homes, ends, is_deep, (*around, real))
