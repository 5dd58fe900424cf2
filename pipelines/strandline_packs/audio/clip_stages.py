"""Base classes of stages for audio: readers of files, and stages that work on clips row by row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
from pydantic import Field

from strandline.data.files.opening import BadInput, UnreadableFileError
from strandline.data.tables.batching import cut_batches
from strandline.data.tables.columns import find_field, list_strings, set_column
from strandline.data.tables.file_references import list_references
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task
from strandline_packs.audio.sounds.clips import CLIP_KINDS, Sound, load_clip, pack_wave
from strandline_packs.audio.sounds.levels import scale_loudness
from strandline_packs.audio.sounds.tracks import SoundReading, load_av, open_sound

PACKAGES = ("av", "numpy", "soxr")

_TASK_BYTES = 16 << 20  # size at which a task of clips is full


class ChannelMode(StrEnum):
    """Treatment of several channels."""

    MONO = "mono"
    KEEP = "keep"


class ReaderParams(Stage.Params):
    """Configures the input of a reader, and the form of clips."""

    column: str | None = Field(
        default=None,
        min_length=1,
        description="Column with the bytes of audio or video files, such as `audio` or "
        "`audio.bytes` in data sets of the hub. By default the files at `path` are read.",
    )
    rate: int | None = Field(
        default=16_000,
        ge=4_000,
        le=192_000,
        description="Sample rate of the clips in hertz; null keeps the rate of each file.",
    )
    channels: ChannelMode = Field(
        default=ChannelMode.MONO,
        description="`mono`: the mean of all channels. `keep`: the channels of the file.",
    )
    loudness: float | None = Field(
        default=None,
        ge=-60,
        le=0,
        description="Loudness in LUFS to which each clip is scaled, as far as its peaks stay below "
        "-1 dB; null keeps the level.",
    )
    clips_per_task: int = Field(
        default=64,
        ge=1,
        description="Number of clips of a task. Tasks of 16 MiB are complete earlier.",
    )
    bad_audio: BadInput = Field(
        default=BadInput.FAIL,
        description="Treatment of files that are not audio or end early: `fail` the source, or "
        "`drop` and count the unreadable part and keep the clips before it.",
    )


class ClipPart(NamedTuple):
    """A part of a file: the start in seconds, the sound, and values of further columns."""

    start: float
    sound: Sound
    others: Mapping[str, Any] = {}


class ClipReader(Stage):
    """Reads files in blocks, and emits clips while reading the rest of a file."""

    params: ReaderParams
    packages: ClassVar[tuple[str, ...]] = PACKAGES
    keeps_columns = True
    kinds: ClassVar[Mapping[str, pa.DataType]] = CLIP_KINDS

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", self._find_input())

    def list_added(self) -> tuple[str, ...]:
        return tuple(self.kinds)

    def change_columns(self, columns: Columns) -> Columns:
        return columns.without([self._find_input()]).having(self.list_added())

    def setup(self) -> None:
        """Load the library."""
        load_av().logging.set_level(None)  # the stage reports a file's fault itself

    def process(self, task: Task) -> Iterator[Task]:
        """Yield tasks of up to `clipsPerTask` clips, with the other columns of the row of the file.

        Raises:
            MissingColumnError: the table names no files, or lacks the column with their bytes.
            UnreadableFileError: during iteration, if a file can't be read and `badAudio` is `fail`.
        """
        replaced = {self._find_input(), *self.kinds}
        others = task.table.select(
            [each for each in task.table.column_names if each not in replaced]
        )
        clips = self._read_all(task)
        for batch in cut_batches(clips, _measure, self.params.clips_per_task, _TASK_BYTES):
            table = others.take([at for at, _ in batch])
            for name, kind in self.kinds.items():
                table = set_column(table, name, [row[name] for _, row in batch], kind)
            yield task.replace(table)

    @abstractmethod
    def cut(self, reading: SoundReading) -> Iterator[ClipPart]:
        """Yield the parts of a file that become clips."""

    def _find_input(self) -> str:
        return "path" if self.params.column is None else self.params.column.partition(".")[0]

    def _read_all(self, task: Task) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield rows of clips, with the number of the row of the file."""
        if self.params.column is None:
            for at, file in enumerate(list_references(task)):
                yield from ((at, row) for row in self._read(file.key, file.path, None))
            return
        contents = find_contents(task.table, self.params.column)
        for at, key in enumerate(list_strings(task.table, "key")):
            content = contents[at].as_py() or b""
            yield from ((at, row) for row in self._read(key, key, content))

    def _read(self, key: str, path: str, content: bytes | None) -> Iterator[dict[str, Any]]:
        try:
            with open_sound(path, content) as container:
                is_mono = self.params.channels is ChannelMode.MONO
                reading = SoundReading(container, path, self.params.rate, is_mono=is_mono)
                for number, part in enumerate(self.cut(reading)):
                    yield {"clip": f"{key}#{number:05}", "codec": reading.codec, **self._pack(part)}
                if reading.damaged:
                    self.count("left out: packets that can't be decoded", reading.damaged)
                reading.check_end()
        except UnreadableFileError:
            if self.params.bad_audio is BadInput.FAIL:
                raise
            self.count("dropped: not audio, or an end that can't be read")

    def _pack(self, part: ClipPart) -> dict[str, Any]:
        sound = part.sound
        if self.params.loudness is not None:
            sound, is_limited = scale_loudness(sound, self.params.loudness)
            if is_limited:
                self.count("reduced: loudness limited by peaks")
        if abs(sound.samples).max() > 1:
            self.count("reduced: clips with samples above full scale")
        return {
            "start": part.start,
            "end": part.start + sound.seconds,
            "duration": sound.seconds,
            "sample_rate": sound.rate,
            "channels": sound.samples.shape[1],
            "audio": pack_wave(sound),
            **part.others,
        }


