"""The folder of a curation: its log, the cases in the layout of MedSP1000, and what a person must see.

spec.json                       models, seed, version of the prompts
responses.jsonl                 every request and reply; the same command goes on from it
cases/<case>/phase1_scenarios_meta.json
cases/<case>/phase1.json        triage: documents, criteria with their lines
cases/<case>/source/            the documents as Markdown
cases/<case>/<scenario>/<role>/ copies
cases/<case>/<scenario>/changes.diff, rewrites.jsonl
rubrics.jsonl                   the frozen rubrics
flags.jsonl                     what the checks found; ends.jsonl: how each article ended
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from medhelm import Instance, ModelSpec, Response, Usage
from medhelm.errors import DataError, MedhelmError, RecordError, UsageError
from medhelm.files.durable import AtomicFile, make_private, why
from medhelm.models import ModelPool, is_instance_model
from medhelm.models.costs import Ledger
from medhelm.models.identity import identity
from medhelm.runs import ask
from medhelm.runs.interrupts import Interrupts
from medhelm.runs.logs import synced
from medhelm.schema.model import Model
from medhelm.store.calls import OpenEpisode
from medhelm.store.runlog import RunFolder, Scan, episode_keys, read_log
from medhelm_benchmarks.encounters.curation.copies import copy_of, diff_of
from medhelm_benchmarks.encounters.curation.pipeline import (
    CURATOR,
    JUDGE,
    ArticleEnd,
    Curated,
    Curation,
    ScenarioEnd,
    curate_article,
)
from medhelm_benchmarks.encounters.curation.prompts import PROMPT_VERSION
from medhelm_benchmarks.encounters.curation.sources import (
    Article,
    changed_since,
    read_article,
)
from medhelm_benchmarks.encounters.data.cases import CASES, RUBRICS
from medhelm_benchmarks.encounters.data.checks import Flag
from medhelm_benchmarks.encounters.data.layout import FOLDERS, META_FILE, PACKET_ROLES, SOURCE
from medhelm_benchmarks.encounters.data.rubrics import FrozenRubric, rubric_record

SCHEMA = "medhelm_benchmarks.encounters.curation/1"


class CurationSpec(msgspec.Struct, frozen=True, kw_only=True):
    """`spec.json`."""

    schema: str = SCHEMA
    curator: ModelSpec
    judge: ModelSpec
    seed: int
    prompt_version: str


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """Holds the end of an article, as the log and `ends.jsonl` have it."""

    case: str
    status: str
    reasons: tuple[str, ...] = ()
    scenarios: dict[str, str] = {}
    """The ending of each scenario, with its reasons."""
    rubrics: tuple[dict[str, object], ...] = ()
    flags: tuple[Flag, ...] = ()


@dataclass(frozen=True)
class CurationEnd:
    """Holds the end of a curation."""

    folder: Path
    ends: tuple[Ended, ...]
    """In the order of the articles; those that are not finished are not among them."""
    stopped: MedhelmError | None
    mended: int
    """Torn or damaged lines of the log whose requests were sent again."""
    responses: tuple[tuple[str, Response], ...]
    """(model, response) of every call in the folder's log."""


@dataclass(frozen=True)
class _Work:
    """Holds the state that all articles share."""

    curation: Curation
    folder: Path
    log: RunFolder
    desk: ask.Desk
    models: dict[str, Model]
    scan: Scan
    finished: dict[str, Ended]
    """By the content of the article."""
    done: Callable[[Ended], None]
    begun: dict[str, OpenEpisode]
    """Articles that were asked for and have not ended, by their name."""


