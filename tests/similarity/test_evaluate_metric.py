"""Metrics of the evaluate library, from local folders: no test touches the network."""

from __future__ import annotations

import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from medhelm.errors import PluginError, UsageError
from medhelm.schema.data import Instance
from medhelm.schema.score import Score
from medhelm.similarity.evaluate_metric import evaluate_metric
from tests.graded import grade, said

SECRET = "the patient's name is Ada"
INSTANCE = Instance(id="case-7", references=("croup", "laryngitis"))

SCRIPT = """
import datasets
import evaluate


class Local(evaluate.Metric):
    def _info(self):
        text = datasets.Value("{prediction}")
        return evaluate.MetricInfo(
            description="", citation="", inputs_description="", features={features}
        )

    def _compute(self, predictions, references):
        return {result}
"""
SINGLE = 'datasets.Features({"predictions": text, "references": text})'
LISTS = (
    '[datasets.Features({"predictions": text, "references": datasets.Sequence(text)}), '
    + SINGLE
    + "]"
)


def script(
    folder: Path,
    name: str,
    result: str,
    *,
    features: str = SINGLE,
    prediction: str = "string",
    first: str = "",
) -> str:
    path = folder / name / f"{name}.py"
    path.parent.mkdir()
    body = SCRIPT.replace("{features}", features).replace("{result}", result)
    path.write_text(first + body.replace("{prediction}", prediction))
    return str(path.parent)


@pytest.mark.slow
def test_the_result_called_like_the_metric_counts(tmp_path: Path) -> None:
    folder = script(tmp_path, "same", '{"n": 9, "same": float(predictions == references)}')
    metric = evaluate_metric(f"evaluate:{folder}")
    assert (metric.minimum, metric.maximum, metric.floor) == (0.0, 1.0, 0.0)
    assert metric.higher_is_better
    assert metric.name == f"evaluate:{folder}"
    assert grade(metric, INSTANCE, said(" croup\n")) == Score(value=1.0)
    assert grade(metric, INSTANCE, said("laryngitis")).value == 0.0, "only the gold is asked for"
    assert grade(metric, INSTANCE, said("<think>No.</think>croup")).value == 1.0
    assert grade(metric, INSTANCE, said("<think>croup")).outcome == "unparsed"
    assert grade(metric, INSTANCE, said("")).outcome == "empty"
    assert grade(metric, Instance(id="case-7"), said("croup")).outcome == "unscored"


@pytest.mark.slow
def test_all_references_go_to_a_metric_that_takes_several(tmp_path: Path) -> None:
    folder = script(tmp_path, "among", '{"x": predictions[0] in references[0]}', features=LISTS)
    metric = evaluate_metric(f"evaluate:{folder}")
    assert grade(metric, INSTANCE, said("laryngitis")).value == 1.0
    assert grade(metric, INSTANCE, said("asthma")).value == 0.0


@pytest.mark.slow
def test_a_key_and_a_range_can_be_said(tmp_path: Path) -> None:
    folder = script(tmp_path, "many", '{"a": 40.0, "b": [60.0], "c": "text"}')
    best = evaluate_metric(f"evaluate:{folder}#b@0..100")
    assert grade(best, INSTANCE, said("croup")).value == 60.0
    errors = evaluate_metric(f"evaluate:{folder}#a@100..0")
    assert (errors.minimum, errors.maximum, errors.floor) == (0.0, 100.0, 100.0)
    assert not errors.higher_is_better
    assert grade(errors, INSTANCE, said("")).value == 100.0
    with pytest.raises(PluginError, match="a, b: .*evaluate:NAME#KEY"):
        grade(evaluate_metric(f"evaluate:{folder}"), INSTANCE, said("croup"))
    with pytest.raises(PluginError, match="'c'.* are a, b"):
        grade(evaluate_metric(f"evaluate:{folder}#c"), INSTANCE, said("croup"))
    with pytest.raises(PluginError, match=r"40, .*0\.\.1.*#a@WORST\.\.BEST"):
        grade(evaluate_metric(f"evaluate:{folder}#a"), INSTANCE, said("croup"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("result", "more", "why"),
    [
        ("{'odd': float('nan')}", {}, r"not in 0\.\.1"),
        ("{'odd': float('inf')}", {}, r"not in 0\.\.1"),
        ("{'odd': -0.5}", {}, r"not in 0\.\.1"),
        ("1 / 0 if predictions else {}", {}, "ZeroDivisionError for instance 'case-7'"),
        ("{}", {"first": "import nowhere\n"}, "cannot be loaded.*nowhere"),
        ("{'odd': 1.0}", {"prediction": "int32"}, "does not compare a text"),
    ],
)
def test_what_a_script_does_wrong_is_named_without_any_text(
    tmp_path: Path, result: str, more: dict[str, str], why: str
) -> None:
    folder = script(tmp_path, "odd", result, **more)
    with pytest.raises(PluginError, match=why) as caught:
        grade(evaluate_metric(f"evaluate:{folder}"), INSTANCE, said(SECRET))
    assert SECRET not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_script_that_needs_scikit_learn_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    folder = script(tmp_path, "needy", "{'needy': 1.0}", first="import sklearn\n")
    with pytest.raises(PluginError, match=r"pip install '\.\[sklearn\]'$"):
        grade(evaluate_metric(f"evaluate:{folder}"), INSTANCE, said("croup"))


def test_making_a_metric_loads_nothing_and_known_scales_need_no_range() -> None:
    chrf = evaluate_metric("evaluate:chrf")
    assert (chrf.key, chrf.minimum, chrf.maximum, chrf.higher_is_better) == ("score", 0, 100, True)
    assert chrf.version == f"2+{version('evaluate')}", "of the hub: that of the library"
    assert evaluate_metric("evaluate:rouge#rougeL").key == "rougeL"
    wer = evaluate_metric("evaluate:wer@10..0")
    assert (wer.minimum, wer.maximum, wer.floor, wer.higher_is_better) == (0, 10, 10, False)


@pytest.mark.slow
def test_a_changed_script_is_another_version_and_is_used(tmp_path: Path) -> None:
    name = "evaluate:" + script(tmp_path, "edited", '{"k": 0.25}')
    first = evaluate_metric(name)
    own, library, digest = first.version.split("+")
    assert (own, library) == ("2", version("evaluate")) and re.fullmatch("[0-9a-f]{12}", digest)
    assert evaluate_metric(name).version == evaluate_metric(f"{name}#k").version == first.version
    assert grade(first, INSTANCE, said("croup")).value == 0.25
    path = tmp_path / "edited" / "edited.py"
    path.write_text(path.read_text().replace("0.25", "0.75"))
    second = evaluate_metric(name)
    assert second.version != first.version
    assert grade(second, INSTANCE, said("croup")).value == 0.75
    (tmp_path / "edited" / "helper.py").write_text("")
    assert evaluate_metric(name).version not in (first.version, second.version)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("evaluate:", "is misspelt; write evaluate:NAME"),
        ("evaluate:a b", "is misspelt"),
        ("evaluate:chrf@0-100", "is misspelt"),
        ("evaluate:chrf[0,100]", "is misspelt"),
        ("evaluate:chrf@5..5", "empty range"),
        ("evaluate:wer", r"no bound; write evaluate:wer@WORST\.\.BEST"),
        ("chrf", "is misspelt"),
    ],
)
def test_spellings_that_are_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        evaluate_metric(name)
