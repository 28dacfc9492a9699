"""Find the commands of plugins in data files, so that no module of theirs is imported for a help.

A package names its commands in `commands.toml`, a plugin of one file in a file of its name:

    ["ward audit"]
    help = "which answers of a ward were not read"
    module = "audit"

`asks = true` gives a command that may ask models the option `--env-file FILE`. `options` lists what it takes: the
names of those that commands share (`{shared = NAME, help = ...}` where something is other here), and tables of what
argparse takes, with their `name`. With them the help imports no module. `about` is what the command's own help
begins with, where that is more than its line of `help`.
`module` is the module beside the data file that has `run`, and `add_arguments` where no options are listed, or `MODULE:NAME` for a
value in it that has them, or a function that is its `run`; a name with a dot is taken as it is. Without it a package has one of the
words (`ward_audit`), a file has itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from medhelm.errors import PluginError, UnknownName, UsageError
from medhelm.files.folders import beside
from medhelm.plugins.distribution import GROUP, NAME, OTHER

FILE = "commands.toml"
_KEYS = ("help", "module", "also", "asks", "options", "about")
_METADATA = (".dist-info", ".egg-info")


class Broken(NamedTuple):
    """A third-party plugin that was left out, and why (one line)."""

    plugin: str
    reason: str


class Installed(NamedTuple):
    """An installed plugin: the distribution that brings it, and what its entry point names."""

    distribution: str
    value: str

    def __str__(self) -> str:
        return f"{self.distribution} ({self.value})"

    @property
    def is_built_in(self) -> bool:
        """Return whether it comes with medhelm."""
        return self.distribution == NAME

    @property
    def module(self) -> str:
        """Return the name of its module."""
        return self.value.partition(":")[0].strip()

    def load(self) -> Any:
        """Return what its entry point names, imported now."""
        return _imported(self.value)


class Command(NamedTuple):
    """One command: its words, its line of help, and the module that runs it."""

    words: tuple[str, ...]
    """One, or two where several plugins share the first (`generate words`)."""
    help: str
    about: str
    """The first words of its own help; those of `help` where the data file has no others."""
    module: str
    """Name of the module with `add_arguments` and `run` (MODULE:NAME: of a value with them, or of a function), or the
    path of its file."""
    also: tuple[str, ...] = ()
    """Words of other tools for it, which are answered with its own."""
    origin: str = ""
    """The data file that names it."""
    owner: str = ""
    """The plugin that brings it; empty for those of medhelm."""
    asks: bool = False
    """True if it may ask models, so that it takes `--env-file FILE`."""
    options: tuple[Any, ...] | None = None
    """As the data file has them; None: its module adds them."""

    @property
    def name(self) -> str:
        """Its words, as they are typed."""
        return " ".join(self.words)


class KnownCommands(NamedTuple):
    """All commands by their words, those of medhelm first, and the plugins left out."""

    commands: Mapping[tuple[str, ...], Command]
    broken: tuple[Broken, ...] = ()

    def first_words(self) -> dict[str, str]:
        """Return the line of help of each first word; of several commands it names their words."""
        return {
            word: own[0].help
            if len(own := self.of(word)) == 1
            else f"{', '.join(c.words[1] for c in own)}: `medhelm {word} --help` says more"
            for word in dict.fromkeys(words[0] for words in self.commands)
        }

    def of(self, word: str) -> list[Command]:
        """Return the commands of a first word."""
        return [c for c in self.commands.values() if c.words[0] == word]

    def chosen(self, argv: Sequence[str]) -> tuple[Command | None, list[str]]:
        """Return the command that a line names and its arguments; None for the help of a first word.

        Raises UsageError, and UnknownName with the nearest ones.
        """
        word, *rest = argv
        if (word,) in self.commands:
            return self.commands[word,], rest
        for command in self.commands.values():
            if word in command.also:
                raise UsageError(f"there is no command {word!r}: it is `medhelm {command.name}`")
        own = {c.words[1]: c for c in self.of(word)}
        if not own:
            raise UnknownName("command", word, self.first_words(), "`medhelm --help` shows all.")
        for place, second in enumerate(rest):  # options may come before it
            if second in own:
                return own[second], rest[:place] + rest[place + 1 :]
        if {"-h", "--help"} & {*rest}:
            return None, rest
        given = next((w for w in rest if not w.startswith("-")), None)
        if given is None:
            names = " or ".join(f"`medhelm {c.name}`" for c in own.values())
            raise UsageError(f"medhelm {word} needs a second word: {names}")
        hint = f"There are: {', '.join(own)}."
        raise UnknownName(f"command of `medhelm {word}`", given, own, hint)


def read_commands(path: Path, package: str, owner: str = "", alone: str = "") -> list[Command]:
    """Return the commands of a data file; raises PluginError.

    `package`: that the file lies in. `alone`: the plugin's own module, of a plugin of one file.
    """
    import tomllib

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise PluginError(f"{path} cannot be read: {' '.join(str(e).split())}") from None
    return [_command(path, name, own, package, owner, alone) for name, own in content.items()]


def _command(path: Path, name: str, own: Any, package: str, owner: str, alone: str) -> Command:
    words = tuple(name.split())
    if not 1 <= len(words) <= 2 or any(word.startswith("-") for word in words):
        raise PluginError(f"{path}: {name!r}: a command is one word or two")
    if not isinstance(own, dict) or not isinstance(own.get("help"), str):
        raise PluginError(f'{path}: {name!r} has no line of help; add help = "..."')
    if unknown := sorted(own.keys() - {*_KEYS}):
        raise PluginError(
            f"{path}: {name!r}: unknown key {unknown[0]!r}; keys are {', '.join(_KEYS)}"
        )
    also = own.get("also", [])
    module = own.get("module", alone or "_".join(words).replace("-", "_"))
    options = own.get("options")
    if not isinstance(module, str) or not isinstance(also, list):
        raise PluginError(f"{path}: {name!r}: module is a text, also a list of words")
    if not isinstance(options, list | None):
        raise PluginError(f"{path}: {name!r}: options is a list of names and tables")
    if module != alone and "." not in module:
        module = f"{package}.{module}" if package else str(path.with_name(f"{module}.py"))
    return Command(
        words=words,
        help=own["help"],
        about=str(own.get("about", own["help"])),
        module=module,
        also=(*also,),
        origin=str(path),
        owner=owner,
        asks=own.get("asks") is True,
        options=None if options is None else (*options,),
    )


def find_commands(core: Sequence[Command], files: Sequence[str] = ()) -> KnownCommands:
    """Return the commands of medhelm (`core`), of installed plugins, and of files that were named.

    A third-party plugin that cannot be used is left out; raises PluginError for the others.
    """
    found = _add({}, core)
    broken = []
    for plugin in installed_plugins():
        owner = "" if plugin.is_built_in else str(plugin)
        try:
            found = _add(found, _of_plugin(plugin.module, owner))
        except (PluginError, ImportError) as e:
            if plugin.is_built_in:
                raise
            broken.append(Broken(owner, str(e)))
    for path in map(Path, files):
        for data, _ in data_files(path):
            found = _add(found, read_commands(data, "", str(path), str(path)))
    return KnownCommands(found, tuple(broken))


def name_broken(plugins: Iterable[Broken]) -> None:
    """Name on stderr the plugins that were left out."""
    for broken in plugins:
        print(f"medhelm: plugin {broken.plugin} is left out: {broken.reason}", file=sys.stderr)


def _add(
    known: Mapping[tuple[str, ...], Command], more: Sequence[Command]
) -> dict[tuple[str, ...], Command]:
    """Return the commands with all of a plugin's, or raise PluginError for words that are taken."""
    found = dict(known)
    for command in more:
        for first in found.values():
            is_one_word = 1 in (len(first.words), len(command.words))
            if first.words == command.words or (is_one_word and first.words[0] == command.words[0]):
                raise PluginError(
                    f"command {command.name!r} is there already ({first.name!r}): in "
                    f"{first.origin} and in {command.origin}; rename one"
                )
        found[command.words] = command
    return found


