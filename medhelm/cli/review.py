"""`medhelm review serve`: a blinded sheet is rated in a browser, each mark on the disk at once."""

from __future__ import annotations

import argparse
import shlex
import ssl
import sys
from pathlib import Path

from medhelm.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "sheet", metavar="SHEET.json", help="that `medhelm agreement WORD --template` wrote"
    )
    parser.add_argument(
        "--raters",
        nargs="+",
        default=[],
        metavar="NAME",
        help="those who rate; each gets a code, which stays (default: those who have one)",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="(default: %(default)s); one that other machines reach needs --tls-cert and --tls-key",
    )
    parser.add_argument("--port", type=int, default=8010, help="0: any free one (default: 8010)")
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate, PEM")
    parser.add_argument("--tls-key", metavar="FILE", help="its private key, PEM")


def run(args: argparse.Namespace) -> int:
    """Serve a sheet until Ctrl-C and return the exit code."""
    from medhelm.review.marks import OVERSEER, Marks, rater_codes

    try:
        from medhelm.review import server
    except ImportError as e:
        if (e.name or "").partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        raise UsageError(
            "`medhelm review` needs Starlette and Uvicorn; run in the checkout: pip install "
            "'.[review]'"
        ) from None
    tls = _tls(args)
    own = server.is_loopback(args.host)
    if not own and tls is None:
        raise UsageError(
            f"--host {args.host} is reached by other machines: that needs --tls-cert and --tls-key"
        )
    path = Path(args.sheet)
    with server.open_socket(args.host, args.port) as listening:
        marks = Marks(path)
        try:
            codes = rater_codes(path, args.raters)
            if marks.mended:
                print(f"medhelm: damaged lines: {marks.mended}, taken out", file=sys.stderr)
            name = f"[{args.host}]" if ":" in args.host else args.host
            port = listening.getsockname()[1]
            print(f"{path}: {len(marks.units)} units. Who opens an address rates under its name:")
            for who, code in codes.items():
                print(f"  {who:<12} {'https' if tls else 'http'}://{name}:{port}/#{code}")
            print(
                "Each mark is saved at once. Ctrl-C ends it; the same command goes on.", flush=True
            )
            server.serve(server.make_app(marks, codes, is_loopback=own), listening, tls)
            for who in [name for name in codes if name != OVERSEER]:
                done = marks.done(who)
                print(f"  {who:<12} {sum(done)} of {len(done)} units done")
            line = shlex.join(["medhelm", *marks.review.then, str(marks.table_path)])
            print(f"Then: {line}")
        finally:
            marks.close()
    return 0


def _tls(args: argparse.Namespace) -> tuple[str, str] | None:
    """Return the files of certificate and key; raises UsageError for such as cannot be used."""
    if bool(args.tls_cert) != bool(args.tls_key):
        raise UsageError("--tls-cert and --tls-key belong together")
    if not args.tls_cert:
        return None
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(args.tls_cert, args.tls_key)
    except (OSError, ssl.SSLError) as e:
        raise UsageError(f"--tls-cert, --tls-key: {e.strerror or e}") from None
    return args.tls_cert, args.tls_key
