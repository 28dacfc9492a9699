import csv
import hashlib
import io
import json
import math
import re
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from medhelm.data.dataset import (
    Dataset,
    RowCounts,
    find_duplicate_ids,
    is_redistributable,
    open_dataset,
)
from medhelm.data.fetch import verify
from medhelm.data.instance_ids import copies_note, hash64
from medhelm.data.readers import read_csv
from medhelm.errors import DataError, PluginError, UnknownName
from medhelm.proof.checks import is_data_present
from medhelm.schema.data import (
    Benchmark,
    FileDataset,
    HubDataset,
    Instance,
    LeftOut,
    Row,
    SourceFile,
)
from tests import made


def to_instance(row: Row) -> Instance | LeftOut:
    if row.get("skip"):
        return LeftOut(row["skip"])
    return Instance(
        id=row.get("id", ""),
        context=row["context"],
        choices=tuple(row.get("choices", ())),
        references=tuple(row.get("references", ("gold",))),
    )


def benchmark(*names: str, **changes: Any) -> Benchmark:
    files = FileDataset(files=tuple(SourceFile(name=n) for n in names))
    own = {"dataset": files, "to_instance": to_instance, "answer": "text"}
    return made.benchmark("bench", **{**own, **changes})


def put(root: Path, name: str, content: str | bytes) -> Path:
    path = root / "bench" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def jsonl(root: Path, *rows: dict[str, Any], name: str = "test.jsonl", **changes: Any) -> Dataset:
    put(root, name, "".join(json.dumps(row) + "\n" for row in rows))
    return open_dataset(benchmark(name, **changes), "full", root=root)


def failure(action: Callable[[], object]) -> str:
    with pytest.raises(DataError) as caught:
        action()
    message = str(caught.value)
    assert "\n" not in message
    assert "secret" not in message
    assert caught.value.__cause__ is None
    return message


# Readers -----------------------------------------------------------------------------------


def test_csv_keeps_every_cell_as_text(tmp_path: Path) -> None:
    put(
        tmp_path,
        "test.csv",
        b'\xef\xbb\xbfcontext,gold\r\n"a, ""b""\r\nc",n/a\r\nNA,007\r\nnan,\r\n',
    )
    rows = list(open_dataset(benchmark("test.csv"), "full", root=tmp_path).rows())
    assert rows == [
        {"context": 'a, "b"\r\nc', "gold": "n/a"},
        {"context": "NA", "gold": "007"},
        {"context": "nan", "gold": ""},
    ]


