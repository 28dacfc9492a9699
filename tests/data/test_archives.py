"""Sources that are folders: fetched as one archive, checked by the listing of their files."""

import hashlib
import io
import os
import random
import stat
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from medhelm.data.archives import unpack_folder
from medhelm.data.dataset import open_dataset
from medhelm.data.fetch import fetch, verify
from medhelm.data.sources import file_sha256
from medhelm.errors import DataError
from medhelm.proof.checks import is_data_present
from medhelm.schema.data import Benchmark, FileDataset, Instance, SourceFile

from .test_fetch import Server, bench, server

pytestmark = pytest.mark.slow

__all__ = ["server"]
FILES = {"b - 1.txt": "one", "a & b.txt": "two", "B.txt": "three"}


def listing(files: dict[str, str]) -> str:
    lines = [f"{hashlib.sha256(files[n].encode()).hexdigest()}  {n}\n" for n in sorted(files)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def packed(files: dict[str, str], folder: str = "notes/in") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"repo-abc/{folder}/", "")
        for name, text in files.items():
            archive.writestr(f"repo-abc/{folder}/{name}", text)
        archive.writestr(f"repo-abc/{folder}/deeper/x.txt", "not of the folder itself")
        archive.writestr("repo-abc/readme.md", "about")
        archive.writestr("repo-abc/in/other.txt", "of another folder")
    return buffer.getvalue()


def notes(url: str, sha256: str = "") -> Benchmark:
    source = SourceFile(name="in", url=url, sha256=sha256, folder="notes/in")
    return replace(
        bench(url),
        dataset=FileDataset(
            files=(source,),
            read=lambda paths, split: ({"name": p.name} for p in sorted(paths[0].iterdir())),
        ),
        to_instance=lambda row: Instance(id=row["name"], context="x"),
        answer="text",
    )


def status(benchmark: Benchmark, root: Path) -> str:
    (found,) = fetch(benchmark, root, pause_s=0.0)
    return found.status


def test_a_folder_comes_out_of_its_archive(server: Server, tmp_path: Path) -> None:
    server.content = packed(FILES)
    pinned = notes(server.url, listing(FILES))
    assert not is_data_present(pinned, tmp_path)
    assert [s.status for s in verify(pinned, tmp_path)] == ["missing"]
    assert status(pinned, tmp_path) == "ok"
    folder = tmp_path / "bench" / "in"
    assert {p.name: p.read_text() for p in folder.iterdir()} == FILES
    assert os.listdir(tmp_path / "bench") == ["in"], "the archive is not kept"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert is_data_present(pinned, tmp_path)
    assert status(pinned, tmp_path) == "ok"
    assert len(server.asked) == 1
    ids = [i.id for i in open_dataset(pinned, "full", root=tmp_path).instances()]
    assert ids == sorted(FILES)


@pytest.mark.parametrize("deeper", [{}, {"case/one/x.txt": "deep"}])
def test_its_hash_is_what_sha256sum_says_of_its_listing(
    deeper: dict[str, str], tmp_path: Path
) -> None:
    for name, text in {**FILES, **deeper, ".hidden": "of the desktop", ".git/x": "own"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    files = "find . -type f -not -path '*/.*' -printf '%P\\0' | LC_ALL=C sort -z"
    shell = f"{files} | xargs -0 sha256sum | sha256sum"
    said = subprocess.run(["bash", "-c", shell], cwd=tmp_path, capture_output=True, text=True)
    assert said.stdout.split()[0] == listing(FILES | deeper) == file_sha256(tmp_path)
    (tmp_path / "B.txt").write_text("other")
    assert file_sha256(tmp_path) == listing(FILES | deeper | {"B.txt": "other"})


def test_an_unpinned_folder_is_recorded_and_then_held_to_it(server: Server, tmp_path: Path) -> None:
    server.content = packed(FILES)
    unpinned = notes(server.url)
    assert status(unpinned, tmp_path) == "unpinned"
    record = tmp_path / "bench" / "in.sha256"
    assert record.read_text() == f"{listing(FILES)}  in\n"
    (tmp_path / "bench" / "in" / "B.txt").unlink()
    assert [s.status for s in verify(unpinned, tmp_path)] == ["mismatch"]


def test_a_changed_folder_is_told_and_never_deleted(server: Server, tmp_path: Path) -> None:
    server.content = packed(FILES)
    pinned = notes(server.url, listing(FILES))
    status(pinned, tmp_path)
    own = tmp_path / "bench" / "in" / "my own note.txt"
    own.write_text("kept")
    with pytest.raises(DataError, match="away .*data fetch bench"):
        open_dataset(pinned, "full", root=tmp_path)
    with pytest.raises(DataError, match="was published; move it"):
        status(pinned, tmp_path)
    assert own.read_text() == "kept"


def encrypted() -> bytes:
    """Return an archive whose members say that they are encrypted."""
    content = bytearray(packed(FILES))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = -1
        while (start := content.find(mark, start + 1)) >= 0:
            content[start + place] |= 1
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (packed(FILES | {"B.txt": "moved"}), "the source has changed"),
        (packed(FILES, folder="elsewhere"), "no file of the folder notes/in"),
        (b"<html>", "in.zip is not a whole"),
        (encrypted(), "in.zip is encrypted"),
    ],
)
def test_a_wrong_archive_leaves_nothing(
    server: Server, tmp_path: Path, content: bytes, told: str
) -> None:
    server.content = content
    pinned = notes(server.url, listing(FILES))
    with pytest.raises(DataError) as caught:
        status(pinned, tmp_path)
    assert told in str(caught.value) and "\n" not in str(caught.value)
    assert str(caught.value).startswith("bench: ")
    assert os.listdir(tmp_path / "bench") == []


