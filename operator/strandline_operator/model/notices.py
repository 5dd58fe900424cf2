"""Reports of controllers about objects: events, and the reasons of waits in a queue.

Some information is available only as events, for example failed mounts, rejected pods, failed
probes, and messages of autoscalers. This module must not depend on the relevance of an event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from strandline_operator.model.objects import read_time

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Notice:
    """An event about an object.

    Attributes:
        kind, name: kind and name of the object that the event is about.
        uid: uid of that object; empty if the event has none.
        first, time: first and last occurrence, in seconds since the epoch.
        source: reporting component, such as `cluster-autoscaler`; empty if unknown.
    """

    kind: str
    name: str
    uid: str
    reason: str
    message: str
    first: float
    time: float
    source: str = ""

    @classmethod
    def read(cls, body: Json) -> Notice:
        """Return a notice from an event object. Missing fields are empty."""
        about = body.get("involvedObject")
        about = about if isinstance(about, Mapping) else {}
        times = _list_times(body)
        return cls(
            kind=_text(about.get("kind")),
            name=_text(about.get("name")),
            uid=_text(about.get("uid")),
            reason=_text(body.get("reason")),
            message=" ".join(_text(body.get("message")).split()),
            first=min(times, default=0.0),
            time=max(times, default=0.0),
            source=_read_source(body),
        )


@dataclass(frozen=True, slots=True)
class QueueState:
    """A scheduler's report about a RayJob that is waiting in a queue.

    Attributes:
        since: start of the wait, in seconds since the epoch, or None if unknown.
        message: reason for the wait; empty if unknown.
    """

    since: float | None = None
    message: str = ""


def find_newest(notices: Iterable[Notice], reasons: Iterable[str], uid: str = "") -> Notice | None:
    """Return the newest notice with one of the reasons, if any. A uid restricts the search."""
    names = set(reasons)
    matches = (notice for notice in notices if notice.reason in names and uid in {"", notice.uid})
    return max(matches, key=lambda item: item.time, default=None)


def _list_times(body: Json) -> list[float]:
    """Return all timestamps of an event. Controllers write them to different fields."""
    series = body.get("series")
    observed = series.get("lastObservedTime") if isinstance(series, Mapping) else None
    metadata = body.get("metadata")
    created = metadata.get("creationTimestamp") if isinstance(metadata, Mapping) else None
    facts = (body.get(name) for name in ("firstTimestamp", "lastTimestamp", "eventTime"))
    times = (*facts, observed, created)
    return [time for time in map(read_time, times) if time is not None]


def _read_source(body: Json) -> str:
    """Return the reporting component of an event. Older libraries write another field."""
    source = body.get("source")
    component = source.get("component") if isinstance(source, Mapping) else None
    return _text(component) or _text(body.get("reportingComponent"))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
