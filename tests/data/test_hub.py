"""Data sets of the hub through the real `datasets`: a local folder, and a server on this machine."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from medhelm.data.dataset import open_dataset
from medhelm.data.fetch import fetch, verify
from medhelm.errors import DataError
from medhelm.proof.checks import is_data_present
from medhelm.schema.data import (
    Benchmark,
    FileDataset,
    HubDataset,
    HubSource,
    Instance,
    Row,
    SourceFile,
)
from tests import made
from tests.hub_server import REPO, Hub, serving
from tests.packages import THIRD_PARTY
from tests.quiz import medhelm

pytestmark = pytest.mark.slow

OLD, NEW = "a" * 40, "b" * 40
CARD = b"""---
configs:
- config_name: en
  data_files:
  - {split: test, path: en/test.csv}
  - {split: dev, path: en/dev.csv}
- config_name: de
  data_files:
  - {split: test, path: de/test.csv}
---
"""


def benchmark(dataset: FileDataset) -> Benchmark:
    def to_instance(row: Row) -> Instance:
        return Instance(id=row["id"], context=row["text"], references=("x",))

    return made.benchmark("bench", dataset=dataset, to_instance=to_instance, answer="text")


# A local folder --------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data set as its repository has it, and an empty cache."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "repository"
    for name, text in (("en/test", "n/a"), ("en/dev", "two"), ("de/test", "drei")):
        put(path / f"{name}.csv", f"id,text\n007,{text}\n")
    put(path / "README.md", CARD.decode())
    return path


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def read(own: Benchmark, root: Path, split: str | None = None) -> list[tuple[str, str]]:
    return [
        (i.id, i.context) for i in open_dataset(own, "full", split=split, root=root).instances()
    ]


def test_configuration_and_split_choose_the_rows_whose_cells_stay_texts(
    folder: Path, tmp_path: Path
) -> None:
    root = tmp_path / "data"
    english = benchmark(HubDataset(str(folder), revision=OLD, config="en", splits=("test", "dev")))
    assert not is_data_present(english, root)
    with pytest.raises(DataError, match="test.parquet .*medhelm data fetch bench"):
        open_dataset(english, "full", root=root)
    assert [s.status for s in fetch(english, root)] == ["unpinned", "unpinned"]
    assert is_data_present(english, root)
    assert read(english, root) == [("007", "n/a")]
    assert read(english, root, "dev") == [("007", "two")]
    german = benchmark(HubDataset(str(folder), revision=OLD, config="de"))
    assert not is_data_present(german, root), "the record is of another configuration"
    other = tmp_path / "other"
    fetch(german, other)
    assert read(german, other) == [("007", "drei")]
    hashes = {
        open_dataset(own, "full", split=split, root=where).sha256
        for own, split, where in ((english, "test", root), (english, "dev", root))
        + ((german, "test", other),)
    }
    assert len(hashes) == 3
    identity = f"{folder}\n{OLD}\nen\ntest\n"  # as it was before there were records
    assert hashlib.sha256(identity.encode()).hexdigest() in hashes


def test_a_changed_file_is_refused_and_a_damaged_cache_replaced(
    folder: Path, tmp_path: Path
) -> None:
    root = tmp_path / "data"
    own = benchmark(HubDataset(str(folder), revision=OLD, config="en"))
    (status,) = fetch(own, root)
    cached = status.path
    assert cached.is_relative_to(tmp_path / "cache")
    cached.write_bytes(cached.read_bytes().replace(b"n/a", b"n/b"))
    assert [s.status for s in verify(own, root)] == ["mismatch"]
    with pytest.raises(DataError, match="that were fetched; .*medhelm data fe"):
        open_dataset(own, "full", root=root)
    assert [s.status for s in fetch(own, root)] == ["unpinned"]
    assert read(own, root) == [("007", "n/a")]
    (before,) = root.glob("bench/*.hub")
    cached.unlink()
    assert not is_data_present(own, root)
    put(folder / "en" / "test.csv", "id,text\n007,another text\n")
    with pytest.raises(DataError, match="delete .*test.parquet.hub"):
        fetch(own, root)
    before.unlink()
    fetch(own, root)
    assert read(own, root) == [("007", "another text")]


@pytest.mark.parametrize("is_pinned", [True, False])
def test_a_file_from_the_hub_has_the_hash_of_the_file_laid_beside(
    is_pinned: bool, folder: Path, tmp_path: Path
) -> None:
    """So that answers to a file that a user holds stay those of the file from the hub."""
    content = (folder / "en" / "test.csv").read_bytes()
    pin = hashlib.sha256(content).hexdigest() if is_pinned else ""
    hub = HubSource(repo=str(folder), revision=OLD, file="en/test.csv")
    source = SourceFile(name="questions.csv", sha256=pin, hub=hub)
    own = benchmark(FileDataset(files=(source,)))
    fetch(own, tmp_path / "data")
    beside = put(tmp_path / "held" / "bench" / "questions.csv", content.decode())
    opened = [open_dataset(own, "full", root=r) for r in (tmp_path / "data", tmp_path / "held")]
    assert opened[0].sha256 == opened[1].sha256
    assert [*opened[0].instances()] == [*opened[1].instances()]
    put(tmp_path / "data" / "bench" / "questions.csv", "id,text\n1,laid beside\n")
    if is_pinned:
        with pytest.raises(DataError, match="move it away"):
            fetch(own, tmp_path / "data")
    else:
        assert read(own, tmp_path / "data") == [("1", "laid beside")]
    assert beside.is_file()
    wrong = benchmark(FileDataset(files=(SourceFile(name="q.csv", sha256="0" * 64, hub=hub),)))
    with pytest.raises(DataError, match="expected 000000000000"):
        fetch(wrong, tmp_path / "wrong")


# A server --------------------------------------------------------------------------------------

PLUGIN = (THIRD_PARTY / "medhelm_example" / "medhelm_example" / "wards.py").read_text("utf-8")
PLUGIN = PLUGIN.replace('"0" * 40', '"REVISION"')


ONE_BY_ONE = """
import shlex, sys
from medhelm.cli import run_command
for line in sys.argv[1:]:
    assert run_command(shlex.split(line)) == 0, line
    print(flush=True)