def test_the_readers_agree(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    rows = [{"context": f"é {n}\u2028x", "gold": "n/a"} for n in range(700)]
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, ["context", "gold"])
    writer.writeheader()
    writer.writerows(rows)
    put(tmp_path, "a.csv", text.getvalue())
    put(tmp_path, "a.jsonl", "\n\n".join(json.dumps(r, ensure_ascii=False) for r in rows))
    put(tmp_path, "a.json", "\ufeff" + json.dumps(rows))
    parquet.write_table(
        pyarrow.Table.from_pylist(rows), tmp_path / "bench" / "a.parquet", row_group_size=100
    )
    for name in ("a.csv", "a.jsonl", "a.json", "a.parquet"):
        dataset = open_dataset(benchmark(name), "full", root=tmp_path)
        assert list(dataset.rows()) == rows, name
        assert list(dataset.rows()) == rows, "a second reading starts anew"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "context\nok\nx,secret\n", "a.csv, row 2: 2 cells, the header has 1"),
        ("a.csv", "context,b\nsecret\n", "a.csv, row 1: 1 cells, the header has 2"),
        ("a.csv", 'context\nok\n"secret\n', "a.csv, row 2: not CSV"),
        ("a.csv", "secret,secret\n1,2\n", "a.csv: a column name is there twice"),
        ("a.csv", b"context\nab\xe9secret\n", "a.csv: not UTF-8 at byte 10;"),
        ("a.csv", b"context\nsecret\n\xe9", "a.csv: not UTF-8 at byte 15;"),
        ("a.jsonl", b'{"context":"a"}\n\n{"context":"\xff"}\n', "row 3: not UTF-8 at byte 29"),
        ("a.jsonl", '{"context":"a"}\n{"context":NaN}\n', "row 2: not JSON .*NaN and inf"),
        ("a.jsonl", '{"context":-Infinity}\n', "row 1: not JSON .*NaN and inf"),
        ("a.jsonl", '{"context":1e999}\n', "row 1: not JSON"),
        ("a.jsonl", '{"context":"secret\n', "row 1: not JSON"),
        (
            "a.jsonl",
            '{"context":"a"}\n{"context":"secret","context":"b"}\n',
            "row 2: key 'context' is there twice in one object",
        ),
        ("a.json", '[{"context":"a","x":{"y":"secret","y":1}}]', "a.json: key 'y' is there twice"),
        ("a.jsonl", '["secret"]\n', "row 1: holds a list, expected an object"),
        ("a.json", '{"secret": 1}', "a.json: holds an object, expected a list"),
        ("a.json", '[{"context":"a"}, null]', "a.json, row 2: holds null, expected an object"),
        ("a.json", '["secret"]', "row 1: holds a text"),
        ("a.json", "[1.5]", "row 1: holds a number"),
        ("a.json", "[true]", "row 1: holds a truth value"),
        ("a.parquet", "secret", "a.parquet: not readable as Parquet"),
        ("a.xlsx", "secret", "a.xlsx: not readable as xlsx"),
        ("a.ods", "secret", "a.ods: no reader for .ods, only .csv, .tsv, .jsonl"),
    ],
)
def test_damaged_files_name_the_place(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    put(tmp_path, name, content)
    dataset = open_dataset(benchmark(name), "full", root=tmp_path)
    told = failure(lambda: list(dataset.rows()))
    assert told.startswith("bench: ")
    assert re.search(message, told), told


def test_the_byte_is_counted_over_blocks(tmp_path: Path) -> None:
    put(tmp_path, "a.csv", b"context\n" + "é".encode() * (1 << 20) + b"\xe9 x\n")
    dataset = open_dataset(benchmark("a.csv"), "full", root=tmp_path)
    assert f"byte {8 + (2 << 20)};" in failure(lambda: list(dataset.rows()))


def test_columns_that_a_spreadsheet_left_behind_hold_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("case,rating,,\nA,9,, \n")
    assert [row for _, row in read_csv(path)] == [{"case": "A", "rating": "9", "": " "}]
    path.write_text("case,rating,,\nA,9,,8\n")
    with pytest.raises(DataError, match="row 1: .*without a name"):
        list(read_csv(path))
    path.write_text(",case\n0,A\n")  # an index, as many upstream files have one
    assert [row for _, row in read_csv(path)] == [{"": "0", "case": "A"}]
    path.write_text("case,case\nA,B\n")
    with pytest.raises(DataError, match="is there twice"):
        list(read_csv(path))


def test_cells_longer_than_the_csv_modules_limit(tmp_path: Path) -> None:
    put(tmp_path, "a.csv", "context\n" + "x" * 300_000 + "\n")
    (instance,) = open_dataset(benchmark("a.csv"), "full", root=tmp_path).instances()
    assert len(instance.context) == 300_000


def test_an_empty_file_has_no_instance(tmp_path: Path) -> None:
    for name in ("a.csv", "a.jsonl"):
        put(tmp_path, name, "")
        instances = open_dataset(benchmark(name), "full", root=tmp_path).instances
        assert "split 'test' has no" in failure(partial(next, instances()))


# Instances ---------------------------------------------------------------------------------


def test_ids_of_the_source_are_kept_and_rows_left_out(tmp_path: Path) -> None:
    dataset = jsonl(
        tmp_path, {"id": "p/1", "context": "a"}, {"skip": "old"}, {"id": "p/2", "context": "a"}
    )
    assert [i.id for i in dataset.instances()] == ["p/1", "p/2"]


def test_a_missing_id_is_a_hash_of_the_content_and_copies_are_counted(tmp_path: Path) -> None:
    rows = [{"context": c} for c in ("a", "b", "a", "a", "c", "c")]
    counts = RowCounts()
    ids = [i.id for i in jsonl(tmp_path, *rows).instances(counts)]
    parts = [b"0", b"a", b"", b"gold"]  # number of choices, context, question, reference
    framed = b"".join(len(p).to_bytes(8, "big") + p for p in parts)
    assert ids[0] == hashlib.sha256(framed).hexdigest()[:16]
    assert ids[2:4] == [f"{ids[0]}-2", f"{ids[0]}-3"]
    assert len(set(ids)) == 6
    other_order = jsonl(tmp_path, *rows[::-1], name="b.jsonl")
    assert sorted(i.id for i in other_order.instances()) == sorted(ids)
    assert counts.copies == {ids[0]: 2, ids[4]: 1}
    note = copies_note(counts.copies)
    assert note.startswith("3 row(s) repeat the content of 2 other(s) and have no ids")
    assert copies_note(Counter()) == ""


def test_content_cannot_move_between_fields(tmp_path: Path) -> None:
    rows = [
        {"context": "a", "references": ["b", "c"]},
        {"context": "a", "references": ["bc"]},
        {"context": "ab", "references": ["c"]},
        {"context": "a", "choices": ["b", "c"], "references": ["A"]},
        {"context": "a", "choices": ["b"], "references": ["A"]},
    ]
    assert len({i.id for i in jsonl(tmp_path, *rows).instances()}) == len(rows)


def bad(**fields: Any) -> Callable[[Row], Any]:
    return lambda row: Instance(**({"context": "secret", "references": ("gold",)} | fields))


@pytest.mark.parametrize(
    ("mapper", "answer", "message"),
    [
        (bad(context=" ", question="\n"), "text", "context and question are both empty"),
        (bad(), "choice", "choices: there are 0 options, expected 1 to 26"),
        (bad(choices=("secret",) * 27), "choice", "choices: there are 27 options"),
        (bad(choices=("secret", " ")), "choice", "choices: an option is empty"),
        (bad(choices=("a", "b"), references=("C",)), "choice", "not a letter of the 2 options"),
        (bad(choices=("a", "b"), references=("AB",)), "choice", "not a letter of the 2 options"),
        (bad(choices=("a", "b"), references=("",)), "choice", "not a letter of the 2 options"),
        (bad(choices=("a", "b"), references=("a",)), "choice", "not a letter of the 2 options"),
        (bad(choices=("a", "b"), references=()), "choice", "references: there is no gold"),
        (bad(references=()), "number", "references: there is no gold"),
        (bad(references=(" ",)), "number", "references: there is no gold"),
        (bad(references=("nan",)), "number", "references: a gold is not a finite number"),
        (bad(references=("1", "-Infinity")), "number", "a gold is not a finite number"),
        (bad(references=("secret",)), "labels", r"references: 1 label\(s\) are not among"),
        (bad(context=None), "text", "context: expected `str`, got `null`"),
        (bad(choices="secret"), "text", "choices: expected `array`, got `str`"),
        (bad(metadata={"a": math.nan}), "text", r"metadata\[...\]: expected `str`"),
        (bad(answer_key={"a": 1}), "text", r"answer_key\[...\]: expected `str`, got `int`"),
        (bad(cluster=3), "text", r"cluster: expected `str \| null`, got `int`"),
        (bad(context="secret \ud800"), "text", "half of a surrogate pair"),
        (bad(context=object()), "text", "wrong type .*object"),
        (
            lambda row: "secret",
            "text",
            "to_instance gave str, not an Instance, or LeftOut",
        ),
        (lambda row: row["lost"], "text", "there is no column 'lost'"),
        (lambda row: {}[row["context"]], "text", "to_instance failed: KeyError at test_dataset.py"),
        (lambda row: int(row["context"]), "text", "to_instance failed: ValueError at test_data"),
    ],
)
def test_an_instance_that_cannot_be_asked_or_scored(
    tmp_path: Path, mapper: Callable[[Row], Any], answer: Any, message: str
) -> None:
    rows = ({"context": "fine"}, {"context": "secret"})

    def mapped(row: Row) -> Any:
        if row["context"] != "fine":
            return mapper(row)
        choices, gold = (("a",), "A") if answer == "choice" else ((), "1")
        return Instance(context="fine", choices=choices, references=(gold,))

    dataset = jsonl(tmp_path, *rows, to_instance=mapped, answer=answer, labels=("1",))
    told = failure(lambda: list(dataset.instances()))
    assert told.startswith("bench: test.jsonl, row 2: ")
    assert re.search(message, told), told


def test_an_empty_reference_is_no_gold(tmp_path: Path) -> None:
    rows = ({"context": "a", "references": [""]}, {"context": "b", "references": [" ", "x", ""]})
    for answer in ("text", "labels"):
        dataset = jsonl(tmp_path, *rows, answer=answer, name=f"{answer}.jsonl")
        assert [i.references for i in dataset.instances()] == [(), ("x",)]


def test_a_plugins_own_data_error_gets_its_place(tmp_path: Path) -> None:
    def mapper(row: Row) -> Instance:
        raise DataError("ra names no answer")

    dataset = jsonl(tmp_path, {"context": "x"}, to_instance=mapper)
    assert failure(lambda: list(dataset.instances())) == (
        "bench: test.jsonl, row 1: ra names no answer"
    )


def test_what_is_allowed(tmp_path: Path) -> None:
    dataset = jsonl(
        tmp_path,
        {"context": "a", "choices": ["same", "same"], "references": ["A", "B"]},
        {"context": "a", "choices": [str(n) for n in range(26)], "references": ["Z"]},
        {"context": "x" * 100_000 + " {context} \x00", "references": []},
    )
    instances = list(dataset.instances())
    assert instances[0].choices == ("same", "same")
    assert instances[1].references == ("Z",)
    assert instances[2].context.endswith("x {context} \x00")


# Ids that repeat, memory -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "found", "hashed"),
    [
        (["a", "b", "a", "c", "b", "a"], ["a", "b"], hash64),
        (["a"], [], hash64),
        (["aa", "bb", "c", "aa"], ["aa"], len),  # equal hashes of different ids
    ],
)
def test_duplicate_ids_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], found: list[str], hashed: Any
) -> None:
    monkeypatch.setattr("medhelm.data.dataset.hash64", hashed)
    rows = ({"id": n, "context": "x"} for n in names)
    assert find_duplicate_ids(jsonl(tmp_path, *rows)) == found


