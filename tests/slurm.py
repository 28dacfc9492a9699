"""A stand-in for SLURM on this machine: sbatch, srun, sacct, scancel and scontrol, as files that call this one.

A job is a process group; its state is a file by its number below $SLURM_STAND_IN.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

NAMES = ("sbatch", "srun", "sacct", "scancel", "scontrol")


def install(folder: Path) -> dict[str, str]:
    """Put the commands into a folder; returns the variables by which they are found."""
    (folder / "jobs").mkdir(parents=True)
    for name in NAMES:
        file = folder / name
        file.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {name} "$@"\n')
        file.chmod(0o755)
    return {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "SLURM_STAND_IN": str(folder / "jobs"),
    }


def _begin(job: str, script: str) -> None:
    own = {"SLURM_JOB_ID": job, "SLURM_NTASKS": "1", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
    own |= {"SLURM_NODEID": "0", "SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "here"}
    log = open(_jobs() / f"{job}.out", "ab")  # noqa: SIM115 - the job's
    process = subprocess.Popen(
        ["bash", script], env=os.environ | own, stdout=log, stderr=log, start_new_session=True
    )
    with open(_jobs() / f"{job}.begun", "a") as times:
        times.write("begun\n")
    (_jobs() / job).write_text(f"{process.pid}\n{script}")


def _jobs() -> Path:
    return Path(os.environ["SLURM_STAND_IN"])


def send(folder: Path, job: str, number: int) -> None:
    """Signal a job as SLURM does before its time is over."""
    os.environ["SLURM_STAND_IN"] = str(folder / "jobs")
    _signal(job, number)


def _signal(job: str, number: int) -> None:
    """Signal all processes of a job but its script."""
    pid = (_jobs() / job).read_text().split("\n")[0]
    for one in psutil.pids():
        if one != int(pid) and _group(one) == int(pid):
            os.kill(one, number)


def _group(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


def main(name: str, words: list[str]) -> None:
    """Do what the command of that name does."""
    if name == "sbatch":
        job = str(1 + len([*_jobs().glob("*.out")]))
        _begin(job, words[-1])
        print(f"Submitted batch job {job}")
    elif name == "srun":
        at = next(n for n, word in enumerate(words) if "python" in word)
        os.execvp(words[at], words[at:])
    elif name == "sacct":
        print("JobID|State|NodeList")
        for job in words[words.index("-j") + 1 :: 2]:
            pid = (_jobs() / job).read_text().split("\n")[0]
            print(f"{job}|{'RUNNING' if Path(f'/proc/{pid}').exists() else 'FAILED'}|here")
    elif name == "scancel":
        _signal(words[0], signal.SIGTERM)
    elif name == "scontrol":
        _begin(words[1], (_jobs() / words[1]).read_text().split("\n")[1])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
