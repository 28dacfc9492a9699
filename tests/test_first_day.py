"""The first day of a user: commands are typed into a shell, in an empty folder, one after the other.

What they installed is the wheel, in an environment without network and without the tree.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from medhelm.store import records
from tests.packages import ROOT, Environment, clean
from tests.quiz import medhelm
from tests.server import FaultServer, serve_in_thread

pytestmark = pytest.mark.slow


def reply(prompt: str) -> str:
    """Answer with a thought before the letter; to one question with words that hold no answer."""
    if "pure water" in prompt:
        return "<think>Counting does not help here.</think>I would rather not say."
    return "<think>The first one fits.</think>Answer: A"


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with serve_in_thread(reply) as running:
        yield running


class Shell:
    """A shell in a folder of its own, 80 columns wide."""

    def __init__(self, folder: Path, installed: Environment) -> None:
        self.folder = folder
        path = f"{installed.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        more = {"PATH": path, "COLUMNS": "80", "HOME": str(folder), "OPENAI_API_KEY": "test-key"}
        self.env = clean() | more | {"no_proxy": "127.0.0.1"}

    def type(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line and return what came of it."""
        return subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=900,  # of a machine with much else to do
        )

    def do(self, line: str) -> str:
        """Run a line that works, and return all that it printed."""
        done = self.type(line)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr

    def look(self, line: str) -> str:
        """Return all that a line that works prints, which is run in this process."""
        done = medhelm(*shlex.split(line)[1:], cwd=self.folder, env=self.env)
        return done.stdout + done.stderr

    def fail(self, line: str) -> str:
        """Run a line with a mistake in it, and return the one line that says so."""
        done = medhelm(*shlex.split(line)[1:], cwd=self.folder, env=self.env, code=2)
        (said,) = [text for text in done.stderr.splitlines() if text.startswith("medhelm")]
        return said

    def on_terminal(self, line: str) -> str:
        """Run a line whose output is a terminal, and return what it shows."""
        above, below = pty.openpty()
        started = subprocess.Popen(
            ["bash", "-c", line], cwd=self.folder, env=self.env, stdout=below, stdin=below
        )
        os.close(below)
        seen = b""
        while True:
            try:
                part = os.read(above, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            seen += part
        os.close(above)
        assert started.wait(timeout=60) == 0
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode()).replace("\r\n", "\n")


@pytest.fixture
def shell(tmp_path: Path, installed: Environment) -> Shell:
    return Shell(tmp_path, installed)