async def curate(
    sources: Sequence[Path],
    curation: Curation,
    folder: Path,
    pool: ModelPool,
    ledger: Ledger,
    done: Callable[[Ended], None],
    say: Callable[[str], None],
) -> CurationEnd:
    """Return how a curation ended. All that was made is on disk, whatever stopped it.

    Raises UsageError where the folder is of another curation, RecordError where it cannot be used.
    """
    log = RunFolder(folder)
    scan = log.open()
    found: dict[str, Ended] = {}
    try:
        _begin(curation, folder)
        models = {role: _open(pool, curation.model(role)) for role in (CURATOR, JUDGE)}
        finished = {
            e.instance_id: msgspec.convert(e.state, Ended)
            for e in read_log(folder)
            if e.response.finish == "stop"
        }
        begun = {e.instance.id: e for e in scan.begun.values() if e.is_begun}
        desk = ask.Desk(ledger)
        work = _Work(curation, folder, log, desk, models, scan, finished, done, begun)
        main = asyncio.create_task(_all(work, sources, found))
        try:
            async with synced(log, desk.stop):
                with Interrupts(desk.stop, pool, say, [main]):
                    await main
        except asyncio.CancelledError:
            if desk.stopped is None:
                raise
        log.sync()
        ends = tuple(found[p.resolve().name] for p in sources if p.resolve().name in found)
        _write_all(folder, ends)
        responses = _responses(work)
    finally:
        log.close()
    return CurationEnd(
        folder, ends, work.desk.stopped, scan.torn + scan.quarantined, tuple(responses)
    )


def _open(pool: ModelPool, spec: ModelSpec) -> Model:
    model = pool.open(spec)
    assert not is_instance_model(model)  # refused before anything is asked
    return model


def _begin(curation: Curation, folder: Path) -> None:
    """Write the spec, or refuse a folder that was made with another one."""
    path = folder / "spec.json"
    spec = CurationSpec(
        curator=curation.curator,
        judge=curation.judge,
        seed=curation.seed,
        prompt_version=PROMPT_VERSION,
    )
    try:
        before = msgspec.json.decode(path.read_bytes(), type=CurationSpec)
    except FileNotFoundError:
        _write(path, msgspec.json.format(msgspec.json.encode(spec), indent=1))
        return
    except (msgspec.DecodeError, UnicodeDecodeError, OSError):
        raise RecordError(f"{path} cannot be read; name another folder with --out") from None
    for what, is_same in (
        ("model", _decides(before.curator) == _decides(spec.curator)),
        ("judge", _decides(before.judge) == _decides(spec.judge)),
        ("seed", before.seed == spec.seed),
        ("version of the prompts", before.prompt_version == spec.prompt_version),
    ):
        if not is_same:
            raise UsageError(
                f"{folder} holds cases made with another {what}; name another folder with --out"
            )


def _decides(model: ModelSpec) -> object:
    return identity(model) | {"max_output_tokens": model.max_output_tokens}


async def _all(work: _Work, sources: Sequence[Path], found: dict[str, Ended]) -> None:
    async def articles() -> AsyncIterator[ask.Start]:
        for path in sources:
            yield partial(_one, work, path, found)

    async with asyncio.TaskGroup() as group:
        await ask.start_all(work.desk, articles(), group)


async def _one(work: _Work, path: Path, found: dict[str, Ended], live: ask.Live) -> None:
    """Curate one article and write what came of it."""
    try:
        with work.desk.border():
            ended = await _curated(work, path, live)
            found[ended.case] = ended
            work.done(ended)
    except DataError as e:  # of this article's files
        found[path.resolve().name] = Ended(
            case=path.resolve().name, status="failed", reasons=(str(e),)
        )
        work.done(found[path.resolve().name])
    except MedhelmError as e:
        work.desk.stop(e)
    finally:
        live.end()


async def _curated(work: _Work, path: Path, live: ask.Live) -> Ended:
    article = await asyncio.to_thread(read_article, path)
    content = [(d.name, d.sha256) for d in article.documents]
    instance = Instance(id=article.case, context=msgspec.json.encode(content).decode())
    (key,) = episode_keys(instance, 1)
    if key in work.scan.answered and article.case in work.finished:
        return work.finished[article.case]
    begun = work.scan.begun.get(key)
    episode = (begun or OpenEpisode(f"{key:016x}")).of(instance, 0)
    work.begun[article.case] = episode
    asker = ask.Asker(work.desk, work.models, episode, live, work.log)
    try:
        end = await curate_article(article, work.curation, asker)
    finally:
        await asker.end()
    changed = changed_since(path, article.documents)
    ended = _ended(end, changed)
    if end.status == "failed":  # its calls are kept, and the failed one is asked again
        return ended
    _write_article(work.folder / CASES, article, end)
    response = Response(instance_id=article.case, text=end.status, finish="stop", usage=Usage())
    asker.begin(work.log)
    last = episode.ended(
        response, end.status, msgspec.to_builtins(ended), episode.unasked(asker.asked)
    )
    work.log.append_part(msgspec.json.encode(last))
    del work.begun[article.case]
    return ended