class ClipParams(Stage.Params):
    """Configures the column with clips."""

    column: str = Field(
        default="audio",
        min_length=1,
        description="Column with the bytes of audio files; `audio.bytes` is a field of a struct, "
        "as in data sets of the hub, and `audio` alone also finds it.",
    )
    bad_audio: BadInput = Field(
        default=BadInput.FAIL,
        description="Treatment of clips that can't be decoded: `fail` the source, or `drop` and "
        "count them.",
    )


class ClipStage(Stage):
    """Decodes clip by clip, and adds or replaces columns."""

    params: ClipParams
    packages: ClassVar[tuple[str, ...]] = PACKAGES
    keeps_columns = True

    def list_needed_columns(self) -> tuple[str, ...]:
        return (self.params.column.partition(".")[0],)

    def list_added(self) -> tuple[str, ...]:
        return tuple(self.list_kinds())

    @abstractmethod
    def list_kinds(self) -> Mapping[str, pa.DataType]:
        """Return the types of the columns that the stage adds or replaces."""

    @abstractmethod
    def work(self, sound: Sound, name: str) -> Sequence[Any]:
        """Return the values of the columns for a clip. The name is for messages."""

    def setup(self) -> None:
        """Load the library."""
        load_av().logging.set_level(None)

    def process(self, task: Task) -> Task | None:
        """Work on every clip.

        Raises:
            MissingColumnError: the column with clips is missing.
            UnreadableFileError: a clip can't be decoded and `badAudio` is `fail`.
        """
        kept, answers = [], []
        contents = find_contents(task.table, self.params.column)
        for at, name in enumerate(_name_clips(task.table)):
            try:
                answers.append(self.work(load_clip(contents[at].as_py(), name), name))
                kept.append(at)
            except UnreadableFileError:
                if self.params.bad_audio is BadInput.FAIL:
                    raise
                self.count("dropped: not audio")
        if not kept:
            return None
        table = task.table if len(kept) == task.num_rows else task.table.take(kept)
        for column, (name, kind) in enumerate(self.list_kinds().items()):
            table = set_column(table, name, [answer[column] for answer in answers], kind)
        return task.replace(table)


def find_contents(table: pa.Table, column: str) -> pa.ChunkedArray:
    """Return the bytes of audio files, also from structs with a field `bytes`.

    Raises:
        MissingColumnError: the column is missing.
        TypeError: the column has no bytes.
    """
    contents = find_field(table, column)
    if pa.types.is_struct(contents.type):
        contents = find_field(table, f"{column}.bytes")
    kind = contents.type
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_null(kind)):
        msg = f"the column {column!r} holds {kind}, not bytes of audio files"
        raise TypeError(msg)
    return contents


def _name_clips(table: pa.Table) -> list[str]:
    """Return names for messages: `clip`, else `key`, else the number of the row."""
    for column in ("clip", "key"):
        if column in table.column_names:
            return list_strings(table, column)
    return [f"row {at}" for at in range(table.num_rows)]


def _measure(clip: tuple[int, Mapping[str, Any]]) -> int:
    return len(clip[1]["audio"])
