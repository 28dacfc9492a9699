"""Run folders: what is written is read back, damage is found, nothing answered is lost."""

from __future__ import annotations

import errno
import os
import random
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medhelm.errors import RecordError, RunLocked
from medhelm.files.durable import AtomicFile
from medhelm.models.identity import identity
from medhelm.schema.data import Criterion, Instance, Rubric
from medhelm.schema.episode import Episode, Finish, Response, Usage
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import GradingSpec, JurySpec, JuryTerms, RunSpec
from medhelm.store import records, runlog
from medhelm.store.loglines import encode_line, episode_keys
from medhelm.store.records import Plan, request_hash
from medhelm.store.runlog import RunFolder

MODEL = ModelSpec(name="openai/x", model="x", base_url="http://127.0.0.1:1/v1")
SPEC = RunSpec(
    benchmark="headqa",
    benchmark_version="1",
    data="sample",
    split="sample",
    dataset_sha256="0" * 64,
    prompt_name="multiple_choice",
    prompt_version="1",
    prompt_sha256="1" * 64,
    model=MODEL,
    max_output_tokens=64,
)


def episode(id: str, text: str = "A", finish: Finish = "stop", repeat: int = 0) -> Episode:
    return Episode(
        instance=Instance(id=id, context="c"),
        response=Response(instance_id=id, repeat=repeat, text=text, finish=finish),
    )


def key(id: str) -> int:
    return episode_keys(Instance(id=id, context="c"), 1)[0]


def write_run(path: Path, episodes: list[Episode]) -> Path:
    folder = RunFolder(path)
    folder.open()
    for e in episodes:
        folder.append(e)
    folder.close()
    return path / "responses.jsonl"


def scanned(path: Path) -> Any:
    """Return what is found when a folder is opened."""
    folder = RunFolder(path)
    scan = folder.open()
    folder.close()
    return scan


def read_texts(path: Path, cut: int | None = None) -> dict[tuple[str, int], str]:
    plan = Plan(spec=SPEC, request_hash="h", instances=0, cut=cut)
    return {
        (e.instance.id, e.response.repeat): e.response.text
        for e in runlog.read_episodes(path, plan)
    }


