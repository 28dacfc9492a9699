"""`medhelm validate`: benchmarks proved on their own instances, without a model."""

from __future__ import annotations

import argparse
from pathlib import Path

from medhelm.cli.options import data_folder, how_to_get, open_registry, print_json, print_rows
from medhelm.data.dataset import left_out_note
from medhelm.errors import UsageError
from medhelm.plugins.askings import find_asking
from medhelm.proof.checks import Finding
from medhelm.proof.manifest import Facts, manifest_path
from medhelm.proof.validation import Report, validate
from medhelm.schema.data import Benchmark
from medhelm.tables.format.console import open_uncut_console


def run(args: argparse.Namespace) -> int:
    """Return 0 if all passed; 1 if one failed, or was named and has no data."""
    from rich.console import Console

    registry = open_registry(args.plugin)
    names = dict.fromkeys(args.benchmarks or registry.benchmarks)
    chosen = [registry.benchmark(name) for name in names]
    if args.ask and args.update:
        raise UsageError("--update writes what a benchmark scores as it declares; leave out --ask")
    ask = find_asking(args.ask, registry.askings) if args.ask else None
    root, reports = data_folder(args), []
    for benchmark in chosen:
        with Console(stderr=True).status(f"validating {benchmark.name} ..."):
            report = validate(benchmark, args.data, registry, root, update=args.update, ask=ask)
        reports.append(report)
        if args.format == "text":
            _print_report(report, benchmark, root)
    failed = [r.benchmark for r in reports if r.state == "failed"]
    absent = [r.benchmark for r in reports if r.state == "no data"]
    if args.format == "json":
        print_json("validation", {"reports": reports})
    else:
        passed = len(reports) - len(failed) - len(absent)
        print(f"{passed} passed, {len(failed)} failed, {len(absent)} without data")
    return 1 if failed or (args.benchmarks and absent) else 0


def _print_report(report: Report, benchmark: Benchmark, root: Path) -> None:
    console = open_uncut_console()
    color = {"passed": "green", "failed": "red", "no data": "yellow"}[report.state]
    console.print(f"[bold]{report.benchmark}[/bold] [{color}]{report.state}[/{color}]", end="")
    if report.state == "no data":
        print(f": {how_to_get(benchmark, root)}")
        return
    facts = report.facts
    if facts is None:
        print(f" on {report.data} data")
    else:
        unscored = f" ({facts.unscored} unscored)" if facts.unscored else ""
        manifest = _OF_MANIFEST.get(report.manifest, f"written to {manifest_path(benchmark)}")
        data = "bundled samples" if report.data == "sample" else f"full data, split {facts.split}"
        print(f" on {data}: {facts.instances} instances{unscored}; {manifest}")
        if note := left_out_note(facts.left_out):
            print(f"  {note}")
        _print_scores(facts)
        _print_readings(facts)
        left = [n for n in benchmark.metrics if n not in facts.metrics and ":" not in n]
        if left:
            print(f"  not checked without a judge: {', '.join(left)}")
    for finding in report.findings:
        print(f"  {finding_line(report.benchmark, finding)}")
    for kind, n in report.counts.items():
        shown = sum(f"{f.level}: {f.check}" == kind for f in report.findings)
        if n > shown:
            print(f"  {kind}: {n - shown} more of this kind")
    print()


_OF_MANIFEST = {
    "agrees": "as the manifest says",
    "differs": "not as the manifest says",
    "absent": "no manifest to compare with (--update writes one)",
    "": "not compared with the manifest",
}


def _print_scores(facts: Facts) -> None:
    sources = [(name, name, facts.scores) for name in facts.metrics]
    sources += [
        (f"{name} (helm)", name, facts.scores_helm) for name in facts.scores_helm.get("oracle", {})
    ]
    if not sources:  # judges alone score it
        return
    columns = {"answer": [*facts.scores]}
    for heading, name, scores in sources:
        values = [scores[answer][name] for answer in facts.scores]
        columns[heading] = ["no value" if v is None else f"{v:.4f}" for v in values]
    for part in next(iter(facts.parts.values()), {}):
        values = [own[part] for own in facts.parts.values()]
        columns[part] = ["no value" if v is None else f"{v:.4f}" for v in values]
    headings = tuple(columns)[1:]
    print_rows(columns, numbers=headings, leaving=headings[:0:-1])


def _print_readings(facts: Facts) -> None:
    """Print how the gold in other wordings is read, and the wordings that are read least."""
    if not facts.readings:
        return
    n = len(facts.readings)
    read = sum(r.read for r in facts.readings.values()) / n
    wrong = sum(r.wrong for r in facts.readings.values()) / n
    least = sorted(facts.readings.items(), key=lambda item: item[1].read)[:3]
    unread = ", ".join(f"{name} {r.read:.0%}" for name, r in least if r.read < 1)
    shown = f"{n} phrasings: {read:.1%} read right, {wrong:.1%} read wrongly"
    print(f"{shown}; read least: {unread}" if unread else shown)


def finding_line(benchmark: str, finding: Finding) -> str:
    """Return a finding as one line that names benchmark, instance and metric."""
    place = " ".join(filter(None, (benchmark, finding.instance, finding.metric)))
    message = finding.message.removeprefix(f"{benchmark}: ")  # errors of data name it, too
    line = f"{finding.level}: {place}: {message}"
    line += f"; expected {finding.expected}" if finding.expected else ""
    return line + (f"; got {finding.got}" if finding.got else "")
