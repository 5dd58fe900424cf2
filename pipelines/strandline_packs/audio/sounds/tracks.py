"""Opens audio through PyAV, by path, URL, or from memory, and decodes it block by block.

PyAV and soxr are imported when the first file is opened. The module must not depend on stages.
"""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from strandline.data.files.opening import UnreadableFileError, explain_error, open_binary
from strandline.plan.packages import load_module

# Names of ffmpeg's layouts by number of channels.
LAYOUTS = {1: "mono", 2: "stereo", 3: "2.1", 4: "4.0", 5: "5.0", 6: "5.1", 7: "6.1", 8: "7.1"}
RATES = range(4_000, 768_001)  # sample rates in hertz; a damaged header states any number

# Resolutions of integer samples; other formats are floats.
_SCALES = {"u8": 1 << 7, "s16": 1 << 15, "s32": 1 << 31, "s64": 1 << 63}
_LOUDEST = 16.0  # limit for floats, which may contain any number: 24 dB above full scale
_READ_AHEAD = 1 << 20
# Formats that state the exact length. Others estimate it from the size of the file.
_EXACT_LENGTHS = {"flac", "w64", "aiff", "matroska,webm", "mov,mp4,m4a,3gp,3g2,mj2"}
_MISSING = 0.02  # tolerated missing share of the stated length
_SHORTER = 1.0  # tolerated missing seconds


def load_av() -> Any:
    """Return PyAV.

    Raises:
        ImportError: PyAV is not installed; the message names the package to install.
    """
    return load_module("av")


@contextmanager
def open_sound(path: str, content: bytes | None = None) -> Iterator[Any]:
    """Open the container at a path or URL, or in memory. For a URL, only read ranges are fetched.

    Args:
        content: bytes of the file; None opens the path, which is otherwise only a name.

    Raises:
        UnreadableFileError: the file can't be read, or is not audio. Later reads may also raise
            this error.
    """
    av = load_av()
    with (
        _explaining(path),
        open_binary(path) if content is None else io.BytesIO(content) as file,
        # Titles in an unknown encoding must not fail a file.
        av.open(file, "r", buffer_size=_READ_AHEAD, metadata_errors="replace") as container,
    ):
        yield container
        _check_size(file, path)


def _check_size(file: Any, path: str) -> None:
    """Compare the size of a WAV file with its header, because ffmpeg reads what there is.

    Raises:
        UnreadableFileError: the file is much smaller than stated.
    """
    file.seek(0)
    head = file.read(8)
    # Programs that write to a pipe leave the size empty.
    if head[:4] != b"RIFF" or head[4:] in {b"\0" * 4, b"\xff" * 4}:
        return
    stated, size = int.from_bytes(head[4:], "little"), file.seek(0, io.SEEK_END)
    if size < stated * (1 - _MISSING):
        msg = f"{path}: the sound ends after {size:,} of {stated:,} bytes; the file is incomplete"
        raise UnreadableFileError(msg)


@contextmanager
def _explaining(path: str) -> Iterator[None]:
    """Turn errors of PyAV and of the store into one sentence that names the file."""
    try:
        yield
    except load_av().FFmpegError as error:
        msg = f"{path}: not readable audio ({error.strerror or error})"
        raise UnreadableFileError(msg) from error
    except OSError as error:
        if error.errno == errno.EINVAL:  # the container refers to a position outside of the file
            msg = f"{path}: not readable audio (it is empty or damaged)"
            raise UnreadableFileError(msg) from error
        raise explain_error(path, error) from error


