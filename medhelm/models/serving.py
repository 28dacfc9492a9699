"""Servers of models with `serve`: started when the first request needs them, ended when none does any more.

Work begins in turns, so that no more servers are up than the memory is known to hold, and each is started
once. Each server has a watcher, which ends it with all its children also where this process is killed.
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
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from medhelm.errors import ModelError, UsageError, closest
from medhelm.files.durable import why
from medhelm.models.hosts import KEY_NAME, LOADING, Host
from medhelm.schema.model import ModelSpec, Order

if TYPE_CHECKING:
    import aiohttp

_FOREVER_S = 1e7
_VERSIONS = {"/version": "version", "/get_server_info": "version", "/props": "build_info"}
"""Pages where servers state their version (vLLM's, SGLang's, llama.cpp's), and its name there."""
_VERSION = re.compile(r"[\w.+-]{1,40}")
_GPUS = "CUDA_VISIBLE_DEVICES"
_ORDER = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
"""Numbers GPUs as their driver does, which names them."""
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
    elif "host" not in fields and shutil.which(words[0]) is None:
        yield f"serve starts {words[0]!r}, {_NOT_THERE}"


_NOT_THERE = "which is not on this machine's PATH; install it or give its path"
EXAMPLE = "'vllm serve {model} --host {host} --port {port}'"


def plain_command(serve: str) -> str:
    """Return a command in the one form that all its spellings share; empty for none."""
    return shlex.join(shlex.split(serve))


def _command(spec: ModelSpec, host: str = "{host}", port: int | str = "{port}") -> list[str]:
    filled = {"model": spec.model, "host": host, "port": str(port)}
    return [_FIELD.sub(lambda f: filled[f[1]], word) for word in shlex.split(spec.serve)]


def _key(spec: ModelSpec) -> str:
    return shlex.join(_command(spec))


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


class Server:
    """One server on this machine: its process, its address, its log."""

    base_url = ""
    """Its address, once it has begun."""
    version = gpu_names = ""
    """As it, and its machine, state them; empty where they do not."""
    watching: asyncio.Task[None]
    _process: subprocess.Popen[bytes] | None = None

    def __init__(
        self, spec: ModelSpec, log: Path | str, gpus: Sequence[str] = (), host: str = LOOPBACK
    ) -> None:
        """`gpus`: those that it sees; none: as this process does. `host`: where it listens."""
        self.spec, self.log, self.gpus, self._host = spec, str(log), gpus, host
        self.status = f"{LOADING}, log {log}"
        self.hosts: list[Host] = []
        """Connections that are given up where it ends by itself."""

    async def wait_ready(self) -> None:
        """Start it and wait until it answers; raises ModelError with its last words where it ends or takes too long."""
        import aiohttp

        await self.begin()
        until = time.monotonic() + READY_S
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
            self.version = await self._find_version(session)

    def describe(self) -> str:
        """Return its version and its own GPUs, as far as they are known."""
        version = f"version {self.version}" if self.version else ""
        return ", ".join(filter(None, (version, self.gpu_names)))

    async def _find_version(self, session: aiohttp.ClientSession) -> str:
        import aiohttp

        for page, name in _VERSIONS.items():
            with suppress(aiohttp.ClientError, OSError, ValueError):
                url = self.base_url.removesuffix("/v1") + page
                async with session.get(url, allow_redirects=False) as response:
                    stated = await response.json(content_type=None)
                    found = stated.get(name) if isinstance(stated, dict) else None
                    if response.status == 200 and _VERSION.fullmatch(str(found or "")):
                        return str(found)
        return ""

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

    async def begin(self) -> None:
        """Start it; raises OSError."""
        with socket.create_server((self._host, 0)) as free:
            port = free.getsockname()[1]
        self.base_url = f"http://{self._host}:{port}/v1"
        if self.spec.gpus:
            self.gpu_names = await asyncio.to_thread(_gpu_names, self.gpus or _gpus())
        command = _command(self.spec, self._host, port)
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
                env=os.environ | ({_GPUS: ",".join(self.gpus)} | _ORDER if self.gpus else {}),
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
            for _ in range(20):  # until all are gone, where somebody collects what has ended
                os.killpg(self._process.pid, signal.SIGKILL)
                await asyncio.sleep(LOOK_EVERY_S / 4)


class Machine:
    """The place of servers: this machine, which alone sees their addresses."""

    def count_gpus(self) -> int:
        """Return how many GPUs there are, in use or not."""
        return len(_gpus())

    def servers(self, spec: ModelSpec, logs: Sequence[Path], up: Iterable[Server]) -> list[Server]:
        """Return the servers of a model, one for each log, to be started beside those that are up.

        Raises ModelError where there are not GPUs enough for them.
        """
        wanted, there = len(logs) * spec.gpus, _gpus()
        used = {gpu for server in up for gpu in server.gpus}
        free = [gpu for gpu in there if gpu not in used]
        if len(free) < wanted:
            raise ModelError(
                f"model {spec.name!r}: {len(logs)} server(s) with {spec.gpus} GPU(s) each need {wanted}, "
                f"and {len(free)} of {len(there)} are free; set replicas and gpus, or {_GPUS}"
            )
        program = shlex.split(spec.serve)[0]
        if shutil.which(program) is None:
            raise ModelError(f"model {spec.name!r}: serve starts {program!r}, {_NOT_THERE}")
        own = (free[n * spec.gpus : (n + 1) * spec.gpus] for n in range(len(logs)))
        return [Server(spec, log, gpus) for log, gpus in zip(logs, own, strict=True)]


def _gpus() -> list[str]:
    """Return the GPUs that this process sees."""
    seen = os.environ.get(_GPUS)
    there = [str(n) for n in range(len([*Path("/dev").glob("nvidia[0-9]*")]))]
    return there if seen is None else [gpu for gpu in seen.split(",") if gpu]


def _gpu_names(gpus: Sequence[str]) -> str:
    """Return GPUs by their names and how many there are of each; without names where no driver knows them."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", f"--id={','.join(gpus)}"]
    try:
        named = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return f"{len(gpus)} GPU(s)"
    return ", ".join(f"{n} x {name}" for name, n in Counter(named.stdout.splitlines()).items())


class Work(NamedTuple):
    """The asking, or the judging, of runs that need the same servers."""

    is_judging: bool
    servers: frozenset[str] = frozenset()


class Servers:
    """The servers of a sweep, and whose turn it is."""

    def __init__(self, order: Order | None = None, place: Machine | None = None) -> None:
        """`order`: None: by the GPUs that models declare. `place`: where they run; None: on this machine."""
        self._order, self._place = order, place or Machine()
        self._up: dict[str, list[Server]] = {}
        """The replicas of each command."""
        self._failed: dict[str, ModelError] = {}
        """Servers that are not started again."""
        self._specs: dict[str, ModelSpec] = {}
        self._left: Counter[Work] = Counter()
        """The number of runs with each work that is not done, in the order of turns."""
        self._changing = asyncio.Lock()
        """Held while servers are started or stopped."""
        self._next = asyncio.Event()
        self._starting: Sequence[Server] = ()

    def work(self, specs: Collection[ModelSpec], *, is_judging: bool) -> Work:
        """Return the work of one run more, that needs the servers of these models."""
        served = {_key(spec): spec for spec in specs if spec.serve}
        self._specs |= served
        return Work(is_judging, frozenset(served))

    def expect(self, works: Collection[Work]) -> None:
        """Note all work that is to come; raises UsageError where its servers cannot be up side by side."""
        for work in sorted(works, key=lambda work: work.is_judging):
            self._left[work] += bool(work.servers)
        judges = self._of_judges(self._left)
        most = [work.servers | judges for work in self._left if not work.is_judging]
        if self._order is None:
            self._order = "runs" if all(map(self._fit, most)) else "roles"
        needed = max(map(self._needed, most), default=0)
        if judges and self._order == "runs" and needed > (there := self._place.count_gpus()):
            raise UsageError(
                f"order=runs needs {needed} GPUs for a model's servers beside its judges', and there are "
                f"{there}; take order=roles"
            )

    async def turn(self, work: Work) -> None:
        """Wait until the servers of this work may be up beside those of all work before it."""
        while work.servers and self._must_wait(work):
            await self._next.wait()

    def _must_wait(self, work: Work) -> bool:
        left = [other for other, n in self._left.items() if n]
        before = left[: left.index(work)]
        beside: frozenset[str] = frozenset()
        if self._order == "runs":
            if work.is_judging:
                return False
            beside = self._of_judges(left)
        elif work.is_judging and not all(other.is_judging for other in before):
            return True
        sets = [other.servers | beside for other in (*before, work)]
        together = frozenset[str]().union(*sets)
        return together not in sets and not self._fit(together)

    async def leave(self, work: Work) -> None:
        """Note that one run has done such work. Servers that no other needs are stopped."""
        if not work.servers:
            return
        self._left[work] -= 1
        if not self._left[work]:
            async with self._changing:
                needed = {key for other, n in self._left.items() if n for key in other.servers}
                await self._stop(self._up.keys() & work.servers - needed)
            self._next.set()
            self._next = asyncio.Event()

    @staticmethod
    def _of_judges(works: Iterable[Work]) -> frozenset[str]:
        return frozenset[str]().union(*(work.servers for work in works if work.is_judging))

    def _needed(self, servers: Iterable[str]) -> int:
        """Return how many GPUs are declared for servers."""
        return sum(self._specs[key].replicas * self._specs[key].gpus for key in servers)

    def _fit(self, servers: Collection[str]) -> bool:
        """Return whether declared GPUs hold all of these servers at a time."""
        is_declared = all(self._specs[key].gpus for key in servers)
        return not servers or is_declared and self._needed(servers) <= self._place.count_gpus()

    async def take(self, specs: Collection[ModelSpec], folder: Path) -> None:
        """Have the servers of these models up, whose turn it is; their logs lie in `folder`.

        For one that cannot be started `failure` returns the reason.
        """
        async with self._changing:
            at_work = [work for work, n in self._left.items() if n and not self._must_wait(work)]
            idle = self._up.keys() - {key for work in at_work for key in work.servers}
            if idle and not self._fit({*self._up, *map(_key, specs)}):
                await self._stop(idle)
            for spec in specs:
                if (key := _key(spec)) not in self._up and key not in self._failed:
                    await self._start(key, spec, folder)

    def failure(self, spec: ModelSpec) -> ModelError | None:
        """Return why a model's server is not up."""
        return self._failed.get(_key(spec)) if spec.serve else None

    def describe(self, spec: ModelSpec) -> list[str]:
        """Return what serves a model: versions and GPUs, each once."""
        found = dict.fromkeys(server.describe() for server in self._up[_key(spec)])
        return [one for one in found if one]

    def reached(self, spec: ModelSpec) -> dict[str, Any]:
        """Return the settings in place of `serve` by which a server that is up is reached."""
        urls = tuple(server.base_url for server in self._up[_key(spec)])
        base_url = urls if len(urls) > 1 else urls[0]
        return {"base_url": base_url, "serve": "", "replicas": 1, "gpus": 0}

    def at(self, address: str | None) -> Server | None:
        """Return the server that is up at an address; another one may get its port later."""
        own = (s for several in self._up.values() for s in several if s.base_url == address)
        return next(own, None)

    def tell(self, spec: ModelSpec, address: str | None, host: Host) -> None:
        """Give up these connections where a model's server at an address ends by itself."""
        for server in self._up[_key(spec)]:
            if server.base_url == address:
                server.hosts.append(host)

    def status(self) -> list[str]:
        """Return that servers are being started."""
        return [f"{server.spec.name}: {server.status}" for server in self._starting]

    async def close(self) -> None:
        """Stop all of them."""
        async with self._changing:
            await self._stop([*self._up])

    async def _start(self, key: str, spec: ModelSpec, folder: Path) -> None:
        name = re.sub(r"[^\w.+-]+", "_", spec.name)
        logs = [folder / f"server-{name}{f'-{n}' if n else ''}.log" for n in range(spec.replicas)]
        up = [server for several in self._up.values() for server in several]
        try:
            self._starting = await asyncio.to_thread(self._place.servers, spec, logs, up)
            await asyncio.gather(*(server.wait_ready() for server in self._starting))
        except BaseException as e:
            await asyncio.gather(*(server.stop() for server in self._starting))
            if isinstance(e, OSError):
                e = ModelError(f"model {spec.name!r}: its server cannot be started: {why(e)}")
            if not isinstance(e, ModelError):
                raise
            self._failed[key] = e
            return
        else:
            self._up[key] = [*self._starting]
        finally:
            self._starting = ()
        for server in self._up[key]:
            server.watching = asyncio.create_task(self._watch(key, server))

    async def _watch(self, key: str, server: Server) -> None:
        """Note where a server ends by itself: who asks it hears the reason at once."""
        while server in (replicas := self._up.get(key, [])):
            if server.has_ended():
                await server.stop()
                reason = (
                    f"model {server.spec.name!r}: its server ended while it was asked; "
                    f"{server.log} says why; the same command goes on"
                )
                replicas.remove(server)
                if not replicas:
                    self._failed[key] = ModelError(reason)
                    del self._up[key]
                for host in server.hosts:
                    host.fatal, host.limiter.is_dead = reason, True
                    if replicas:  # which do its work
                        host.limiter.pause(_FOREVER_S)
            await asyncio.sleep(LOOK_EVERY_S)

    async def _stop(self, keys: Collection[str]) -> None:
        await asyncio.gather(*(server.stop() for key in keys for server in self._up.pop(key)))
