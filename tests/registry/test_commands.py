"""Commands of plugins: named by data, dispatched by their words, and a bad one costs only itself."""

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from medhelm.cli import command_parser, known_commands
from medhelm.cli.rating_forms import STATISTICS
from medhelm.errors import PluginError
from medhelm.plugins.commands import command_module, read_commands
from medhelm.plugins.registry import load_registry
from medhelm.tables.loading import load_results
from tests.build_runs import items, write_run
from tests.registry.conftest import Call
from tests.registry.distributions import install, register
from tests.registry.test_registry import plugin

WORDS = Path(__file__).parents[1] / "third_party" / "medhelm_words" / "medhelm_words"
MODULE = """
def add_arguments(parser):
    pass

def run(args):
    {body}
"""


@pytest.fixture
def site(site: Path) -> Path:
    """The folder of distributions, with that of `tests/third_party/medhelm_words`."""
    shutil.copytree(WORDS, site / WORDS.name)
    register(site, "medhelm-words")
    return site


def test_options_of_agreement_are_what_its_forms_take() -> None:
    found = [c for c in known_commands().commands.values() if c.words[0] == "agreement"]
    assert {c.words[1] for c in found} >= {"answers", "criteria", "taxonomy"} and len(found) == 6
    parsers = [command_parser(command)._option_string_actions for command in found]
    flags = {flag for own in parsers for flag in own if flag.startswith("--")}
    assert len(flags - {"--help"}) <= 15, "what one form alone needs is named by --set"
    for command in found:
        form, options = command_module(command), command_parser(command)._option_string_actions
        table, settings = options["--table"], str(options["--set"].help)
        assert [*(table.choices or ())] == [*form.tables]
        default = ", ".join(name for name in form.tables if name not in form.on_request)
        assert f"(default: {default})" in str(table.help)
        offered = {name: STATISTICS[name] for name in form.statistics}
        assert not any(f"{name}: " in settings for name in STATISTICS.keys() - offered)
        for name, setting in {**form.settings, **offered}.items():
            own = settings[settings.index(f"{name}: ") :].partition("; ")[0]
            assert all(word in own for word in setting.words), own
            assert setting.default is None or f"({setting.default})" in own, own


def offered(line: str, call: Call, patch: pytest.MonkeyPatch) -> list[str]:
    patch.setenv("COMP_LINE", line)
    patch.setenv("COMP_POINT", str(len(line)))
    return call("-sc", "query=bash")[1].split()


def test_a_package_brings_a_table_and_commands_that_are_used_together(
    site: Path, tmp_path: Path, call: Call
) -> None:
    for model in ("lab/a", "lab/b"):
        write_run(tmp_path / "results", "ward", model, items([1.0, 0.0]))
    write_run(tmp_path / "results", "er", "lab/a", items([1.0, 0.0]))
    assert load_results(tmp_path / "results").table("tally")["runs"].tolist() == [2, 1]
    code, out, err = call("tally", tmp_path / "results")
    assert (code, out, err) == (0, "3 runs of 2 models\n", "")
    argv = ("tables", "--results-dir", tmp_path / "results", "--table", "tally", "--format", "csv")
    assert call(*argv)[:2] == (0, "model,runs\nlab/a,2\nlab/b,1\n")


def test_a_first_word_is_shared_and_told_apart_by_the_second(site: Path, call: Call) -> None:
    code, out, _ = call("generate", "words", "--count", 2)
    assert (code, out) == (0, "alpha beta\n")
    assert call("generate", "--count", 2, "words")[1] == "alpha beta\n"
    code, out, _ = call("generate", "--help")
    assert code == 0
    lines = [line.split()[:2] for line in out.splitlines() if line.startswith("  ")]
    assert lines == [["generate", word] for word in ("noharm", "validated", "words")]
    code, out, _ = call("generate", "words", "--help")
    assert code == 0 and "usage: medhelm generate words" in out and "--count N" in out
    assert "--guideline FILE" in call("generate", "noharm", "--help")[1]