@pytest.mark.slow
def test_memory_does_not_grow_with_the_data(tmp_path: Path) -> None:
    n = 8_000

    def rows(paths: Sequence[Path], split: str) -> Iterator[Row]:
        return ({"context": f"{k} " + "x" * 500} for k in range(n))

    put(tmp_path, "a.x", "")
    own = FileDataset(files=(SourceFile(name="a.x"),), read=rows)
    dataset = open_dataset(benchmark(dataset=own), "full", root=tmp_path)
    next(dataset.instances())
    tracemalloc.start()
    try:
        assert sum(1 for _ in dataset.instances()) == n
        _, peak = tracemalloc.get_traced_memory()
        assert peak < 40 * n, "the table of hashes while it doubles, nothing else"
        tracemalloc.reset_peak()
        assert find_duplicate_ids(dataset) == []
        _, peak = tracemalloc.get_traced_memory()
        assert peak < 80 * n
    finally:
        tracemalloc.stop()


# Files and splits --------------------------------------------------------------------------


def test_a_missing_file_names_the_command_or_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_url = SourceFile(name="a.csv", url="https://example.org/a.csv")
    with_url = benchmark(dataset=FileDataset(files=(by_url,)))
    told = failure(lambda: open_dataset(with_url, "full", root=tmp_path))
    assert told.endswith(f"a.csv is missing; run `medhelm data fetch bench --data-dir {tmp_path}`")
    monkeypatch.setenv("MEDHELM_DATA_DIR", str(tmp_path))
    told = failure(lambda: open_dataset(with_url, "full", root=tmp_path))
    assert told.endswith("a.csv is missing; run `medhelm data fetch bench`")
    told = failure(lambda: open_dataset(benchmark("sub/a.csv"), "full", root=tmp_path))
    assert told.endswith(f"is missing; put a.csv into {tmp_path / 'bench' / 'sub'}")


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", "context\nx\n")
    right = hashlib.sha256(path.read_bytes()).hexdigest()
    source = SourceFile(name="a.csv", url="https://example.org/a.csv", sha256=right)
    pinned = benchmark(dataset=FileDataset(files=(source,)))
    assert len(list(open_dataset(pinned, "full", root=tmp_path).instances())) == 1
    by_hand = benchmark("a.csv")
    put(tmp_path, "a.csv.sha256", f"{right}  a.csv\n")
    open_dataset(by_hand, "full", root=tmp_path)
    path.write_text("context\nother\n")
    told = failure(lambda: open_dataset(by_hand, "full", root=tmp_path))
    assert "put the right file" in told, "an unpinned file is held to its record"
    wrong = hashlib.sha256(path.read_bytes()).hexdigest()
    told = failure(lambda: open_dataset(pinned, "full", root=tmp_path))
    assert f"sha256 {wrong[:12]}..., expected {right[:12]}..." in told
    assert told.endswith("to replace it")


