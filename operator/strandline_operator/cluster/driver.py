"""What the driver of an attempt says of itself: how far it is, and how it ended.

Users' code runs beside it, so every answer is taken as it comes and nothing it says is an error.
This room must not know when to ask.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from strandline_api.outcomes import MARK, DriverOutcome, find_outcome_line
from strandline_api.status import Progress
from strandline_operator.cluster.api import Api
from strandline_operator.cluster.errors import ApiError
from strandline_operator.model.objects import SUBMITTER, Pod

# The driver's last words are followed by what Ray and the submitter add.
LOG_LINES = 200
# Ray's tools colour what they say.
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
MOST_NAME = 253  # characters, as the status allows


class Told(NamedTuple):
    """What a driver says of its work: how far it is, and what `latest` leads to."""

    progress: Progress
    latest: str


async def ask_progress(api: Api, ip: str, port: int) -> Told | None:
    """How far the driver has come; None where it can't be asked."""
    answer = await _pull(api, ip, port, "progress")
    return read_progress(answer)


def read_progress(answer: object) -> Told | None:
    """Progress in the words of `strandline run --json`; None where these are others."""
    line = answer if isinstance(answer, dict) else {}
    sources = line.get("sources")
    if not isinstance(sources, dict):
        return None
    pace = {"ratePerSecond": line.get("rate"), "secondsLeft": line.get("secondsLeft")}
    latest = line.get("latest")
    known = latest if isinstance(latest, str) and len(latest) <= MOST_NAME else ""
    return Told(Progress.parse({**sources, **pace}), known)


async def ask_outcome(api: Api, ip: str, port: int) -> DriverOutcome | None:
    """How the driver ended; None where it has not, or can't be asked.

    Having been heard it goes, so whoever asks must keep the answer.
    """
    answer = await _pull(api, ip, port, "outcome")
    return find_outcome_line(f"{MARK} {json.dumps(answer)}") if answer is not None else None


async def read_tail(api: Api, pod: Pod) -> tuple[DriverOutcome | None, tuple[str, ...]] | None:
    """The outcome in the log of what submitted the driver, and the log's lines without it.

    None where there is no log to read.
    """
    names = [container.name for container in pod.containers]
    container = SUBMITTER if SUBMITTER in names else ""
    try:
        text = await api.read_log(pod.meta.namespace, pod.meta.name, container, LOG_LINES)
    except ApiError:
        return None
    lines = (line.rstrip() for line in _COLOUR.sub("", text).splitlines())
    return find_outcome_line(text), tuple(line for line in lines if line and MARK not in line)


async def _pull(api: Api, ip: str, port: int, page: str) -> object | None:
    host = f"[{ip}]" if ":" in ip else ip
    try:
        return await api.pull(f"http://{host}:{port}/{page}")
    except ApiError:
        return None
