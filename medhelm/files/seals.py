"""JSON files with a hash of themselves as the last key, by which a flipped bit is seen."""

from __future__ import annotations

import hashlib
import re

import msgspec

KEY = "sha256"
_SEAL = re.compile(rb',\n "sha256": "([0-9a-f]{64})"\n}\n\Z')


def sealed(value: msgspec.Struct) -> bytes:
    """Return a struct as indented JSON whose last key is the sha256 of what comes before it."""
    text = msgspec.json.format(msgspec.json.encode(value), indent=1).removesuffix(b"\n}")
    digest = hashlib.sha256(text).hexdigest().encode()
    return b'%b,\n "sha256": "%b"\n}\n' % (text, digest)


def is_broken(raw: bytes) -> bool:
    """Return whether JSON has another hash than it says. Without one it has none to break.

    Raises msgspec.DecodeError or UnicodeDecodeError for what is not a JSON object.
    """
    if KEY not in msgspec.json.decode(raw, type=dict[str, msgspec.Raw]):
        return False
    seal = _SEAL.search(raw)
    if seal is None:
        return True
    return hashlib.sha256(raw[: seal.start()]).hexdigest().encode() != seal[1]


def unsealed(raw: bytes) -> bytes:
    """Return sealed JSON without its last key, and any other JSON as it is."""
    seal = _SEAL.search(raw)
    return raw if seal is None else raw[: seal.start()] + b"\n}\n"
