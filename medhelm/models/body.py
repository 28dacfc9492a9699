"""The body of an answer, read and decompressed up to a bound."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterable

import aiohttp

MAX_ANSWER_BYTES = 8 * 2**20
"""The most of an answer that is read, compressed or not: a reply of 100,000 tokens has 1 MB."""
MAX_ERROR_BYTES = 2**16
"""The most of an error's body. The status decides, so the rest is left unread."""
ENCODINGS = "gzip, deflate"
"""Encodings that `BodyReader` decompresses and that requests offer."""


class BadBody(aiohttp.ClientPayloadError):
    """A body that cannot be used. The text says why, in our words only."""


class BodyReader:
    """Collects a body as it comes. A bomb is stopped at the bound and never held as a whole."""

    def __init__(self, encoding: str, most: int) -> None:
        self._most = most
        self._chunks: list[bytes] = []
        self._size = self._received = 0
        name = encoding.strip().lower()
        if name not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise BadBody("unknown content encoding")
        is_plain = name in ("", "identity")
        self._inflater = None if is_plain else _Inflater(is_gzip="gzip" in name)

    def feed(self, chunk: bytes) -> None:
        """Add what was received; raises `BadBody` beyond the bound and where it is damaged."""
        self._received += len(chunk)
        room = self._most - self._size
        if self._inflater is not None:
            chunk = self._inflater.feed(chunk, room + 1)
        self._chunks.append(chunk[:room])
        self._size += len(chunk[:room])
        if len(chunk) > room or self._received > self._most:
            raise BadBody(f"body over {self._most} bytes")

    def end(self) -> bytes:
        """Return the whole body."""
        if self._inflater is not None and self._received and not self._inflater.is_complete:
            raise BadBody("truncated body")
        return self.part

    @property
    def part(self) -> bytes:
        """Return what there is so far."""
        return b"".join(self._chunks)


class _Inflater:
    """Decompresses gzip, and deflate with or without its header."""

    def __init__(self, *, is_gzip: bool) -> None:
        self._member = zlib.decompressobj(31) if is_gzip else None

    @property
    def is_complete(self) -> bool:
        """Return whether the end was reached."""
        return self._member is not None and self._member.eof

    def feed(self, chunk: bytes, most: int) -> bytes:
        """Return at most so many bytes of what a chunk holds."""
        if not chunk:
            return b""
        if self._member is None:
            self._member = zlib.decompressobj(15 if chunk[0] & 0x0F == 8 else -15)
        try:
            found = self._member.decompress(chunk, most)
        except zlib.error:
            raise BadBody("damaged body") from None
        if self._member.unused_data:
            raise BadBody("damaged body")
        return found


async def read_body(chunks: AsyncIterable[bytes], encoding: str, status: int) -> bytes:
    """Return the body of a response from its chunks.

    Raises `BadBody` where it is an answer. Of an error's body it returns what can be read.
    """
    is_answer = 200 <= status < 300
    reader = None
    try:
        reader = BodyReader(encoding, MAX_ANSWER_BYTES if is_answer else MAX_ERROR_BYTES)
        async for chunk in chunks:
            reader.feed(chunk)
        return reader.end()
    except BadBody:
        if is_answer:
            raise
        return reader.part if reader else b""


class BoundedResponse(aiohttp.ClientResponse):
    """A response whose body is read up to a bound. Its session must not decompress."""

    async def read(self) -> bytes:
        """Return the body as `read_body` does."""
        if self._body is None:
            encoding = self.headers.get("Content-Encoding", "")
            try:
                if not encoding and 0 < (self.content_length or 0) <= MAX_ERROR_BYTES:
                    self._body = await self.content.read()
                    return self._body
                self._body = await read_body(self.content.iter_any(), encoding, self.status)
            except BaseException:
                self.close()
                raise
            if not self.content.at_eof():
                self.close()  # the rest is not read
        return self._body