@pytest.mark.parametrize("name", ["../a.csv", "/etc/passwd", "x/../../a.csv", ""])
def test_file_names_stay_in_their_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(PluginError, match="leaves its folder"):
        open_dataset(benchmark(name), "full", root=tmp_path)


def test_splits_by_file_name(tmp_path: Path) -> None:
    names = ("test-00000.jsonl", "test-00001.jsonl", "tests.jsonl", "dev.jsonl")
    for name in names:
        put(tmp_path, name, json.dumps({"context": name}))
    files = tuple(SourceFile(name=n) for n in names)
    two = benchmark(dataset=FileDataset(files=files, splits=("test", "dev", "train")))

    def contexts(split: str | None) -> list[str]:
        dataset = open_dataset(two, "full", split=split, root=tmp_path)
        return [i.context for i in dataset.instances()]

    assert contexts(None) == ["test-00000.jsonl", "test-00001.jsonl"]
    assert contexts("dev") == ["dev.jsonl"]
    with pytest.raises(PluginError, match="of split 'train'"):
        contexts("train")
    with pytest.raises(UnknownName, match="'tset'.* 'test'"):
        contexts("tset")


def test_the_hash_of_a_data_set(tmp_path: Path) -> None:
    def read(paths: Sequence[Path], split: str) -> Iterator[Row]:
        return iter(({"context": split},))

    def sha(split: str, *names: str) -> str:
        files = tuple(SourceFile(name=n) for n in names)
        dataset = FileDataset(files=files, splits=("test", "all"), read=read)
        return open_dataset(benchmark(dataset=dataset), "full", split=split, root=tmp_path).sha256

    put(tmp_path, "a", "1")
    put(tmp_path, "b", "1")
    put(tmp_path, "c", "2")
    different = {sha("test", "a"), sha("all", "a"), sha("test", "b"), sha("test", "a", "c")}
    assert len(different) == 4
    before = sha("test", "a")
    put(tmp_path, "a", "3")
    assert sha("test", "a") != before
    put(tmp_path, "a", "1")
    assert sha("test", "a") == before


