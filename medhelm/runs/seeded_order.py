"""Instances in the seeded order, from data that are read once."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Container, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import SpooledTemporaryFile

import msgspec

from medhelm.data.dataset import Dataset
from medhelm.errors import RecordError
from medhelm.files.durable import why
from medhelm.schema.data import Instance
from medhelm.schema.run import RunSpec
from medhelm.store.records import order_key
from medhelm.store.runlog import episode_keys
from medhelm.store.shards import Shard

_IN_MEMORY = 4 << 20


def share_of(
    dataset: Dataset, spec: RunSpec, cut: int | None, shard: Shard | None
) -> frozenset[int] | None:
    """Return the order keys of a shard's instances: every N-th in the seeded order. None: all are asked."""
    if shard is None:
        return None
    keys = (order_key(spec.seed, instance.id) for instance in dataset.instances())
    ordered = sorted(key for key in keys if cut is None or key <= cut)
    return frozenset(ordered[shard.number :: shard.count])


class SeededOrder:
    """The instances that a run still asks, in the seeded order: a run that is stopped early holds a random sample.

    The texts wait in a file of the run folder that has no name (small data in memory), so that 16
    bytes an instance are held. Raises what reading the data does, and RecordError where the file
    cannot be written.
    """

    def __init__(
        self,
        dataset: Dataset,
        spec: RunSpec,
        cut: int | None,
        answered: Collection[int],
        folder: Path,
        share: Container[int] | None = None,
    ) -> None:
        self._places, self._starts = array("Q"), array("Q", [0])
        self._texts = SpooledTemporaryFile(_IN_MEMORY, dir=str(folder))  # noqa: SIM115 - see close
        encode = msgspec.msgpack.Encoder().encode
        try:
            for instance in dataset.instances():
                place = order_key(spec.seed, instance.id)
                if cut is not None and place > cut:
                    continue
                if share is not None and place not in share:
                    continue
                keys = episode_keys(instance, spec.repeats)
                if left := [repeat for repeat, key in enumerate(keys) if key not in answered]:
                    self._places.append(place)
                    text = encode((instance, left))
                    self._starts.append(self._starts[-1] + len(text))
                    with _writing(folder):
                        self._texts.write(text)
            with _writing(folder):
                self._texts.flush()
        except BaseException:
            with suppress(OSError):  # what is still to be written
                self.close()
            raise

    def __iter__(self) -> Iterator[tuple[Instance, int]]:
        """Yield each instance with the repeat that is asked."""
        decode = msgspec.msgpack.Decoder(tuple[Instance, list[int]]).decode
        for n in sorted(range(len(self._places)), key=self._places.__getitem__):
            self._texts.seek(self._starts[n])
            instance, left = decode(self._texts.read(self._starts[n + 1] - self._starts[n]))
            for repeat in left:
                yield instance, repeat

    def close(self) -> None:
        """Forget the texts."""
        self._texts.close()


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as e:
        raise RecordError(f"cannot write texts that wait to {folder}: {why(e)}") from None
