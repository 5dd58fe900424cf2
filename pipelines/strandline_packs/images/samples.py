"""Gathers samples of clips for each outcome: counts of clips, and small pictures of a few.

The selection depends only on the clip names, so a replay shows the same clips. The module must not
depend on the reasons for outcomes.
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

SHOWN = 8  # number of clips shown for each outcome
LONGEST = 120  # longest side of a picture, in pixels
_QUALITY = 70

_CELL = (
    '<figure style="display:inline-block;vertical-align:top;width:120px;margin:0 8px 8px 0">'
    '<img src="data:image/jpeg;base64,{jpeg}" alt="{clip}" title="{clip}">'
    '<figcaption style="font-size:12px;overflow-wrap:anywhere">{short}</figcaption></figure>'
)


class SampledClip(NamedTuple):
    """A selected clip: rank among all clips, name, and the bytes of a JPEG file, possibly empty."""

    rank: bytes
    name: str
    jpeg: bytes


@dataclass(frozen=True, slots=True)
class ClipSample:
    """Clips that share an outcome.

    Attributes:
        number: how many clips have the outcome.
        shown: the clips with the lowest ranks, in ascending order, at most `SHOWN`.
    """

    number: int
    shown: tuple[SampledClip, ...] = ()

    def __add__(self, other: Self) -> Self:
        # Sort by rank, so that the sum does not depend on the order of the pieces.
        both = sorted({*self.shown, *other.shown})
        return type(self)(self.number + other.number, tuple(both[:SHOWN]))

    def dump(self) -> list[Any]:
        """Return the sample as a plain list, which `parse` reads."""
        return [self.number, [list(each) for each in self.shown]]

    @classmethod
    def parse(cls, dumped: Sequence[Any]) -> Self:
        """Return the sample from a list that `dump` made."""
        number, shown = dumped
        return cls(number, tuple(SampledClip(*each) for each in shown))


def rank_clip(name: str) -> bytes:
    """Return a clip's rank among all clips: 8 pseudorandom bytes derived from the name."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def choose_clip(names: Iterable[str]) -> int:
    """Return the position of the clip to show, which is the clip with the lowest rank."""
    ranks = [(rank_clip(name), at) for at, name in enumerate(names)]
    return min(ranks)[1]


def draw_jpeg(frames: Sequence[Picture]) -> bytes:
    """Return the middle frame as a small JPEG file; the same frames give the same bytes."""
    if not frames:
        return b""
    file = io.BytesIO()
    to_image(shrink(frames[len(frames) // 2], LONGEST)).save(file, "JPEG", quality=_QUALITY)
    return file.getvalue()


def draw_samples(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return HTML with the pictures of each outcome.

    Args:
        rows: a row per outcome with `outcome`, `clips` (a count), and `shown`, a list of mappings
            with `clip` (a name) and `jpeg` (base64).
    """
    return "".join(
        f"<h4>{escape(row['outcome'])}: {row['clips']:,}</h4>{_draw_row(row['shown'])}"
        for row in rows
    )


def list_rows(samples: Mapping[str, ClipSample]) -> list[dict[str, Any]]:
    """Return a row for each outcome, most frequent first, with the pictures in base64."""
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
            short=escape(each["clip"].rpartition("/")[2]),  # drop the long common folder
        )
        for each in shown
        if each["jpeg"]
    ]
    return f"<div>{''.join(cells)}</div>" if cells else ""
