"""Tests `medhelm export` and trackers by the tools themselves, in environments of their own.

    python scripts/export_tools.py DIR

Makes DIR/inspect (inspect-ai), DIR/eee (every-eval-ever, which needs a Python from 3.12 on) and DIR/mlflow
(mlflow-skinny, wandb, opentelemetry-sdk) where they are not there yet, and runs tests/exports with them. The last one sees
this environment's packages behind its own. Without a Python 3.12 its part is skipped, and the test says so.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = {
    "inspect": ("python3", ["inspect-ai"]),
    "eee": ("python3.12", ["every-eval-ever"]),
    "mlflow": (sys.executable, ["mlflow-skinny>=3", "wandb>=0.20", "opentelemetry-sdk>=1.35"]),
}


def make(folder: Path, tool: str) -> None:
    """Make the environment of a tool."""
    python, packages = TOOLS[tool]
    found = shutil.which(python)
    if found is None or subprocess.run([found, "--version"], capture_output=True).returncode:
        print(f"no {python}: {tool} is left out")
        return
    subprocess.run([found, "-m", "venv", folder], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "--no-compile", *packages]
    subprocess.run(pip, check=True)
    if tool == "mlflow":
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        behind = folder / "lib" / version / "site-packages" / "zz_medhelm.pth"
        behind.write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")


def main() -> int:
    """Return the exit code of the tests."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, metavar="DIR")
    folder = parser.parse_args().folder.resolve()
    for tool in TOOLS:
        if not (folder / tool / "bin" / "python").is_file():
            make(folder / tool, tool)
    command = [sys.executable, "-m", "pytest", "-n", "0", "-rs", "tests/exports"]
    return subprocess.run(
        command, cwd=ROOT, env={**os.environ, "MEDHELM_TOOLS": str(folder)}
    ).returncode


if __name__ == "__main__":
    raise SystemExit(main())
