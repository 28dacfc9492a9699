"""`medhelm review serve`: a blinded sheet is rated in a browser, each mark on the disk at once."""

from __future__ import annotations

import argparse
import shlex
import ssl
import sys
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

from medhelm.errors import UsageError


def run(args: argparse.Namespace) -> int:
    """Serve a sheet until Ctrl-C and return the exit code."""
    if not (find_spec("starlette") and find_spec("uvicorn")):
        needs = "needs Starlette and Uvicorn; run in the checkout: pip install '.[review]'"
        raise UsageError(f"`medhelm review` {needs}")
    from medhelm.review import server
    from medhelm.review.marks import OVERSEER, Marks, rater_codes

    is_own = args.host in ("127.0.0.1", "::1", "localhost")  # no other machine reaches them
    has_tls = bool(args.tls_cert or args.tls_key)
    if not (is_own or has_tls):
        why = "needs --tls-cert and --tls-key: other machines may reach it"
        raise UsageError(f"--host {args.host} {why}")
    try:
        if has_tls:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(args.tls_cert, args.tls_key)
    except (OSError, TypeError) as e:  # a key without a certificate
        raise UsageError(f"--tls-cert and --tls-key cannot be used: {e}") from None
    path = Path(args.sheet)
    with server.open_socket(args.host, args.port) as listening, closing(Marks(path)) as marks:
        codes = rater_codes(path, args.raters)
        if marks.mended:
            print(f"medhelm: damaged lines: {marks.mended}, taken out", file=sys.stderr)
        host = f"[{args.host}]" if ":" in args.host else args.host
        base = f"http{'s' * has_tls}://{host}:{listening.getsockname()[1]}"
        print(f"{path}: {len(marks.units)} units. Who opens an address rates under its name:")
        for who, code in codes.items():
            print(f"  {who:<12} {base}/#{code}")
        print("Each mark is saved at once. Ctrl-C ends it; the same command goes on.", flush=True)
        hosts = ["localhost", "127.0.0.1", host] if is_own else ["*"]
        server.serve(server.make_app(marks, codes, hosts), listening, args.tls_cert, args.tls_key)
        for who in [name for name in codes if name != OVERSEER]:
            done = marks.done(who)
            print(f"  {who:<12} {sum(done)} of {len(done)} units done")
        print("Then:", shlex.join(["medhelm", *marks.review.then, str(marks.table_path)]))
    return 0
