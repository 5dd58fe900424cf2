"""Defines the outcome line, the last line that an attempt prints, and finds it in a log.

The line must fit into a container's termination message (4 kB), and must be found in a log that was
truncated or that other programs wrote into. This module must not depend on the program that prints
the line, or on decisions based on it.
"""

import json
import math
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, PlainValidator

from strandline_api.api_model import ApiModel, evolve
from strandline_api.outcome.driver_log import LogFile
from strandline_api.outcome.evidence import Evidence, find_signal
from strandline_api.outcome.exit_codes import ExitCode
from strandline_api.outcome.work_lost import WorkLost
from strandline_api.texts import CUT, repair

MARK = "strandline-outcome:"
# Kubernetes keeps 4096 bytes of a termination message. The difference is a safety margin.
MAX_LINE_BYTES = 3500
# Bytes of the message to keep while evidence is dropped, because people read the message first.
_MESSAGE_BYTES = 1000
# Upper limit of items that can fit into a line, however short each item is.
_MAX_EVIDENCE = 80
# Other versions may write longer lines, but the limit bounds the time spent on a hostile log.
_MAX_READ = 4 * MAX_LINE_BYTES
_CHARACTER_BYTES = 12  # maximum per character in ASCII JSON: a surrogate pair


def _repair(value: object) -> object:
    return repair(value) if isinstance(value, str) else value


def _read_evidence(value: object) -> Evidence:
    return value if isinstance(value, Evidence) else Evidence.from_json(value)


_Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
_Text = Annotated[str, BeforeValidator(_repair)]
_Seen = Annotated[Evidence, PlainValidator(_read_evidence), PlainSerializer(Evidence.to_json)]


class _OutcomePart(ApiModel):
    """Base class of the parts of an outcome. Ignores fields of later versions."""

    model_config = ConfigDict(extra="ignore")


class SourceCounts(_OutcomePart):
    """Counts of the sources at the end of an attempt."""

    total: _Count | None = Field(
        default=None, description="Sources listed; null if the listing did not end."
    )
    finished: _Count = Field(default=0, description="Newly finished by this attempt.")
    failed: _Count = Field(default=0, description="Failed in this attempt.")
    quarantined: _Count = Field(default=0, description="Parked.")
    skipped: _Count = Field(default=0, description="Finished by earlier attempts.")
    unfinished: _Count = Field(default=0, description="Neither finished nor failed.")
    redone: _Count = Field(
        default=0, description="Finished with an older recipe, and due to be processed again."
    )


class DriverOutcome(_OutcomePart):
    """The outcome of an attempt."""

    exit_code: int = Field(
        ge=0,
        # Operating systems keep 8 bits of an exit code.
        le=255,
        description=(
            "Exit code of the driver, such as 75. If a signal ended the driver, 128 plus the "
            "signal's number."
        ),
    )
    outcome: str = Field(
        default_factory=lambda known: name_outcome(known.get("exit_code", 1)),
        max_length=100,
        description="Name of the exit code, or KILLED.",
    )
    message: _Text = Field(default="", description="One sentence for people.")
    attempt: _Count = Field(default=0, description="Number of the attempt; 0 without a ledger.")
    sources: SourceCounts = Field(
        default_factory=SourceCounts, description="Counts of the sources at the end."
    )
    remaining: _Count | None = Field(
        default=None, description="Unfinished sources when the attempt began; null if unknown."
    )
    evidence: tuple[_Seen, ...] = Field(
        default=(),
        strict=False,
        description="Observations about the attempt's end, the most conclusive first.",
    )
    memory_kills: _Count = Field(
        default=0, description="Processes that the kernel killed for memory during the attempt."
    )
    latest: Annotated[_Text, Field(max_length=253)] = Field(
        default="",
        description=(
            "The publication that 'latest' pointed to at the attempt's end; empty if there is none."
        ),
    )
    log_file: LogFile = Field(
        default="",
        description="The driver's log, below the pipeline's folder; empty if there is none.",
    )
    work_seconds: Annotated[float, Field(ge=0, le=1e15)] = Field(
        default=0.0,
        description="Seconds of work done by the workers; 0 if the engine does not report it.",
    )
    work_lost: WorkLost = Field(
        default_factory=WorkLost,
        description="Seconds of that work that must be repeated, by cause of the loss.",
    )
    lineage: bool = Field(
        default=False,
        description="Whether the driver itself has reported this end to a lineage system.",
    )

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON values with camelCase names.

        Work is omitted if the engine does not measure it, and `redone` if the run replaces no
        sources.
        """
        unmeasured = {"work_seconds": True, "work_lost": True} if not self.work_seconds else {}
        unneeded = {} if self.sources.redone else {"sources": {"redone"}}
        return self.model_dump(by_alias=True, exclude={**unmeasured, **unneeded})


def name_outcome(code: int) -> str:
    """Return the name of an exit code for the outcome line: an `ExitCode` name, or KILLED."""
    if find_signal(code) is not None:
        return "KILLED"
    return next((known.name for known in ExitCode if known == code), "APPLICATION_ERROR")


def format_outcome_line(outcome: DriverOutcome) -> str:
    """Format an outcome as a line of ASCII, at most 3,500 bytes, without a line break.

    If the line is too long, a long message is truncated first, and then evidence is dropped,
    starting with the last item.
    """
    wanted = min(_MESSAGE_BYTES, _size(outcome.message))
    count = min(len(outcome.evidence), _MAX_EVIDENCE)
    while (left := _count_left(outcome, count)) < wanted and count:
        count -= 1
    return _format_line(outcome, count, _cut(outcome.message, left))


def find_outcome_line(text: str) -> DriverOutcome | None:
    """Find the last readable outcome line in any log.

    The search ignores truncated lines, unknown fields, and other text on the same line, such as the
    `(pid=…)` that Ray puts in front of workers' lines.

    Returns:
        The outcome, or None if the log has no readable outcome line. Never raises.
    """
    end = len(text)
    while (start := text.rfind(MARK, 0, end)) >= 0:
        begin = start + len(MARK)
        # A log may end in the middle of a line. If a line is unreadable, try earlier lines.
        found = _read(text[begin : begin + _MAX_READ].partition("\n")[0].lstrip())
        if found is not None:
            return found
        end = start
    return None


def _read(line: str) -> DriverOutcome | None:
    try:
        # Unlike `json.loads`, `raw_decode` ignores text after the object.
        written, _ = json.JSONDecoder().raw_decode(line)
        return DriverOutcome.model_validate(written, by_alias=True, by_name=False)
    except (ValueError, RecursionError):
        return None


def _format_line(outcome: DriverOutcome, count: int, message: str) -> str:
    shown = evolve(outcome, evidence=outcome.evidence[:count], message=message)
    return f"{MARK} {json.dumps(shown.to_json(), separators=(',', ':'))}"


def _count_left(outcome: DriverOutcome, count: int) -> int:
    """Return the bytes available for the message if `count` items of evidence are kept.

    The result can be negative.
    """
    return MAX_LINE_BYTES - len(_format_line(outcome, count, ""))


def _cut(message: str, left: int) -> str:
    if _size(message) <= left:
        return message
    # Every character takes at least a byte, so a longer prefix can never fit.
    kept = message[:left]
    while (excess := _size(kept) + len(CUT) - left) > 0:
        # Remove the fewest characters that can free the excess bytes, and measure again.
        kept = kept[: -math.ceil(excess / _CHARACTER_BYTES)]
    return kept + CUT


def _size(text: str) -> int:
    """Return the size in bytes of a text inside a JSON string."""
    # Subtract the two quotes.
    return len(json.dumps(text)) - 2
