"""The site of the documentation: what its pages become before a generator reads them."""

import importlib
import re
import tomllib
from pathlib import Path

import docs_site
import pytest
import yaml

import medhelm
from tests.test_docs import check_docs

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def convert(text: str) -> str:
    return docs_site.convert(text, lambda found: found[0])


def test_lists_of_a_code_host_become_lists_of_the_generator() -> None:
    text = (
        "1. First\n   goes on\n\n   ```yaml own.yaml\n   a:\n     - 1\n   ```\n\n   more\n"
        "2. Second\n   - inner\n     goes on\n\nAfter.\n- `a` | b\n  - deep\n"
    )
    assert convert(text) == (
        '1. First\n    goes on\n\n    ```yaml title="own.yaml"\n    a:\n      - 1\n    ```\n\n'
        "    more\n2. Second\n    - inner\n        goes on\n\nAfter.\n- `a` | b\n    - deep\n"
    )


def test_a_bar_in_code_of_a_table_is_shown_without_its_escape() -> None:
    assert convert("| `text\\|json` | a \\| b |\n") == "| `text|json` | a \\| b |\n"


def test_links_lead_to_pages_of_the_site_or_to_the_repository(tmp_path: Path) -> None:
    pages = {
        DOCS / "index.md": docs_site.Page("index.md", "[c](../CONTRIBUTING.md#rules) [p](a/b.md)"),
        DOCS / "a" / "b.md": docs_site.Page(
            "a/b.md",
            "[up](index.md) ![i](images/leaderboard-overview.png)\n[two\nlines](../LICENSE) "
            "[web](https://example.org) [here](#x)\n```text\n[left](alone.md)\n```\n",
        ),
        ROOT / "CONTRIBUTING.md": docs_site.Page("contributing.md", "[d](docs/index.md)", ROOT),
    }
    docs_site.write_pages(pages, tmp_path / "with", "https://host/blob/main")
    docs_site.write_pages(pages, tmp_path / "without", "")
    start = (tmp_path / "with" / "index.md").read_text()
    assert start == "[c](contributing.md#rules) [p](a/b.md)\n"
    assert (tmp_path / "with" / "contributing.md").read_text() == "[d](index.md)\n"
    assert (tmp_path / "with" / "a" / "b.md").read_text() == (
        "[up](../index.md) ![i](../images/leaderboard-overview.png)\n"
        "[two\nlines](https://host/blob/main/LICENSE) [web](https://example.org) [here](#x)\n"
        "```text\n[left](alone.md)\n```\n"
    )
    assert "[i](../images/leaderboard" in (tmp_path / "without" / "a" / "b.md").read_text()
    assert "\ntwo\nlines [web]" in (tmp_path / "without" / "a" / "b.md").read_text()
    assert (tmp_path / "with" / "images" / "leaderboard-overview.png").is_file()


def test_a_link_to_nothing_and_a_page_without_a_place_end_the_build(tmp_path: Path) -> None:
    start = docs_site.Page("index.md", "# I\n\n## Start\n\n[gone](gone.md) [a](a.md)\n")
    pages = {DOCS / "index.md": start, DOCS / "a.md": docs_site.Page("a.md", "# A\n")}
    with pytest.raises(SystemExit, match=r"nowhere: index\.md: gone\.md"):
        docs_site.write_pages(pages, tmp_path / "pages", "")
    assert docs_site.navigation(pages)[1:] == [{"Start": ["a.md"]}]
    pages[DOCS / "lost.md"] = docs_site.Page("lost.md", "# Lost\n")
    with pytest.raises(SystemExit, match=r"docs/index\.md .*lost\.md"):
        docs_site.navigation(pages)


@pytest.mark.slow
def test_every_benchmark_and_every_public_name_has_its_place() -> None:
    pages = docs_site.read_pages()
    listed = yaml.safe_dump(docs_site.navigation(pages))
    assert all(page.place in listed for page in pages.values())
    names = {n for page in pages.values() for n in re.findall(r"^::: (\S+)$", page.text, re.M)}
    for module in ("medhelm", "medhelm.plugin"):
        public = {f"{module}.{name}" for name in importlib.import_module(module).__all__}
        assert public == {name for name in names if name.rpartition(".")[0] == module}
    assert DOCS / "benchmarks" / "med_qa.md" in pages


def test_the_workflow_for_pages_runs_commands_that_exist() -> None:
    workflow = yaml.safe_load((DOCS / "github-pages.yml").read_text())
    lines = [step["run"] for step in workflow["jobs"]["publish"]["steps"] if "run" in step]
    options = check_docs.options()
    for line in lines:
        words = line.split()
        if words[0] == "medhelm":
            assert list(check_docs._check_command(words[1:], options, set())) == []
        assert all((ROOT / word).is_file() for word in words if word.endswith(".py"))
    assert any("--access public" in line for line in lines if "leaderboard" in line)


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert cited["version"] == project["version"] == medhelm.__version__
    assert (cited["title"], cited["license"]) == (project["name"], project["license"])
    assert {"cff-version", "message", "authors"} <= cited.keys()
