"""The shape of the code: imports go down, no cycles, no plugin by name, light start."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "medhelm"

LAYERS: dict[int, set[str]] = {
    0: {"errors"},
    1: {
        "config",
        "console",
        "distribution",
        "durable",
        "exact_sum",
        "schema",
        "seals",
        "yaml_bounds",
    },
    2: {"costs", "data", "extract", "hookspecs", "intervals", "jury", "models", "noharm", "privacy"}
    | {
        "agreement",
        "profiles",
        "prompts",
        "rank_sets",
        "records",
        "rouge",
        "runlog",
        "stats",
        "student_t",
        "taxonomy",
        "word_model",
        "yaml_benchmark",
    }
    | {"sql_compare", "sql_sandbox", "sql_worker"},
    3: {
        "benchmark_checks",
        "bertscore",
        "evaluate_metric",
        "grading",
        "phrasings",
        "protocols",
        "registry",
        "tables",
    },
    4: {
        "api",
        "checks",
        "estimation",
        "feeding",
        "generation",
        "gold_quality",
        "gold_report",
        "interrupts",
        "judges",
        "leaderboard",
        "manifest",
        "planning",
        "regrading",
        "reading_trial",
        "runner",
        "scoring",
        "slow_metrics",
        "survey",
    }
    | {"validation"},
    5: {"__main__", "cli"},
}
LAYER_OF = {module: layer for layer, modules in LAYERS.items() for module in modules}
HEAVY = {"datasets", "docx", "evaluate", "nltk", "openpyxl", "pandas", "plotly", "pyarrow"}
HEAVY |= {"rapidfuzz", "rouge_score"}
HEAVY |= {"rouge_score"}
HEAVY |= {"scipy", "sklearn", "sqlglot", "torch", "transformers"}


def files() -> list[Path]:
    return [p for p in sorted(PACKAGE.rglob("*.py")) if p != PACKAGE / "__init__.py"]


def name_of(path: Path) -> str:
    """The unit of the architecture: a module, or a whole sub-package."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def dotted(path: Path) -> str:
    relative = path.relative_to(ROOT).with_suffix("")
    return ".".join(relative.parts).removesuffix(".__init__")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imported(path: Path, *, top_only: bool = False) -> frozenset[str]:
    """Dotted names of all imported modules; names of `from x import y` where y is a module."""
    tree = parsed(path)
    nodes = tree.body if top_only else list(ast.walk(tree))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: imports are absolute"
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return frozenset(found)


def test_every_module_has_a_layer_and_every_layer_exists() -> None:
    there = {name_of(p) for p in files()}
    assert there == set(LAYER_OF)


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_down(path: Path) -> None:
    own = LAYER_OF[name_of(path)]
    for name in imported(path):
        if not name.startswith("medhelm."):
            continue
        target = name.split(".")[1]
        if target in LAYER_OF:
            assert LAYER_OF[target] <= own, f"{path} (layer {own}) imports {name}"


def test_no_cycles_among_modules() -> None:
    known = {dotted(p): p for p in files()}
    graph = {
        module: {n for n in imported(path) if n in known and n != module}
        for module, path in known.items()
    }
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, f"cycle: {' -> '.join((*trail, module))}"
        if module not in done:
            for target in graph[module]:
                visit(target, (*trail, module))
            done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("path", files(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_the_core_knows_no_plugin_by_name_and_heavy_packages_wait(path: Path) -> None:
    for name in imported(path):
        assert not name.startswith(
            ("medhelm_benchmarks", "medhelm_metrics", "benchmarks", "metrics")
        )
    for name in imported(path, top_only=True):
        assert name.split(".")[0] not in HEAVY, f"{path} imports {name} at module level"


@pytest.mark.parametrize("folder", ["benchmarks", "metrics"])
def test_plugins_import_only_medhelm_and_the_standard_library(folder: str) -> None:
    for path in sorted((ROOT / folder).glob("*.py")):
        for name in imported(path, top_only=True):
            top, _, rest = name.partition(".")
            if top == "medhelm":
                assert rest == "" or rest.count(".") == 0
                assert not (PACKAGE / f"{rest}.py").exists(), f"{path} imports medhelm.{rest}"
            else:
                assert top in sys.stdlib_module_names, f"{path} imports {name} at module level"


def test_only_three_modules_and_the_launcher_know_hydra() -> None:
    for path in files():
        if any(n.split(".")[0] in ("hydra", "omegaconf", "hydra_plugins") for n in imported(path)):
            known = ("compose.py", "hydra_app.py", "overrides.py")
            assert path.relative_to(PACKAGE / "cli").name in known


@pytest.mark.parametrize("argument", ["--help", "--version", "list benchmarks"])
def test_commands_that_need_no_heavy_package_load_none(argument: str) -> None:
    code = (
        "import sys; from medhelm.cli import run_command\n"
        "try: run_command(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "print('LOADED', *sorted(m for m in sys.modules if '.' not in m))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *argument.split()], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.rsplit("LOADED", 1)[1].split())
    assert not loaded & (HEAVY | {"hydra", "aiohttp"})


def test_modules_and_functions_stay_readable() -> None:
    for path in files():
        text = path.read_text()
        if path.name != "schema.py":  # the one list of all types; it has no logic to split
            assert text.count("\n") <= 450, f"{path} is over 450 lines"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                assert node.end_lineno - node.lineno < 60, f"{path}: {node.name} is over 60 lines"
