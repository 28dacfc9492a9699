"""`medhelm show`: what a reader sees of a stored answer, and what nobody but its owner sees."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from medhelm import Message, load_results
from medhelm.errors import UnknownName
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode, Response
from tests.build_runs import Item, write_run
from tests.protocols import interview
from tests.shell import Shell
from tests.stored_folders.kinds import OWN, WHOLE


@pytest.fixture
def on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medhelm.cli.show._is_terminal", lambda: True)


def show(shell: Shell, folder: Path, *argv: str, plugin: Path | str = "") -> str:
    more = ["--plugin", str(plugin)] if plugin else []
    return shell("show", *argv, "--results-dir", str(folder), *more)


def test_each_judge_and_its_reasons_are_shown(shell: Shell, on_terminal: None) -> None:
    plugin = OWN / "checklist.py"
    said = show(shell, WHOLE / "criteria", "checklist", "openai/asked", "k0", plugin=plugin)
    assert "[judge judges/judge-a]" in said and "c01 1: So." in said
    criteria = said.partition("[criteria]")[2].partition("[reply]")[0]
    assert criteria.count("\nc0") == 4
    said = show(shell, WHOLE / "jury", "essay", "openai/asked", "e0", plugin=OWN / "essay.py")
    assert said.count("[judge ") == 3 and "[reply]" in said
    assert "accuracy 4" in said


def test_each_turn_is_shown_as_the_protocol_tells_it(shell: Shell, on_terminal: None) -> None:
    said = show(
        shell,
        WHOLE / "interview",
        *("interview", "openai/asked", "--limit", "1"),
        plugin=interview.PLUGIN,
    )
    assert said.count("[turns, ") > 1 and said.index("[prompt, ") < said.index("[turns, ")


def test_gated_text_stays_off_pipes_and_frames(shell: Shell) -> None:
    said = show(shell, WHOLE / "jury", "essay", "openai/asked", plugin=OWN / "essay.py")
    assert "withheld" in said and "gated" in said
    assert "[judge judges/judge-a]" in said and "accuracy 4" in said
    found = load_results(WHOLE / "jury", plugins=[OWN / "essay.py"])
    closed = found.instances("essay")
    texts = ["context", "question", "prompt", "reply", "read", "reasons", "references", "criteria"]
    assert closed[texts].isna().all(axis=None) and closed["score"].notna().all()
    opened = found.instances("essay", text_of=["gated"])
    assert [f"#{n}" for n in range(1, len(closed) + 1)] == closed["instance_id"].tolist()
    assert "=== #1, repeat 0" in said and not any(f"{i}," in said for i in opened["instance_id"])
    assert opened["reply"].str.len().gt(0).all()
    for reply, words in zip(opened["reply"], opened["question"], strict=True):
        assert words and reply not in said and words not in said


def test_data_that_were_public_when_run_and_are_not_any_more_are_closed(
    tmp_path: Path, shell: Shell
) -> None:
    folder = write(tmp_path, {"a": "Secret words."})
    assert "Secret words." in show(shell, folder, "own_notes", "m/x")
    plugin = tmp_path / "own_notes.py"
    plugin.write_text((OWN / "quiz.py").read_text().replace('"quiz"', '"own_notes"'))
    plugin.write_text(plugin.read_text().replace("Benchmark(", 'Benchmark(data_class="private", '))
    if plugin.read_text().count("data_class") > 1:
        pytest.skip("the plugin states its class itself")
    said = show(shell, folder, "own_notes", "m/x", plugin=plugin)
    assert "Secret words." not in said and "private" in said


def test_places_of_closed_data_are_the_same_for_all_models(tmp_path: Path, shell: Shell) -> None:
    card = {"data_class": "private"}
    for model, ids in (("m/x", "bc"), ("m/y", "abc")):
        episodes = [
            Episode(
                instance=Instance(id=f"record-{i}"), response=Response(instance_id=f"record-{i}")
            )
            for i in ids
        ]
        rows = [Item(id=f"record-{i}", value=1.0) for i in ids]
        write_run(tmp_path, "own_notes", model, rows, episodes=episodes, card=card)
    for model, named in (("m/x", ["#2", "#3"]), ("m/y", ["#1", "#2", "#3"])):
        frame = load_results(tmp_path).instances("own_notes", model=model)
        assert frame["instance_id"].tolist() == named
    (log,) = tmp_path.glob("runs/*/m__y/*/responses.jsonl")
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[1:]))
    shell("show", "own_notes", "m/y", "--results-dir", str(tmp_path), code=4)
    assert "such as '#1'" in shell.err and "record-" not in shell.all


def write(folder: Path, replies: dict[str, str], repeats: int = 1, outcome: str = "scored") -> Path:
    episodes = [
        Episode(
            instance=Instance(id=name, context="A case.", references=("B",)),
            messages=(Message("system", "Be brief."), Message("user", "A case.")),
            response=Response(instance_id=name, repeat=repeat, text=text),
        )
        for name, text in replies.items()
        for repeat in range(repeats)
    ]
    rows = [
        Item(id=e.instance.id, repeat=e.repeat, value=place % 3 / 2, outcome=outcome)
        for place, e in enumerate(episodes)
    ]
    write_run(folder, "own_notes", "m/x", rows, episodes=episodes, repeats=repeats)
    return folder


def test_what_a_model_writes_commands_no_terminal(tmp_path: Path, shell: Shell) -> None:
    said = show(shell, write(tmp_path, {"a": "\x1b[2Jgone\x07 \u202eback\nB"}), "own_notes", "m/x")
    assert "gone" in said and "\x1b" not in said and "\x07" not in said and "\u202e" not in said
    assert "[prompt, system] Be brief." in said


def test_answers_are_chosen_by_score_outcome_and_id(tmp_path: Path, shell: Shell) -> None:
    folder = write(tmp_path, {f"i{n}": f"reply {n}." for n in range(9)})
    assert "9 of 9 answers fit\n5 shown" in show(shell, folder, "own_notes", "m/x")
    said = show(shell, folder, "own_notes", "m/x", "--score", "0.5:1")
    assert "6 of 9 answers" in said and "i0," not in said and "i1," in said
    said = show(shell, folder, "own_notes", "m/x", "i7", "i2")
    assert said.count("===") == 2 and "reply 7." in said and "reply 2." in said
    assert "0 of 9" in show(shell, folder, "own_notes", "m/x", "--outcome", "unparsed")
    wrong = ("show", "own_notes", "m/x", "--results-dir", folder)
    assert "LOW:HIGH" in shell.error(*wrong, "--score", "x")
    assert "did you mean 'i8'" in shell.error(*wrong, "i88")
    frame = load_results(folder).instances("own_notes", model="m/x")
    assert frame["instance_id"].tolist() == [f"i{n}" for n in range(9)]
    assert frame["prompt"][0][0] == ("system", "Be brief.") and frame["exact_match"][1] == 0.5
    with pytest.raises(UnknownName, match="m/y"):
        load_results(folder).instances("own_notes", model="m/y")


def test_repeats_are_named_and_a_lost_line_is_counted(tmp_path: Path, shell: Shell) -> None:
    folder = write(tmp_path, {"a": "one", "b": "two"}, repeats=2)
    said = show(shell, folder, "own_notes", "m/x")
    assert "=== a, repeat 0:" in said and "=== b, repeat 1:" in said
    (log,) = folder.glob("runs/*/*/*/responses.jsonl")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([lines[0], lines[1].replace(b"one", b"uno"), *lines[2:]]))
    shell("show", "own_notes", "m/x", "--results-dir", str(folder), code=4)
    assert "1 of 4 answers" in shell.err
    assert "[reply] two" in show(shell, folder, "own_notes", "m/x", "b")


def test_several_runs_of_one_cell_are_told_apart_by_their_folder(
    tmp_path: Path, shell: Shell
) -> None:
    folder = write(tmp_path, {"a": "one"})
    (run,) = folder.glob("runs/*/*/*")
    shutil.copytree(run, run.with_name("0" * 16))
    said = shell.error("show", "own_notes", "m/x", "--results-dir", str(folder))
    assert "2 runs on own_notes" in said and "--run" in said and "medhelm runs remove" in said
    assert "[reply] one" in show(shell, folder, "own_notes", "m/x", "--run", str(run))
