"""Gathers samples for each outcome: counts of clips, and pictures, sounds, and texts of a few.

A clip is whatever a row has: a piece of a video or of a recording, a page, or a text. The selection
depends only on the clip names, so a replay shows the same clips. The module must not depend on the
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

import pyarrow as pa

from strandline_packs.images.pictures import Picture, shrink, to_image

SHOWN = 8  # number of clips shown for each outcome
LONGEST = 120  # longest side of a picture, in pixels
_QUALITY = 70

SHOWN_KIND = pa.struct(
    [
        ("clip", pa.string()),
        ("jpeg", pa.string()),
        ("mp3", pa.string()),
        ("texts", pa.list_(pa.string())),
    ]
)
_IMAGE = '<img src="data:image/jpeg;base64,{jpeg}" alt="{clip}" title="{clip}">'
_PLAYER = (
    '<audio controls style="width:240px;height:32px" aria-label="{clip}" '
    'src="data:audio/mpeg;base64,{mp3}"></audio>'
)
_TEXT = (
    '<p style="flex:1 1 200px;margin:0;white-space:pre-wrap;border-left:3px solid #8888;'
    'padding-left:8px">{text}</p>'
)
# A picture is beside its texts, and two texts are beside one another, where the page is wide.
_CELL = (
    '<figure style="display:inline-flex;flex-wrap:wrap;gap:8px;vertical-align:top;'
    'width:{width}px;max-width:100%;margin:0 8px 8px 0">{parts}'
    '<figcaption style="flex-basis:100%;font-size:12px;overflow-wrap:anywhere">{short}'
    "</figcaption></figure>"
)
_PLAYER_WIDTH, _TEXT_WIDTH = 240, 800  # pixels of cells with more than a picture


class SampledClip(NamedTuple):
    """A selected clip.

    Attributes:
        rank: rank among all clips.
        name: name of the clip.
        jpeg, mp3: bytes of a picture and of a sound, possibly empty.
        texts: texts to show beside one another.
    """

    rank: bytes
    name: str
    jpeg: bytes = b""
    mp3: bytes = b""
    texts: tuple[str, ...] = ()


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
        return cls(number, tuple(_parse_clip(*each) for each in shown))


def _parse_clip(
    rank: bytes, name: str, jpeg: bytes, mp3: bytes = b"", texts: Sequence[str] = ()
) -> SampledClip:
    return SampledClip(rank, name, jpeg, mp3, tuple(texts))


def rank_clip(name: str) -> bytes:
    """Return a clip's rank among all clips: 8 pseudorandom bytes derived from the name."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def choose_clip(names: Iterable[str]) -> int:
    """Return the position of the clip to show, which is the clip with the lowest rank."""
    ranks = [(rank_clip(name), at) for at, name in enumerate(names)]
    return min(ranks)[1]


def draw_jpeg(frames: Sequence[Picture], longest: int = LONGEST) -> bytes:
    """Return the middle frame as a small JPEG file; the same frames give the same bytes.

    Args:
        longest: longest side in pixels.
    """
    if not frames:
        return b""
    file = io.BytesIO()
    to_image(shrink(frames[len(frames) // 2], longest)).save(file, "JPEG", quality=_QUALITY)
    return file.getvalue()


def draw_samples(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return HTML with the clips of each outcome.

    Args:
        rows: a row per outcome with `outcome`, `clips` (a count), and `shown`, a list of mappings
            with `clip` (a name), `jpeg` and `mp3` (base64), and `texts`.
    """
    return "".join(
        f"<h4>{escape(row['outcome'])}: {row['clips']:,}</h4>{_draw_row(row['shown'])}"
        for row in rows
    )


def list_rows(samples: Mapping[str, ClipSample]) -> list[dict[str, Any]]:
    """Return a row for each outcome, most frequent first, with the bytes in base64."""
    return [
        {
            "outcome": outcome,
            "clips": sample.number,
            "shown": [
                {
                    "clip": each.name,
                    "jpeg": base64.b64encode(each.jpeg).decode(),
                    "mp3": base64.b64encode(each.mp3).decode(),
                    "texts": list(each.texts),
                }
                for each in sample.shown
            ],
        }
        for outcome, sample in sorted(samples.items(), key=lambda item: (-item[1].number, item[0]))
    ]


def _draw_row(shown: Iterable[Mapping[str, Any]]) -> str:
    cells = "".join(map(_draw_clip, shown))
    return f"<div>{cells}</div>" if cells else ""


def _draw_clip(shown: Mapping[str, Any]) -> str:
    """Return the HTML of a clip; empty for a clip that has only a name."""
    # Files of earlier versions have pictures only.
    jpeg, mp3, texts = shown["jpeg"], shown.get("mp3"), shown.get("texts") or ()
    clip = escape(shown["clip"])
    parts = [
        *([_IMAGE.format(jpeg=jpeg, clip=clip)] if jpeg else ()),
        *([_PLAYER.format(mp3=mp3, clip=clip)] if mp3 else ()),
        *(_TEXT.format(text=escape(text)) for text in texts),
    ]
    width = _TEXT_WIDTH if texts else _PLAYER_WIDTH if mp3 else LONGEST
    short = escape(shown["clip"].rpartition("/")[2])  # drop the long common folder
    return _CELL.format(width=width, parts="".join(parts), short=short) if parts else ""