def test_the_help_names_every_command_and_imports_no_plugin(site: Path) -> None:
    code = f"""
        import sys
        sys.path.insert(0, {str(site)!r})
        from medhelm.cli import run_command
        try: run_command(["--help"])
        except SystemExit: pass
        print("LOADED", *sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    shown, _, loaded = done.stdout.partition("LOADED")
    assert "count the runs" in shown
    assert "noharm, validated, words:" in shown
    assert "encounters, simulation, noharm:" in shown
    heavy = ("medhelm_words", "medhelm_benchmarks", "medhelm_metrics", "importlib.metadata", "yaml")
    assert not [name for name in loaded.split() if name.startswith(heavy)]
    assert done.stderr == ""


MISTAKES = {
    "generate wrds": "'wrds'; did you mean 'words'",
    "generate": "`medhelm generate noharm`",
    "tali": "'tali'; did you mean 'tally'",
    "sum": "'sum': it is `medhelm tally`",
    "generate words --count 4": "--count 4: there are 3 words",
    # commands of other tools
    "eval": "'eval': it is `medhelm run`",
    "evaluate": "'evaluate': it is `medhelm run`",
    "ls": "'ls': it is `medhelm list`",
    "view": "'view': it is `medhelm tables`",
}


def test_a_mistake_is_one_line(site: Path, call: Call) -> None:
    for words, said in MISTAKES.items():
        code, out, err = call(*words.split())
        assert code != 0 and out == ""
        assert err.startswith("medhelm: ") and err.count("\n") == 1 and said in err


def test_what_a_command_raises_names_its_plugin(site: Path, call: Call) -> None:
    code, _, err = call("generate", "words", "--count", 0)
    assert code == 2 and err.count("\n") == 1
    assert "'generate words'" in err and "medhelm-words (medhelm_words): ZeroDivisionError" in err
    assert "(generate_words.py line 23)" in err
    install(site, "ward-gone", {"commands.toml": '[gone]\nhelp = "x"\n'})
    code, _, err = call("gone")
    assert code == 2 and "'gone'" in err and "ward-gone (ward_gone): ModuleNotFoundError" in err


def test_the_shell_completes_words_of_plugins(
    site: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(site, "ward-bench", plugin())
    benchmark = offered("medhelm run benchmark=ward_r", call, monkeypatch)
    assert benchmark == ["benchmark=ward_round"]
    assert offered("medhelm ta", call, monkeypatch) == ["tables", "tally"]
    assert offered("medhelm generate ", call, monkeypatch) == ["noharm", "validated", "words"]
    assert offered("medhelm generate w", call, monkeypatch) == ["words"]
    assert offered("medhelm generate words --first g", call, monkeypatch) == ["gamma"]
    assert offered("medhelm generate words --count ", call, monkeypatch) == []
    assert "noharm_median" in offered("medhelm gate --profile no", call, monkeypatch)
    assert "baseline/random" in offered("medhelm run model=baseline/ra", call, monkeypatch)[0]


@pytest.mark.parametrize(
    "words", ["tables", "tables words", "generate", "generate noharm", "tally", "tally fast"]
)
def test_words_that_are_taken_are_refused_and_the_rest_works(
    site: Path, call: Call, words: str
) -> None:
    data = f'["{words}"]\nhelp = "x"\n["ward other"]\nhelp = "y"\n'
    install(site, "ward-clash", {"commands.toml": data})
    (broken,) = known_commands().broken
    assert broken.plugin == "ward-clash (ward_clash)"
    assert f"command {words!r} is there already" in broken.reason
    assert ("ward", "other") not in known_commands().commands
    code, out, err = call("--help")
    assert code == 0 and "  tally " in out
    assert err.startswith("medhelm: plugin ward-clash (ward_clash) is left out: command ")
    assert call("generate", "words")[:2] == (0, "alpha\n")


DATA = {
    "[ward\n": "cannot be read",
    '["a b c"]\nhelp = "x"\n': "'a b c': a command is one word or two",
    '["ward -x"]\nhelp = "x"\n': "one word or two",
    '["--x"]\nhelp = "x"\n': "one word or two",
    '["ward a --x"]\nhelp = "x"\n': "one word or two",
    "[ward]\n": "'ward' has no line of help",
    '[ward]\nhelp = "x"\nhlep = "y"\n': "'hlep'; keys are help, module, also",
    '[ward]\nhelp = "x"\nmodule = 3\n': "module is a text",
}


def test_a_data_file_that_is_wrong_is_named(site: Path, call: Call) -> None:
    install(site, "ward-bad", {"commands.toml": ""})
    path = site / "ward_bad" / "commands.toml"
    for data, said in DATA.items():
        path.write_text(data)
        with pytest.raises(PluginError, match="commands.toml"):
            read_commands(path, "ward_bad")
        code, _, err = call("--help")
        assert code == 0 and str(path) in err and said in err and err.count("\n") == 1
        assert call("generate", "words")[0] == 0


def test_a_plugin_of_one_file_has_its_data_beside_it(tmp_path: Path, call: Call) -> None:
    file = tmp_path / "ward.py"
    file.write_text(MODULE.format(body="print('checked')\n    return 1"))
    (tmp_path / "ward.toml").write_text(
        '["check ward"]\nhelp = "x"\n["check beds"]\nhelp = "y"\nmodule = "beds"\n'
    )
    (tmp_path / "beds.py").write_text(MODULE.format(body="raise OSError('no beds')"))
    assert call("check", "ward", "--plugin", file)[:2] == (1, "checked\n")
    assert "check beds" in call("check", "--help", "--plugin", file)[1]
    code, _, err = call("check", "beds", "--plugin", file)
    assert code == 2 and all(
        word in err for word in ("'check beds' of", f"{file}: OSError", "beds.py line 6")
    )
    assert "unknown command 'check'" in call("check", "ward")[2]


def test_a_plugin_of_commands_alone_is_whole(site: Path, tmp_path: Path) -> None:
    install(site, "ward-only", {"commands.toml": '[ward]\nhelp = "x"\n'})
    file = tmp_path / "ward.py"
    file.write_text(MODULE.format(body="return 0"))
    file.with_suffix(".toml").write_text('[check]\nhelp = "x"\n')
    assert load_registry([str(file)]).broken == ()
    file.with_suffix(".toml").unlink()
    with pytest.raises(PluginError, match="adds nothing"):
        load_registry([str(file)])


# Ratings of a plugin's own ---------------------------------------------------------------------

FORM = """
from medhelm.cli.rating_forms import RatingForm, Setting
from medhelm.tables.clinicians.ratings import Item, Scale, Unit, read_units
from medhelm.tables.clinicians.sheet import RatingSheet
from medhelm.tables.format.table import Column, make_table