def _of_plugin(module: str, owner: str) -> list[Command]:
    """Return the commands of a package and of those that lie in it, or of a module."""
    from importlib.util import find_spec

    top, *inner = module.split(".")
    spec = find_spec(top)  # of a name without a dot nothing is imported
    if spec is None:
        return []
    if spec.submodule_search_locations is None:
        places = [Path(spec.origin or top)]
    else:
        places = [Path(base, *inner) for base in spec.submodule_search_locations]
    found: list[Command] = []
    for place in places:
        for path, name in data_files(place):
            is_package = path.name == FILE
            package = ".".join(filter(None, (module, name)))
            found += read_commands(
                path, package if is_package else "", owner, "" if is_package else module
            )
    return found


def data_files(place: Path) -> list[tuple[Path, str]]:
    """Return the data files of a plugin, each with the name of the inner package that it lies in.

    `place`: the folder of a package, or the file of a module.
    """
    if not place.is_dir():
        data = beside(place, f"{place.stem}.toml")
        return [(data, "")] if data else []
    inner = sorted(entry.name for entry in os.scandir(place) if entry.is_dir())
    named = [(beside(place / "__init__.py", name, FILE), name) for name in ("", *inner)]
    return [(path, name) for path, name in named if path]


def command_module(command: Command) -> Any:
    """Return what has `add_arguments` and `run`, imported now; raises PluginError where a file is not there."""
    if command.module.endswith(".py"):
        from medhelm.plugins.discovery import import_file

        return import_file(Path(command.module))
    return _imported(command.module)


def _imported(value: str) -> Any:
    """Return a module, or of `MODULE:NAME` a value in it."""
    module, _, name = value.partition(":")
    found = import_module(module.strip())
    return getattr(found, name.strip()) if name else found


def installed_plugins() -> list[Installed]:
    """Return the installed plugins, those of medhelm first.

    In a tenth of the time of `importlib.metadata`, which takes as long to import as all else that
    `medhelm --help` needs.
    """
    found: dict[Installed, None] = {}
    for place in dict.fromkeys(sys.path):
        try:
            entries = sorted(e.path for e in os.scandir(place or ".") if e.name.endswith(_METADATA))
        except OSError:  # no folder: an archive, or one that is gone
            continue
        for path in entries:
            for value in _plugins_in(Path(path, "entry_points.txt")):
                stem = os.path.basename(path).rpartition(".")[0].partition("-")[0]
                name = stem.replace("_", "-")
                # An installation from before the renaming, beside a new one, names the same parts.
                found[Installed(NAME if name == OTHER else name, value)] = None
    return sorted(found, key=lambda own: (not own.is_built_in, *own))


def _plugins_in(path: Path) -> Iterator[str]:
    """Yield the modules that a file of entry points names in the group of plugins."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return
    section = ""
    for line in text.splitlines():
        if line.startswith("["):
            section = line.strip()
        elif section == f"[{GROUP}]" and "=" in line:
            yield line.partition("=")[2].strip()
