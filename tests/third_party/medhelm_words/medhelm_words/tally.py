"""`medhelm tally`: count the runs of a folder."""

import argparse

import medhelm


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("folder", metavar="DIR", help="folder of results")


def run(args: argparse.Namespace) -> int:
    """Return 0."""
    frame = medhelm.load_results(args.folder).table("tally")
    print(f"{int(frame['runs'].sum())} runs of {len(frame)} models")
    return 0
