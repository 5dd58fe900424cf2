"""Samples of clips for each outcome: the number of clips, and small pictures of a few of them.

Clip names alone select the pictures, so a replay shows the same clips. The module must not know the
reasons for outcomes.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from html import escape
from typing import Any, NamedTuple, Self

from strandline_packs.images.pictures import Picture, shrink, to_image

SHOWN = 8  # clips of each outcome
LONGEST = 120  # pixels
_QUALITY = 70

_CELL = (
    '<figure style="display:inline-block;vertical-align:top;width:120px;margin:0 8px 8px 0">'
    '<img src="data:image/jpeg;base64,{jpeg}" alt="{clip}" title="{clip}">'
    '<figcaption style="font-size:12px;overflow-wrap:anywhere">{short}</figcaption></figure>'
)


class SampledClip(NamedTuple):
    """A selected clip: its rank among all clips, its name, and a JPEG file or an empty string."""

    rank: bytes
    name: str
    jpeg: bytes


@dataclass(frozen=True, slots=True)
class ClipSample:
    """Clips that share an outcome.

    Attributes:
        number: count of all these clips.
        shown: the clips of the lowest ranks in ascending order, at most `SHOWN`.
    """

    number: int
    shown: tuple[SampledClip, ...] = ()

    def __add__(self, other: Self) -> Self:
        # Ranks sort first, so that the sum does not depend on the order of the pieces.
        both = sorted({*self.shown, *other.shown})
        return type(self)(self.number + other.number, tuple(both[:SHOWN]))

    def dump(self) -> list[Any]:
        """Return the sample as a plain list for `parse`."""
        return [self.number, [list(each) for each in self.shown]]

    @classmethod
    def parse(cls, dumped: Sequence[Any]) -> Self:
        """Return the sample from a list that `dump` made."""
        number, shown = dumped
        return cls(number, tuple(SampledClip(*each) for each in shown))


def rank_clip(name: str) -> bytes:
    """Return the place of a clip among all, as good as drawn by lot: 8 bytes."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def choose_clip(names: Iterable[str]) -> int:
    """Return which of the clips is shown: the position of the lowest rank."""
    ranks = [(rank_clip(name), at) for at, name in enumerate(names)]
    return min(ranks)[1]


def draw_jpeg(frames: Sequence[Picture]) -> bytes:
    """Return the frame in the middle as a small JPEG file; the same frames give the same bytes."""
    if not frames:
        return b""
    file = io.BytesIO()
    to_image(shrink(frames[len(frames) // 2], LONGEST)).save(file, "JPEG", quality=_QUALITY)
    return file.getvalue()


def draw_samples(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return HTML with the pictures of each outcome.

    Args:
        rows: `outcome`, `clips`, and `shown`: a list of `clip` and `jpeg`, base64.
    """
    return "".join(
        f"<h4>{escape(row['outcome'])}: {row['clips']:,}</h4>{_draw_row(row['shown'])}"
        for row in rows
    )


def list_rows(samples: Mapping[str, ClipSample]) -> list[dict[str, Any]]:
    """Return one row for each outcome, most clips first, with its pictures as text."""
    return [
        {
            "outcome": outcome,
            "clips": sample.number,
            "shown": [
                {"clip": each.name, "jpeg": base64.b64encode(each.jpeg).decode()}
                for each in sample.shown
            ],
        }
        for outcome, sample in sorted(samples.items(), key=lambda item: (-item[1].number, item[0]))
    ]


def _draw_row(shown: Iterable[Mapping[str, str]]) -> str:
    cells = [
        _CELL.format(
            jpeg=each["jpeg"],
            clip=escape(each["clip"]),
            short=escape(each["clip"].rpartition("/")[2]),  # the rest is alike, and long
        )
        for each in shown
        if each["jpeg"]
    ]
    return f"<div>{''.join(cells)}</div>" if cells else ""
