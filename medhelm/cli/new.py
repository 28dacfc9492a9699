"""`medhelm new benchmark|metric|rubric|ask|provider|protocol NAME`: small files that work, to start from."""

from __future__ import annotations

import argparse
import inspect
import re
import tomllib
from collections.abc import Collection
from importlib import resources
from pathlib import Path

from medhelm.data.rubrics import known_rubrics
from medhelm.errors import UsageError
from medhelm.files.durable import why
from medhelm.models.providers import known_providers
from medhelm.plugins.registry import load_registry

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def run(args: argparse.Namespace) -> int:
    """Write the files, print the next commands and return 0. Nothing is overwritten."""
    name = args.name
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not a name: write snake_case, a-z, 0-9 and _")
    if args.kind and args.what != "benchmark":
        raise UsageError(f"--kind is for benchmarks; leave it out of `medhelm new {args.what}`")
    if owner := _owner(args.what, name):
        raise UsageError(
            f"the {args.what} {name!r} is there already, defined in {owner}; choose another name"
        )
    known = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    kinds = known["files"]
    files = kinds["other"].get(args.what) or kinds["benchmark"][args.kind or "choice"]
    texts = {Path(args.dir, to.replace("@NAME@", name)): template for template, to in files.items()}
    for path in texts:
        if path.exists():
            raise UsageError(f"{path} exists already and is left as it is; choose another name")
    class_name = "".join(part.capitalize() for part in name.split("_"))
    templates = resources.files("medhelm.cli") / "templates"
    for path, template in texts.items():
        text = (templates / template).read_text(encoding="utf-8")
        _write(path, text.replace("@NAME@", name).replace("@CLASS@", class_name))
        print(f"wrote {path}")
    plugin = str(next(iter(texts)))
    print("next:")
    for line in known["next"][args.what]:
        print(f"  {line.replace('@NAME@', name).replace('@PLUGIN@', plugin)}")
    if args.kind == "csv":
        root = Path(args.dir, "data")
        print(f"  medhelm validate {name} --data full --data-dir {root} --plugin {plugin}")
    return 0


def _owner(what: str, name: str) -> str:
    """Return where an installed thing of that name is defined; empty if there is none."""
    registry = load_registry()
    if what == "benchmark":
        return registry.benchmarks[name].origin if name in registry.benchmarks else ""
    if what == "metric":
        found = next((m for (n, _), m in registry.metrics.items() if n == name), None)
        return "" if found is None else inspect.getfile(type(found))
    known: dict[str, Collection[str]] = {
        "rubric": known_rubrics(registry.benchmarks.values()),
        "provider": known_providers(),
        "protocol": registry.protocols,
        "ask": registry.askings,
    }
    return "medhelm or an installed plugin" if name in known[what] else ""


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as e:
        raise UsageError(f"cannot write {path}: {why(e)}") from None
