"""A provider with a protocol of its own: one line of JSON to a socket, one line back."""

import asyncio
import json
from urllib.parse import urlsplit

from medhelm import (
    Access,
    Answer,
    Endpoint,
    EndpointModel,
    Failure,
    Host,
    ModelSpec,
    Provider,
    Request,
    Usage,
    hookimpl,
    read_failure,
)


class Lines(Endpoint):
    """One address and key."""

    def open_model(self, spec: ModelSpec, *, owns_host: bool) -> "LinesModel":
        return LinesModel(spec, self, owns_host=owns_host)

    async def close(self) -> None:
        """Do nothing: a connection ends with its answer."""


class LinesModel(EndpointModel[Lines, bytes]):
    """A model behind such a socket."""

    def write(self, request: Request) -> bytes:
        text = "\n".join(message.content for message in request.messages)
        return json.dumps({"model": self.spec.model, "prompt": text}).encode() + b"\n"

    async def send(self, sent: bytes) -> Answer | Failure:
        address = urlsplit(self.endpoint.access.url)
        try:
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
        except OSError:
            return Failure("retry", "no connection")
        key = (self.endpoint.access.key or "").encode() + b"\n"
        writer.write(key + sent)
        line = await reader.readline()
        writer.close()
        if not line:
            return Failure("retry", "no answer", lost=True)
        found = json.loads(line)
        if "denied" in found:
            return read_failure(401, line)
        usage = Usage(input_tokens=found["read"], output_tokens=found["written"])
        return Answer(found["text"], "stop", usage, found["served"], "")


def open_host(spec: ModelSpec, access: Access | None) -> Host:
    if spec.model == "unlicensed":
        raise RuntimeError(f"no licence\nfor {access and access.key}")
    assert access is not None
    return Lines(access, spec.max_concurrency)


@hookimpl
def medhelm_providers() -> list[Provider]:
    return [
        Provider(
            name="example_lines",
            help="the example's sockets",
            open_host=open_host,
            base_url="http://127.0.0.1:9",
            key_env="EXAMPLE_LINES_KEY",
            uses=("base_url", "system_prompt"),
        )
    ]
