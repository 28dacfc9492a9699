"""Builds the site of the documentation: docs/, a page for each benchmark, and the Python names.

    python scripts/docs_site.py [--out FOLDER] [--repository URL] [--only-pages]

The pages are written into FOLDER/pages for a generator of sites, to which the sources are not bound:
links of the repository become links of the site, and lists and fences are written as the generator
wants them. The navigation is that of docs/index.md: its headings, and under each the pages that it
links first. A link that leads nowhere ends the build. Files that are no page are linked below URL,
the address of the repository's files; without it their names are shown. Needs the extra `docs`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from os.path import relpath
from pathlib import Path, PurePosixPath

import benchmarks_page
import yaml
from pages import ROOT

DOCS = ROOT / "docs"
CONFIG = Path(__file__).with_suffix(".yaml")
STUBS = {"medhelm": ROOT / "medhelm/__init__.pyi", "medhelm.plugin": ROOT / "medhelm/plugin.pyi"}
_BLOCK = re.compile(r"^( *```.*?^ *```\n)", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`]+`")
_NAMED = re.compile(r"```(\w+) (\S+)$")
_ITEM = re.compile(r"(?:[-*]|\d+\.) +")
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
_NAME = re.compile(r"^from \S+ import (\w+) as \1  # (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """Holds a page of the site as it is written in the repository."""

    place: str
    """Its path in the site."""
    text: str
    folder: Path = DOCS
    """The folder to which its links are relative."""


def read_pages() -> dict[Path, Page]:
    """Return all pages by their file in the repository, or the one that they would have there."""
    found = {file: Page(file.name, file.read_text("utf-8")) for file in sorted(DOCS.glob("*.md"))}
    overview = benchmarks_page.render(lambda benchmark: f"benchmarks/{benchmark.name}.md")
    found[DOCS / "benchmarks.md"] = Page("benchmarks/index.md", overview)
    for name, text in benchmarks_page.render_each().items():
        found[DOCS / "benchmarks" / f"{name}.md"] = Page(f"benchmarks/{name}.md", text)
    for file in (ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"):
        found[file] = Page(file.name.lower(), file.read_text("utf-8"), ROOT)
    for module, stub in STUBS.items():
        names, *groups = python_pages(module, stub)
        found[stub] = names
        found |= {DOCS / page.place: page for page in groups}
    return found


def python_pages(module: str, stub: Path) -> Iterator[Page]:
    """Yield an overview of the names of a module, then a page for each heading of its stub."""
    heads = re.split(r"^# -- (.+)$", stub.read_text("utf-8"), flags=re.MULTILINE)[1:]
    overview = [f"# Python: {module}", "", f"Every name that `{module}` has, from its stub.", ""]
    pages = []
    for heading, part in zip(heads[::2], heads[1::2], strict=True):
        slug = re.sub(r"\W+", "-", heading.lower())
        names, place = _NAME.findall(part), f"python/{module}/{slug}.md"
        overview += [f"## {heading}", "", "| name | what it is |", "|---|---|"]
        overview += [f"| [`{n}`]({place}#{module}.{n}) | {what} |" for n, what in names] + [""]
        body = "".join(f"\n::: {module}.{name}\n" for name, _ in names)
        pages.append(Page(place, f"# {heading}\n{body}"))
    yield Page(f"python/{module}/index.md", "\n".join(overview))
    yield from pages


def navigation(pages: Mapping[Path, Page]) -> list[object]:
    """Return the sections of docs/index.md, each with the pages that it is the first to link.

    Raises SystemExit for a page without a place there.
    """
    placed = {"index.md"}
    found: list[object] = [{"I want to ...": "index.md"}]
    parts = re.split(r"^## (.+)$", pages[DOCS / "index.md"].text, flags=re.MULTILINE)[1:]
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        section: list[object] = []
        for _, _, target in _LINK.findall(text):
            page = pages.get((DOCS / target.partition("#")[0]).resolve())
            if page and page.place not in placed:
                below = _below(page.place, pages)
                placed |= {page.place, *below}
                name = page.text.partition("\n")[0].removeprefix("# ")
                section.append({name: [page.place, *below]} if below else page.place)
        if section:
            found.append({heading: section})
    if missing := {page.place for page in pages.values()} - placed:
        raise SystemExit(f"docs/index.md does not link {', '.join(sorted(missing))}")
    return found


def _below(place: str, pages: Mapping[Path, Page]) -> list[str]:
    """Return the other pages in the folder of an overview."""
    folder, _, name = place.rpartition("/")
    inside = (page.place for page in pages.values() if page.place.startswith(f"{folder}/"))
    return [other for other in inside if other != place] if name == "index.md" and folder else []


def convert(text: str, link: Callable[[re.Match[str]], str]) -> str:
    """Return a page in the generator's Markdown: lists indented by four, names of files as titles.

    `link` is given each link outside fenced blocks and returns what takes its place.
    """
    columns: list[int] = []  # at which the content of the list items around a line begins
    made: list[str] = []
    for number, part in enumerate(_BLOCK.split(text)):
        is_fenced = number % 2 == 1
        for line in (part if is_fenced else _LINK.sub(link, part)).splitlines():
            bare = line.lstrip(" ")
            column = len(line) - len(bare)
            while bare and not is_fenced and columns and column < columns[-1]:
                columns.pop()
            indent = column + (4 * len(columns) - columns[-1] if columns else 0)
            if not is_fenced and (item := _ITEM.match(bare)):
                columns.append(column + item.end())
            if bare.startswith("|"):
                bare = _CODE.sub(lambda found: found[0].replace("\\|", "|"), bare)
            elif fence := _NAMED.match(bare):
                bare = f'```{fence[1]} title="{fence[2]}"'
            made.append(" " * indent + bare if bare else "")
    return "\n".join(made) + "\n"


def write_pages(pages: Mapping[Path, Page], out: Path, repository: str) -> None:
    """Write the pages and their pictures below a folder; raises SystemExit for links to nothing."""
    missing = []

    def replaced(page: Page, found: re.Match[str]) -> str:
        mark, words, target = found.groups()
        path, _, anchor = target.partition("#")
        file = (page.folder / path).resolve()
        if "://" in target or not path:
            return found[0]
        if not (file.exists() or file in pages):
            missing.append(f"{page.place}: {target}")
            return words
        if file in pages:
            place = pages[file].place
        elif mark:
            place = f"images/{file.name}"
            shutil.copyfile(file, out / place)
        else:
            name = file.relative_to(ROOT).as_posix()
            return f"[{words}]({repository}/{name})" if repository else words
        goal = relpath(place, PurePosixPath(page.place).parent)
        return f"{mark}[{words}]({goal}{'#' * bool(anchor)}{anchor})"

    (out / "images").mkdir(parents=True)
    shutil.copyfile(CONFIG.with_suffix(".css"), out / "site.css")
    for page in pages.values():
        (out / page.place).parent.mkdir(parents=True, exist_ok=True)
        made = convert(page.text, partial(replaced, page))
        (out / page.place).write_text(made, encoding="utf-8")
    if missing:
        raise SystemExit("links that lead nowhere: " + ", ".join(missing))


def main() -> int:
    """Write the pages, build the site and return the exit code."""
    options = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--out", type=Path, default=ROOT / "build" / "docs", metavar="FOLDER")
    options.add_argument("--repository", default="", metavar="URL", help="address of its files")
    options.add_argument("--only-pages", action="store_true", help="do not run the generator")
    given = options.parse_args()
    out = given.out.resolve()
    shutil.rmtree(out / "pages", ignore_errors=True)
    pages = read_pages()
    write_pages(pages, out / "pages", given.repository.rstrip("/"))
    config = {"docs_dir": "pages", "site_dir": "site", "nav": navigation(pages)}
    text = CONFIG.read_text("utf-8").replace("PATHS", str(ROOT))
    (out / "mkdocs.yml").write_text(f"{text}{yaml.safe_dump(config, sort_keys=False)}", "utf-8")
    if given.only_pages:
        return 0
    zensical = Path(sys.executable).with_name("zensical")
    if not zensical.is_file():
        raise SystemExit("the generator is not there; run in the checkout: pip install '.[docs]'")
    command = [zensical, "build", "--strict", "--clean", "-f", out / "mkdocs.yml"]
    done = subprocess.run(command, cwd=out, check=False)
    if done.returncode == 0:
        print(f"The site: {out / 'site' / 'index.html'}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
