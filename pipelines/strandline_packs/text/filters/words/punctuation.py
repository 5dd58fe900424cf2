"""Punctuation marks of all scripts, as data. The module must not know words, lines, or rules."""

from __future__ import annotations

from collections.abc import Iterator

# Unicode's property Sentence_Terminal, as of the version that corpora have been filtered with.
_TERMINAL = """
21 2E 3F 589 61D-61F 6D4 700-702 7F9 837 839 83D-83E 964-965 104A-104B 1362 1367-1368 166E
1735-1736 17D4-17D6 17D9-17DA 1803 1809 1944-1945 1AA8-1AAB 1B5A-1B5B 1B5E-1B5F 1B7D-1B7E
1C3B-1C3C 1C7E-1C7F 203C-203D 2047-2049 2E2E 2E3C 2E53-2E54 3002 A4FF A60E-A60F A6F3 A6F7
A876-A877 A8CE-A8CF A92F A9C8-A9C9 AA5D-AA5F AAF0-AAF1 ABEB FE52 FE56-FE57 FF01 FF0E FF1F
FF61 10A56-10A57 10F55-10F59 10F86-10F89 11047-11048 110BE-110C1 11141-11143 111C5-111C6
111CD 111DE-111DF 11238-11239 1123B-1123C 112A9 1144B-1144C 115C2-115C3 115C9-115D7
11641-11642 1173C-1173E 11944 11946 11A42-11A43 11A9B-11A9C 11C41-11C42 11EF7-11EF8
11F43-11F44 16A6E-16A6F 16AF5 16B37-16B38 16B44 16E98 1BC9F 1DA88
"""
# Further punctuation marks in datatrove's list. That list lacks bullets, arrows, and most marks of
# other scripts, but includes the full-width digit one.
_LISTED = """
0-8 B-1F 21-2F 3A-40 5B-60 7B-9F AB B4 BB 2013-2014 2019 201C-201E 2026 2236 2501 25BA
3001-3002 3008-300D 3010-3011 FF01 FF05 FF08-FF09 FF0C FF0E FF11 FF1A-FF1B FF1F FF5E
"""


def _parse(ranges: str) -> Iterator[str]:
    for item in ranges.split():
        first, _, last = item.partition("-")
        yield from map(chr, range(int(first, 16), int(last or first, 16) + 1))


TERMINAL_MARKS = frozenset(_parse(_TERMINAL))
LISTED_MARKS = TERMINAL_MARKS.union(_parse(_LISTED))
