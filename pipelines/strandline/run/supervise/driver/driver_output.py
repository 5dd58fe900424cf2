"""Copies a driver's output to its original destination and to the log of the attempt.

The parent reads the output from pipes. The driver has the reading ends, too: if the parent is
killed, the driver reads its own output. So output during a normal shutdown is kept, and no write
fails or blocks for lack of a reader. This module must not depend on the content of the output.
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

from strandline.run.supervise.variables import OUTPUT
from strandline.storage.volume.driver_logs import DriverLog

STDOUT, STDERR = 1, 2
_CHUNK = 1 << 16
# Maximum number of reads after the driver's end. Two reads empty a full pipe, but children of the
# driver may continue to print.
_LAST_READS = 20
_FINISH_SECONDS = 3.0

Take = Callable[[int, bytes], None]


@dataclass(frozen=True, slots=True)
class DriverOutput:
    """The output pipes of a driver process.

    Attributes:
        sources, sinks: reading and writing ends, by the driver's file descriptor.
    """

    sources: Mapping[int, int]
    sinks: dict[int, int]

    @property
    def inherited(self) -> tuple[int, ...]:
        """Descriptors that the driver has to inherit."""
        return tuple(self.sources.values())

    def tell(self, log: DriverLog) -> dict[str, str]:
        """Return environment variables that pass the pipes and the log's path to the driver."""
        numbers = ",".join(map(str, self.sources.values()))
        return {OUTPUT: f"{numbers}:{log.path}"}

    def close_sinks(self) -> None:
        """Close the writing ends in this process. The driver keeps its own copies until it ends."""
        for sink in set(self.sinks.values()):
            os.close(sink)
        # Forget the numbers, because the next call could close other files with the same numbers.
        self.sinks.clear()

    @contextmanager
    def keeping(self, log: DriverLog) -> Iterator[None]:
        """Show and log the output until the block ends, including the rest in the pipes."""
        stop, stopping = os.pipe()

        def take(stream: int, data: bytes) -> None:
            log.write(data)
            _show(stream, data)

        reader = threading.Thread(target=_read, args=(self.sources, take, stop), daemon=True)
        reader.start()
        try:
            yield
        finally:
            # Closing this end makes `stop` readable, so the reader ends.
            os.close(stopping)
            reader.join()
            os.close(stop)
            log.close()

    def close(self) -> None:
        """Close all ends in this process."""
        self.close_sinks()
        for source in self.sources.values():
            os.close(source)


def find_retained(streams: Sequence[int]) -> tuple[int, ...]:
    """Return the open descriptors that are not terminals, whose output is logged.

    Output to a terminal is not logged: progress displays are useless in a log, and prompts need a
    user at the terminal.
    """
    return tuple(stream for stream in streams if _is_open(stream) and not os.isatty(stream))


def open_output(streams: Sequence[int]) -> DriverOutput:
    """Open a pipe for each stream. Streams to the same file share a pipe, which keeps their order.

    Args:
        streams: descriptors, with the same numbers in this process and in the driver.
    """
    sources: dict[int, int] = {}
    sinks: dict[int, int] = {}
    for stream in streams:
        twin = next((known for known in sources if _is_same(known, stream)), None)
        if twin is None:
            sources[stream], sinks[stream] = os.pipe()
        else:
            sinks[stream] = sinks[twin]
    return DriverOutput(sources, sinks)


def _is_open(stream: int) -> bool:
    try:
        os.fstat(stream)
    except OSError:
        return False
    return True


def _is_same(stream: int, other: int) -> bool:
    return os.path.samestat(os.fstat(stream), os.fstat(other))


def prepare_reading_on(environment: MutableMapping[str, str]) -> Callable[[], None]:
    """Return a function with which a driver reads its own output after its parent has died."""
    numbers, _, path = environment.pop(OUTPUT, "").partition(":")
    if not path:
        return lambda: None
    sources = {int(number): int(number) for number in numbers.split(",")}
    for source in sources:
        os.set_inheritable(source, False)  # noqa: FBT003 - its only form
    log = DriverLog(Path(path))

    def take(_: int, data: bytes) -> None:
        log.write(data)

    def read_on() -> None:
        stop, stopping = os.pipe()
        thread = threading.Thread(target=_read, args=(sources, take, stop), daemon=True)
        thread.start()

        def finish() -> None:
            os.close(stopping)
            thread.join(_FINISH_SECONDS)

        atexit.register(finish)

    return read_on


def _read(sources: Mapping[int, int], take: Take, stop: int) -> None:
    """Read until all writers have ended, or until `stop` is closed and all output is read."""
    with selectors.DefaultSelector() as selector:
        for stream, source in sources.items():
            os.set_blocking(source, False)
            selector.register(source, selectors.EVENT_READ, stream)
        selector.register(stop, selectors.EVENT_READ)
        writers, left, is_over = len(sources), _LAST_READS, False
        while writers and left:
            ready = [key for key, _ in selector.select(0 if is_over else None)]
            if is_over and not ready:
                return
            left -= is_over
            for key in ready:
                if key.fd == stop:
                    is_over = True
                    selector.unregister(stop)
                elif not _read_some(key.fd, key.data, take):
                    selector.unregister(key.fd)
                    writers -= 1


def _read_some(source: int, stream: int, take: Take) -> bool:
    """Take the output available now. Return False if no writer is left."""
    try:
        data = os.read(source, _CHUNK)
    except BlockingIOError:  # the driver and its dying parent may both read; the other was faster
        return True
    if data:
        take(stream, data)
    return bool(data)


def _show(stream: int, data: bytes) -> None:
    """Write all data to a stream. Ignore errors, because the terminal may be closed."""
    view = memoryview(data)
    with suppress(OSError):
        while view:
            view = view[os.write(stream, view) :]