def test_a_benchmarks_own_reader_that_fails(tmp_path: Path) -> None:
    def read(paths: Sequence[Path], split: str) -> Iterator[Row]:
        yield {"context": "x"}
        yield from json.loads(paths[0].read_text(encoding="utf-8"))

    def told(content: bytes) -> str:
        put(tmp_path, "a.txt", content)
        files = (SourceFile(name="a.txt"),)
        own = benchmark(dataset=FileDataset(files=files, read=read), origin=__file__)
        dataset = open_dataset(own, "full", root=tmp_path)
        return failure(lambda: list(dataset.instances()))

    begin = "bench: a.txt cannot be read behind row 1: "
    assert told(b"secret").startswith(begin + "JSONDecodeError at test_dataset.py line ")
    assert told(b"secret \xff") == begin + "not UTF-8 at byte 7"


# Samples and hub ---------------------------------------------------------------------------


def test_samples(tmp_path: Path) -> None:
    plugin = tmp_path / "bench.py"
    beside = benchmark("a.csv", origin=str(plugin))
    told = failure(lambda: open_dataset(beside, "sample", root=tmp_path))
    assert str(tmp_path / "samples" / "bench.jsonl") in told
    (tmp_path / "samples").mkdir()
    path = tmp_path / "samples" / "bench.jsonl"
    path.write_text('{"context": "synthetic"}\n')
    dataset = open_dataset(beside, "sample", root=tmp_path)
    assert [i.context for i in dataset.instances()] == ["synthetic"]
    assert dataset.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (dataset.data, dataset.split) == ("sample", "test")
    own = benchmark("a.csv", samples=path)
    assert len(list(open_dataset(own, "sample", root=tmp_path).rows())) == 1