@pytest.mark.slow
@given(st.lists(st.tuples(st.text(min_size=1, max_size=20), st.text(max_size=200)), max_size=20))
def test_whatever_the_text_is_it_is_read_back_and_the_last_line_of_an_instance_counts(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("run")
    write_run(path, [episode(i, t) for i, t in pairs])
    assert read_texts(path) == {(i, 0): t for i, t in pairs}


def test_answered_and_failed_episodes_are_told_apart(tmp_path: Path) -> None:
    write_run(
        tmp_path,
        [
            episode("a"),
            episode("b", finish="error"),
            episode("c", finish="length"),
            episode("d", finish="refusal"),
            episode("e", finish="oversize"),
            episode("b2", finish="error"),
            episode("b2"),
        ],
    )
    scan = scanned(tmp_path)
    assert scan.answered == {key(i) for i in ("a", "c", "d", "b2")}
    assert (scan.torn, scan.quarantined) == (0, 0)


@pytest.mark.parametrize("left", [1, 10, -2, -1])
def test_a_torn_last_line_is_dropped_and_counted(tmp_path: Path, left: int) -> None:
    log = write_run(tmp_path, [episode("a"), episode("b")])
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(lines[0] + lines[1][:left])
    folder = RunFolder(tmp_path)
    scan = folder.open()
    folder.append(episode("b", "again"))
    folder.close()
    assert (scan.torn, scan.quarantined) == (1, 0)
    assert scan.answered == {key("a")}
    assert read_texts(tmp_path) == {("a", 0): "A", ("b", 0): "again"}


def test_any_single_damaged_byte_in_the_middle_is_found_and_set_aside(tmp_path: Path) -> None:
    """A flipped letter inside the text leaves valid JSON; only the checksum can tell."""
    good = [encode_line(episode(i, "the answer is B")) for i in "abc"]
    rng = random.Random(1)
    for n, position in enumerate(rng.sample(range(len(good[1]) - 1), 60)):
        path = tmp_path / str(n)
        path.mkdir()
        damaged = bytearray(good[1])
        damaged[position] ^= 1 << rng.randrange(7)
        if b"\n" in damaged[:-1]:
            continue  # becomes two lines; covered by the next test
        (path / "responses.jsonl").write_bytes(good[0] + bytes(damaged) + good[2])
        scan = scanned(path)
        assert scan.quarantined == 1, position
        assert scan.answered == {key("a"), key("c")}
        assert (path / "quarantine.jsonl").read_bytes() == bytes(damaged)
        assert (path / "responses.jsonl").read_bytes() == good[0] + good[2]


def test_garbage_of_any_kind_between_lines_never_hides_the_good_ones(tmp_path: Path) -> None:
    a, b = encode_line(episode("a")), encode_line(episode("b"))
    garbage = (
        b"\x00\xff\xfe\n\n{}\n[1]\n" + b'{"schema":1,"response":{}}\n' + a[: len(a) // 2] + b"\n"
    )
    (tmp_path / "responses.jsonl").write_bytes(a + garbage + b + b"torn")
    scan = scanned(tmp_path)
    assert scan.answered == {key("a"), key("b")}
    assert (scan.torn, scan.quarantined) == (1, 6)
    assert (tmp_path / "responses.jsonl").read_bytes() == a + b


def test_a_log_of_another_schema_is_refused_not_misread(tmp_path: Path) -> None:
    newer = msgspec.structs.replace(episode("a"), schema=99)
    (tmp_path / "responses.jsonl").write_bytes(encode_line(newer))
    with pytest.raises(RecordError, match="schema 99"):
        RunFolder(tmp_path).open()


def test_a_run_folder_has_one_writer(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.open()
    with pytest.raises(RunLocked, match=f"process {os.getpid()} on "):
        RunFolder(tmp_path).open()
    folder.close()
    scanned(tmp_path)


def test_the_lock_dies_with_its_process(tmp_path: Path) -> None:
    code = (
        "import sys, os, signal; from pathlib import Path; from medhelm.store.runlog import RunFolder\n"
        "RunFolder(Path(sys.argv[1])).open(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code, str(tmp_path)])
    assert killed.returncode == -9
    scanned(tmp_path)


UNTIL_FULL = """
import resource, signal, sys; from pathlib import Path
from medhelm.store.runlog import RunFolder
from medhelm.errors import RecordError
from tests.store.test_records import episode, read_texts
run, limit = Path(sys.argv[1]), int(sys.argv[2])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
folder = RunFolder(run); folder.open(); n = 0
try:
    while True: folder.append(episode(str(n), "x" * (300 if limit else 5000))); n += 1
except RecordError as e: print(e)
assert len(read_texts(run)) == n > 5
assert (run / "responses.jsonl").read_bytes().endswith(b"\\n")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "said"), [(5000, "everything answered before is kept"), (0, "the disk is full")]
)
def test_when_no_more_can_be_written_the_log_stays_whole(
    tmp_path: Path, limit: int, said: str
) -> None:
    """At a limit on file size, and on a full file system where this machine lets a test mount one."""
    command = f"exec {sys.executable} -c '{UNTIL_FULL}' {tmp_path}/r {limit}"
    if not limit:
        command = f"mount -t tmpfs -o size=256k none {tmp_path} && {command}"
    argv = [*("unshare", "-m") * (not limit), "sh", "-c", command]
    root = Path(__file__).parents[2]
    done = subprocess.run(argv, capture_output=True, text=True, cwd=root)
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_folders_and_files_are_private(tmp_path: Path) -> None:
    run = tmp_path / "results" / "runs" / "b" / "m" / "h"
    log = write_run(run, [episode("a")])
    for folder in (run, run.parent, run.parent.parent, tmp_path / "results"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(log.stat().st_mode) == 0o600


def test_an_atomic_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match="x"), AtomicFile(path) as handle:
        handle.write(b"new, half")
        raise ValueError("x")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]
    with AtomicFile(path) as handle:
        handle.write(b"new")
    assert path.read_bytes() == b"new"


def test_another_split_is_another_run_though_its_data_are_the_same() -> None:
    assert request_hash(msgspec.structs.replace(SPEC, split="all")) != request_hash(SPEC)


def test_the_request_hash_is_pinned_because_a_change_asks_every_model_again() -> None:
    assert request_hash(SPEC) == "b0748ac10e97de7d"
    held = msgspec.structs.replace(MODEL, json_schema=True)  # set only where a schema is sent
    assert request_hash(msgspec.structs.replace(SPEC, model=held)) == "f63c503a39dc618e"
    assert identity(held) == identity(MODEL), "a judge is the same"


JUDGE = ModelSpec(name="judge", model="judge", base_url="http://127.0.0.1:1/v1")
RUBRIC = Rubric(
    name="r", version="1", task="Rate.", criteria=(Criterion(name="accuracy", text="Right?"),)
)
JURY = JurySpec(name="j", judges=(JUDGE,))
TERMS = JuryTerms(jury=JURY, rubric=RUBRIC, version="1", instruction="Answer.")


def with_jury(**terms: object) -> GradingSpec:
    own = msgspec.structs.replace(TERMS, **terms)
    return GradingSpec(scoring="fixed", metrics=(), jury=own)


def jury(**fields: object) -> JurySpec:
    return msgspec.structs.replace(JURY, **fields)


OF_THE_PROMPT: list[dict[str, object]] = [
    {"rubric": msgspec.structs.replace(RUBRIC, task="Rate harshly.")},
    {"version": "2"},
    {"instruction": "Answer in one word."},
]
OF_A_VERDICT = [
    {"jury": jury(repairs=0)},
    {"jury": jury(reasons=False)},
    {"jury": jury(max_output_tokens=99)},
    *OF_THE_PROMPT,
]
OF_A_SCORE = [
    {"jury": jury(quorum=1)},
    {"jury": jury(judges=(msgspec.structs.replace(JUDGE, system_prompt="Be kind."),))},
    {"jury": jury(judges=(JUDGE, JUDGE))},
]


@pytest.mark.parametrize("terms", [*OF_A_SCORE, *OF_A_VERDICT])
def test_what_decides_a_jurys_score_makes_another_grading(terms: dict[str, object]) -> None:
    """With a quorum left out, a score of one judge would be taken for one of two."""
    assert records.grading_hash(with_jury(**terms)) != records.grading_hash(with_jury())


@pytest.mark.parametrize("judges", [(), (JUDGE,)])
@pytest.mark.parametrize("terms", OF_THE_PROMPT)
def test_rubric_and_prompt_decide_with_and_without_judges(
    judges: tuple[ModelSpec, ...], terms: dict[str, object]
) -> None:
    """The offline graders have no judge whose hash could hold the rubric."""
    before = with_jury(jury=jury(judges=judges))
    after = with_jury(jury=jury(judges=judges), **terms)
    assert records.grading_hash(before) != records.grading_hash(after)


@pytest.mark.parametrize(
    ("terms", "is_asked_again"),
    [
        ({"jury": jury(quorum=1)}, False),
        ({"jury": jury(name="other")}, False),
        ({"jury": jury(judges=(JUDGE, msgspec.structs.replace(JUDGE, name="b", model="b")))}, False),
        *((terms, True) for terms in OF_A_VERDICT),
    ],
)  # fmt: skip
def test_what_decides_a_verdict_asks_the_judge_again_and_nothing_else_does(
    terms: dict[str, object], is_asked_again: bool
) -> None:
    """With the repairs left out, an abstention after one try stays where three were asked for."""
    own = msgspec.structs.replace(TERMS, **terms)
    is_other = records.judge_hash(JUDGE, own) != records.judge_hash(JUDGE, TERMS)
    assert is_other == is_asked_again


def test_a_reasoning_judge_has_a_budget_of_its_own() -> None:
    thinking = msgspec.structs.replace(JUDGE, reasoning=True)
    own = jury(max_output_tokens=10, reasoning_output_tokens=500)
    assert [records.judge_budget(j, own) for j in (JUDGE, thinking)] == [10, 500]
    named = msgspec.structs.replace(thinking, max_output_tokens=77)
    assert records.judge_budget(named, own) == 77


def test_keys_of_instances_clusters_and_places_are_apart_and_follow_their_names() -> None:
    """A patient whose key is that of an instance would take that instance into its cluster."""
    keys = [records.instance_key("7"), records.cluster_key("x", "7"), records.order_key(0, "7")]
    assert len({*keys, records.order_key(1, "7"), records.cluster_key("x", "8")}) == 5
    assert records.cluster_key("7", None) == records.instance_key("7")
    assert records.cluster_key("y", "7") == records.cluster_key("x", "7")


def test_growing_the_number_of_instances_only_adds(tmp_path: Path) -> None:
    ids = [f"i{n}" for n in range(500)]
    ordered = sorted(ids, key=lambda i: records.order_key(7, i))
    write_run(tmp_path, [episode(i) for i in ids])
    spec = msgspec.structs.replace(SPEC, seed=7)
    for n in (1, 10, 499):
        plan = Plan(
            spec=spec, request_hash="h", instances=n, cut=records.order_key(7, ordered[n - 1])
        )
        assert {e.instance.id for e in runlog.read_episodes(tmp_path, plan)} == set(ordered[:n])


def test_a_model_name_makes_one_folder_below_the_results(tmp_path: Path) -> None:
    for name in ("a/b", "..", "a/../../etc", "x:7b", "ü", "a b"):
        spec = msgspec.structs.replace(SPEC, model=msgspec.structs.replace(MODEL, name=name))
        path = records.run_path(tmp_path, spec)
        assert path.resolve().is_relative_to(tmp_path / "runs" / "headqa")
        assert len(path.relative_to(tmp_path).parts) == 4


def test_unreadable_records_are_named(tmp_path: Path) -> None:
    for content, why in (
        (None, "summary.json"),
        (b"{nonsense", "not readable JSON"),
        (b'{"schema": 99}', "schema 99"),
        (b'{"schema": 1}', "missing required field"),
    ):
        if content:
            (tmp_path / "summary.json").write_bytes(content)
        with pytest.raises(RecordError, match=why):
            records.read_record(tmp_path)


def test_an_answer_that_the_server_cut_came_and_is_not_asked_again(tmp_path: Path) -> None:
    cut = episode("a", finish="oversize")
    usage = Usage(input_tokens=4096, output_tokens=3)
    cut = msgspec.structs.replace(cut, response=msgspec.structs.replace(cut.response, usage=usage))
    write_run(tmp_path, [cut, episode("b", finish="oversize")])
    scan = scanned(tmp_path)
    assert (scan.answered, scan.failed) == ({key("a")}, {key("b")})


def test_answers_of_instances_that_left_the_data_are_set_aside(tmp_path: Path) -> None:
    write_run(tmp_path, [episode("old"), episode("kept"), episode("older")])
    folder = RunFolder(tmp_path)
    folder.open()
    assert folder.set_aside({key("kept")}) == 2
    folder.append(episode("new"))
    folder.close()
    assert set(read_texts(tmp_path)) == {("kept", 0), ("new", 0)}
    assert (tmp_path / "stale.jsonl").read_bytes().count(b"\n") == 2


def test_any_change_of_an_instance_is_another_key() -> None:
    one = Instance(id="a", context="c", choices=("x", "y"), references=("A",))
    assert episode_keys(one, 2)[0] != episode_keys(one, 2)[1]
    for change in (
        {"context": "d"},
        {"references": ("B",)},
        {"choices": ("x", "z")},
        {"metadata": {"k": "v"}},
        {"answer_key": {"k": "v"}},
        {"cluster": "n"},
    ):
        assert episode_keys(msgspec.structs.replace(one, **change), 1) != episode_keys(one, 1)


def test_stored_instances_keep_their_key_when_a_field_is_added_to_the_type() -> None:
    """Defaults are left out of the JSON, so a later field with a default changes nothing."""
    assert msgspec.json.encode(Instance(id="a", context="c")) == b'{"id":"a","context":"c"}'


def test_a_folder_that_cannot_be_locked_is_not_said_to_be_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(RecordError, match="without locks") as caught:
        RunFolder(tmp_path).open()
    assert not isinstance(caught.value, RunLocked)


def test_a_sync_that_fails_is_an_error_and_lets_go_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = RunFolder(tmp_path)
    folder.open()
    folder.append(episode("a"))

    def broken(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", broken)
        with pytest.raises(RecordError, match="cannot sync .*responses.jsonl"):
            folder.close()
    again = RunFolder(tmp_path)
    assert again.open().answered == {key("a")}
    again.close()


FIRST = """
import sys
import msgspec
from medhelm.schema.data import Instance
from medhelm.data import dataset
from medhelm.store import records, runlog

found = (Instance, *vars(records).values(), *vars(runlog).values())
kinds = [kind for kind in found if isinstance(kind, msgspec.StructMeta)]
late = set()
for kind in kinds:
    def entered(frame, event, arg):
        if event == "call" and frame.f_globals.get("__name__") == "msgspec._utils":
            late.add(kind.__name__)
    sys.setprofile(entered)
    msgspec.json.Decoder(kind)
    sys.setprofile(None)
print(len(kinds), *sorted(late))
"""


def test_types_of_records_are_known_before_threads_read_them() -> None:
    """Where two threads are the first to decode a type, msgspec ends the process by a signal."""
    done = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True)
    count, *late = done.stdout.split()
    assert int(count) > 10 and late == []
