"""`medhelm review serve`: marks that survive a kill, who may do what, and the page in a real browser."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from medhelm.cli import review
from medhelm.errors import MedhelmError, UsageError
from medhelm.review.marks import OVERSEER, Asked, Marks, rater_codes
from medhelm.tables.clinicians.ratings import YES_NO, Item, Scale, Unit, read_units
from medhelm.tables.clinicians.sheet import RatingSheet
from tests.shell import Shell

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=alert(1)> =1+1"
ASPECTS = (Item("clean", "It is clean."), Item("quiet", "It is quiet."))
WARDS = tuple(
    Unit(name, ASPECTS, Scale(1, 5, points=(("5", "wholly"), ("1", "no"))), (("Ward", HOSTILE),))
    for name in ("u1", "u2", "u3")
)
HANDS = (Item("1", "washes hands"), Item("2", "asks first"))
TICKED = Unit("t1", HANDS, YES_NO, (("Encounter", "Turn 1"),))


@pytest.fixture
def sheet(tmp_path: Path) -> Path:
    """A sheet for the browser: three wards of two aspects."""
    path = tmp_path / "w.json"
    RatingSheet(units=WARDS).write(path, then=("agreement", "wards", "w.csv"))
    return path


@pytest.fixture
def ticked(tmp_path: Path) -> Path:
    """A sheet with a column besides the value."""
    path = tmp_path / "w.json"
    rules = (("turns", "the numbers of the turns that show it"),)
    RatingSheet(units=(TICKED,), rules=rules, more={"turns": "[0-9,; ]*"}).write(path)
    return path


class Address(NamedTuple):
    """Where a server is, and whose code is what."""

    base: str
    codes: Mapping[str, str]
    process: subprocess.Popen[str]

    def of(self, who: str) -> str:
        return f"{self.base}#{self.codes[who]}"


@contextmanager
def serving(sheet: Path, *argv: str) -> Iterator[Address]:
    """Run the server as a process of its own; it is killed at the end."""
    for module in ("starlette", "uvicorn"):
        pytest.importorskip(module, reason="needs the server: pip install '.[review]'")
    command = [sys.executable, "-m", "medhelm", "review", "serve", str(sheet), "--port", "0"]
    names = ["--raters", "anna", "ben"]
    with subprocess.Popen([*command, *names, *argv], stdout=subprocess.PIPE, text=True) as process:
        try:
            lines: list[str] = []
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                if line.startswith("Each mark"):
                    break
            found = re.findall(r"^  (\w+) +(https?://\S+/)#(\w+)$", "".join(lines), re.MULTILINE)
            assert found, lines
            yield Address(found[0][1], {name: code for name, _, code in found}, process)
        finally:
            process.kill()


def ask(
    where: Address, path: str, who: str = "", body: object = None, **headers: str | None
) -> tuple[int, Mapping[str, str], Any]:
    """Return status, headers and content as the page gets them."""
    sent: dict[str, str | None] = {"Authorization": f"Bearer {where.codes.get(who, who)}"}
    if body is not None:
        sent |= {"Content-Type": "application/json", "Origin": where.base.rstrip("/")}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    data = body if isinstance(body, bytes) else json.dumps(body).encode() if body else None
    request = Request(where.base + path, data, {n: v for n, v in sent.items() if v is not None})
    try:
        with urlopen(request, timeout=10) as got:
            status, heads, content = got.status, got.headers, got.read()
    except HTTPError as e:
        status, heads, content = e.code, e.headers, e.read()
    is_json = heads["content-type"] == "application/json"
    return status, heads, json.loads(content) if is_json else content


def mark(unit: str = "u1", item: str = "clean", value: str = "4", **more: str) -> dict[str, Any]:
    return {"unit": unit, "item": item, "value": value, "more": more}


def table_of(sheet: Path) -> dict[tuple[str, str, str], str]:
    """Return the values of the table of ratings, by rater, unit and item."""
    path = sheet.with_name("w.ratings.csv")
    with path.open(encoding="utf-8-sig", newline="") as file:
        return {(r["rater"], r["unit"], r["item"]): r["value"] for r in csv.DictReader(file)}


# Marks -------------------------------------------------------------------------------------------


def test_the_last_mark_counts_and_agreement_is_that_of_the_table(
    sheet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks, synced, sync = Marks(sheet), list[int](), os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_ino), sync(fd)))
    given = {"anna": ["5", "4", "5", "2", "3", ""], "ben": ["5", "3", "3", "2", "1", "1"]}
    places = [(ward.name, item.name) for ward in WARDS for item in ASPECTS]
    for rater, values in given.items():
        marks.add(rater, Asked(unit="u1", item="clean", value="1"))  # is changed below
        for (unit, item), value in zip(places, values, strict=True):
            marks.add(rater, Asked(unit=unit, item=item, value=value))
    marks.add("cleo", Asked(unit="u3", item="quiet", value="5"))
    assert marks.done("anna") == [True] * 3 and marks.done("cleo") == [False] * 3
    assert synced.count(sheet.with_name("w.marks.jsonl").stat().st_ino) == 15  # one a mark
    found = {row["item"]: row for row in marks.agreement()}
    # differences of the pairs: of clean 0 2 2, of quiet 1 0 and, of ben and cleo, 4
    whole, clean, quiet = (found[name] for name in ("all items", "clean", "quiet"))
    assert (whole["units"], whole["pairs"], whole["exact"], whole["within_one"]) == (
        6,
        6,
        1 / 3,
        0.5,
    )
    assert (clean["pairs"], clean["exact"], clean["difference"]) == (3, 1 / 3, 4 / 3)
    assert (quiet["pairs"], quiet["exact"], quiet["difference"]) == (3, 1 / 3, 5 / 3)
    marks.close()
    table = read_units([sheet.with_name("w.ratings.csv")], WARDS)
    assert table.raters == ("anna", "ben", "cleo")
    assert table.blank == 1 and len(table.ratings) == 12
    assert {(r.unit, r.item): r.value for r in table.ratings if r.rater == "ben"} == {
        place: float(value) for place, value in zip(places, given["ben"], strict=True)
    }


def test_marks_of_another_sheet_are_not_taken_for_those_of_this_one(sheet: Path) -> None:
    marks = Marks(sheet)
    with pytest.raises(MedhelmError, match="is served already"):
        Marks(sheet)
    marks.add("anna", Asked(unit="u1", item="clean", value="4"))
    marks.close()
    with pytest.raises(UsageError, match="is there already"):
        RatingSheet(units=WARDS).write(sheet.with_suffix(".csv"))
    sheet.write_text(sheet.read_text().replace("It is clean.", "It is bright."))
    with pytest.raises(MedhelmError, match="marks of another sheet"):
        Marks(sheet)


def test_codes_stay_and_a_new_rater_gets_one(sheet: Path) -> None:
    first = rater_codes(sheet, ["anna", "ben"])
    assert len(set(first.values())) == 3 and all(len(code) == 24 for code in first.values())
    later = rater_codes(sheet, ["ben", "cleo"])
    assert [*later] == ["ben", "cleo", OVERSEER] and later["ben"] == first["ben"]
    assert rater_codes(sheet, [])["anna"] == first["anna"]
    for name in (OVERSEER, "=x", "", "a\nb"):
        with pytest.raises(UsageError):
            rater_codes(sheet, [name])


def test_what_is_missing_or_open_to_all_is_refused_in_one_line(
    sheet: Path, monkeypatch: pytest.MonkeyPatch, shell: Shell
) -> None:
    def refused(*argv: str) -> str:
        line = shell.error("review", "serve", str(sheet), *argv)
        return line

    monkeypatch.setattr(review, "find_spec", lambda name: None)
    assert "pip install '.[review]'" in refused("--raters", "anna")
    monkeypatch.undo()
    pytest.importorskip("starlette")
    for host in ("0.0.0.0", "::", "10.0.0.1", "ward.example"):
        assert "needs --tls-cert" in refused("--raters", "anna", "--host", host)
    for tls in (["--tls-cert", "c.pem"], ["--tls-key", "k.pem"]):
        assert "--tls-cert and --tls-key" in refused("--raters", "anna", *tls)
    assert "--raters NAME" in refused("--port", "0")


# The server --------------------------------------------------------------------------------------


@pytest.mark.extra
def test_no_mark_that_was_saved_is_lost_when_the_server_is_killed(sheet: Path) -> None:
    dice = random.Random(7)
    saved: dict[tuple[str, str, str], str] = {}
    sent: dict[tuple[str, str, str], str] = {}
    answers: list[str] = []

    def rate(where: Address, who: str, seed: int) -> None:
        own = random.Random(seed)
        with suppress(OSError, HTTPException):  # the server is gone
            while True:
                unit, item, value = (
                    own.choice(WARDS).name,
                    own.choice(ASPECTS).name,
                    own.choice("12345"),
                )
                sent[who, unit, item] = value
                assert ask(where, "api/marks", who, mark(unit, item, value))[0] == 200
                saved[who, unit, item] = value
                answers.append(who)

    for kill in range(4):
        with serving(sheet) as where:
            both = [
                threading.Thread(target=rate, args=(where, who, 10 * kill + n))
                for n, who in enumerate(("anna", "ben"))
            ]
            for thread in both:
                thread.start()
            while len(answers) < 10 * (kill + 1):
                time.sleep(0.01)
            time.sleep(dice.uniform(0, 0.1))
            os.kill(where.process.pid, signal.SIGKILL)
            for thread in both:
                thread.join()
        if kill == 2:
            with sheet.with_name("w.marks.jsonl").open("ab") as log:
                log.write(b'{"unit":"u1","item":"cl')  # as a power cut leaves it
        with serving(sheet) as where:
            there = table_of(sheet)
            for place, value in saved.items():
                assert there[place] in (value, sent[place])
            saved |= there
    assert len(saved) > 6


@pytest.mark.extra
def test_who_may_do_what(sheet: Path) -> None:
    with serving(sheet) as where:

        def got(*argv: Any, **headers: str | None) -> int:
            return ask(where, *argv, **headers)[0]

        for path in ("api/state", "api/units/0", "api/overview"):
            assert got(path) == got(path, "wrong") == got(path, where.codes["anna"][:-1]) == 401
        assert got("api/marks", "", mark()) == got("api/marks", "wrong", mark()) == 401
        for origin in (
            "http://evil.example",
            "null",
            None,
            where.base.replace("127.0.0.1", "localhost").rstrip("/"),
        ):
            assert got("api/marks", "anna", mark(), Origin=origin) == 403
        assert got("api/marks", "anna", mark(), Content_Type="text/plain") == 415
        for host in ("evil.example", "127.0.0.1.evil.example", "127.0.0.1@evil.example", ""):
            assert got("", Host=host) == got("api/state", "anna", Host=host) == 400
        for wrong in (
            mark(unit="u9"),
            mark(item="loud"),
            mark(value="6"),
            mark(value="4.5"),
            mark(beds="2"),
            mark() | {"rater": "ben"},
            {"unit": "u1"},
            b"{",
            [1],
        ):
            assert got("api/marks", "anna", wrong) == 400, wrong
        assert got("api/marks", "anna", b" " * 70_000) == 413
        assert got("api/marks", OVERSEER, mark()) == got("api/overview", "anna") == 403
        assert got("api/units/0", OVERSEER) == got("api/units/3", "anna") == 404
        assert not sheet.with_name("w.marks.jsonl").read_bytes()
        assert got("api/marks", "anna", mark()) == 200
        assert ask(where, "api/units/0", "anna")[2]["marks"] == {
            "clean": {"value": "4", "more": {}}
        }
        assert ask(where, "api/units/0", "ben")[2]["marks"] == {}
        assert ask(where, "api/overview", OVERSEER)[2]["raters"] == [["anna", 0, 3], ["ben", 0, 3]]
        for path in ("", "review.js", "api/state", "api/units/0", "../w.key.json", "nothing"):
            heads = ask(where, path, "anna")[1]
            assert heads["cache-control"] == "no-store" and "set-cookie" not in heads
            assert heads["content-security-policy"].startswith(
                "default-src 'none'; script-src 'self'"
            )
            assert heads["x-content-type-options"] == "nosniff" and "server" not in heads
            assert "access-control-allow-origin" not in heads
        os.kill(where.process.pid, signal.SIGINT)
        out, _ = where.process.communicate(timeout=10)
        assert "0 of 3 units" in out
        assert "medhelm agreement wards w.csv" in out
        assert where.process.returncode == 0
    modes = {p.name: p.stat().st_mode & 0o777 for p in sheet.parent.iterdir()}
    assert set(modes.values()) == {0o600}, modes


@pytest.mark.extra
@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")
def test_other_machines_are_served_by_tls_alone(sheet: Path, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1"
    command += f" -addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}"
    subprocess.run(command.split(), check=True, capture_output=True)
    tls = ("--host", "0.0.0.0", "--tls-cert", str(certificate), "--tls-key", str(key))
    with serving(sheet, *tls) as where:
        assert where.base.startswith("https://0.0.0.0:")
        at = where.base.replace("0.0.0.0", "127.0.0.1")
        trust = ssl.create_default_context(cafile=str(certificate))
        with urlopen(at, context=trust, timeout=10) as got:
            assert got.status == 200
        with pytest.raises(OSError):
            urlopen(at.replace("https", "http"), timeout=10)
        request = Request(f"{at}api/state", headers={"Authorization": "Bearer wrong"})
        with pytest.raises(HTTPError, match="401"):
            urlopen(request, context=trust, timeout=10)


# The page ----------------------------------------------------------------------------------------


@contextmanager
def page_of(
    browser: Browser, where: Address, who: str, width: int
) -> Iterator[tuple[Page, list[str]]]:
    """Open the page of a rater; yields it and what went wrong on it."""
    context = browser.new_context(viewport={"width": width, "height": 800})
    page, faults = context.new_page(), list[str]()
    page.set_default_timeout(10_000)
    page.on("console", lambda m: faults.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: faults.append(dialog.message))
    page.on(
        "request",
        lambda r: None if r.url.startswith((where.base, "data:")) else faults.append(r.url),
    )
    page.goto(where.of(who))
    page.get_by_role("heading", level=1).wait_for()
    yield page, faults
    context.close()


def at_unit(page: Page, number: int) -> None:
    page.get_by_role("heading", level=1).filter(has_text=f"{number} of ").wait_for()


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def says(page: Page, text: str) -> None:
    page.get_by_role("status").filter(has_text=text).wait_for()


@pytest.mark.extra
@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
def test_a_review_by_keyboard_alone(browser: Browser, sheet: Path, width: int) -> None:
    with serving(sheet) as where, page_of(browser, where, "anna", width) as (page, faults):
        at_unit(page, 1)
        assert page.url == where.base  # the code is not left in the address
        assert page.locator("pre").inner_text() == HOSTILE
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        clean = page.get_by_role("radiogroup", name="clean It is clean.")
        assert clean.get_by_role("radio", name="5: wholly").count() == 1
        assert clean.get_by_role("radio").count() == 6
        assert page.get_by_role("progressbar", name="Done").get_attribute("value") == "0"
        press(page, "4", "2")
        says(page, "Saved: quiet, 2. 1 of 3 done")
        assert page.get_by_role("button", name="Next").evaluate("e => e === document.activeElement")
        press(page, "5")  # nothing is left to rate here: no mark is changed
        press(page, "Enter")
        at_unit(page, 2)
        page.get_by_role("checkbox", name="Keys mark").focus()
        press(page, "Space", "4")  # single keys are off, on every page
        assert page.locator("[type=radio]:checked").count() == 0
        press(page, "Space")
        press(page, "-", "Shift+Tab", "Shift+Tab")
        says(page, "Saved: clean, cannot say.")
        press(page, "Tab", "3")
        says(page, "Saved: clean, 3.")
        press(page, "Enter")  # one item is left open
        at_unit(page, 3)
        press(page, "1", "1", "Shift+Enter")
        at_unit(page, 2)
        press(page, "Enter")
        at_unit(page, 3)
        press(page, "Enter")
        at_unit(page, 2)  # what is open
        assert page.get_by_role("radio", name="3").first.is_checked()
        press(page, "5", "Enter")
        at_unit(page, 3)
        press(page, "Enter")
        page.get_by_role("heading", name="All are rated. Thank you.").wait_for()
        page.reload()  # goes on without the code being typed
        at_unit(page, 1)
        assert not faults
        found = {place[1:]: value for place, value in table_of(sheet).items()}
        assert found == {
            ("u1", "clean"): "4",
            ("u1", "quiet"): "2",
            ("u2", "clean"): "3",
            ("u2", "quiet"): "5",
            ("u3", "clean"): "1",
            ("u3", "quiet"): "1",
        }


@pytest.mark.extra
@pytest.mark.browser
def test_what_is_written_beside_a_value_is_saved_with_it(browser: Browser, ticked: Path) -> None:
    with serving(ticked) as where, page_of(browser, where, "anna", 390) as (page, faults):
        at_unit(page, 1)
        press(page, "y")
        turns = page.get_by_label("turns").first
        turns.and_(page.locator(":focus")).fill("two")
        press(page, "Enter")
        page.get_by_role("alert").filter(has_text="NOT saved: 1: turns: the numbers").wait_for()
        turns.fill("2, 3")
        press(page, "Enter")
        says(page, "Saved: 1, yes.")
        press(page, "n", "Enter", "Enter")
        page.get_by_role("heading", name="All are rated. Thank you.").wait_for()
        assert [f for f in faults if "400" not in f] == []  # the one that was refused
    one, two = read_units([ticked.with_name("w.ratings.csv")], [TICKED]).ratings
    assert (one.value, one.cells["turns"], two.value, two.cells["turns"]) == (1, "2, 3", 0, "")


@pytest.mark.extra
@pytest.mark.browser
def test_a_mark_that_is_not_saved_is_not_shown(browser: Browser, sheet: Path) -> None:
    with serving(sheet) as where, page_of(browser, where, "ben", 1280) as (page, _):
        at_unit(page, 1)
        press(page, "4")
        says(page, "Saved: clean, 4.")
        where.process.kill()
        where.process.wait()
        press(page, "3")
        page.get_by_role("alert").filter(has_text="NOT saved: quiet").wait_for()
        quiet = page.get_by_role("radiogroup", name="quiet")
        assert not quiet.get_by_role("radio", checked=True).count()
        port = where.base.rstrip("/").rpartition(":")[2]
        with serving(sheet, "--port", port):
            quiet.get_by_role("radio", name="3", exact=True).press("2")
            says(page, "Saved: quiet, 2. 1 of 3 done")
    assert table_of(sheet) == {("ben", "u1", "clean"): "4", ("ben", "u1", "quiet"): "2"}


@pytest.mark.extra
@pytest.mark.browser
def test_the_overseer_sees_how_far_it_is_and_a_wrong_code_nothing(
    browser: Browser, sheet: Path
) -> None:
    with serving(sheet) as where:
        for who, value in (("anna", "4"), ("ben", "5")):
            assert ask(where, "api/marks", who, mark(value=value))[0] == 200
            assert ask(where, "api/marks", who, mark("u2", "clean", "2"))[0] == 200
        with page_of(browser, where, OVERSEER, 390) as (page, faults):
            rows = page.get_by_role("table", name="Agreement so far").get_by_role("row")
            assert rows.nth(1).inner_text().split("\t") == [
                "all items: 5: wholly 1: no",
                "2",
                "2",
                "0.50",
                "1.00",
                "0.83",
            ]
            assert page.get_by_role("table", name="Raters").get_by_role("row").count() == 3
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            page.get_by_role("button", name="Leave").click()
            page.get_by_label("Your code").fill("wrong")
            press(page, "Enter")
            page.get_by_role("alert").filter(has_text="this code is not known").wait_for()
            page.get_by_label("Your code").fill(where.codes["anna"])
            press(page, "Enter")
            at_unit(page, 1)
            assert [f for f in faults if "401" not in f] == []
