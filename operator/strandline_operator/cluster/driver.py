"""Requests reports from an attempt's driver about its progress and its end.

User code runs in the driver's pod, so responses are untrusted, and an invalid response never causes
an error. This module must not depend on when reports are requested.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from strandline_api.outcome.driver_log import read_log_name
from strandline_api.outcome.driver_outcome import MARK, DriverOutcome, find_outcome_line
from strandline_api.status.pipeline_status import Progress
from strandline_api.texts import cut, scrub
from strandline_operator.cluster.api import Api, Body
from strandline_operator.cluster.errors import ApiError
from strandline_operator.model.objects import SUBMITTER, Pod

# Number of lines to read. Ray and the submitter append output after the driver's last lines.
LOG_LINES = 200
# Matches ANSI colors, which Ray's tools write.
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# Matches lines of the submitter, before and after the driver's lines.
_OF_SUBMITTER = re.compile(
    r"\d{4}-\d\d-\d\d [\d:,]+\s+[A-Z]+ (?:cli|sdk|job_manager)\.py:\d+ -- (?!Status message:)"
    r"|Waiting for Ray Dashboard GCS to become healthy"
)
# Header after which the submitter repeats the driver's last lines, if the driver failed.
_ONCE_MORE = re.compile(r"last available logs \(truncated to [\d,]+ chars\):$")
MOST_NAME = 253  # maximum characters, limited by the status
MOST_REASON = 700  # maximum characters, limited by an event's message


class DriverReport(NamedTuple):
    """A driver's report on its progress.

    Attributes:
        progress: current progress.
        latest: publication to which `latest` points.
        log_file: path of the driver's log in the pipeline's folder; empty if there is none.
        redo_reason: why the driver reprocesses finished sources; empty if it does not.
    """

    progress: Progress
    latest: str
    log_file: str = ""
    redo_reason: str = ""


class DriverAddress(NamedTuple):
    """Address of a driver, and tokens for authentication.

    Attributes:
        token: token for requests and notices.
        release: token that permits an ended driver to exit; empty to keep it running.
    """

    ip: str
    port: int
    token: str
    release: str = ""


class Answer(NamedTuple):
    """Response of a driver.

    Attributes:
        reported: progress report, or None if the response has none.
        outcome: final report, or None if the driver has not ended. The driver exits after this
            response, so the caller must store the report.
        is_reached: whether the address responded, even without a report.
    """

    reported: DriverReport | None = None
    outcome: DriverOutcome | None = None
    is_reached: bool = False


async def ask(api: Api, address: DriverAddress) -> Answer:
    """Request a driver's progress and outcome."""
    is_there, progress = await _pull(api, address, "progress")
    is_still_there, outcome = await _pull(api, address, "outcome")
    return Answer(
        read_progress(progress), read_outcome(outcome), is_reached=is_there or is_still_there
    )


def read_progress(answer: object) -> DriverReport | None:
    """Parse progress in the format of `strandline run --json`. Return None for other formats."""
    line = answer if isinstance(answer, dict) else {}
    sources = line.get("sources")
    if not isinstance(sources, dict):
        return None
    pace = {"ratePerSecond": line.get("rate"), "secondsLeft": line.get("secondsLeft")}
    latest = line.get("latest")
    name = latest if isinstance(latest, str) and len(latest) <= MOST_NAME else ""
    log_file = read_log_name(line.get("logFile"))
    reason = line.get("redoReason")
    words = cut(scrub(reason), MOST_REASON) if isinstance(reason, str) else ""
    return DriverReport(Progress.parse({**sources, **pace}), name, log_file, words)


def read_outcome(answer: object) -> DriverOutcome | None:
    """Parse an outcome in the driver's format. Return None for other formats."""
    return find_outcome_line(f"{MARK} {json.dumps(answer)}") if answer is not None else None


async def read_tail(api: Api, pod: Pod) -> tuple[DriverOutcome | None, tuple[str, ...]]:
    """Return the outcome and other lines of the driver, from the submitter's log.

    Raises:
        ApiError: if the log does not exist or can't be read now.
    """
    names = [container.name for container in pod.containers]
    container = SUBMITTER if SUBMITTER in names else ""
    text = await api.read_log(pod.meta.namespace, pod.meta.name, container, LOG_LINES)
    # Scrub the whole text before splitting it, because a key spans several lines. Parsing scrubs
    # the outcome.
    return find_outcome_line(text), tuple(pick_drivers_lines(scrub(text)))


def pick_drivers_lines(log: str) -> list[str]:
    """Return the driver's lines in the submitter's log, or all lines if none is recognized."""
    stripped = (line.rstrip() for line in _COLOUR.sub("", log).splitlines())
    lines = [line for line in stripped if line and MARK not in line]
    again = max((at for at, line in enumerate(lines) if _ONCE_MORE.search(line)), default=-1)
    # Only the end of the log was read, so the repeated lines may be all that is left of the
    # driver's lines.
    own_lines = lines[again + 1 :] or lines
    return [line for line in own_lines if not _OF_SUBMITTER.match(line)] or lines


async def send_notice(api: Api, address: DriverAddress, body: Body) -> int:
    """Notify a driver that a node is about to be removed, and return the HTTP status.

    Raises:
        ApiError: if the driver is unreachable.
    """
    return await api.push(f"{_format_root(address)}/notice", body, address.token)


def _format_root(address: DriverAddress) -> str:
    host = f"[{address.ip}]" if ":" in address.ip else address.ip
    return f"http://{host}:{address.port}"


async def _pull(api: Api, address: DriverAddress, page: str) -> tuple[bool, object | None]:
    """Return whether the address responded, and its response."""
    try:
        url = f"{_format_root(address)}/{page}"
        return True, await api.pull(url, address.token, address.release)
    except ApiError:
        return False, None