WARDS = tuple(Unit(name, (Item("clean", "It is clean."),), Scale(1, 5)) for name in ("a", "b"))


def make_tables(asked):
    rated = read_units(asked.files, WARDS)
    mean = sum(r.value for r in rated.ratings) / len(rated.ratings) / asked.own["beds"]
    column = Column(name="mean", type="number", description="mean", heading="mean")
    return [make_table("wards", "Wards", (column,), [{"mean": mean}], (), {})]


FORM = RatingForm(
    word="wards",
    tables=("wards",),
    settings={"beds": Setting(default=1, least=0)},
    make_tables=make_tables,
    make_sheet=lambda asked: RatingSheet(units=asked.sample.of(WARDS)),
)
"""


@pytest.fixture
def wards(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A distribution that adds ratings of wards, and a filled sheet."""
    monkeypatch.chdir(tmp_path)
    data = """
["agreement wards"]
help = "ratings of wards"
module = "own:FORM"
options = [
    { name = "source", metavar = "FILE" }, "files", "--template", "--sample",
    { name = "--table", choices = ["wards"] }, "--set", "--format TABLE", "--out",
]
"""
    install(site, "ward-form", {"commands.toml": data, "own.py": FORM})
    Path("anna.csv").write_text("unit,item,value\na,clean,2\nb,clean,4\n")
    return site


def test_a_plugin_adds_ratings_of_its_own(wards: Path, call: Call) -> None:
    asked = ("agreement", "wards", "w.csv")
    assert '"mean":3.0' in call(*asked, "anna.csv", "--format", "json")[1].replace(" ", "")
    code, out, _ = call(*asked, "--template", "s.csv", "--sample", 1)
    assert code == 0 and "s.csv: 1 rows" in out and "1 units" in out
    assert (
        Path("s.csv").read_text("utf-8-sig").splitlines()[0] == "unit,item,text,rater,value,shown"
    )
    code, _, err = call(*asked, "anna.csv", "--set", "beds=0")
    assert code == 2 and err.count("\n") == 1
    assert "'agreement wards'" in err and "ward-form (ward_form): ZeroDivisionError" in err
    assert "one of beds, seed" in call(*asked, "anna.csv", "--set", "bed=2")[2]
    assert "unknown command 'ward'" in call("agreement", "ward", "anna.csv")[2].replace(
        "command of `medhelm agreement`", "command"
    )
    shown = " ".join(call("agreement", "--help")[1].split())
    assert "agreement wards ratings of wards" in shown and "agreement answers" in shown
