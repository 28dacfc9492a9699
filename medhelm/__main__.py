"""`python -m medhelm` and the `medhelm` command."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    from medhelm.cli import run_command

    # read when pyarrow is imported, whose own allocator keeps what it is given back
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    for name in ("stdout", "stderr"):  # None where the caller has closed it
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    code = run_command(sys.argv[1:])
    gc.freeze()  # the process ends: its last collection would walk every module for 0.2 s
    sys.exit(code)


if __name__ == "__main__":
    main()
