"""Formats log lines as JSON objects, so that the lines of a pipeline can be filtered.

Callers pass the objects that a line is about as `extra={"pipeline": …, "attempt": …, "rayjob": …}`.
This module must not depend on which events are logged.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TextIO

from strandline_api.texts import scrub

KEYS = ("pipeline", "attempt", "rayjob")


class JsonLines(logging.Formatter):
    """Formats a line as a JSON object: time, level, logger, message, and `extra` fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line. Values that JSON does not support become text."""
        line: dict[str, object] = {
            "time": _format_time(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": scrub(record.getMessage()),
        }
        line |= {key: getattr(record, key) for key in KEYS if getattr(record, key, None)}
        if record.exc_info:
            line["error"] = scrub(self.formatException(record.exc_info))
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """Formats a line for people: time, level, message, and `extra` fields in brackets."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        about = " ".join(
            f"{key}={getattr(record, key)}" for key in KEYS if getattr(record, key, None)
        )
        parts = [_format_time(record.created), record.levelname, record.getMessage()]
        line = " ".join([*parts, f"[{about}]"] if about else parts)
        error = f"\n{self.formatException(record.exc_info)}" if record.exc_info else ""
        return scrub(f"{line}{error}")


def start_log(stream: TextIO, *, level: str, form: str) -> None:
    """Send all log lines of the process to a stream, in the format `json` or `text`."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # These loggers report every event and request, so show only their warnings.
    for chatty in ("kopf", "aiohttp.access", "asyncio", "openlineage"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))


def _format_time(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"
