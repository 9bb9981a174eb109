"""The servers that admission is measured on, each a process of its own on one processor.

    ebbtide             `python -m webhook`: decision, metrics, and a line of the log for every request
    floor               aiohttp that reads the body and always answers the same, with our loop and TLS settings
    bare Go             net/http, the fields that matter, and a patch written by hand; no metrics, no log
    controller-runtime  typed pods, and the difference as the patch; metrics, no log
    kopf                its webhook server, as pip installs it; a line of the log for every request

For all but ours the blocked zone is an argument: how it becomes known costs them nothing.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext

import aiohttp

from bench import reviews
from bench.load import AnswerError, Target, one
from bench.peers import go_programs, kopf_environment
from bench.setting import REPOSITORY
from ebbtide.config.admission import Certs
from tests.controlplane.processes import free_port
from tests.webhook.stage import LOOPBACK, NAMESPACE, Authority

OURS, FLOOR, BARE, TYPED, KOPF = "ebbtide", "floor", "bare Go", "controller-runtime", "kopf"
_KOPF_OPERATOR = Path(kopf_environment.__file__).with_name("kopf_webhook.py")
_STARTS_WITHIN = 60.0
_LOOK_EVERY = 0.02
_STOPS_WITHIN = 10.0


@dataclass(frozen=True)
class Cores:
    """Which processor the servers have, and which one the client and everything else; the same where there is one."""

    servers: int
    others: int

    @classmethod
    def of_this_machine(cls) -> "Cores":
        usable = sorted(os.sched_getaffinity(0))
        return cls(usable[-1], usable[0])


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """This thread, and what is started meanwhile, has that processor only."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@dataclass(frozen=True)
class Place:
    """What a server is started with: a folder with a pair for loopback, its CA, and a cluster."""

    folder: Path
    trust: SSLContext
    cores: Cores
    kubeconfig: Path

    @classmethod
    def made(cls, folder: Path, cluster: str) -> "Place":
        certs = Certs(mode="files", directory=str(folder), extra_sans=(LOOPBACK,))
        authority = Authority(folder, certs)
        authority.issue()
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(json.dumps(no_login(cluster)))
        return cls(folder, authority.client, Cores.of_this_machine(), kubeconfig)


@dataclass(frozen=True)
class Server:
    """One that runs. `started` are the seconds to its first answer, of ours until it called itself ready too."""

    pid: int
    target: Target
    started: float


@dataclass(frozen=True)
class Start:
    """How one is started: its command line, and where it says that it is ready, "" for one that does not."""

    command: tuple[str, ...]
    ready: str = ""


Starting = Callable[[Place, int], Start]


def starts(*, go: bool, kopf: bool) -> dict[str, Starting]:
    """Every server by name, made for a place and a port."""
    found: dict[str, Starting] = {OURS: _ours, FLOOR: _floor}
    if go:
        found |= {BARE: _go("bare"), TYPED: _go("typed")}
    if kopf:
        found[KOPF] = _kopf
    return found


@asynccontextmanager
async def serving(name: str, place: Place, start: Starting) -> AsyncIterator[Server]:
    """Starts it, waits until it answers as it should, and stops it. Raises AssertionError with its log."""
    port = free_port()
    made = start(place, port)
    log = place.folder / f"{name}.log"
    target = Target(port, place.trust)
    begun = asyncio.get_running_loop().time()
    with log.open("ab") as output, on_core(place.cores.servers):
        process = await asyncio.create_subprocess_exec(
            *made.command,
            cwd=REPOSITORY,
            env={**os.environ, "KUBECONFIG": str(place.kubeconfig)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        await _answering(target, made.ready, process)
        yield Server(process.pid, target, asyncio.get_running_loop().time() - begun)
    except (OSError, AnswerError, AssertionError, TimeoutError) as error:
        end = log.read_text(errors="replace").splitlines()[-30:]
        raise AssertionError("\n".join([f"{name}: {error!r}; its log ends", *end])) from error
    finally:
        await _stopped(process)


async def _answering(target: Target, ready: str, process: asyncio.subprocess.Process) -> None:
    body = reviews.body(reviews.SMALL)
    async with asyncio.timeout(_STARTS_WITHIN), aiohttp.ClientSession() as session:
        while True:
            assert process.returncode is None, f"it has ended with {process.returncode}"
            try:
                await one(target, body)
                if not ready:
                    return
                async with session.get(ready) as answer:
                    if answer.status == 200:
                        return
            except (OSError, AnswerError):
                pass
            await asyncio.sleep(_LOOK_EVERY)


async def _stopped(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOPS_WITHIN)
        except TimeoutError:
            process.kill()
            await process.wait()


def _ours(place: Place, port: int) -> Start:
    health = free_port()
    file = place.folder / f"ebbtide-{port}.toml"
    file.write_text(f"""
namespace = "{NAMESPACE}"
[webhook]
listen = "{LOOPBACK}:{port}"
health-listen = "{LOOPBACK}:{health}"
drain = "0s"
[certs]
mode = "files"
directory = "{place.folder}"
extra-sans = ["{LOOPBACK}"]
""")
    flags = ("--config", str(file), "--kubeconfig", str(place.kubeconfig), "--log-format", "json")
    return Start((sys.executable, "-m", "webhook", *flags), f"http://{LOOPBACK}:{health}/readyz")


def _floor(place: Place, port: int) -> Start:
    return Start((sys.executable, "-m", "bench.peers.floor", str(port), str(place.folder)))


def _go(program: str) -> Starting:
    def start(place: Place, port: int) -> Start:
        flags = ("-port", str(port), "-certs", str(place.folder), "-blocked", f"{reviews.GROUP}={reviews.BLOCKED}")
        return Start((go_programs.program(program), *flags))

    return start


def _kopf(place: Place, port: int) -> Start:
    arguments = (str(port), str(place.folder), reviews.GROUP, reviews.BLOCKED)
    return Start((kopf_environment.python(), str(_KOPF_OPERATOR), *arguments))


def no_login(server: str) -> Mapping[str, object]:
    """A kubeconfig for an embedded cluster."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "bench",
        "clusters": [{"name": "bench", "cluster": {"server": server}}],
        "users": [{"name": "bench", "user": {"token": "none-is-asked-for"}}],
        "contexts": [{"name": "bench", "context": {"cluster": "bench", "user": "bench"}}],
    }
