"""`medhelm generate words`: words, as many as are asked for."""

import argparse
from collections.abc import Sequence

from medhelm import MedhelmError

_WORDS = ("alpha", "beta", "gamma")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("--count", type=int, default=1, metavar="N", help="words (default: 1)")
    parser.add_argument("--first", choices=_WORDS, help="the word to begin with")


def run(args: argparse.Namespace) -> int:
    """Return 0."""
    if args.count > len(_WORDS):
        raise MedhelmError(f"--count {args.count}: there are {len(_WORDS)} words")
    start = _WORDS.index(args.first) if args.first else 0
    print(*(_WORDS * 2)[start : start + args.count])
    return 1 // args.count - 1 // args.count


def complete(words: Sequence[str]) -> list[str]:
    """Return the words that `--first` takes."""
    if words[-2:-1] != ["--first"]:
        return []
    return [word for word in _WORDS if word.startswith(words[-1])]
