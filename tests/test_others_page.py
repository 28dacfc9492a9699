"""The page about other harnesses holds what their scripts stored."""

from __future__ import annotations

import msgspec
import pytest

from .test_docs import load_script


def test_page_is_that_of_the_stored_results(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = load_script("others_page")
    monkeypatch.setattr("sys.argv", ["others_page.py", "--check"])
    assert script.main() == 0
    ((name, stored),) = script.read_results(script.RESULTS)
    total = stored.scores[0]
    assert (total.n, total.right) == (327 + 720, 720 - 40)  # all but the categories lab and dosage
    other = msgspec.structs.replace(total, right=total.right - 1)
    changed = msgspec.structs.replace(stored, scores=(other, *stored.scores[1:]))
    monkeypatch.setattr(script, "read_results", lambda folder: [(name, changed)])
    assert script.main() == 1
    assert "docs/others.md is out of date" in capsys.readouterr().out
