"""Teaching packets: the files of an article, each as numbered lines of Markdown.

Text is taken as it is. Office files, PDF and HTML are converted by markitdown (extra `curate`). The
files themselves are only read; `Document.sha256` shows whether one was changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from medhelm import DataError, UsageError
from medhelm.plugin import durable, entries, file_sha256
from medhelm_benchmarks.encounters.data.layout import read_text, visible

TEXTS = (".md", ".markdown", ".txt")
Place = tuple[str, int]
"""A document and the number of a line in it."""
CONVERTED = (".docx", ".pptx", ".xlsx", ".pdf", ".html", ".htm")


@dataclass(frozen=True)
class Document:
    """One file of an article."""

    name: str
    """Its path below the article's folder."""
    sha256: str
    """Of the file itself."""
    lines: tuple[str, ...]
    """Of its Markdown; line numbers begin with 1."""

    @property
    def copy_name(self) -> str:
        """Return the name of its copies, which are Markdown."""
        plain = self.name.replace("/", "__")
        return plain if plain.endswith((".md", ".markdown", ".txt")) else f"{plain}.md"


@dataclass(frozen=True)
class Article:
    """All files of one article that can be read as text."""

    case: str
    documents: tuple[Document, ...]
    left_out: tuple[str, ...] = ()
    """Files of other kinds, and those without text."""

    def line(self, place: Place) -> str:
        """Return a line of a document."""
        (document,) = (d for d in self.documents if d.name == place[0])
        return document.lines[place[1] - 1]


def find_articles(folder: Path) -> list[Path]:
    """Return the folders of articles: those below a folder, or itself where it holds files alone."""
    with durable.os_errors_as(UsageError, f"cannot read {folder} as a folder of packets"):
        shown = entries(folder)
    folders = [p for p in shown if p.is_dir()]
    if folders and len(folders) < len(shown):
        file = next(p for p in shown if not p.is_dir())
        raise UsageError(
            f"{folder} holds files ({file.name}, ...) and folders ({folders[0].name}, ...); name a "
            "folder of one article's files, or one with a folder for each article"
        )
    if not shown:
        raise UsageError(f"{folder} is empty; name a folder of teaching packets")
    for article in folders or [folder]:
        _files(article)  # before any of them is paid for
    return folders or [folder]


def read_article(folder: Path) -> Article:
    """Return the documents of an article; raises DataError where none has text."""
    documents: list[Document] = []
    left_out: list[str] = []
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        text = _text(path, name)
        if text is None or not text.strip():
            left_out.append(name)
            continue
        documents.append(Document(name, _sha256(path), tuple(text.splitlines())))
    if not documents:
        known = ", ".join((*TEXTS, *CONVERTED))
        raise DataError(f"{folder}: no file holds text; read are {known}")
    return Article(folder.resolve().name, tuple(documents), tuple(left_out))


def changed_since(folder: Path, documents: Sequence[Document]) -> list[str]:
    """Return the names of files that are no longer as they were read."""
    return [d.name for d in documents if _sha256(folder / d.name) != d.sha256]


def _files(folder: Path) -> list[Path]:
    return [p for p in visible(folder, folder, is_deep=True) if p.is_file()]


def _sha256(path: Path) -> str:
    with durable.os_errors_as(DataError, f"cannot read {path}"):
        return file_sha256(path)


def _text(path: Path, name: str) -> str | None:
    """Return a file as Markdown; None for a kind that is not read."""
    suffix = path.suffix.lower()
    if suffix in TEXTS:
        return read_text(path, str(path))
    return _convert(path, name) if suffix in CONVERTED else None


def _convert(path: Path, name: str) -> str:
    try:
        from markitdown import MarkItDown
    except ImportError:
        raise UsageError(
            f"{name} is converted by markitdown, which is not there; run in the checkout: pip install "
            "'.[curate]'"
        ) from None
    try:
        converted: str = MarkItDown(enable_plugins=False).convert_local(path).markdown
    except Exception as e:  # of a dozen parsers; their messages may hold text of the file
        raise DataError(
            f"{path}: markitdown cannot convert it ({type(e).__name__}); save it as text"
        ) from None
    return converted
