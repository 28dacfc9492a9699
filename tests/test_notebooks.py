"""Notebooks in a real kernel: those of the docs run, progress is drawn, an interrupt keeps what came."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import nbclient
import nbformat
import pytest
from nbformat import NotebookNode

import medhelm
from tests.quiz import PLUGIN, write_quiz
from tests.server import FaultServer, serve_in_thread

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((Path(__file__).parent.parent / "docs" / "notebooks").glob("*.ipynb"))

QUIZ = """
import medhelm
from medhelm import ModelSpec

model = ModelSpec(name="openai/test", model="test", base_url="{url}", max_concurrency=4)
given = dict(data_dir="data", plugins=[r"{plugin}"])
results = medhelm.evaluate(model, "quiz", results_dir="results", progress=True, **given)
"""
QUIET = 'quiet = medhelm.evaluate(model, "quiz", results_dir="quiet", progress=False, **given)'


@pytest.fixture(autouse=True)
def quiet_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.delenv("MEDHELM_DATA_DIR", raising=False)


def client_of(book: NotebookNode, folder: Path, **options: bool) -> nbclient.NotebookClient:
    where = {"metadata": {"path": str(folder)}}
    return nbclient.NotebookClient(
        book, timeout=300, kernel_name="python3", resources=where, **options
    )


def quiz_book(server: FaultServer, *then: str) -> NotebookNode:
    code = QUIZ.format(url=server.base_url, plugin=PLUGIN)
    cells = [nbformat.v4.new_code_cell(text) for text in (code, *then)]
    return nbformat.v4.new_notebook(cells=cells)


def shown(cell: NotebookNode) -> str:
    """Return all texts that a cell shows."""
    texts = []
    for output in cell.outputs:
        texts += [output.get("text", ""), output.get("data", {}).get("text/plain", "")]
    return "\n".join(texts)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_of_the_docs_runs_offline_and_is_stored_without_output(
    path: Path, tmp_path: Path
) -> None:
    book = nbformat.read(path, as_version=4)
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    assert code and not any(cell.outputs or cell.execution_count for cell in code)
    client_of(book, tmp_path).execute()
    plotted = [o for cell in code for o in cell.outputs if "plotly" in str([*o.get("data", {})])]
    assert plotted, "a figure is shown"


def test_there_are_two_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["compare_two_models", "private_notes_to_gate"]


def test_progress_is_one_output_that_is_drawn_again_and_can_be_turned_off(tmp_path: Path) -> None:
    write_quiz(tmp_path, 20)
    with serve_in_thread(latency_s=0.1) as server:
        book = quiz_book(server, "results", QUIET)
        client_of(book, tmp_path).execute()
        assert server.requests == 40
    (drawn,) = book.cells[0].outputs
    assert "20/20" in shown(book.cells[0]) and "20 of 20 answered" in drawn.data["text/html"]
    assert book.cells[2].outputs == []
    (result,) = book.cells[1].outputs
    assert "<table" in result.data["text/html"] and "exact_match" in result.data["text/plain"]


def test_an_interrupt_of_the_kernel_ends_cleanly_and_keeps_what_came(tmp_path: Path) -> None:
    write_quiz(tmp_path, 200)
    load = (
        f"print(medhelm.load_results('results', plugins=[r'{PLUGIN}']).table('benchmarks')['n'][0])"
    )
    with serve_in_thread(latency_s=0.2) as server:
        book = quiz_book(server, load)
        client = client_of(book, tmp_path, allow_errors=True)

        def interrupt() -> None:
            while server.requests < 12:
                time.sleep(0.01)
            os.kill(client.km.provisioner.process.pid, signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()
        client.execute()
        asked = server.requests
        assert asked < 100
        last = book.cells[0].outputs[-1]
        assert last.ename == "KeyboardInterrupt" and "is kept" in last.evalue
        assert int(shown(book.cells[1])) == asked, "requests in flight ended, and all are graded"
        server.latency_s = 0
        spec = medhelm.ModelSpec(name="openai/test", model="test", base_url=server.base_url)
        given = {"data_dir": tmp_path / "data", "results_dir": tmp_path / "results"}
        medhelm.evaluate(spec, "quiz", plugins=[PLUGIN], **given)  # type: ignore[arg-type]
        assert server.requests == 200
