"""Takes the files of one folder out of a zip archive as code hosts make them of a repository."""

from __future__ import annotations

import shutil
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from medhelm.errors import DataError


def unpack_folder(archive: Path, folder: str, into: Path) -> None:
    """Write the files that stand directly in a folder of an archive into `into`, which is made.

    `folder` is below the one top folder of the archive. Raises DataError for a file that is no
    archive and for a folder that it does not have.
    """
    wanted = PurePosixPath(folder)
    try:
        with zipfile.ZipFile(archive) as packed:
            members = [m for m in packed.infolist() if not m.is_dir() and _parent(m) == wanted]
            if not members:
                raise DataError(f"{archive.name} holds no file of the folder {folder}")
            into.mkdir(mode=0o700)
            for member in members:
                name = PurePosixPath(member.filename).name
                with packed.open(member) as source, (into / name).open("xb") as target:
                    shutil.copyfileobj(source, target)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as e:
        raise DataError(f"{archive.name} is no whole zip archive ({type(e).__name__})") from None


def _parent(member: zipfile.ZipInfo) -> PurePosixPath:
    """Return the folder of a member below the top folder."""
    return PurePosixPath(*PurePosixPath(member.filename).parts[1:-1])
