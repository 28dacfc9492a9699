"""The shape of the code: imports go down, no cycles, no plugin by name, light start."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import yaml

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "medhelm"
SITE = ROOT / "leaderboard"
PLUGINS = ROOT / "benchmarks"
PACKAGES = sorted(p.parent.name for p in PLUGINS.glob("*/__init__.py"))

LAYERS = (
    "errors",
    "schema",
    "files",
    "config",
    "processes",
    "stats",
    "prompts",
    "extract",
    "similarity",
    "models",
    "store",
    "data",
    "protocols",
    "grading/graders",
    "grading/jury",
    "grading/rubric",
    "grading",
    "plugins",
    "tables/format",
    "tables/study",
    "tables",
    "tables/clinicians",
    "review",
    "runs",
    "proof",
    "listing",
    "api",
    "leaderboard",
    "interop",
    "cli",
    "plugin",
    "__main__",
)
"""Folders in the order of their imports: each imports from those before it, never from one behind it."""

INTERFACE = {"medhelm": PACKAGE / "__init__.pyi", "medhelm.plugin": PACKAGE / "plugin.pyi"}
"""The two modules that plugins import from; their stubs list the names."""
WORDS = re.compile(
    r"noharm|ehrsql|\bharm|omission|commission|\bmenus?\b|(?<!form-)\bactions?\b(?! ?=)", re.I
)
"""The words of the packages. `action=` is argparse's, `form-action` a browser's."""

PROSE = {
    "action": {
        f"medhelm/cli/{module}.py"  # of a command
        for module in ("compose", "data", "leaderboard", "options", "runs")
    },
    "harm": {
        "medhelm/cli/templates/rubric.yaml",
        "medhelm/extract/polarity.py",
        "medhelm/grading/jury/rubrics/accuracy_completeness_clarity.yaml",
        "medhelm/grading/jury/rubrics/counselling_turn.yaml",
        "medhelm/grading/jury/rubrics/discharge_section.yaml",
        "medhelm/grading/jury/rubrics/health_answer.yaml",
        "medhelm/grading/jury/rubrics/home_instructions.yaml",
        "medhelm/grading/jury/rubrics/medication_answer.yaml",
        "medhelm/grading/jury/rubrics/note_section.yaml",
        "medhelm/grading/jury/rubrics/procedure_note.yaml",
    },
    "consultation": {"medhelm/taxonomy.yaml"},
    "headqa": {"medhelm/cli/run_help.py", "medhelm/cli/templates/run_help.txt"},
    "medec": {"medhelm/cli/templates/run_help.txt"},
    "menu": {"medhelm/schema/data.py"},
}
"""Where such a word may be: the second word of a command, plain prose, examples to copy, and the name
under which stored instances hold a payload."""

HEAVY = {"datasets", "docx", "evaluate", "huggingface_hub", "nltk", "openpyxl", "pandas", "plotly"}
HEAVY |= {"pyarrow", "rapidfuzz", "rouge_score", "scipy", "sklearn", "sqlglot", "torch"}
HEAVY |= {"transformers"}


def files() -> list[Path]:
    """All modules of the core and of the site."""
    found = [*PACKAGE.rglob("*.py"), *SITE.rglob("*.py")]
    return [p for p in sorted(found) if p != PACKAGE / "__init__.py"]


def package_files() -> list[Path]:
    """Return the modules of all packages of benchmarks."""
    return [p for name in PACKAGES for p in sorted((PLUGINS / name).rglob("*.py"))]


def layer_of(path: Path) -> str:
    """Return the layer of a module: its folder, or itself where it lies in none."""
    if path.is_relative_to(SITE):
        return "leaderboard"
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    inner = "/".join(parts[:2])
    return inner if len(parts) > 2 and inner in LAYERS else parts[0]


def dotted(path: Path) -> str:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    if path.is_relative_to(PLUGINS):
        return f"medhelm_{name}"
    return (
        name.replace("leaderboard", "medhelm_leaderboard", 1)
        if layer_of(path) == "leaderboard"
        else name
    )


@cache
def modules() -> dict[str, Path]:
    """All modules of the core and of the site by their names."""
    return {dotted(path): path for path in files()}


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


def test_every_module_is_in_a_layer_and_every_layer_has_one() -> None:
    assert {layer_of(p) for p in files()} == set(LAYERS)


def test_six_modules_lie_in_no_folder_and_each_folder_says_in_one_line_what_belongs_there() -> None:
    flat = {p.stem for p in PACKAGE.glob("*.py")}
    assert flat == {"__init__", "__main__", "api", "config", "errors", "plugin"}
    for folder in folders():
        first = (ast.get_docstring(parsed(folder / "__init__.py")) or "").partition("\n")[0]
        assert re.fullmatch(r"\S.{20,}[.:]", first), f"{folder}: {first}"


def folders() -> list[Path]:
    """Return the folders of modules of core, site and packages."""
    return sorted({path.parent for path in (*files(), *package_files())} - {PACKAGE})


def test_the_map_in_the_docs_names_every_folder_in_its_order_and_no_module_that_is_not_there() -> (
    None
):
    text = text_of("docs/design.md")
    _, _, rest = text.partition("## Folders\n")
    first, _, others = rest.partition("Beside the core lie")
    rows = re.findall(r"^\| `([\w/]+)` \|", first, re.MULTILINE)
    assert [row.removesuffix("/") for row in rows] == list(LAYERS)
    of_core = {
        str(p.relative_to(PACKAGE if p.is_relative_to(PACKAGE) else ROOT)) for p in folders()
    }
    named = {name.removesuffix("/") for name in re.findall(r"`([\w/]+/)`", first + others)}
    assert {n for n in of_core if not n.startswith("benchmarks/")} <= named
    assert {f"benchmarks/{name}" for name in PACKAGES} <= named
    tables = "".join(re.findall(r"^\|.*\|$", text, re.MULTILINE))
    for name in re.findall(r"`([a-z_]+/[\w/]*)`", tables):
        places = [top / name for top in (PACKAGE, ROOT, *(PLUGINS / p for p in PACKAGES))]
        assert any(p.is_dir() or p.with_suffix(".py").is_file() for p in places), name
    _, _, decided = text.partition("## Where it is decided\n")
    source, known = "", 0
    answers = re.findall(r"^\|[^|]+\|(.+)\|$", decided.partition("\n## ")[0], re.MULTILINE)
    for name in re.findall(r"`([\w./]+)`", "\n".join(answers)):
        if "/" in name:
            top = ROOT if (ROOT / name).with_suffix(".py").is_file() else PACKAGE
            source = (top / name).with_suffix(".py").read_text("utf-8")
        elif source:
            own = name.rpartition(".")[2]
            assert re.search(rf"\b(?:def|class) {own}\b|^{own}\b", source, re.MULTILINE), name
            known += 1
    assert known > 40


def test_imports_go_down() -> None:
    known = modules()
    for path in files():
        own = LAYERS.index(layer_of(path))
        for name in imported(path) & known.keys():
            target = LAYERS.index(layer_of(known[name]))
            assert target <= own, f"{path} ({LAYERS[own]}) imports {name} ({LAYERS[target]})"


def test_the_names_for_plugins_come_from_below_and_the_core_takes_none_of_them() -> None:
    known = modules()
    for module, last in (("medhelm", "api"), ("medhelm.plugin", "plugin")):
        for name in imported(INTERFACE[module]) & known.keys():
            assert LAYERS.index(layer_of(known[name])) <= LAYERS.index(last), f"{module}: {name}"
    stub = set(names_of(INTERFACE["medhelm"]))
    for path in files():
        assert not imported(path) & {f"medhelm.{name}" for name in stub - known.keys()}, path


def test_no_cycles_among_modules() -> None:
    known = {dotted(p): p for p in (*files(), *package_files())}
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


def test_the_core_knows_no_plugin_by_name_and_heavy_packages_wait() -> None:
    plugins = ("medhelm_benchmarks", "medhelm_metrics", "benchmarks", "metrics")
    for path in files():
        for name in imported(path):
            assert not name.startswith(plugins), f"{path} imports {name}"
        for name in imported(path, top_only=True):
            assert name.split(".")[0] not in HEAVY, f"{path} imports {name} at module level"


def plugin_files() -> list[Path]:
    """Return the modules of benchmarks and metrics, those of packages among them."""
    found = [*PLUGINS.rglob("*.py"), *(ROOT / "metrics").rglob("*.py")]
    return sorted(path for path in found if "__pycache__" not in path.parts)


def test_a_plugin_imports_two_modules_of_the_core_and_no_other_plugin() -> None:
    for path in plugin_files():
        place = str(path.relative_to(PLUGINS)) if path.is_relative_to(PLUGINS) else path.name
        own = f"medhelm_benchmarks.{Path(place).parts[0]}" if "/" in place else "medhelm_benchmarks"
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "medhelm":
                assert node.module in INTERFACE, f"{path}: {node.module}"
            elif isinstance(node, ast.Import):
                assert not any(a.name.split(".")[0] == "medhelm" for a in node.names), path
            elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("medhelm_"):
                assert f"{node.module}.".startswith(f"{own}."), f"{path} imports {node.module}"
        for name in imported(path, top_only=True):
            top = name.split(".")[0]
            assert top not in HEAVY, f"{path} imports {name} at module level"
            is_known = top in sys.stdlib_module_names or top.startswith("medhelm")
            assert is_known or "/" in place, f"{path} imports {name} at module level"


def names_of(stub: Path) -> dict[str, str]:
    """Return the names that a stub lists, with the title of their group."""
    found, group = {}, ""
    for line in stub.read_text("utf-8").splitlines():
        if line.startswith("# -- "):
            group = line.removeprefix("# -- ")
        elif match := re.fullmatch(r"from medhelm\S* import (\w+) as \1(  # \S.*)?", line):
            assert group and match[2], (
                f"{stub.name}: {match[1]} has no group, or no line that says what it is"
            )
            found[match[1]] = group
        elif match := re.fullmatch(r"#   (\w+\.\w+): \S.*", line):
            found[match[1]] = group
        else:
            assert not line.startswith("from medhelm"), f"{stub.name}: {line}"
    return found


def value_of(module: str, name: str) -> object:
    """Return what `from module import name` binds."""
    full = f"{module}.{name}"
    home = importlib.import_module(full if full in modules() else module)
    return home if full in modules() else getattr(home, name)


def taken(tree: ast.AST) -> set[str]:
    """Return the names of the core that code takes: imported ones, and those that it reaches through a module."""
    found, through = set[str](), dict[str, ModuleType]()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "medhelm":
            for alias in node.names:
                value = value_of(str(node.module), alias.name)
                if isinstance(value, ModuleType):
                    through[alias.asname or alias.name] = value
                else:
                    found.add(f"{node.module}.{alias.name}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = through.get(node.value.id)
            if hasattr(module, node.attr) and module:  # else a variable of the module's name
                found.add(f"{module.__name__}.{node.attr}")
    return found


def documented(sentence: str) -> int:
    """Return the number that the docs say."""
    found = re.search(sentence, " ".join(text_of("docs/design.md").split()))
    assert found is not None
    return int(found[1])


def shown_code() -> Iterator[ast.Module]:
    """Yield the Python that the documentation shows."""
    for page in (ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))):
        for block in re.findall(r"^```python.*?\n(.*?)^```", page.read_text("utf-8"), re.M | re.S):
            yield ast.parse(block)


def test_the_names_for_plugins_are_few_and_each_has_a_line_and_a_use() -> None:
    by_plugins = set().union(*(taken(parsed(path)) for path in plugin_files()))
    third = (parsed(path) for path in (ROOT / "tests" / "third_party").rglob("*.py"))
    used = by_plugins.union(*map(taken, third), *map(taken, shown_code()))
    listed, needed = set[str](), set(by_plugins)
    for module, stub in INTERFACE.items():
        home, names = importlib.import_module(module), names_of(stub)
        assert home.__all__ == sorted(name for name in names if "." not in name)
        for name, group in names.items():
            holder, _, own = name.rpartition(".")
            if not isinstance(getattr(home, name, None), ModuleType):
                full = f"{getattr(home, holder).__name__ if holder else module}.{own}"
                listed.add(full)
                needed |= set() if group.startswith("For users") else {full}
    assert sorted(needed - used) == []
    assert sorted(by_plugins - listed) == []
    assert len(needed) <= documented(r"They need (\d+) names")


def test_the_site_takes_few_names_of_the_core() -> None:
    needed = set().union(*(taken(parsed(path)) for path in SITE.rglob("*.py")))
    assert len(needed) <= documented(r"The site takes (\d+) names")


def test_no_word_of_a_benchmark_is_in_the_core_or_the_site() -> None:
    plugins = {p.stem for p in PLUGINS.iterdir() if p.suffix in (".py", ".yaml")} - {"__init__"}
    names = {*plugins, *PACKAGES}
    for package in PACKAGES:
        module = importlib.import_module(f"medhelm_benchmarks.{package}")
        for hook in ("benchmarks", "metrics", "protocols", "strategies"):
            brought = getattr(module, f"medhelm_{hook}", None)
            names |= {value.name for value in brought()} if brought else set()
    assert {"headqa", "clear", "noharm_overall", "ehrsql_execution_accuracy"} <= names
    assert {"medsp1000", "action_labels", "encounter", "specialist_panel"} <= names
    names.remove("clear")  # an English word too: only as a value
    name = re.compile(rf"\b(?:{'|'.join(sorted(names))})\b|(?<=[\"'`=])clear(?=[\"'`\s,])")
    suffixes = (".py", ".js", ".css", ".html", ".yaml", ".toml", ".txt")
    texts = [p for top in (PACKAGE, SITE) for p in top.rglob("*") if p.suffix in suffixes]
    assert len(texts) > 250
    found: dict[str, set[str]] = {}
    for path in texts:
        text = path.read_text("utf-8")
        for hit in (*WORDS.findall(text), *name.findall(text)):
            word = hit.lower().removesuffix("s")
            found.setdefault(word, set()).add(str(path.relative_to(ROOT)))
    assert found == PROSE


def test_only_two_modules_know_hydra() -> None:
    for path in files():
        if any(n.split(".")[0] in ("hydra", "omegaconf") for n in imported(path)):
            known = ("compose.py", "overrides.py")
            assert path.relative_to(PACKAGE / "cli").name in known


@pytest.mark.parametrize("argument", ["--help", "list benchmarks"])
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
    assert not loaded & (HEAVY | {"hydra", "aiohttp", "numpy"})


def test_no_folder_is_crowded() -> None:
    """A command a file: `cli` may have as many as there are commands."""
    sizes = Counter(path.parent for path in (*files(), *package_files(), PACKAGE / "__init__.py"))
    del sizes[PACKAGE / "cli"]
    assert max(sizes.values()) <= 25, sizes.most_common(1)


def test_no_docstring_of_the_shipped_code_begins_as_a_question() -> None:
    tops = (PACKAGE, SITE, PLUGINS, ROOT / "metrics", ROOT / "perf")
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for top in tops
        for path in top.rglob("*.py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        and re.match(r"(What|Whether|Why|How|Which|Where|When|Who)\b", node.value.value)
    ]
    assert found == []


def test_every_name_of_the_shipped_code_is_used_by_it() -> None:
    """Nothing is shipped that tests alone call, or nobody."""
    of_libraries = {
        "log_message",
        "on_broken_pipe",
        "path_stats",
    }  # of http.server, rich, importlib
    tops = (PACKAGE, SITE, PLUGINS, ROOT / "metrics")
    suffixes = (".py", ".pyi", ".js", ".toml", ".yaml", ".md")  # prompts are texts
    texts = {
        p: p.read_text("utf-8") for top in tops for p in top.rglob("*") if p.suffix in suffixes
    }
    uses = Counter(word for text in texts.values() for word in re.findall(r"\w+", text))
    unused = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in texts
        if path.suffix == ".py"
        for name in defined(parsed(path))
        if uses[name] == 1 and not name.startswith(("__", "medhelm_")) and name not in of_libraries
    }
    assert unused == set()


def defined(tree: ast.Module) -> Iterator[str]:
    """Yield the names of functions, classes, fields and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
    for node in tree.body:
        if isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def test_modules_and_functions_stay_readable() -> None:
    for path in (*files(), *package_files()):
        text = path.read_text()
        assert text.count("\n") <= 500, f"{path} is over 500 lines"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                assert node.end_lineno - node.lineno < 60, f"{path}: {node.name} is over 60 lines"


def test_planted_faults_are_where_the_list_says_and_reach_their_tests() -> None:
    entries = yaml.safe_load((ROOT / "scripts" / "planted_faults.yaml").read_text("utf-8"))
    lost = [(e["file"], e["text"]) for e in entries if text_of(e["file"]).count(e["text"]) != 1]
    assert len(entries) > 100 and not lost
    paths = {test.partition("::")[0] for e in entries for test in e["tests"]}
    assert not [path for path in paths if not (ROOT / path).is_file()]
    # A folder that is imported under another name is otherwise tested without its fault.
    script = text_of("scripts/plant_faults.py")
    tree = next(
        n
        for n in ast.parse(script).body
        if isinstance(n, ast.Assign) and "medhelm_" in ast.unparse(n)
    )
    folders = ast.literal_eval(tree.value)
    outside = {e["file"].partition("/")[0] for e in entries} - {"medhelm"}
    assert outside and outside <= set(folders)


@cache
def text_of(path: str) -> str:
    return (ROOT / path).read_text("utf-8") if (ROOT / path).is_file() else ""