def rows_on_screen(text: str, width: int = 80) -> int:
    """Return the lines of text on a screen, whose progress is one line however long it takes."""
    text = re.sub(r"^\d+ of \d+ answered .*\n(?=\d+ of)", "", text, flags=re.MULTILINE)
    return sum(max(1, -(-len(line) // width)) for line in text.splitlines())


def test_the_first_day(shell: Shell, server: FaultServer) -> None:
    """One after the other, as a day goes: each looks at what those before it have left."""
    the_first_command_ends_in_one_screen_that_says_what_comes_next(shell, server)
    it_asked_all_rules_on_all_samples_and_wrote_a_site(shell)
    a_typo_is_answered_in_one_line_with_the_right_name(shell)
    an_unparsed_answer_is_seen_with_its_prompt_and_its_thoughts(shell)
    a_run_is_archived_and_comes_back(shell)


def the_first_command_ends_in_one_screen_that_says_what_comes_next(
    shell: Shell, server: FaultServer
) -> None:
    said = shell.do("medhelm run")
    assert rows_on_screen(said) <= 40, said
    words = " ".join(said.split())
    for needed in (
        "not language models",
        "medhelm: models over 35 common benchmarks",
        "baseline/lexical 1 [1, 3] 0.71",
        "today, apart, over 18 of 18",
        "Synthetic:",
        "no rank",
        "say nothing about any model",
        "baseline/oracle",
        f"Runs: {(shell.folder / 'medhelm-results' / 'runs')}",
        "Now your own model",
    ):
        assert needed in words, needed
    assert said.count("macro") == 2, "a heading, and what it means"
    (site,) = re.findall("^Open it: file://(.*)$", said, re.MULTILINE)
    assert Path(site).is_file()
    again = shell.look(re.findall("^Tables again: (.*)$", said, re.M)[0])
    assert "Scores by benchmark" in again
    for row in (line for line in said.splitlines() if line.startswith(" baseline/")):
        cells = re.split("  +", row.strip())
        assert any(all(c in line for c in cells) for line in again.splitlines()), row
    assert "[reply]" in shell.look(re.findall("^One answer: (.*)$", said, re.M)[0])
    own = said[said.index("  medhelm run benchmark=") :].partition("\nRules")[0]
    own = own.replace("http://localhost:8000/v1", server.base_url).replace("NAME", "ward-a")
    first = shell.do("\n".join(own.splitlines()[:2]))
    assert rows_on_screen(first) <= 40 and first.count("openai/ward-a") == 1
    (row,) = [line for line in first.splitlines() if "openai/ward-a" in line]
    assert re.search(r"0\.\d{3} \[0\.\d{3}, 0\.\d{3}\] +8 +7/8 +1 unparsed +– +\d+\.\d", row), row
    headings = ("score", "not scored", "USD", "s/answer")
    assert all(first.count(f" {heading}") >= 1 for heading in headings)
    notes = [line for line in first.splitlines() if line.endswith(".")]
    assert len(notes) == len({*notes}), "no note twice"


def it_asked_all_rules_on_all_samples_and_wrote_a_site(shell: Shell) -> None:
    assert [p.name for p in shell.folder.iterdir()] == ["medhelm-results"]
    gradings = records.find_gradings(shell.folder / "medhelm-results")
    found = [r for r in map(records.read_record, gradings) if r.spec.model.name != "openai/ward-a"]
    assert {r.state for r in found} == {"complete"}
    benchmarks = {p.stem for p in (ROOT / "benchmarks").glob("**/samples/*.jsonl")}
    models = {f"baseline/{p.stem}" for p in (ROOT / "conf" / "model" / "baseline").glob("*.yaml")}
    played = {"agentclinic", "medsp1000"}  # by rules of their own
    names = {(r.spec.benchmark, r.spec.model.name) for r in found}
    assert {n for n in names if n[0] not in played} == {
        (b, m) for b in benchmarks - played for m in models
    }
    assert {b for b, m in names if m == "encounter/oracle"} == played
    site = shell.folder / "medhelm-results" / "site"
    for name in ("index.html", "app/main.js", "app/pages/overview.js", "app/plotly.min.js"):
        assert (site / name).is_file(), name


def a_typo_is_answered_in_one_line_with_the_right_name(shell: Shell) -> None:
    for line, right in (
        ("medhelm run model=baseline/lexcial benchmark=headqa data=sample", "baseline/lexical"),
        ("medhelm run model=baseline/lexical benchmark=headq data=sample", "headqa"),
        ("medhelm run model=baseline/lexical benchmark=headqa dta=sample", "data"),
        ("medhelm shwo headqa baseline/lexical", "show"),
        ("medhelm show headq baseline/lexical", "headqa"),
        ("medhelm show headqa baseline/lexcial", "baseline/lexical"),
        ("medhelm show headqa baseline/lexical Sample_2016_B/l", "Sample_2016_B/1"),
        ("medhelm tables --table overal", "overall"),
        ("medhelm runs remove runs/headqa/baseline__lexical/0123", "runs/headqa"),
    ):
        assert f"'{right}" in shell.fail(line).partition("did you mean")[2], line


def an_unparsed_answer_is_seen_with_its_prompt_and_its_thoughts(shell: Shell) -> None:
    said = shell.look("medhelm show headqa openai/ward-a --outcome unparsed")
    assert "1 of 8 answers" in said and said.count("===") == 1
    parts = [f"[{p}]" for p in ("prompt, user", "references", "thoughts", "reply", "read")]
    places = [said.index(part) for part in (*parts, "[score]")]
    assert places == sorted(places)
    assert "[thoughts] Counting does not" in said
    assert "[reply] I would rather" in said and "[read] nothing" in said
    assert "pure water" in said.partition("[prompt, user]")[2].partition("[references]")[0]
    assert "exact_match 0 (unparsed)" in said
    assert "1 shown" in shell.look("medhelm show headqa openai/ward-a --score 0 --limit 1")


def test_text_of_private_data_is_shown_on_a_terminal_and_nowhere_else(shell: Shell) -> None:
    shell.look("medhelm run model=baseline/lexical benchmark=clear data=sample results_dir=notes")
    line = "medhelm show clear baseline/lexical --limit 1 --results-dir notes"
    seen, piped = shell.on_terminal(line), shell.look(line)
    assert "[reply]" in seen and "[context]" in seen and "withheld" not in seen
    context = seen.partition("[context]")[2].partition("[")[0].split()
    assert context and " ".join(context[:6]) not in " ".join(piped.split())
    assert "[reply]" not in piped and "exact_match" in piped
    assert len(re.findall(r"withheld.*private", " ".join(piped.split()))) == 1


def a_run_is_archived_and_comes_back(shell: Shell) -> None:
    cell = "runs/headqa/openai__ward-a"
    (run,) = re.findall(rf"{cell}/(\w+)", shell.look("medhelm runs list headqa"))
    before = shell.look("medhelm tables --table benchmarks --benchmark headqa --format csv")
    said = shell.look(f"medhelm runs archive {run} --out kept.zip --remove")
    assert f"Removed: {cell}" in said and not (shell.folder / "medhelm-results" / cell).exists()
    assert "kept.zip: OK" in shell.do("sha256sum -c kept.zip.sha256")
    shell.do("cd medhelm-results && python -m zipfile -e ../kept.zip .")
    after = shell.look("medhelm tables --table benchmarks --benchmark headqa --format csv")
    assert after == before
    refused = shell.type(f"medhelm runs remove {run} < /dev/null")
    assert refused.returncode == 2 and "--yes" in refused.stderr
    shell.look(f"medhelm runs remove {run} --yes")
    assert not (shell.folder / "medhelm-results" / cell).exists()