class SoundReading:
    """Decodes the first audio stream of a container to its end.

    Args:
        name: name for messages.
        rate: sample rate of the blocks in hertz; None for the file's own rate.
        is_mono: whether to average all channels into one.

    Attributes:
        rate: sample rate of the blocks; 0 before the first block.
        codec: name of the stream's codec.
        damaged: number of packets that could not be decoded.

    Raises:
        UnreadableFileError: no audio stream exists, or no decoder supports it.
    """

    def __init__(self, container: Any, name: str, rate: int | None, *, is_mono: bool) -> None:
        streams = container.streams.audio
        if not streams:
            msg = f"{name}: not audio: it has no stream of sound"
            raise UnreadableFileError(msg)
        self._stream = streams[0]
        if self._stream.codec_context is None:
            msg = f"{name}: not readable audio: no decoder for its sound is installed"
            raise UnreadableFileError(msg)
        self._container, self._name = container, name
        self._wanted_rate, self._is_mono = rate, is_mono
        # Use one thread: the engine runs a worker per core.
        self._stream.codec_context.thread_count = 1
        self.codec: str = self._stream.codec_context.codec.canonical_name
        self.rate = self.damaged = 0
        self._shape = (0, 0)  # rate and channels of the file
        self._seconds = 0.0
        self._resampler: Any = None
        self._fault: UnreadableFileError | None = None

    def read(self) -> Iterator[Any]:
        """Yield blocks: arrays of samples × channels, 32-bit floats from -1 to 1.

        Damaged packets are skipped. Call `check_end` afterwards.

        Raises:
            UnreadableFileError: the rate or the number of channels changes within the file, and the
                parameters do not convert them; or more than 8 channels are kept.
        """
        np = load_module("numpy")
        for frame in self._decode():
            block = _to_floats(frame, np)
            if self._is_mono and block.shape[1] > 1:
                block = block.mean(1, keepdims=True)
            yield from self._adapt(frame.sample_rate, block)
            yield from self._resample(block)
            self._seconds += len(block) / frame.sample_rate
        yield from self._flush()

    def check_end(self) -> None:
        """Check that the file was read to its end.

        Raises:
            UnreadableFileError: reading stopped at an error, the file has no samples, or it is much
                shorter than stated.
        """
        if self._fault is not None:
            raise self._fault
        if not self._seconds:
            msg = f"{self._name}: not readable audio: no sample can be decoded"
            raise UnreadableFileError(msg)
        stated = self._find_stated_length()
        if stated - self._seconds > max(_SHORTER, stated * _MISSING):
            msg = (
                f"{self._name}: the sound ends after {self._seconds:.1f} of {stated:.1f} seconds; "
                "the file may be incomplete"
            )
            raise UnreadableFileError(msg)

    def _decode(self) -> Iterator[Any]:
        error = load_av().error
        for packet in self._demux():
            try:
                frames = packet.decode()
            except (error.InvalidDataError, error.EOFError):
                self.damaged += packet.size > 0  # an empty packet only marks the end
                continue
            yield from (frame for frame in frames if frame.samples)

    def _demux(self) -> Iterator[Any]:
        """Yield packets up to the end or the first error, which `check_end` raises.

        So the samples before the error are not lost.
        """
        try:
            with _explaining(self._name):
                yield from self._container.demux(self._stream)
        except UnreadableFileError as error:
            self._fault = error

    def _adapt(self, rate: int, block: Any) -> Iterator[Any]:
        """Prepare for the rate and channels of a block, and yield the end of the previous ones."""
        shape = (rate, block.shape[1])
        if shape == self._shape:
            return
        is_first = not self.rate
        if not is_first and (shape[1] != self._shape[1] or self._wanted_rate is None):
            msg = (
                f"{self._name}: rate and channels change from {self._shape} to {shape}; set `rate`"
                " and `channels: mono`"
            )
            raise UnreadableFileError(msg)
        if rate not in RATES:
            msg = f"{self._name}: not readable audio: its sample rate is {rate:,} Hz"
            raise UnreadableFileError(msg)
        if shape[1] not in LAYOUTS:
            msg = f"{self._name}: {shape[1]} channels can't be kept; set `channels: mono`"
            raise UnreadableFileError(msg)
        yield from self._flush()
        self._shape, self.rate = shape, self._wanted_rate or rate
        if self.rate != rate:
            self._resampler = start_resampler(rate, self.rate, shape[1])

    def _resample(self, block: Any) -> Iterator[Any]:
        if self._resampler is not None:
            block = self._resampler.resample_chunk(block)
        if len(block):
            yield block

    def _flush(self) -> Iterator[Any]:
        if self._resampler is None:
            return
        empty = load_module("numpy").zeros((0, self._shape[1]), "float32")
        rest = self._resampler.resample_chunk(empty, last=True)
        self._resampler = None
        if len(rest):
            yield rest

    def _find_stated_length(self) -> float:
        """Return the stated seconds of the sound, or 0 if none are stated."""
        if self._container.format.name not in _EXACT_LENGTHS:
            return 0.0
        if self._stream.duration:
            return float(self._stream.duration * self._stream.time_base)
        # The container's length is that of its longest stream.
        is_alone = len(self._container.streams) == 1
        return (self._container.duration or 0) / load_av().time_base if is_alone else 0.0


def start_resampler(rate: int, wanted: int, channels: int) -> Any:
    """Return soxr's resampler for a stream of blocks of 32-bit floats."""
    return load_module("soxr").ResampleStream(rate, wanted, channels, dtype="float32")


def _to_floats(frame: Any, np: Any) -> Any:
    """Return the samples of a frame: samples × channels."""
    array, kind = frame.to_ndarray(), frame.format.packed.name
    channels = frame.layout.nb_channels
    samples = array.T if frame.format.is_planar else array.reshape(-1, channels)
    if kind not in _SCALES:
        return np.nan_to_num(np.clip(samples, -_LOUDEST, _LOUDEST)).astype("float32")
    middle = _SCALES["u8"] if kind == "u8" else 0
    return (samples.astype("float32") - middle) * np.float32(1 / _SCALES[kind])
