"""Checks the RO-Crate metadata of a report with two readers of others, in an environment of their own.

    python3 -m venv tools && tools/bin/pip install rocrate roc-validator
    tools/bin/python scripts/check_crate.py FOLDER [--context FILE]

`rocrate` reads the folder and writes it as a zip; `roc-validator` checks it against the profile
RO-Crate 1.1 with all that is required and recommended. `--context` names a copy of
https://w3id.org/ro/crate/1.1/context where there is no network.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from email.message import Message
from pathlib import Path
from typing import Any
from urllib.response import addinfourl


def main() -> None:
    """Print what is wrong; exit code 1 where anything is that the profile requires."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--context", type=Path)
    args = parser.parse_args()
    import rdflib.parser
    import requests
    from rocrate.rocrate import ROCrate
    from rocrate_validator import models, services
    from rocrate_validator.utils.http import HttpRequester

    if args.context:

        def local(request: Any) -> addinfourl:
            headers = Message()
            headers["content-type"] = "application/ld+json"
            return addinfourl(io.BytesIO(args.context.read_bytes()), headers, request.full_url)

        def got(*_: Any, **__: Any) -> requests.Response:
            found = requests.Response()
            found.status_code, found._content = 200, args.context.read_bytes()
            found.headers["Content-Type"] = "application/ld+json"
            return found

        rdflib.parser._urlopen = local
        HttpRequester.get = got
    crate = ROCrate(args.folder)
    with tempfile.TemporaryDirectory() as folder:
        crate.write_zip(Path(folder, "crate.zip"))
    print(f"rocrate: {crate.name!r} with {len(crate.data_entities)} files")
    result = services.validate(
        {
            "rocrate_uri": str(args.folder),
            "profile_identifier": "ro-crate-1.1",
            "requirement_severity": models.Severity.RECOMMENDED,
        }
    )
    wrong = [*result.get_issues()]
    for issue in wrong:
        print(f"{issue.severity.name}: {issue.message}")
    print(f"roc-validator: {len(wrong)} issues")
    sys.exit(any(issue.severity >= models.Severity.REQUIRED for issue in wrong))


if __name__ == "__main__":
    main()
