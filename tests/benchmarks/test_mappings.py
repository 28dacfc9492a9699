"""A row of each benchmark becomes its instance and prompt, as `mappings/<name>.yaml` holds them.

`changes` are rows that differ in some cells: the fields of the instance that this changes (its metadata, if
they are not among them, are as before), or words of the reason why the row is left out or refused. `files` are whole files in a published layout, or the first ones
with `changed` ones in their place, or with one word `swapped` for another in a file. `real` counts what the files of the release hold, where they are at hand.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from medhelm.data.dataset import open_dataset
from medhelm.errors import DataError
from medhelm.schema.data import FileDataset, Instance, LeftOut

from .conftest import NAMES, load, prompt
from .written import write

MAPPINGS: dict[str, dict[str, Any]] = {
    path.stem: yaml.safe_load(path.read_text("utf-8"))
    for path in sorted((Path(__file__).parent / "mappings").glob("*.yaml"))
}


def listed(part: str) -> list[Any]:
    """Return the name and each entry of a part of the mappings, as parameters."""
    return [
        pytest.param(name, entry, id=f"{name}-{number}")
        for name, mapping in MAPPINGS.items()
        for number, entry in enumerate(mapping.get(part, ()))
    ]


def fields(instance: Instance) -> dict[str, Any]:
    found = msgspec.json.decode(msgspec.json.encode(msgspec.structs.asdict(instance)))
    assert isinstance(found, dict)
    return found


def has_words(error: BaseException, words: Iterable[str]) -> None:
    message = str(error)
    assert [word for word in words if word not in message] == [], message
    assert "\n" not in message


def swapped(content: Any, old: str, new: str) -> Any:
    """Return the content of a file with one word for another, in names of columns and members, too."""
    if isinstance(content, dict):
        return {swapped(name, old, new): swapped(own, old, new) for name, own in content.items()}
    if isinstance(content, list):
        return [swapped(own, old, new) for own in content]
    return content.replace(old, new) if isinstance(content, str) else content


@pytest.mark.parametrize("name", MAPPINGS)
def test_a_row_becomes_its_instance_and_prompt(name: str) -> None:
    benchmark, mapping = load(name), MAPPINGS[name]
    instance = benchmark.to_instance(mapping["row"])
    assert instance == msgspec.convert(mapping["instance"], Instance)
    text, place = prompt(benchmark, instance), 0
    for shown in mapping.get("shown", ()):
        place = text.index(shown, place) + len(shown)
    assert [hidden for hidden in mapping.get("hidden", ()) if hidden in text] == []


@pytest.mark.parametrize(("name", "change"), listed("changes"))
def test_a_changed_row(name: str, change: dict[str, Any]) -> None:
    to_instance, row = load(name).to_instance, {**MAPPINGS[name]["row"], **change["row"]}
    if "refused" in change:
        with pytest.raises((DataError, ValueError)) as caught:
            to_instance(row)
        has_words(caught.value, change["refused"])
        return
    found = to_instance(row)
    if "left_out" in change:
        assert isinstance(found, LeftOut) and change["left_out"] in found.reason
        return
    assert isinstance(found, Instance)
    expected = {"metadata": MAPPINGS[name]["instance"].get("metadata", {}), **change["instance"]}
    assert {field: fields(found)[field] for field in expected} == expected


@pytest.mark.parametrize(("name", "case"), listed("files"))
def test_files_of_a_published_layout(name: str, case: dict[str, Any], tmp_path: Path) -> None:
    """The pinned hashes are taken off: these are not the files of the release."""
    benchmark = load(name)
    assert isinstance(benchmark.dataset, FileDataset)
    files = tuple(msgspec.structs.replace(file, sha256="") for file in benchmark.dataset.files)
    benchmark = replace(benchmark, dataset=replace(benchmark.dataset, files=files))
    if (whole := case.get("files")) is None:
        whole = MAPPINGS[name]["files"][0]["files"] | case.get("changed", {})
    for path, (old, new) in case.get("swapped", {}).items():
        whole[path] = swapped(whole[path], old, new)
        assert whole[path] != MAPPINGS[name]["files"][0]["files"][path]
    write(tmp_path, name, {path: content for path, content in whole.items() if content is not None})

    def read() -> list[Instance]:
        dataset = open_dataset(benchmark, "full", split=case.get("split"), root=tmp_path)
        return list(dataset.instances())

    try:
        found = [fields(instance) for instance in read()]
    except DataError as error:  # not caught by pytest, which keeps the open file
        assert str(error).startswith(f"{name}: ")
        has_words(error, case["refused"])
        return
    assert "refused" not in case
    assert [
        {field: own[field] for field in expected}
        for own, expected in zip(found, case["instances"], strict=True)
    ] == case["instances"]
    assert len({own["id"] for own in found} - {""}) == len(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, own in MAPPINGS.items() if "real" in own])
def test_the_real_files(name: str, real_instances: Callable[..., list[Instance]]) -> None:
    for split, facts in MAPPINGS[name]["real"].items():
        found = real_instances(name, split)
        counted: dict[str, Any] = {
            "golds": Counter(i.references[0] for i in found if i.references),
            "options": sorted({len(i.choices) for i in found}),
            "clusters": len({i.cluster for i in found}),
            "questions": len({i.question for i in found}),
            "contexts": len({i.context for i in found}),
            "golds_apart": len({i.references for i in found}),
            "equal_options": sum(len(set(i.choices)) < len(i.choices) for i in found),
            "without_gold": [i.id for i in found if not i.references],
        }
        if "longest_right" in facts:
            right = sum(
                max(i.choices, key=len) == i.choices[ord(i.references[0]) - 65] for i in found
            )
            assert right / len(found) == pytest.approx(facts["longest_right"], abs=5e-4)
        for field in ("metadata", "answer_key"):
            for key, counts in facts.get(field, {}).items():
                assert dict(Counter(getattr(i, field)[key] for i in found)) | counts == dict(
                    Counter(getattr(i, field)[key] for i in found)
                ), key
        for key, value in facts.items():
            if key == "golds":
                assert value.items() <= counted[key].items()
            elif key in counted:
                assert counted[key] == value, key


def test_every_benchmark_has_a_row() -> None:
    """All but EHRSQL, whose rows need its database and are tested beside it."""
    assert set(NAMES) - MAPPINGS.keys() == {"ehrsql"}


def test_no_gated_or_private_benchmark_is_missing() -> None:
    """Those that are brought by users have files in their published layouts, or a test of their own."""
    closed = {name for name in NAMES if load(name).data_class != "public"}
    own = {name for name, mapping in MAPPINGS.items() if "files" in mapping}
    yaml_only = {path.stem for path in Path("benchmarks").glob("*.yaml")}
    assert closed - own - yaml_only == {"ehrshot"}