HUB = HubDataset("owner/name", revision="abc123", splits=("test", "dev"))


def test_a_hub_data_set_from_files_brought_by_hand(tmp_path: Path) -> None:
    put(tmp_path, "test-00000-of-00001.jsonl", '{"context": "by hand"}\n')
    put(tmp_path, "dev.jsonl", '{"context": "dev"}\n')
    hub = benchmark(dataset=HUB)
    first = open_dataset(hub, "full", root=tmp_path)
    assert [i.context for i in first.instances()] == ["by hand"]
    held = hashlib.sha256(b'{"context": "by hand"}\n').hexdigest()
    name = "test-00000-of-00001.jsonl"
    identity = f"owner/name\nabc123\n\ntest\n{held}  {name}\n"
    assert first.sha256 == hashlib.sha256(identity.encode()).hexdigest()
    put(tmp_path, name, '{"context": "other"}\n')
    assert open_dataset(hub, "full", root=tmp_path).sha256 != first.sha256


def test_each_source_says_whether_its_text_may_be_republished(tmp_path: Path) -> None:
    tiers = FileDataset(
        files=(
            SourceFile(name="low.csv", splits=("low",)),
            SourceFile(name="high.csv", splits=("high",), redistributable=False),
        ),
        splits=("low", "high"),
    )
    for is_free in (True, False):
        own = benchmark(dataset=tiers, redistributable=is_free)
        found = [is_redistributable(own, "full", split, "") for split in tiers.splits]
        assert found == [is_free, False]
        assert is_redistributable(own, "sample", "low", "") is is_free
    hub = benchmark(dataset=HUB, redistributable=True)
    fetched = hashlib.sha256(b"owner/name\nabc123\n\ntest\n").hexdigest()
    assert is_redistributable(hub, "full", "test", fetched)
    put(tmp_path, "test.jsonl", '{"context": "a patient of ours"}\n')
    by_hand = open_dataset(hub, "full", root=tmp_path).sha256
    assert not is_redistributable(hub, "full", "test", by_hand)


def test_where_hub_data_lie_is_one_truth(tmp_path: Path) -> None:
    hub = benchmark(dataset=HUB)
    assert not is_data_present(hub, tmp_path)
    assert [(s.name, s.status) for s in verify(hub, tmp_path)] == [("test.parquet", "missing")]
    first = put(tmp_path, "test-00000-of-00002.jsonl", '{"context": "one"}\n')
    second = put(tmp_path, "test-00001-of-00002.jsonl", '{"context": "two"}\n')
    assert is_data_present(hub, tmp_path) and not is_data_present(hub, tmp_path, "dev")
    assert len(list(open_dataset(hub, "full", root=tmp_path).instances())) == 2
    found = verify(hub, tmp_path)
    assert [(s.path, s.status) for s in found] == [(first, "unpinned"), (second, "unpinned")]
    assert found[0].sha256 == hashlib.sha256(first.read_bytes()).hexdigest()
    dev = put(tmp_path, "dev.csv", "context\nthree\n")
    assert is_data_present(hub, tmp_path, "dev") and verify(hub, tmp_path)[2].path == dev
