"""Packs documents into sequences with a maximum number of tokens.

This module takes lengths, returns pieces, and does no I/O. The module must not depend on tokens, or
how sequences are written.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class SequencePiece(NamedTuple):
    """A part of a document.

    Attributes:
        document: index of the document.
        begin, end: range of the part, in tokens.
    """

    document: int
    begin: int
    end: int


def cut_sequences(lengths: Sequence[int], size: int) -> list[list[SequencePiece]]:
    """Concatenate documents, and cut the result every `size` tokens.

    Returns:
        Pieces of each sequence; all sequences except the last are full.
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
    """Put each document into one sequence: longest first, into the fullest sequence that fits.

    Documents longer than a sequence are cut, and their parts are placed independently.

    Returns:
        Pieces of each sequence, in document order; sequences are ordered by their first pieces.
    """
    pieces = sorted(_cut(lengths, size), key=lambda piece: (piece.begin - piece.end, piece))
    sequences: list[list[SequencePiece]] = []
    rooms: list[tuple[int, int]] = []  # free tokens and index of each sequence, in ascending order
    for piece in pieces:
        length = piece.end - piece.begin
        # Find the sequence with the least free tokens that suffice. On a tie, take the earliest
        # sequence.
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
