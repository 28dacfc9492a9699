"""Opens web addresses as the environment wants it: proxies, certificates; redirects to the web only."""

from __future__ import annotations

import http.client
import os
import ssl
import urllib.request
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from medhelm.errors import DataError


def web_opener(benchmark: str) -> urllib.request.OpenerDirector:
    """Return what opens the addresses of a benchmark's files.

    A new one each time: `urlopen` would keep the proxies of the process's first request.
    """
    https = urllib.request.HTTPSHandler(context=_ca())
    return urllib.request.build_opener(https, _Redirects(benchmark))


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to web addresses only, though the library would open ftp."""

    def __init__(self, benchmark: str) -> None:
        self._benchmark = benchmark

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        """Return the request for the new address; raises DataError where it is none of the web."""
        if (scheme := urlsplit(newurl).scheme) not in ("http", "https"):
            fp.close()
            raise DataError(
                f"{self._benchmark}: {req.full_url} redirects to a {scheme} address, which is not "
                "followed"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _ca() -> ssl.SSLContext | None:
    """Return a context for the CA file that curl and requests are given.

    None where SSL_CERT_FILE or SSL_CERT_DIR name one, which Python's default obeys, or nothing does.
    """
    environ = os.environ
    bundle = environ.get("REQUESTS_CA_BUNDLE") or environ.get("CURL_CA_BUNDLE")
    if not bundle or environ.get("SSL_CERT_FILE") or environ.get("SSL_CERT_DIR"):
        return None
    if Path(bundle).is_dir():
        return ssl.create_default_context(capath=bundle)
    if not Path(bundle).is_file():
        raise DataError(f"the CA file {bundle} that the environment names does not exist")
    return ssl.create_default_context(cafile=bundle)
