"""The names of the models of a stored run: a folder holds one name of each, and keeps it until told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from medhelm.errors import RecordError
from medhelm.files.durable import lock_file, make_private, why
from medhelm.schema.run import GradingSpec, RunRecord, RunSpec
from medhelm.store.records import (
    folder_name,
    judge_folders,
    read_plan,
    run_path,
    stored_records,
    write_struct,
)
from medhelm.store.runlog import log_bytes


def known_address(results: Path, spec: RunSpec) -> RunSpec:
    """Return a run whose model is known by that of its addresses under which most answers are stored.

    Without any it is the first. So neither their order nor a further one makes another run.
    """
    own = spec.model.addresses
    ways = []
    for address in own if len(own) > 1 else ():
        first = (address, *(other for other in own if other != address))
        model = msgspec.structs.replace(spec.model, base_url=first)
        ways.append(msgspec.structs.replace(spec, model=model))
    return max(ways, key=lambda way: log_bytes(run_path(results, way)), default=spec)


def other_names(run: Path, spec: RunSpec, grading: GradingSpec) -> dict[str, str]:
    """Return the stored names of models that are called otherwise now, with their names of now.

    Those are the model under test, the cast, and the judges whose verdicts are stored. All that
    decides their answers is the same, so nothing but their names can tell them apart.
    """
    if not (run / "spec.json").is_file():
        return {}
    try:
        stored = read_plan(run).spec
        pairs = [(stored.model.name, spec.model.name)]
        pairs += [(stored.cast[role].name, spec.cast[role].name) for role in spec.cast]
    except RecordError:  # what is damaged is written again, under the name that its folder bears
        is_own = run.parent.name == folder_name(spec.model.name)
        pairs = [] if is_own else [(run.parent.name, spec.model.name)]
    judges = dict(_judges(run, grading))
    for record in stored_records(run) if judges else ():
        then = dict(_judges(run, record.grading))
        pairs += [(then[place], judges.pop(place)) for place in then.keys() & judges.keys()]
    return {then: now for then, now in pairs if then != now}


def _judges(run: Path, grading: GradingSpec) -> Iterator[tuple[Path, str]]:
    """Yield where verdicts of judges are stored, and what a grading calls these judges."""
    for terms in grading.judged_by:
        for folder, judge in zip(judge_folders(run, terms), terms.jury.judges, strict=True):
            if folder.is_dir():
                yield folder, judge.name


def rename_run(run: Path, to: Path, spec: RunSpec) -> None:
    """Move a run's folder and name its models as `spec` does, in all of its gradings.

    The plan is written last: what is interrupted is asked about and done again. Gradings keep what
    they call their judges; those of now are made anew. Raises RunLocked and RecordError.
    """
    with lock_file(run / "lock"):
        if run != to:
            try:
                make_private(to.parent)
                run.rename(to)
            except OSError as e:
                raise RecordError(f"cannot move {run} to {to}: {why(e)}") from None
            with suppress(OSError):  # it holds other runs
                run.parent.rmdir()
        for record in stored_records(to):
            write_struct(
                to / "gradings" / record.grading_hash / "summary.json", _renamed(record, spec)
            )
        with suppress(RecordError):  # a damaged plan is made anew
            plan = read_plan(to)
            plan = msgspec.structs.replace(plan, spec=_named(plan.spec, spec))
            write_struct(to / "spec.json", plan)


def _named(stored: RunSpec, spec: RunSpec) -> RunSpec:
    return msgspec.structs.replace(
        stored,
        model=msgspec.structs.replace(stored.model, name=spec.model.name),
        cast={
            role: msgspec.structs.replace(model, name=spec.cast[role].name)
            for role, model in stored.cast.items()
        },
    )


def _renamed(record: RunRecord, spec: RunSpec) -> RunRecord:
    named = _named(record.spec, spec)
    models = {record.own.role: named.model, **named.cast}
    return msgspec.structs.replace(
        record,
        spec=named,
        parties=tuple(
            party if party.is_grader else msgspec.structs.replace(party, model=models[party.role])
            for party in record.parties
        ),
    )
