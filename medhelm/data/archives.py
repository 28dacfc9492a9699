"""Takes the files of one folder out of a zip archive as code hosts make them of a repository."""

from __future__ import annotations

import errno
import lzma
import shutil
import struct
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from stat import S_ISLNK

from medhelm.errors import DataError

_ENCRYPTED = 1
"""The bit of a member's flags that says so."""
DAMAGED = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError),
    *(NotImplementedError, RuntimeError, OverflowError, ValueError),
)
"""The zipfile module raises these for archives that are damaged or packed in an unknown way."""


def unpack_folder(archive: Path, folder: str, into: Path, max_bytes: int) -> None:
    """Write the files that are directly in a folder of an archive into `into`, which is made.

    `folder` is below the one top folder of the archive. Raises DataError for a file that is not an
    archive, for a folder that it does not have, for one of more than `max_bytes`, and for a member that
    leads out of it.
    """
    wanted = PurePosixPath(folder)
    try:
        with zipfile.ZipFile(archive) as packed:
            members = [
                member
                for member in packed.infolist()
                if not member.is_dir()
                if PurePosixPath(*PurePosixPath(member.filename).parts[1:-1]) == wanted
            ]
            if not members:
                raise DataError(f"{archive.name} holds no file of the folder {folder}")
            if any(m.flag_bits & _ENCRYPTED for m in members):
                raise DataError(f"{archive.name} is encrypted; bring the folder {folder} yourself")
            if (size := sum(m.file_size for m in members)) > max_bytes:  # no more is ever unpacked
                raise DataError(
                    f"{archive.name} holds {size:,} bytes, more than the {max_bytes:,} expected; "
                    "SourceFile.max_bytes allows more"
                )
            into.mkdir(mode=0o700)
            for member in members:
                name = PurePosixPath(member.filename).name
                if name == ".." or S_ISLNK(member.external_attr >> 16):
                    raise DataError(
                        f"{archive.name} holds {member.filename!r}, which leads out of its folder; "
                        f"bring the folder {folder} yourself"
                    )
                with packed.open(member) as source, (into / name).open("xb") as target:
                    shutil.copyfileobj(source, target)
    except (*DAMAGED, OSError) as e:
        if isinstance(e, OSError) and e.errno not in (None, errno.EINVAL):  # of places and streams
            raise
        raise DataError(f"{archive.name} is not a whole zip archive ({type(e).__name__})") from None
