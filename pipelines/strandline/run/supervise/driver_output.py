"""What a driver prints: shown where it always was, and kept in the log of its attempt.

The parent reads it from pipes. The driver holds their reading ends as well: where the parent is
killed it reads on by itself, so that what is printed while it ends in order is kept too, and no
write fails or waits for somebody who is gone. This room must not know what is printed.
"""

from __future__ import annotations

import atexit
import os
import selectors
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from strandline.storage.volume.driver_logs import DriverLog

VARIABLE = "STRANDLINE_DRIVER_OUTPUT"
STDOUT, STDERR = 1, 2
_CHUNK = 1 << 16
_LOOK_SECONDS = 0.1
# A pipe holds what two of them take. What a driver has started may print for longer than it lived.
_LAST_READS = 20
_FINISH_SECONDS = 3.0

Take = Callable[[int, bytes], None]


@dataclass(frozen=True, slots=True)
class DriverOutput:
    """Pipes for a driver that is about to be started.

    Attributes:
        sources, sinks: their ends, by the descriptor that the driver prints to.
        log: where all of it is kept.
    """

    sources: Mapping[int, int]
    sinks: dict[int, int]
    log: DriverLog

    @property
    def inherited(self) -> tuple[int, ...]:
        """Descriptors that the driver has to inherit."""
        return tuple(self.sources.values())

    @property
    def environment(self) -> dict[str, str]:
        """Return what tells the driver of it."""
        numbers = ",".join(map(str, self.sources.values()))
        return {VARIABLE: f"{numbers}:{self.log.path}"}

    def close_sinks(self) -> None:
        """Leave the writing ends to the driver, with whose end they are then closed."""
        for sink in set(self.sinks.values()):
            os.close(sink)
        # Their numbers may be somebody else's by the next call.
        self.sinks.clear()


def find_kept(streams: Sequence[int]) -> tuple[int, ...]:
    """Return those of the descriptors whose output is kept: terminals are for who sits there.

    Pictures for a terminal make no log, and who is asked there wants to be asked.
    """
    return tuple(stream for stream in streams if _is_open(stream) and not os.isatty(stream))


@contextmanager
def keeping_output(log: DriverLog | None, streams: Sequence[int]) -> Iterator[DriverOutput | None]:
    """Show and keep what a driver prints that is started in the block; None: nothing is kept.

    All of it is shown when the block is left.

    Args:
        log: where it is kept.
        streams: descriptors of this process and of the driver, such as `STDERR`.
    """
    if log is None or not streams:
        yield None
        return
    output = _open_pipes(log, streams)
    is_over = threading.Event()

    def take(stream: int, data: bytes) -> None:
        log.write(data)
        _show(stream, data)

    reader = threading.Thread(target=_read, args=(output.sources, take, is_over), daemon=True)
    reader.start()
    try:
        yield output
    finally:
        output.close_sinks()
        is_over.set()
        reader.join()
        for source in output.sources.values():
            os.close(source)
        log.close()


def _open_pipes(log: DriverLog, streams: Sequence[int]) -> DriverOutput:
    """Open a pipe for each stream; two that lead to the same share one, and so keep their order."""
    sources: dict[int, int] = {}
    sinks: dict[int, int] = {}
    for stream in streams:
        twin = next((known for known in sources if _is_same(known, stream)), None)
        if twin is None:
            sources[stream], sinks[stream] = os.pipe()
        else:
            sinks[stream] = sinks[twin]
    return DriverOutput(sources, sinks, log)


def _is_open(stream: int) -> bool:
    try:
        os.fstat(stream)
    except OSError:
        return False
    return True


def _is_same(stream: int, other: int) -> bool:
    return os.path.samestat(os.fstat(stream), os.fstat(other))


def prepare_reading_on(environment: MutableMapping[str, str]) -> Callable[[], None]:
    """Return what a driver calls when its parent is gone, so that its output is read on."""
    numbers, _, path = environment.pop(VARIABLE, "").partition(":")
    if not path:
        return lambda: None
    sources = {int(number): int(number) for number in numbers.split(",")}
    for source in sources:
        os.set_inheritable(source, False)  # noqa: FBT003 - its only form
    log = DriverLog(Path(path))

    def take(_: int, data: bytes) -> None:
        log.write(data)

    def read_on() -> None:
        is_over = threading.Event()
        thread = threading.Thread(target=_read, args=(sources, take, is_over), daemon=True)
        thread.start()

        def finish() -> None:
            is_over.set()
            thread.join(_FINISH_SECONDS)

        atexit.register(finish)

    return read_on


def _read(sources: Mapping[int, int], take: Take, is_over: threading.Event) -> None:
    """Read until all writers are gone, or it is over and nothing is left to be read."""
    with selectors.DefaultSelector() as selector:
        for stream, source in sources.items():
            os.set_blocking(source, False)
            selector.register(source, selectors.EVENT_READ, stream)
        left = _LAST_READS
        while selector.get_map() and left:
            left -= is_over.is_set()
            ready = selector.select(_LOOK_SECONDS)
            for key, _ in ready:
                if not _read_some(key.fd, key.data, take):
                    selector.unregister(key.fd)
            if not ready and left < _LAST_READS:
                return


def _read_some(source: int, stream: int, take: Take) -> bool:
    """Take what can be read at once; False where no writer is left."""
    try:
        data = os.read(source, _CHUNK)
    except BlockingIOError:  # somebody else has read it, in the moment in which both do
        return True
    if data:
        take(stream, data)
    return bool(data)


def _show(stream: int, data: bytes) -> None:
    """Show it all; where nobody looks any more, nothing."""
    view = memoryview(data)
    with suppress(OSError):
        while view:
            view = view[os.write(stream, view) :]
