"""`python -m medhelm` and the `medhelm` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and leave with its exit code."""
    from medhelm.cli import run_command

    sys.exit(run_command(sys.argv[1:]))


if __name__ == "__main__":
    main()
