"""The stage `decode-python`: decodes Python files as the interpreter does."""

from __future__ import annotations

import io
import tokenize
from enum import StrEnum

import pyarrow as pa
from pydantic import Field

from strandline.data.files.opening import UnreadableFileError
from strandline.data.tables.columns import find_column, set_column
from strandline.plan.stages.columns import Columns
from strandline.plan.stages.stage import Stage
from strandline.plan.task import Task

# An unknown encoding raises SyntaxError. A codec that does not decode text, such as `hex`, raises
# LookupError. Invalid bytes raise ValueError.
_UNDECODABLE = (SyntaxError, LookupError, ValueError)


# `BadInput` offers only `drop` and `fail`. A wrong encoding declaration also permits a third
# choice: keep the file with replacement characters.
class OnUndecodable(StrEnum):
    """Treatment of a file whose bytes do not fit its declared encoding."""

    DROP = "drop"
    FAIL = "fail"
    REPLACE = "replace"


class DecodePython(Stage):
    r"""Replaces `content` by `text`, decoded by BOM, coding comment or UTF-8; lines end in \n."""

    class Params(Stage.Params):
        """Configures how undecodable files are handled."""

        on_undecodable: OnUndecodable = Field(
            default=OnUndecodable.DROP,
            description="`drop`: leave the file out and count it. `fail`: fail the source. "
            "`replace`: decode as UTF-8 with replacement characters.",
        )

    params: Params
    keeps_columns = True
    adds_columns = ("text",)

    def list_needed_columns(self) -> tuple[str, ...]:
        return ("key", "content")

    def change_columns(self, columns: Columns) -> Columns:
        return super().change_columns(columns.without(["content"]))

    def process(self, task: Task) -> Task | None:
        """Decode every row.

        Raises:
            UnreadableFileError: a file is undecodable and `onUndecodable` is `fail`.
        """
        table = task.table
        keys = find_column(table, "key").to_pylist()
        contents = find_column(table, "content").to_pylist()
        texts = [self._decode(key, content) for key, content in zip(keys, contents, strict=True)]
        decoded = set_column(table.drop_columns("content"), "text", texts, pa.string())
        kept = decoded.filter(decoded.column("text").is_valid())
        return task.replace(kept) if kept.num_rows else None

    def _decode(self, key: str, content: bytes) -> str | None:
        try:
            return decode_source(content)
        except _UNDECODABLE as error:
            if self.params.on_undecodable is OnUndecodable.FAIL:
                msg = f"{key}: can't be decoded ({error})"
                raise UnreadableFileError(msg) from error
        if self.params.on_undecodable is OnUndecodable.REPLACE:
            self.count("replaced: undecodable")
            return normalise_newlines(content.decode("utf-8", "replace"))
        self.count("dropped: undecodable")
        return None


def decode_source(content: bytes) -> str:
    """Return the text of a Python source file.

    Raises:
        SyntaxError, LookupError, ValueError: the bytes do not fit the declared encoding.
    """
    encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
    text = normalise_newlines(content.decode(encoding))
    text.encode()  # escape codecs can produce lone surrogates, which tables cannot store
    return text


def normalise_newlines(text: str) -> str:
    r"""Return the text with every line end as `\n`."""
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