def test_the_texts_of_a_folder_are_rows(tmp_path: Path) -> None:
    folder = tmp_path / "bench" / "in"
    folder.mkdir(parents=True)
    for name, data in {
        "b.txt": b"two\n",
        "a.txt": b"\xef\xbb\xbfone",
        ".a.txt": b"",
        "c": b"",
    }.items():
        (folder / name).write_bytes(data)
    source = SourceFile(name="in", folder="notes/in")
    plain = replace(notes(""), dataset=FileDataset(files=(source,)))
    rows = list(open_dataset(plain, "full", root=tmp_path).rows())
    assert rows == [{"name": "a", "text": "one"}, {"name": "b", "text": "two\n"}]
    (folder / "b.txt").write_bytes(b"na\xefve")
    with pytest.raises(DataError, match=r"bench: b\.txt: .*byte 2"):
        list(open_dataset(plain, "full", root=tmp_path).rows())


@pytest.mark.parametrize("is_link", [True, False])
def test_a_member_that_leads_out_is_named(server: Server, tmp_path: Path, is_link: bool) -> None:
    buffer = io.BytesIO(packed(FILES))
    with zipfile.ZipFile(buffer, "a") as archive:
        member = zipfile.ZipInfo("repo-abc/notes/in/" + ("passwd" if is_link else ".."))
        member.external_attr = (stat.S_IFLNK if is_link else stat.S_IFREG) << 16
        archive.writestr(member, "/etc/passwd")
    server.content = buffer.getvalue()
    with pytest.raises(DataError, match=r"^bench: in\.zip .*out of its folder"):
        status(notes(server.url), tmp_path)
    assert os.listdir(tmp_path / "bench") == []


def test_a_small_archive_of_much_is_not_unpacked(server: Server, tmp_path: Path) -> None:
    server.content = packed({"bomb.txt": "0" * (300 << 20)})
    assert len(server.content) < 1 << 20
    with pytest.raises(DataError, match="314,572,800 .*268,435,456"):
        status(notes(server.url), tmp_path)
    assert os.listdir(tmp_path / "bench") == [], "something was unpacked and left"


def test_a_member_that_is_longer_than_it_says_gives_no_more(tmp_path: Path) -> None:
    content = packed({"bomb.txt": "0" * 100_000})
    lying = content.replace((100_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    (tmp_path / "in.zip").write_bytes(lying)
    with pytest.raises(DataError, match="whole zip archive"):
        unpack_folder(tmp_path / "in.zip", "notes/in", tmp_path / "in", 1000)
    assert sum(f.stat().st_size for f in (tmp_path / "in").iterdir()) <= 1000


def test_no_damage_of_an_archive_is_a_traceback(tmp_path: Path) -> None:
    content, rng = packed(FILES), random.Random(4)
    path, failed = tmp_path / "in.zip", 0
    for n in range(1500):
        damaged = bytearray(content)
        for _ in range(rng.choice((1, 1, 3))):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged[: rng.choice((len(damaged), rng.randrange(len(damaged))))])
        try:
            unpack_folder(path, "notes/in", tmp_path / str(n), 1 << 20)
        except DataError as e:
            assert "\n" not in str(e)
            failed += 1
    assert 700 < failed < 1500