def _ended(end: ArticleEnd, changed: Sequence[str]) -> Ended:
    made = [(s, s.curated) for s in end.scenarios if s.curated is not None]
    flags = [flag for _, curated in made for flag in curated.flags]
    flags += [Flag(scenario=end.case, kind="source_changed", where=name) for name in changed]
    return Ended(
        case=end.case,
        status=end.status,
        reasons=end.reasons,
        scenarios={s.name: ": ".join((s.status, *s.reasons)) for s in end.scenarios},
        rubrics=tuple(
            rubric_record(FrozenRubric(end.case, s.name, "v1", curated.items))
            for s, curated in made
        ),
        flags=tuple(flags),
    )


def _write_article(cases: Path, article: Article, end: ArticleEnd) -> None:
    """Write the documents, the triage and the scenarios of an article."""
    folder = cases / end.case
    for document in article.documents:
        text = "\n".join(document.lines) + "\n"
        _write(folder / SOURCE / document.copy_name, text.encode())
    if end.triage is not None:
        _write(folder / "phase1.json", msgspec.json.format(msgspec.json.encode(end.triage)))
    for scenario in end.scenarios:
        if scenario.curated is not None:
            _write_scenario(folder / scenario.name, article, scenario.curated)
    _write_meta(folder / META_FILE, end.scenarios)


def _write_meta(path: Path, scenarios: Iterable[ScenarioEnd]) -> None:
    metas = [s.curated.draft.meta for s in scenarios if s.curated is not None]
    if metas:
        _write(path, msgspec.json.format(msgspec.json.encode({"scenarios": metas})))


def _write_scenario(folder: Path, article: Article, curated: Curated) -> None:
    diffs: list[str] = []
    rewrites: list[object] = []
    for role in PACKET_ROLES:
        packet = curated.draft.packets[role]
        for document in article.documents:
            diffs.append(diff_of(document, packet, role))
            if text := copy_of(document, packet):
                _write(folder / FOLDERS[role] / document.copy_name, f"{text}\n".encode())
        for (name, line), text in sorted(packet.rewrites.items()):
            source = article.document(name)
            before = source.lines[line - 1] if source else ""
            where = {"role": role, "document": name, "line": line}
            rewrites.append({**where, "before": before, "after": text})
    _write(folder / "changes.diff", "".join(diffs).encode())
    _write_lines(folder / "rewrites.jsonl", rewrites)


def _write_all(folder: Path, ends: Sequence[Ended]) -> None:
    _write_lines(folder / RUBRICS, (rubric for end in ends for rubric in end.rubrics))
    _write_lines(folder / "flags.jsonl", (flag for end in ends for flag in end.flags))
    heads = (msgspec.structs.replace(end, rubrics=(), flags=()) for end in ends)
    _write_lines(folder / "ends.jsonl", heads)


def _write_lines(path: Path, values: Iterable[object]) -> None:
    _write(path, b"".join(msgspec.json.encode(value) + b"\n" for value in values))


def _write(path: Path, content: bytes) -> None:
    try:
        make_private(path.parent)
        with AtomicFile(path) as file:
            file.write(content)
    except OSError as e:
        raise RecordError(f"cannot write {path}: {why(e)}") from None


def _responses(work: _Work) -> list[tuple[str, Response]]:
    """Return (model, response) of the stored calls of all articles, finished or not."""
    names = {role: work.curation.model(role).name for role in (CURATOR, JUDGE)}
    calls = [call for episode in read_log(work.folder) for call in episode.calls]
    calls += [call for episode in work.begun.values() for call in episode.calls.values()]
    return [(names[call.role], call.response) for call in calls]
