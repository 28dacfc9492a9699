"""Finds what the documentation says and the product does not, without running a command.

    python scripts/check_docs.py

Links, commands with their options, config keys and their defaults, columns of tables, exit codes,
hashed fields, generated pages, and text that no file of the repository may hold. The results table
of README.md is made again where MEDHELM_DATA_DIR names the full data, docs/published.md where a copy
of the published figures lies beside the checkout. What commands do when they
are run is the matter of tests/test_docs.py, which reads pages with the functions of this file.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import get_args

import msgspec
import yaml

import medhelm
from medhelm.cli import command_parser, known_commands
from medhelm.errors import MedhelmError
from medhelm.models import baselines, provider
from medhelm.models.catalogue import load_models
from medhelm.schema import data, episode, model, run, score
from medhelm.schema.asking import Asking
from medhelm.schema.episode import Sampling
from medhelm.schema.model import ModelSpec
from medhelm.schema.run import JurySpec
from medhelm.schema.score import Outcome
from medhelm.store import records
from medhelm.tables import table_spec

ROOT = Path(__file__).resolve().parent.parent
PUBLISHED = ROOT.parent / "shared" / "reference" / "published"
"""A copy of the figures that docs/published.md is made of; where there is none it is not checked."""
_FENCE = re.compile(r"^\s*```(?P<language>\w*) ?(?P<name>\S*)\s*$")
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_SETTING = re.compile(r"\+?(\w+(?:\.\w+)*)=\S")
_HYDRA = {"-m", "--multirun", "--cfg", "--config-dir", "--env-file", "--help"}
_PLACEHOLDERS = {"COMMAND", "KEY", "key", "model.KEY", "ask.KEY"}
_OF_OTHER_TOOLS = {"--num_fewshot", "--fewshot_as_multiturn", "--system_instruction", "--epochs"}
_OTHERS_KEYS = {"max_train_instances", "instructions"}
_FORBIDDEN = {  # in pieces, so that this file does not hold them itself
    r"/wor" r"k/|/hom" r"e/|/roo" r"t/|/User" r"s/": "a path of some machine",
    r"pyp" r"i\.|pythonho" r"sted|anacon" r"da\.|index-u" r"rl": "an address of a package registry",
}
_IN_DOCS = {r"/tm" r"p/": "a path of some machine"}
_BINARY = {".docx", ".parquet", ".png"}


@dataclass(frozen=True)
class Block:
    """A fenced block: ```LANGUAGE [FILE]."""

    language: str
    name: str
    text: str
    line: int


def pages() -> list[Path]:
    """Return all pages of the documentation."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [*top, *sorted((ROOT / "docs").glob("*.md"))]


def blocks(text: str) -> list[Block]:
    """Return the fenced blocks of a page, their common indentation taken off."""
    found: list[Block] = []
    opened: tuple[re.Match[str], int] | None = None
    held: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if fence and opened is None:
            opened, held = (fence, number), []
        elif fence and opened is not None:
            head, start = opened
            content = inspect.cleandoc("\n".join(["", *held])) + "\n"
            found.append(Block(head["language"], head["name"], content, start))
            opened = None
        elif opened is not None:
            held.append(line)
    return found


def commands(block: Block) -> list[str]:
    """Return the command lines of a block; a backslash at the end continues a line."""
    lines = block.text.replace("\\\n", " ").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def prose(text: str) -> str:
    """Return a page with its fenced blocks blanked, so that line numbers stay."""
    kept, is_inside = [], False
    for line in text.splitlines():
        is_fence = _FENCE.match(line) is not None
        kept.append("" if is_inside or is_fence else line)
        is_inside ^= is_fence
    return "\n".join(kept)


def section(text: str, heading: str) -> str:
    """Return what stands under a second-level heading; empty where there is none."""
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)
    return found[1] if found else ""


def rows(text: str) -> list[list[str]]:
    """Return the cells of all table rows but heads and rules."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    heads = {i - 1 for i, row in enumerate(cells) if set("".join(row)) <= set("-:| ")}
    return [row for i, row in enumerate(cells) if i not in heads and i - 1 not in heads]


def spans(text: str) -> list[str]:
    """Return what stands between backticks."""
    return _SPAN.findall(text)


# Links -------------------------------------------------------------------------------------


def check_links() -> Iterator[str]:
    """Yield links inside the repository that lead nowhere, and pages without one on the start page."""
    start = ROOT / "docs" / "index.md"
    targets = {target.partition("#")[0] for target in _LINK.findall(start.read_text("utf-8"))}
    linked = {(start.parent / target).resolve() for target in {*targets, start.name}}
    for page in pages()[1:]:
        if page.resolve() not in linked:
            yield f"docs/index.md: {_name(page)} is not linked"
    for page in pages():
        for target in _LINK.findall(prose(page.read_text(encoding="utf-8"))):
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.is_file():
                yield f"{_name(page)}: the link {target} leads to no file"
            elif anchor and anchor not in _anchors(file):
                yield f"{_name(page)}: {_name(file)} has no heading #{anchor}"


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", prose(page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


# Commands and settings ---------------------------------------------------------------------


def options() -> dict[str, set[str]]:
    """Return the options of each command."""
    found = {"run": set(_HYDRA)}
    known = known_commands()
    for command in known.commands.values():
        if command.name != "run":
            parser = command_parser(command)
            found.setdefault(command.words[0], set()).update({*_options_of(parser)} - {"-h"})
    return found


def _options_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from _options_of(child)


def settings() -> dict[str, object]:
    """Return every config key of `medhelm run` with its default."""
    config = yaml.safe_load((ROOT / "conf" / "config.yaml").read_text(encoding="utf-8"))
    found = {k: v for k, v in config.items() if k not in ("defaults", "hydra", "privacy")}
    found |= {f"privacy.{k}": v for k, v in config["privacy"].items()}
    own = ("benchmark", "benchmark.split", "benchmark.instruction", "suite", "experiment", "ask")
    found |= dict.fromkeys(("model", *own))
    return found


def model_settings() -> dict[str, object]:
    """Return every key of a model's config with its default."""
    spec: dict[str, object] = msgspec.to_builtins(ModelSpec(name="")) | {"rename": False}
    del spec["sampling"]
    sampling = msgspec.to_builtins(Sampling())
    found = {f"model.{k}": v for k, v in spec.items()}
    found |= {f"model.sampling.{k}": v for k, v in sampling.items()}
    return {k: [*v] if isinstance(v, tuple) else v for k, v in found.items()}


def check_commands() -> Iterator[str]:
    """Yield commands, options and keys in blocks and in prose that do not exist."""
    options_of = options()
    anywhere = set().union(*options_of.values()) | _options_of_scripts() | {"--version"}
    anywhere |= _OF_OTHER_TOOLS
    keys = {*settings(), *model_settings(), *_python_names(), "model.sampling", "privacy"}
    keys |= {f"jury.{name}" for name in JurySpec.__struct_fields__} | _OTHERS_KEYS
    keys |= {f"ask.{name}" for name in Asking.__struct_fields__}
    for page in pages():
        text = page.read_text(encoding="utf-8")
        known = {word: {"--plugin"} for word in _words_of_examples(text)} | options_of
        lines = [line for b in blocks(text) if b.language in ("bash", "") for line in commands(b)]
        for line in [*lines, *spans(prose(text))]:
            words = _words(line)
            if "medhelm" in words[:1] and len(words) > 1 and words[1].isalpha():
                yield from (f"{_name(page)}: {p}" for p in _check_command(words[1:], known, keys))
            elif line.startswith("--") and words[0].partition("=")[0] not in anywhere:
                yield f"{_name(page)}: no command has the option {words[0]}"
            elif (setting := _SETTING.match(line)) and not _is_key(setting[1], keys):
                yield f"{_name(page)}: there is no setting {setting[1]} ({line})"


def _words_of_examples(text: str) -> set[str]:
    """Return the first words of the commands that a page's examples of plugins bring."""
    files = [tomllib.loads(b.text) for b in blocks(text) if b.language == "toml" and b.name]
    return {name.split()[0] for file in files for name, own in file.items() if "help" in own}


def _words(line: str) -> list[str]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:  # a lone quote in prose
        words = line.split()
    while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):
        del words[0]
    return words or [""]


def _check_command(
    words: list[str], known: dict[str, set[str]], keys: Iterable[str]
) -> Iterator[str]:
    command = words[0]
    if command in _PLACEHOLDERS:
        return
    if command not in known:
        yield f"there is no command `medhelm {command}`"
        return
    for before, word in pairwise(words):
        if word.startswith("-") and word not in known[command] | {"--help"}:
            yield f"`medhelm {command}` has no option {word}"
        elif setting := _SETTING.match(word):
            if command not in ("run", "estimate", "probe", "export"):
                if before.startswith("--"):  # the option's own NAME=VALUE
                    continue
                yield f"`medhelm {command}` takes no {word}"
            elif not _is_key(setting[1], keys):
                yield f"there is no setting {setting[1]}"


def _is_key(name: str, keys: Iterable[str]) -> bool:
    is_open = name.startswith(
        (
            "model.extra_body.",
            "model.headers.",
            "cast.",
            "engine.",
            "protocol.",
            "grader.",
            "reader.",
        )
    )  # keys of plugins
    return is_open or name in keys or name in _PLACEHOLDERS


def _options_of_scripts() -> set[str]:
    texts = [p.read_text(encoding="utf-8") for p in (ROOT / "scripts").iterdir() if p.is_file()]
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", "\n".join(texts)))


def _python_names() -> set[str]:
    """Return names of arguments and fields that the Python interface has."""
    names = {
        f.name
        for part in (data, episode, model, run, score, table_spec)
        for kind in vars(part).values()
        for f in _fields(kind)
    }
    for function in (medhelm.evaluate, medhelm.load_results, medhelm.Results.table):
        names |= set(inspect.signature(function).parameters)
    return names


def _fields(kind: object) -> tuple[dataclasses.Field[object] | msgspec.structs.FieldInfo, ...]:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return msgspec.structs.fields(kind)
    return dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()


def check_completeness() -> Iterator[str]:
    """Yield commands, settings, defaults and exit codes that docs/commands.md lacks or invents."""
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for command in options():
        if not section(page, f"medhelm {command}"):
            yield f"docs/commands.md: there is no section `medhelm {command}`"
    table = [row for row in rows(section(page, "medhelm run")) if len(row) == 3]
    yield from _check_settings("docs/commands.md", table, settings())
    models = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    yield from _check_settings(
        "docs/models.md", rows(section(models, "Settings")), model_settings()
    )
    kinds: list[type[MedhelmError]] = [*_descendants(MedhelmError)]
    codes = {kind.exit_code for kind in kinds} | {0}
    said = {int(row[0]) for row in rows(section(page, "Exit codes"))}
    if codes != said:
        yield f"docs/commands.md: exit codes are {sorted(codes)}, it says {sorted(said)}"


def _check_settings(page: str, table: list[list[str]], known: dict[str, object]) -> Iterator[str]:
    said = {spans(row[0])[0]: row[1] for row in table}
    for key in sorted(known.keys() ^ said.keys()):
        yield f"{page}: {key} {'is not there' if key in known else 'is not a setting'}"
    for key, cell in said.items():
        literal = re.fullmatch(r"`([^`]+)`", cell)
        if literal and key in known and yaml.safe_load(literal[1]) != known[key]:
            yield f"{page}: the default of {key} is {known[key]!r}, it says {literal[1]}"


def _descendants(kind: type[MedhelmError]) -> Iterator[type[MedhelmError]]:
    for child in kind.__subclasses__():
        if child.__module__ == "medhelm.errors":
            yield child
            yield from _descendants(child)
    yield kind


# What the pages list -----------------------------------------------------------------------


def check_lists() -> Iterator[str]:
    """Yield outcomes, hashed fields, baselines and key variables that are not named."""
    design = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    named = set(spans(design))
    for word in (*get_args(Outcome), *records._SPEC_FIELDS, *provider.DECIDING):
        if word not in named:
            yield f"docs/design.md: {word} is not named"
    models = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
    for name in baselines.BASELINES:
        if f"\n| `{name}` |" not in models:
            yield f"docs/models.md: the table of baselines lacks {name}"
    keys = {spec.api_key_env for spec in load_models().values() if spec.api_key_env}
    for key in sorted(keys - set(spans(models))):
        yield f"docs/models.md: the variable {key} is not named"


def check_text() -> Iterator[str]:
    """Yield text that no file may hold, and a change log without its first section."""
    for path in _files():
        patterns = _FORBIDDEN | (_IN_DOCS if path.suffix == ".md" else {})
        text = path.read_text(encoding="utf-8", errors="replace")
        for pattern, what in patterns.items():
            for found in re.finditer(pattern, text):
                line = text.count("\n", 0, found.start()) + 1
                yield f"{_name(path)}:{line}: {what}: {found[0]}"
    if "\n## Unreleased\n" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        yield "CHANGELOG.md: there is no section Unreleased"


def _files() -> list[Path]:
    """Return the text files that git tracks; without git, those of the known folders."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    names = listed.stdout.split("\0") if listed.returncode == 0 else []
    found = [ROOT / name for name in names if name] or [
        path
        for folder in ("medhelm", "benchmarks", "metrics", "conf", "docs", "scripts", "tests")
        for path in (ROOT / folder).rglob("*")
        if "__pycache__" not in path.parts
    ]
    return [p for p in {*found, *pages()} if p.is_file() and p.suffix not in _BINARY]


def check_generated() -> Iterator[str]:
    """Yield generated pages that are out of date."""
    pages = (
        "benchmarks_page.py",
        "install_size.py",
        "others_page.py",
        "reference_page.py",
        "small_models.py",
    )
    scripts: dict[str, list[str]] = {page: [] for page in pages}
    if os.environ.get("MEDHELM_DATA_DIR"):
        scripts["results_table.py"] = []
    if PUBLISHED.is_dir():
        scripts["published_page.py"] = [str(PUBLISHED)]
    for script, words in scripts.items():
        command = [sys.executable, str(ROOT / "scripts" / script), *words, "--check"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            yield done.stdout.strip() or f"scripts/{script}: {done.stderr.strip()[-500:]}"


CHECKS = (check_links, check_commands, check_completeness, check_lists, check_text)


def main() -> int:
    """Print what is wrong and return the exit code."""
    problems = [problem for check in (*CHECKS, check_generated) for problem in check()]
    print("\n".join(problems) or "documentation: nothing found")
    if not PUBLISHED.is_dir():
        print("docs/published.md: skipped, no copy of the published figures beside the checkout")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
