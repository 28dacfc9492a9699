"""`python -m medhelm` and the `medhelm` command."""

from __future__ import annotations

import gc
import os
import resource
import sys
from contextlib import suppress

_OPEN_FILES = 4096
"""More than the connections, logs and pipes of any sweep."""


def main() -> None:
    """Run the command line and leave with its exit code."""
    from medhelm.cli import run_command

    # read when pyarrow is imported, whose own allocator keeps what it is given back
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    for name in ("stdout", "stderr"):  # None where the caller has closed it
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
    _allow_open_files()
    code = run_command(sys.argv[1:])
    gc.freeze()  # the process ends: its last collection would walk every module for 0.2 s
    sys.exit(code)


def _allow_open_files() -> None:
    """Raise the number of files that may be open as far as a user may: some systems begin at 256."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # the system has a lower limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


if __name__ == "__main__":
    main()
