"""Each log line is a JSON object with separate fields for the object that the line is about."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import pytest

from strandline_operator.metrics.log_lines import JsonLines, TextLines, start_log

ABOUT = {"pipeline": "team/corpus", "attempt": "corpus-3", "rayjob": None}


def make_record(extra: Mapping[str, object] = MappingProxyType({})) -> logging.LogRecord:
    record = logging.LogRecord("strandline", logging.INFO, "file", 1, "made %s", ("it",), None)
    record.created = 1_000_000.25
    record.__dict__.update(extra)
    return record


def test_a_line_is_one_object() -> None:
    line = json.loads(JsonLines().format(make_record({**ABOUT, "other": "left out"})))
    assert line == {
        "time": "1970-01-12T13:46:40.250Z",
        "level": "INFO",
        "logger": "strandline",
        "message": "made it",
        "pipeline": "team/corpus",
        "attempt": "corpus-3",
    }


def test_an_error_stays_on_its_line() -> None:
    record = make_record()
    try:
        int("odd")
    except ValueError:
        record.exc_info = sys.exc_info()
    text = JsonLines().format(record)
    assert "\n" not in text
    assert json.loads(text)["error"].endswith("with base 10: 'odd'")


def test_the_text_format_is_a_plain_line() -> None:
    assert TextLines().format(make_record({"pipeline": "team/corpus", "attempt": None})) == (
        "1970-01-12T13:46:40.250Z INFO made it [pipeline=team/corpus]"
    )
    assert TextLines().format(make_record()) == "1970-01-12T13:46:40.250Z INFO made it"


@pytest.fixture
def kept() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], _ = before
    root.setLevel(before[1])
    for name in ("kopf", "aiohttp.access", "asyncio"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.mark.usefixtures("kept")
def test_verbose_libraries_log_only_warnings() -> None:
    stream = io.StringIO()
    start_log(stream, level="INFO", form="json")
    for name in ("kopf.objects", "strandline_operator.reconcile"):
        logging.getLogger(name).info("said")
        logging.getLogger(name).debug("whispered")
        logging.getLogger(name).warning("shouted")
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line["logger"].partition(".")[0], line["message"]) for line in lines] == [
        ("kopf", "shouted"),
        ("strandline_operator", "said"),
        ("strandline_operator", "shouted"),
    ]
