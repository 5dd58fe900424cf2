"""Line-based files as written by exports, loaders, and Windows."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from pathlib import Path

from material import Case, Json, Sight, complete, fails, put

GOOD = [json.dumps({"text": f"text {number}", "score": number}) for number in range(100)]


def _lines(*lines: str) -> bytes:
    return "\n".join([*lines, ""]).encode()


def _case(words: str, name: str, content: bytes, expected: Sight, **values: object) -> Case:
    source: Json = {"use": "jsonl-files", "with": {"paths": ["FOLDER/*"]}}
    read: Json = {"use": "read-jsonl", "with": values}
    return Case("lines", words, put(name, content), source, [read], expected)


def _put_scores(folder: Path) -> None:
    for score in ("1", "1.5"):
        (folder / f"{score}.jsonl").write_bytes(_lines(f'{{"score": {score}}}'))


CASES = [
    _case("a hundred lines", "a.jsonl", _lines(*GOOD), complete(100)),
    _case("none at all", "a.jsonl", b"", complete(0)),
    _case("gzip by another name", "a.jsonl", gzip.compress(_lines(*GOOD)), fails("gzip")),
    _case("xz", "a.jsonl", lzma.compress(_lines(*GOOD)), fails("xz"), badLines="drop"),
    _case("bzip2", "a.jsonl", bz2.compress(_lines(*GOOD)), fails("bzip2"), badLines="drop"),
    _case("UTF-16 of Windows", "a.jsonl", "\n".join(GOOD).encode("utf-16"), fails("UTF-16")),
    _case("one JSON array", "a.jsonl", json.dumps([1, 2]).encode(), fails("array")),
    _case("a login page", "a.jsonl", b"<!DOCTYPE html><html>", fails("HTML"), badLines="drop"),
    _case(
        "one line of a whole number beyond 63 bits",
        "a.jsonl",
        _lines(*GOOD, '{"text": "a", "score": 99999999999999999999}'),
        Sight("COMPLETE", 100, {"dropped: whole number beyond 63 bits": 1}),
        badLines="drop",
    ),
    _case(
        "one text among numbers",
        "a.jsonl",
        _lines(*GOOD, '{"text": "a", "score": "many"}'),
        Sight("COMPLETE", 100, {"dropped: value of another type than its column": 1}),
        badLines="drop",
    ),
    _case(
        "half a surrogate",
        "a.jsonl",
        _lines(*GOOD, '{"text": "\\ud83d", "score": 1}'),
        Sight("COMPLETE", 100, {"dropped: half a surrogate": 1}),
        badLines="drop",
    ),
    _case(
        "a line that was cut",
        "a.jsonl",
        _lines(*GOOD) + b'{"text": "a',
        Sight("COMPLETE", 100, {"dropped: not a JSON object": 1}),
        badLines="drop",
    ),
    Case(
        "lines",
        "1 in one file and 1.5 in the next, a schema inferred",
        _put_scores,
        {"use": "jsonl-files", "with": {"paths": ["FOLDER/*"]}},
        [
            {"use": "read-jsonl", "with": {"schema": {"infer": 2}}},
            {"use": "keep-rows", "with": {"where": "score == 1.0 or score == 1.5"}},
        ],
        complete(2),
    ),
    Case(
        "lines",
        "1 in one file and 1.5 in the next, a whole number declared",
        _put_scores,
        {"use": "jsonl-files", "with": {"paths": ["FOLDER/*"]}},
        [{"use": "read-jsonl", "with": {"schema": {"score": "int"}}}],
        fails("the column 'score' has '1.5', but the schema requires int", 1),
    ),
]
