"""What the driver of an attempt says of itself: how far it is, and how it ended.

Users' code runs beside it, so every answer is taken as it comes and nothing it says is an error.
This room must not know when to ask.
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

# The driver's last words are followed by what Ray and the submitter add.
LOG_LINES = 200
# Ray's tools colour what they say.
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# Lines of the program that submits the driver, before the driver's lines and after them.
_OF_SUBMITTER = re.compile(
    r"\d{4}-\d\d-\d\d [\d:,]+\s+[A-Z]+ (?:cli|sdk|job_manager)\.py:\d+ -- (?!Status message:)"
    r"|Waiting for Ray Dashboard GCS to become healthy"
)
# At a bad end the driver's last lines are said once more, after this.
_ONCE_MORE = re.compile(r"last available logs \(truncated to [\d,]+ chars\):$")
MOST_NAME = 253  # characters, as the status allows
MOST_REASON = 700  # characters, so that an event has room for it


class DriverReport(NamedTuple):
    """What a driver says of its work.

    Attributes:
        progress: how far it is.
        latest: what `latest` leads to.
        log_file: what keeps its log, below the pipeline's folder; empty: nothing does.
        redo_reason: from where it does finished sources again, and since what has changed; empty:
            it does none.
    """

    progress: Progress
    latest: str
    log_file: str = ""
    redo_reason: str = ""


class DriverAddress(NamedTuple):
    """Where a driver is asked, and by which tokens it knows the caller.

    Attributes:
        token: for what is asked or told.
        release: lets an ended driver go; empty: it does not.
    """

    ip: str
    port: int
    token: str
    release: str = ""


class Answer(NamedTuple):
    """What a driver has answered.

    Attributes:
        reported: None where it says nothing of its work.
        outcome: None where it has not ended; once read it goes, so the caller must keep
            the answer.
        is_reached: the address answered, be it that there is nothing to say.
    """

    reported: DriverReport | None = None
    outcome: DriverOutcome | None = None
    is_reached: bool = False


async def ask(api: Api, address: DriverAddress) -> Answer:
    """Ask a driver how far it has come, and how it ended."""
    is_there, progress = await _pull(api, address, "progress")
    is_still_there, outcome = await _pull(api, address, "outcome")
    return Answer(
        read_progress(progress), read_outcome(outcome), is_reached=is_there or is_still_there
    )


def read_progress(answer: object) -> DriverReport | None:
    """Progress in the words of `strandline run --json`; None where these are others."""
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
    """Return an outcome as the driver writes it; None where this is something else."""
    return find_outcome_line(f"{MARK} {json.dumps(answer)}") if answer is not None else None


async def read_tail(api: Api, pod: Pod) -> tuple[DriverOutcome | None, tuple[str, ...]]:
    """Return the outcome in the submitter's log, and what the driver wrote beside it.

    Raises:
        ApiError: there is no log, or none can be read now.
    """
    names = [container.name for container in pod.containers]
    container = SUBMITTER if SUBMITTER in names else ""
    text = await api.read_log(pod.meta.namespace, pod.meta.name, container, LOG_LINES)
    # Whole, since a key has many lines; an outcome is scrubbed when it is read, and is JSON here.
    return find_outcome_line(text), tuple(pick_drivers_lines(scrub(text)))


def pick_drivers_lines(log: str) -> list[str]:
    """Return the driver's own lines in the log of what submitted it; all lines where none is."""
    stripped = (line.rstrip() for line in _COLOUR.sub("", log).splitlines())
    lines = [line for line in stripped if line and MARK not in line]
    again = max((at for at, line in enumerate(lines) if _ONCE_MORE.search(line)), default=-1)
    # Only the log's end was read: what is said once more may be all of it that is the driver's.
    own_lines = lines[again + 1 :] or lines
    return [line for line in own_lines if not _OF_SUBMITTER.match(line)] or lines


async def send_notice(api: Api, address: DriverAddress, body: Body) -> int:
    """Tell a driver that a node is about to go; return the status of its answer.

    Raises:
        ApiError: it can't be reached.
    """
    return await api.push(f"{_format_root(address)}/notice", body, address.token)


def _format_root(address: DriverAddress) -> str:
    host = f"[{address.ip}]" if ":" in address.ip else address.ip
    return f"http://{host}:{address.port}"


async def _pull(api: Api, address: DriverAddress, page: str) -> tuple[bool, object | None]:
    """Return whether the address answered, and what."""
    try:
        url = f"{_format_root(address)}/{page}"
        return True, await api.pull(url, address.token, address.release)
    except ApiError:
        return False, None
