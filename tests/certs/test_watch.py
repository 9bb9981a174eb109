"""Where the webhook's pair comes from: a mounted directory that is swapped, or written in halves."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from certs.check import Served
from certs.issue import Pair, new_authority, new_leaf
from certs.reloads import Reloads
from certs.watch import Source, source_of
from ebbtide.kube.access import from_url
from ebbtide.kube.client import Client
from ebbtide.sim.time import DEFAULT_EPOCH, SimulatedClock, simulate
from tests.certs.builders import NAMESPACE, spec
from tests.certs.world import settings

SPEC = spec()
CA = new_authority(SPEC, DEFAULT_EPOCH)


class Mount:
    """A directory as the kubelet writes it: versions beside each other, and a link that is swapped."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._version = 0

    def swap(self, pair: Pair, key: bytes = b"") -> None:
        self._version += 1
        version = self.directory / f"..{self._version}"
        version.mkdir()
        write(version, pair, key)
        link = self.directory / "..data_tmp"
        link.symlink_to(version.name)
        link.replace(self.directory / "..data")
        for name in ("tls.crt", "tls.key", "ca.crt"):
            with suppress(FileExistsError):
                (self.directory / name).symlink_to(f"..data/{name}")


def write(directory: Path, pair: Pair, key: bytes = b"") -> None:
    (directory / "tls.crt").write_bytes(pair.certificate.pem)
    (directory / "tls.key").write_bytes(key or pair.key_pem)
    (directory / "ca.crt").write_bytes(CA.certificate.pem)


def leaf() -> Pair:
    return new_leaf(SPEC, CA, DEFAULT_EPOCH)


class Watcher:
    """A source on the directory, and what it gave."""

    def __init__(self, source: Source, registry: CollectorRegistry) -> None:
        self.source = source
        self.given: list[Served] = []
        self._registry = registry

    @property
    def errors(self) -> float | None:
        return self._registry.get_sample_value("certs_reload_errors_total")

    async def gather(self) -> None:
        async for served in self.source.updates():
            self.given.append(served)

    def serves(self, pair: Pair) -> bool:
        return bool(self.given) and self.given[-1].leaf == pair.certificate


def watching(directory: Path, story: Callable[[Watcher, SimulatedClock], Coroutine[Any, Any, None]]) -> None:
    """Runs a story beside a source in mode `files`."""

    async def main() -> None:
        registry, clock = CollectorRegistry(), SimulatedClock(asyncio.get_running_loop())
        certs = settings(mode="files", directory=str(directory)).certs
        async with Client(from_url("http://127.0.0.1:1"), field_manager="x", user_agent="x") as client:
            watcher = Watcher(source_of(certs, NAMESPACE, client, clock, Reloads(registry)), registry)
            tasks = [asyncio.ensure_future(watcher.source.run()), asyncio.ensure_future(watcher.gather())]
            try:
                await story(watcher, clock)
                assert not client.sent
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    simulate(main())


def test_wh_50_every_swap_of_the_mounted_directory_is_served_within_fifteen_seconds(tmp_path: Path) -> None:
    """Not only the first one; and a pair that stays is given once."""
    mount = Mount(tmp_path)

    async def story(watcher: Watcher, _clock: SimulatedClock) -> None:
        for number in range(1, 5):
            pair = leaf()
            mount.swap(pair)
            await asyncio.sleep(15)
            assert watcher.serves(pair)
            await asyncio.sleep(100)
            assert len(watcher.given) == number
        assert watcher.errors == 0

    watching(tmp_path, story)


def test_wh_49_the_key_of_another_pair_is_not_taken_and_the_right_one_is(tmp_path: Path) -> None:
    """The pair before stays, one error is counted, however long it lasts."""
    mount = Mount(tmp_path)

    async def story(watcher: Watcher, _clock: SimulatedClock) -> None:
        first, second = leaf(), leaf()
        mount.swap(first)
        await asyncio.sleep(15)
        mount.swap(second, key=first.key_pem)
        await asyncio.sleep(300)
        assert watcher.serves(first)
        assert watcher.errors == 1
        assert "another certificate" in watcher.source.problem
        mount.swap(second)
        await asyncio.sleep(15)
        assert watcher.serves(second)
        assert watcher.source.problem == ""

    watching(tmp_path, story)


def test_plain_files_are_watched_as_well(tmp_path: Path) -> None:
    """Without a link that is swapped, and from an empty directory on."""

    async def story(watcher: Watcher, _clock: SimulatedClock) -> None:
        await asyncio.sleep(30)
        assert watcher.source.current is None
        assert "tls.crt" in watcher.source.problem
        pair = leaf()
        write(tmp_path, pair)
        await asyncio.sleep(15)
        assert watcher.serves(pair)

    watching(tmp_path, story)


def test_a_pair_that_is_not_valid_yet_is_taken_once_it_is(tmp_path: Path) -> None:
    """Nothing but time has to pass, or the clock to be set."""
    early = new_leaf(SPEC, CA, DEFAULT_EPOCH + 2 * 3600)
    write(tmp_path, early)

    async def story(watcher: Watcher, clock: SimulatedClock) -> None:
        await asyncio.sleep(30)
        assert watcher.source.current is None
        clock.jump(3600)
        await asyncio.sleep(61)
        assert watcher.serves(early)

    watching(tmp_path, story)


def test_a_directory_that_goes_away_leaves_the_pair_in_use(tmp_path: Path) -> None:
    """It is told, and what was loaded is served on."""
    folder = tmp_path / "tls"
    folder.mkdir()
    pair = leaf()
    write(folder, pair)

    async def story(watcher: Watcher, _clock: SimulatedClock) -> None:
        await asyncio.sleep(5)
        for file in folder.iterdir():
            file.unlink()
        await asyncio.sleep(15)
        assert watcher.source.problem
        assert watcher.source.current is not None
        write(folder, pair)
        await asyncio.sleep(15)
        assert watcher.source.problem == ""
        assert len(watcher.given) <= 2

    watching(folder, story)
