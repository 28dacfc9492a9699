"""A server of a model: its process on this machine, when it is ready, and its last words.

Its watcher ends it with all its children also where the process that started it is killed.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from medhelm.errors import ModelError, closest
from medhelm.models.hosts import KEY_NAME, LOADING, Host
from medhelm.schema.model import ModelSpec

if TYPE_CHECKING:
    import aiohttp

GPUS = "CUDA_VISIBLE_DEVICES"
READY_S = 1800.0
"""The longest start of a server."""
LOOPBACK = "127.0.0.1"
LOOK_EVERY_S = 0.2
_FIELDS = ("model", "port", "host")
_FIELD = re.compile(r"\{(\w+)\}")
_WATCHER = Path(__file__).with_name("server_watcher.py")
_PAGE_S = 3.0
_SHOWN_LINES, _SHOWN_WIDTH = 4, 160
"""Of the end of a log."""
_LONGEST_WORD = 5
"""`TOKEN=true` and the like are no keys: they would be taken out of every line."""


def command_problems(spec: ModelSpec) -> Iterator[str]:
    """Yield what is wrong with the command that starts a model's server."""
    try:
        words = shlex.split(spec.serve)
    except ValueError as e:
        yield f"serve is not a command ({e}); write it as in a shell, for example {EXAMPLE}"
        return
    fields = [name for word in words for name in _FIELD.findall(word)]
    for name in (n for n in fields if n not in _FIELDS):
        near = "".join(f"; did you mean {{{n}}}?" for n in closest(name, _FIELDS, n=1))
        yield f"serve holds {{{name}}}, and only {{model}}, {{host}} and {{port}} are filled in{near}"
    if "port" not in fields:
        yield f"serve needs {{port}} where the server takes its port, for example {EXAMPLE}"
    elif not takes_host(spec) and shutil.which(words[0]) is None:
        yield f"serve starts {words[0]!r}, which is not on this machine's PATH; install it or give its path"


EXAMPLE = "'vllm serve {model} --host {host} --port {port}'"


def takes_host(spec: ModelSpec) -> bool:
    """Return whether a model's server is told where to listen, and so may run on another machine."""
    return "{host}" in spec.serve


def plain_command(serve: str) -> str:
    """Return a command in the one form that all its spellings share; empty for none."""
    return shlex.join(shlex.split(serve))


def command_of(spec: ModelSpec, host: str = "{host}", port: int | str = "{port}") -> list[str]:
    """Return the words of the command of a model's server."""
    filled = {"model": spec.model, "host": host, "port": str(port)}
    return [_FIELD.sub(lambda f: filled[f[1]], word) for word in shlex.split(spec.serve)]


def _secrets(spec: ModelSpec) -> list[str]:
    """Return the keys that a model's server has in its environment, the longest first."""
    wanted = {spec.api_key_env, *(value.rpartition("$")[2] for value in spec.headers.values())}
    found = {
        value.strip()
        for name, value in os.environ.items()
        if name in wanted
        or (len(value) > _LONGEST_WORD and KEY_NAME.search(name.rstrip("0123456789")))
    }
    return sorted(found - {""}, key=len, reverse=True)


class Server(ABC):
    """One server: its address, its log, and who asks it."""

    base_url = ""
    """Its address, once it has begun."""
    watching: asyncio.Task[None]

    def __init__(self, spec: ModelSpec, log: str) -> None:
        """`log`: the place of its log, as messages name it."""
        self.spec, self.log = spec, log
        self.hosts: list[Host] = []
        """Connections that are given up where it ends by itself."""

    @abstractmethod
    async def begin(self) -> None:
        """Start it; raises OSError, or ModelError."""

    @abstractmethod
    def has_ended(self) -> bool:
        """Return whether it has ended by itself."""

    @abstractmethod
    async def last_words(self) -> str:
        """Return the end of its log in one line, without keys."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop it and all that it has started."""

    def status(self) -> str:
        """Return how far it is that is being started."""
        return f"{LOADING}, log {self.log}"

    async def wait_ready(self) -> None:
        """Start it and wait until it answers; raises ModelError with its last words where it ends or takes too long."""
        import aiohttp

        until = time.monotonic() + READY_S
        await self.begin()
        limit = aiohttp.ClientTimeout(total=_PAGE_S)
        async with aiohttp.ClientSession(timeout=limit) as session:
            is_ready = False
            while not is_ready:
                await asyncio.sleep(LOOK_EVERY_S)
                is_ready = await self._is_ready(session)
                if self.has_ended():  # whoever answers at its port now is another
                    raise await self._not_ready("ended before it was ready")
                if time.monotonic() > until:
                    raise await self._not_ready(f"is not ready after {READY_S:.0f} s")

    async def _is_ready(self, session: aiohttp.ClientSession) -> bool:
        """Return whether it has its weights: by its own word, else by its list of models."""
        import aiohttp

        try:
            for page in (self.base_url.removesuffix("/v1") + "/health", f"{self.base_url}/models"):
                async with session.get(page, allow_redirects=False) as response:
                    if response.status not in (404, 405):  # it has such a page; 401 wants a key
                        return response.status in (200, 401, 403)
        except (aiohttp.ClientError, OSError):
            pass
        return False

    async def _not_ready(self, what: str) -> ModelError:
        return ModelError(
            f"model {self.spec.name!r}: its server {what}; it says: {await self.last_words() or 'nothing'} "
            f"(all of it: {self.log})"
        )


class LocalServer(Server):
    """A server on this machine."""

    def __init__(
        self, spec: ModelSpec, log: Path, gpus: Sequence[str] = (), host: str = LOOPBACK
    ) -> None:
        """`gpus`: those that it sees; none: as this process does. `host`: where it listens."""
        super().__init__(spec, str(log))
        self.gpus, self._host = gpus, host
        self._process: subprocess.Popen[bytes] | None = None

    async def begin(self) -> None:
        """Start it; raises OSError."""
        with socket.create_server((self._host, 0)) as free:
            port = free.getsockname()[1]
        self.base_url = f"http://{self._host}:{port}/v1"
        command = command_of(self.spec, self._host, port)
        descriptor = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "ab") as out:
            out.write(f"medhelm, {time.strftime('%F %T')}: {shlex.join(command)}\n".encode())
            self._begin = out.tell()
            out.flush()
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_WATCHER), str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, GPUS: ",".join(self.gpus)} if self.gpus else None,
                start_new_session=True,  # Ctrl-C is for the command, which ends this one itself
            )

    def has_ended(self) -> bool:
        """Return whether its watcher has ended."""
        return self._process is not None and self._process.poll() is not None

    async def last_words(self) -> str:
        """Return the end of its log; before anything was asked, so that it holds no prompt."""
        with open(self.log, "rb") as log:
            log.seek(max(self._begin, log.seek(0, os.SEEK_END) - 65_536))
            text = log.read().decode("utf-8", "replace")
        for secret in _secrets(self.spec):
            text = text.replace(secret, "***")
        said = text.splitlines()
        lines = [" ".join("".join(c if c.isprintable() else " " for c in s).split()) for s in said]
        return " | ".join([line[:_SHOWN_WIDTH] for line in lines if line][-_SHOWN_LINES:])

    async def stop(self) -> None:
        """Stop it by its watcher."""
        if self._process is None:
            return
        self._process.terminate()
        while self._process.poll() is None:
            await asyncio.sleep(LOOK_EVERY_S / 4)
        with suppress(OSError):  # nothing is left, unless the watcher was killed
            os.killpg(self._process.pid, signal.SIGKILL)
