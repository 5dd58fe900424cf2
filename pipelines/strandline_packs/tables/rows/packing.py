"""Documents packed into sequences of tokens, which are at most so long.

Pure: lengths in, pieces out. It must not know what a token is, nor how sequences are written.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class SequencePiece(NamedTuple):
    """A part of a document.

    Attributes:
        document: its index.
        begin, end: of the part, in tokens.
    """

    document: int
    begin: int
    end: int


def cut_sequences(lengths: Sequence[int], size: int) -> list[list[SequencePiece]]:
    """Put documents one behind the other and cut them at every `size` tokens.

    Returns:
        Pieces of each sequence; all sequences but the last are full.
    """
    sequences: list[list[SequencePiece]] = []
    room = 0
    for document, length in enumerate(lengths):
        begin = 0
        while begin < length:
            if not room:
                sequences.append([])
                room = size
            end = min(length, begin + room)
            sequences[-1].append(SequencePiece(document, begin, end))
            room -= end - begin
            begin = end
    return sequences


def fit_sequences(lengths: Sequence[int], size: int) -> list[list[SequencePiece]]:
    """Put each document into one sequence; the longest first, where it leaves the least room.

    Only one that is longer than a sequence is cut, and each part is put somewhere by itself.

    Returns:
        Pieces of each sequence, in the order of documents; sequences in that of their first one.
    """
    pieces = sorted(_cut(lengths, size), key=lambda piece: (piece.begin - piece.end, piece))
    sequences: list[list[SequencePiece]] = []
    rooms: list[tuple[int, int]] = []  # what is free, and in which sequence; rising
    for piece in pieces:
        length = piece.end - piece.begin
        at = bisect_left(rooms, (length, 0))
        if at == len(rooms):
            rooms.append((size, len(sequences)))
            sequences.append([])
        room, number = rooms.pop(at)
        sequences[number].append(piece)
        if room > length:
            insort(rooms, (room - length, number))
    return sorted(map(sorted, sequences))


def _cut(lengths: Sequence[int], size: int) -> Iterator[SequencePiece]:
    for document, length in enumerate(lengths):
        for begin in range(0, length, size):
            yield SequencePiece(document, begin, min(length, begin + size))
