"""Results in which every text is an attack: what a page does with them is seen in a browser."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import medhelm
from medhelm.schema.data import Criterion, Instance
from medhelm.schema.episode import Episode, Message, Response, Usage
from medhelm.schema.model import ModelSpec, Price
from medhelm.schema.run import BenchmarkCard, JurySpec, RunRecord, UsageTotals
from medhelm.store.records import find_gradings, read_record
from tests.benchmarks.noharm.labelled import PLUGIN, labeller, labels
from tests.build_runs import EXACT, Item, write_run
from tests.leaderboard.casting import scripted, write_data

LONG = 100_000

# Each would set window.__pwned to its number, ask evil.example for something, or confuse a reader.
ATTACKS: tuple[str, ...] = (
    "<script>window.__pwned=0</script>",
    "</script><script>window.__pwned=1</script>",
    '<img src=x onerror="window.__pwned=2">',
    '<svg onload="window.__pwned=3"><script>window.__pwned=3</script></svg>',
    '<iframe srcdoc="<script>parent.__pwned=4</script>"></iframe>',
    '<iframe src="javascript:parent.__pwned=5"></iframe>',
    '<a href="javascript:window.__pwned=6" style="position:fixed;inset:0">a link</a>',
    "javascript:window.__pwned=7",
    "data:text/html,<script>opener.__pwned=8</script>",
    '"><img src=x onerror=window.__pwned=9>',
    "' autofocus tabindex=1 onfocus='window.__pwned=10",
    '<details open ontoggle="window.__pwned=11">more</details>',
    '<input autofocus onfocus="window.__pwned=12">',
    '<style>@keyframes x{}</style><b style="animation:x 1s" onanimationstart="window.__pwned=13">b</b>',
    '<meta http-equiv="refresh" content="0;url=https://evil.example/14">',
    '<base href="https://evil.example/15/"><link rel=stylesheet href="https://evil.example/15.css">',
    "');window.__pwned=16;medhelmData('site','{}",
    "${window.__pwned=17}{{constructor.constructor('window.__pwned=17')()}}<%= 17 %>",
    "__proto__",
    "constructor",
    '<!--><img src=x onerror=window.__pwned=20>--><noscript><p title="</noscript><img src=x onerror=window.__pwned=20>">',
    '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=x onerror=window.__pwned=21&gt;">',
    '<b>bold</b><a href="javascript:window.__pwned=22">x</a><br>%{x}%{y}<extra>trace</extra>',
    "red \x1b[31m bell \x07 null \x00 delete \x7f next \x85 end",
    "invoice \u202egpj.exe\u202c and \u2066isolated\u2069 \u200fmark",
    "line\u2028paragraph\u2029zero\u200bwidth\u2060join\ufeffmark\U000e0041tag",
    "👩\u200d⚕\ufe0f 🚑 火 检查心电图 ¡ñandú!",
    '=HYPERLINK("https://evil.example/27","click")',
    "&lt;script&gt;window.__pwned=28&lt;/script&gt;&#x3c;img src=x onerror=window.__pwned=28&#x3e;",
    "Z" + "\u0301\u0316" * 20 + "algo",
    '<form action="https://evil.example/30"><button formaction="javascript:window.__pwned=30">go</button></form>',
    "<b>" + "A " * (LONG // 2) + '<img src=x onerror="window.__pwned=31">',
)
RUNNING = {0, 2, 3, 4, 5, 9, 11, 12}
"""Attacks of which a page without care would run some at once: the test of the test."""

NAMES = tuple(text[:300] for text in ATTACKS)
TITLE = ATTACKS[2] + " our models"
RANKED = tuple(NAMES[i] for i in (0, 2, 3, 5, 7, 9, 22, 24, 25, 26, 27, 31))
"""Names of models that are compared in pairs and in charts; the others read the gold."""
FIRST, SECOND = (ModelSpec(name=name, provider="openai") for name in (NAMES[2], NAMES[22]))
PRICE = Price(input=1.0, output=2.0, date=NAMES[0])
JUDGES = (NAMES[3], NAMES[9])


def as_shown(text: str) -> str:
    """Return a text as the pages show it: what cannot be seen has its code point in its place."""
    found: list[str] = []
    text = re.sub("[\u0300-\u036f]{9,}", lambda m: f"combining marks ×{len(m[0])}", text)
    for place, char in enumerate(text):
        is_hidden = unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp") and char not in "\n\r\t"
        is_joiner = char == "\u200d" and text[place - 1 : place] > "\u2600"
        found.append(f"U+{ord(char):04X}" if is_hidden and not is_joiner else char)
    return "".join(found)


def write_hostile(folder: Path) -> Path:
    """Write results whose names, cards, texts, judges and settings are attacks."""
    results = folder / "results"
    _judged(folder, results)
    _acted(folder, results)
    _deep(results)
    for place, name in enumerate(NAMES):
        for model in (FIRST, SECOND):
            _thin(results, f"card{place:02d}", model, place, name)
        provider = "openai" if name in RANKED else "baseline"
        spec = ModelSpec(name=name, provider=provider, model="oracle", price=PRICE)
        _thin(results, "wide", spec, place)
    return results


def _judged(folder: Path, results: Path) -> None:
    """Ask judges for real who are called and who reply as attackers."""
    plugin = write_data(folder)
    path = folder / "data" / "open" / "open-FILECANARY.jsonl"
    lines = [
        {"id": f"case{i:02d}", "context": text, "question": text, "gold": text}
        | {"key": text, "patient": text, "ward": text, "criterion": text}
        for i, text in enumerate(ATTACKS)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    replies = {line["id"]: text for line, text in zip(lines, ATTACKS, strict=True)}
    with pytest.warns(UserWarning, match="has no valid verdict"):
        medhelm.evaluate(
            [scripted(FIRST.name, "", script={"replies": replies})],
            ["open"],
            data="full",
            data_dir=folder / "data",
            results_dir=results,
            plugins=plugin,
            jury=JurySpec(
                name="attackers",
                judges=(
                    scripted(JUDGES[0], "", script={"replies": replies}),
                    scripted(JUDGES[1], json.dumps({"own": 3})),
                ),
                quorum=1,
                repairs=1,
            ),
        )


def _acted(folder: Path, results: Path) -> None:
    """Ask two models to label actions whose texts are attacks, and call the benchmark by one.

    Cases with hidden characters are refused when they are read. Stored runs of earlier versions
    may hold them, and who validated a case may be called by them: the check is left out here.
    """
    path = folder / "data" / "labelled" / "cases.jsonl"
    path.parent.mkdir(parents=True)
    neutral = [f"u{n}" for n in range(20)]  # so that a reply without one label is read
    ratings = {"a1": 9, "a2": 8, "a3": 1} | dict.fromkeys(neutral, 5)
    menus = [(code_of(i), text, text[:300]) for i, text in enumerate(ATTACKS)]
    path.write_text(
        "".join(
            json.dumps(
                {"code": code, "specialty": name, "vignette": text, "question": text}
                | {"knowns": [text], "red_flags": [{"text": text, "status": "present"}]}
                | {"validation": {"by": " ".join(name.splitlines()), "date": "2026-11-01"}}
                | {
                    "actions": [
                        {"id": i, "text": " ".join(text.splitlines()), "category": "medication"}
                        | {"ratings": [rating] * 3, "references": [text]}
                        for i, rating in ratings.items()
                    ]
                }
            )
            + "\n"
            for code, text, name in menus
        )
    )
    rest = dict.fromkeys(neutral, "n")
    given = {
        FIRST.name: labels(a1="n", a2="y", a3="y", **rest),
        SECOND.name: labels(a1="y", a3="n", **rest),
    }
    with patch("medhelm_benchmarks.noharm.rules.cases._hidden_faults", lambda case: iter(())):
        medhelm.evaluate(
            [
                labeller(name, {code: f"{text}\n{reply}" for code, text, _ in menus})
                for name, reply in given.items()
            ],
            ["labelled"],
            data="full",
            data_dir=folder / "data",
            results_dir=results,
            plugins=PLUGIN,
        )
    for grading in find_gradings(results):
        record = read_record(grading)
        if record.spec.benchmark == "labelled":
            card = msgspec.structs.replace(record.card, title=NAMES[2])
            changed = msgspec.structs.replace(record, card=card)
            (grading / "summary.json").write_bytes(msgspec.json.encode(changed))


def code_of(place: int) -> str:
    """Return the code of the case that holds an attack."""
    return f"NOHARM-CARD-ACS-{place:03d}"


def _deep(results: Path) -> None:
    """Write a benchmark with an instance for each attack, in every field, run by two models."""
    parts = NAMES
    for model in (FIRST, SECOND):
        rows, episodes = [], []
        for place, text in enumerate(ATTACKS):
            instance = _instance(place, text)
            rows.append(
                Item(
                    id=instance.id,
                    value=float(place % 2),
                    metadata=instance.metadata,
                    stats=[
                        v
                        for p in parts
                        for v in ((place % 2, 1.0) if p == parts[place] else (0.0, 0.0))
                    ],
                )
            )
            episodes.append(_episode(instance, text))
        metric = msgspec.structs.replace(EXACT, aggregation="mean_of_parts")
        grading = write_run(results, "deep", model, rows, metrics=[metric], episodes=episodes)
        record = read_record(grading)
        spec = msgspec.structs.replace(record.grading, parts=parts)
        _write(grading, msgspec.structs.replace(record, grading=spec))
        _extract(grading, {row.id: text for row, text in zip(rows, ATTACKS, strict=True)})


def _instance(place: int, text: str) -> Instance:
    name = NAMES[place]
    return Instance(
        id=f"{place:02d} {name}",
        context=text,
        question=text,
        choices=(text, "other") if place % 2 else (),
        references=("A",) if place % 2 else (text, text),
        answer_key={name: text},
        metadata={"part": name, f"{name} ": text},
        criteria=(Criterion(name=name, text=text),),
    )


def _episode(instance: Instance, text: str) -> Episode:
    return Episode(
        instance=instance,
        messages=(Message("user", text), Message("assistant", text)),
        response=Response(
            instance_id=instance.id,
            text=text,
            error=text[:300],
            usage=Usage(input_tokens=1, output_tokens=1),
            latency_s=1.0,
        ),
    )


def _extract(grading: Path, texts: dict[str, str]) -> None:
    """Put attacks where metrics say what they read, and why."""
    path = grading / "scores.parquet"
    table = pq.read_table(path)
    said = pa.array([texts[i] for i in table["instance_id"].to_pylist()])
    for name in ("extracted", "reason"):
        table = table.set_column(table.schema.get_field_index(name), name, said)
    pq.write_table(table, path)


def _thin(
    results: Path, benchmark: str, model: ModelSpec, place: int, text: str | None = None
) -> None:
    """Write a run of two instances; with a text it becomes every name of benchmark and settings.

    Folders are named by numbers, since some attacks cannot be names of folders.
    """
    safe = msgspec.structs.replace(model, name=f"m{NAMES.index(model.name)}")
    rows = [Item(id=f"{benchmark}-{i}", value=float((place + i) % 2)) for i in range(2)]
    episodes = [_episode(Instance(id=row.id, context="a case"), "an answer") for row in rows]
    usage = UsageTotals(requests=2, input_tokens=10_000 * (place + 1), output_tokens=100)
    grading = write_run(results, benchmark, safe, rows, episodes=episodes, usage=usage)
    record = read_record(grading)
    spec = msgspec.structs.replace(record.spec, model=model)
    record = msgspec.structs.replace(record, spec=spec)
    _write(grading, record if text is None else _renamed(record, text, place))


def _renamed(record: RunRecord, text: str, place: int) -> RunRecord:
    spec = msgspec.structs.replace(
        record.spec,
        benchmark=text,
        benchmark_version=text,
        split=text,
        dataset_sha256=text,
        prompt_name=text,
        prompt_version=text,
    )
    card = BenchmarkCard(
        name=text,
        title=ATTACKS[place],
        category=text if place in (2, 18, 24) else "Clinical Decision Support",
        subcategory=text,
        data_class="public",
        redistributable=True,
        licence=ATTACKS[place],
        curation=text,
        citation=ATTACKS[place],
        cluster=text,
        description=ATTACKS[place],
        instruction=ATTACKS[place],
        tasks=(text,),
        source=ATTACKS[place],
    )
    (metric,) = record.grading.metrics
    grading = msgspec.structs.replace(
        record.grading, metrics=(msgspec.structs.replace(metric, name=text, version=text),)
    )
    results = tuple(msgspec.structs.replace(r, metric=text) for r in record.results)
    return msgspec.structs.replace(
        record,
        spec=spec,
        card=card,
        grading=grading,
        results=results,
        parties=(msgspec.structs.replace(record.own, served_models={text: 2, "other": 1}),),
        provenance={"answered_from": text, "version.python": text, "machine": text},
    )


def _write(grading: Path, record: RunRecord) -> None:
    path, (metric,) = grading / "scores.parquet", record.grading.metrics
    table = pq.read_table(path)
    names: Sequence[Any] = [metric.name] * table.num_rows
    table = table.set_column(table.schema.get_field_index("metric"), "metric", pa.array(names))
    pq.write_table(table, path)
    (grading / "summary.json").write_bytes(msgspec.json.encode(record))