"""


def commands(where: Path, hub: Hub, *lines: str) -> str:
    """Run commands of medhelm in one process that takes the server for the hub; return what they print."""
    return process(where, hub, "-c", ONE_BY_ONE, *lines)


def process(where: Path, hub: Hub, *argv: str, code: int = 0, **more: str) -> str:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("HF_")}
    environ |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(where / "home"), "HF_HUB_DISABLE_XET": "1"}
    environ |= {"MEDHELM_DATA_DIR": str(where / "data"), "HF_HUB_DISABLE_TELEMETRY": "1", **more}
    done = subprocess.run(
        [sys.executable, *argv], cwd=where, env=environ, capture_output=True, text=True
    )
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr and "Warning" not in done.stderr
    return done.stdout if "json" in " ".join(argv) else done.stdout + done.stderr


def test_a_pinned_revision_is_fetched_once_and_what_it_would_cost_is_told(tmp_path: Path) -> None:
    plugin = put(tmp_path / "wards.py", PLUGIN.replace("REVISION", OLD))
    fetching = f"data fetch wards --plugin {plugin} --format json"
    files = {
        OLD: {"README.md": CARD, "en/test.csv": b"id,text\n1,Old?\n", "en/dev.csv": b"id,text\n"},
        NEW: {"README.md": CARD, "en/test.csv": b"id,text\n1,New?\n", "en/dev.csv": b"id,text\n"},
    }
    for commit in files.values():
        commit["de/test.csv"] = b"id,text\n"
    with serving(files) as hub:
        (line,) = json.loads(commands(tmp_path, hub, f"{fetching} --dry-run"))["files"]
        assert (line["status"], line["bytes"]) == ("missing", len(files[OLD]["en/test.csv"]))
        place = f"{REPO} at {OLD}, configuration en, split test"
        assert line["source"] == f"Hugging Face dataset {place}"
        assert not (tmp_path / "data").exists()
        assert not any("resolve" in path and path.endswith(".csv") for path in hub.log)
        (line,) = json.loads(commands(tmp_path, hub, fetching))["files"]
        assert line["status"] == "unpinned"
        commits = {c for path in hub.log for c in files if f"/{c}" in path}
        assert commits == {OLD} and all(f"/{OLD}" in path for path in hub.log)
        asked = len(hub.log)
        checking = f"validate wards --data full --plugin {plugin}"
        said = commands(
            tmp_path,
            hub,
            f"data fetch wards --plugin {plugin}",
            f"run model=baseline/random benchmark=wards plugins=[{plugin}]",
            checking,
        )
        assert "1 of 1" in said and "1 instances" in said
        assert len(hub.log) == asked, "what was fetched is read from the cache"
    put(plugin, PLUGIN.replace("REVISION", NEW))
    put(tmp_path / "data" / "wards" / "test.csv", "id,text\n1,Beside?\n2,More?\n")
    beside = medhelm(*checking.split(), env={"MEDHELM_DATA_DIR": str(tmp_path / "data")})
    assert "2 instances" in beside.stdout, "a file laid beside needs no hub"


def test_another_revision_in_the_cache_is_not_taken_for_the_one_asked_for(tmp_path: Path) -> None:
    """As `datasets` does where the hub cannot be reached."""
    plugin = put(tmp_path / "wards.py", "")
    fetching = ("-m", "medhelm", "data", "fetch", "wards", "--plugin", str(plugin))
    with serving({OLD: {"test.jsonl": b'{"id": "1", "text": "Old?"}\n'}}) as hub:
        put(plugin, PLUGIN.replace("REVISION", OLD).replace(', config="en"', ""))
        assert "unpinned" in process(tmp_path, hub, *fetching)
    put(plugin, plugin.read_text().replace(OLD, NEW))
    said = process(tmp_path, hub, *fetching, code=3, HF_HUB_OFFLINE="1")
    assert f"{REPO} at {NEW}, split" in said and "was not reached" in said
    assert "put test.parquet into" in said


def test_a_folder_of_the_repositorys_name_is_not_taken_for_it(tmp_path: Path) -> None:
    plugin = put(tmp_path / "wards.py", PLUGIN.replace("REVISION", OLD))
    put(tmp_path / REPO / "en" / "test.csv", "id,text\n1,Mine?\n")
    put(tmp_path / REPO / "README.md", CARD.decode().partition("- config_name: de")[0] + "---\n")
    put(tmp_path / REPO / "en" / "dev.csv", "id,text\n")
    with serving({}) as hub:
        argv = ("-m", "medhelm", "data", "fetch", "wards", "--plugin", str(plugin))
        said = process(tmp_path, hub, *argv, code=3, HF_HUB_OFFLINE="1")
        assert "was not reached" in said
