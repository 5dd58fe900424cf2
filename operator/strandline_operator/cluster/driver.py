"""Reports of an attempt's driver about its progress and its end.

User code runs in the same place, so every response is untrusted and never causes an error. The
module must not depend on the time at which reports are requested.
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

# Ray and the submitter append output after the driver's last lines.
LOG_LINES = 200
# Ray's tools write ANSI colors.
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# Lines of the submitting program, before and after the driver's lines.
_OF_SUBMITTER = re.compile(
    r"\d{4}-\d\d-\d\d [\d:,]+\s+[A-Z]+ (?:cli|sdk|job_manager)\.py:\d+ -- (?!Status message:)"
    r"|Waiting for Ray Dashboard GCS to become healthy"
)
# After a failure, the submitter repeats the driver's last lines after this header.
_ONCE_MORE = re.compile(r"last available logs \(truncated to [\d,]+ chars\):$")
MOST_NAME = 253  # characters, limited by the status
MOST_REASON = 700  # characters, limited by an event's message


class DriverReport(NamedTuple):
    """A driver's report on its progress.

    Attributes:
        progress: current progress.
        latest: publication to which `latest` points.
        log_file: file with its log, relative to the pipeline's folder; empty if there is none.
        redo_reason: why it processes finished sources again; empty if it does not.
    """

    progress: Progress
    latest: str
    log_file: str = ""
    redo_reason: str = ""


class DriverAddress(NamedTuple):
    """Address of a driver, and tokens for authentication.

    Attributes:
        token: authenticates requests and notices.
        release: permits an ended driver to exit; empty if it must not exit.
    """

    ip: str
    port: int
    token: str
    release: str = ""


class Answer(NamedTuple):
    """Response of a driver.

    Attributes:
        reported: progress report; None if the response has none.
        outcome: final report; None if the driver has not ended. The driver exits once the report is
            read, so the caller must keep it.
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
    """Return the progress in the format of `strandline run --json`; None for other formats."""
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
    """Return an outcome in the driver's format; None if the format is unknown."""
    return find_outcome_line(f"{MARK} {json.dumps(answer)}") if answer is not None else None


async def read_tail(api: Api, pod: Pod) -> tuple[DriverOutcome | None, tuple[str, ...]]:
    """Return the outcome in the submitter's log, and other lines of the driver.

    Raises:
        ApiError: the log does not exist, or can't be read now.
    """
    names = [container.name for container in pod.containers]
    container = SUBMITTER if SUBMITTER in names else ""
    text = await api.read_log(pod.meta.namespace, pod.meta.name, container, LOG_LINES)
    # Scrub the whole text, because a key spans several lines. The outcome is scrubbed when it is
    # parsed.
    return find_outcome_line(text), tuple(pick_drivers_lines(scrub(text)))


def pick_drivers_lines(log: str) -> list[str]:
    """Return the driver's own lines in the submitter's log; all lines if none is recognized."""
    stripped = (line.rstrip() for line in _COLOUR.sub("", log).splitlines())
    lines = [line for line in stripped if line and MARK not in line]
    again = max((at for at, line in enumerate(lines) if _ONCE_MORE.search(line)), default=-1)
    # Only the end of the log was read, so the repeated lines may be the driver's only lines.
    own_lines = lines[again + 1 :] or lines
    return [line for line in own_lines if not _OF_SUBMITTER.match(line)] or lines


async def send_notice(api: Api, address: DriverAddress, body: Body) -> int:
    """Notify a driver that a node is about to be removed; return the HTTP status.

    Raises:
        ApiError: the driver is unreachable.
    """
    return await api.push(f"{_format_root(address)}/notice", body, address.token)


def _format_root(address: DriverAddress) -> str:
    host = f"[{address.ip}]" if ":" in address.ip else address.ip
    return f"http://{host}:{address.port}"


async def _pull(api: Api, address: DriverAddress, page: str) -> tuple[bool, object | None]:
    """Return whether the address responded, and the response."""
    try:
        url = f"{_format_root(address)}/{page}"
        return True, await api.pull(url, address.token, address.release)
    except ApiError:
        return False, None
