"""What the cluster's own controllers report about objects: events, and waits in a queue.

A failed mount, a pod that a policy refused, the words of a failed probe and those of an autoscaler
are in events alone. This room must not know which of them matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from strandline_operator.model.objects import read_time

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning about an object, or other news of it.

    Attributes:
        kind, name: of the object that it is about.
        uid: of that object; empty where the event does not say.
        first, time: when it was given first and last, in seconds since the epoch.
        source: its writer, such as `cluster-autoscaler`; empty where the event does not say.
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
        """Return a notice from the object of its event; what is missing is empty."""
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
    """What a scheduler reports about a RayJob that waits in a queue.

    Attributes:
        since: start of the wait (epoch); None if unknown.
        message: why the RayJob waits; empty if unknown.
    """

    since: float | None = None
    message: str = ""


def find_newest(notices: Iterable[Notice], reasons: Iterable[str], uid: str = "") -> Notice | None:
    """Return the newest of some reasons, of an object or of any; None where there is none."""
    names = set(reasons)
    matches = (notice for notice in notices if notice.reason in names and uid in {"", notice.uid})
    return max(matches, key=lambda item: item.time, default=None)


def _list_times(body: Json) -> list[float]:
    """Whenever it was given, as each of the ways has it in which controllers write events."""
    series = body.get("series")
    observed = series.get("lastObservedTime") if isinstance(series, Mapping) else None
    metadata = body.get("metadata")
    created = metadata.get("creationTimestamp") if isinstance(metadata, Mapping) else None
    facts = (body.get(name) for name in ("firstTimestamp", "lastTimestamp", "eventTime"))
    times = (*facts, observed, created)
    return [time for time in map(read_time, times) if time is not None]


def _read_source(body: Json) -> str:
    """Return the writer of an event, as older and as newer libraries put it down."""
    source = body.get("source")
    component = source.get("component") if isinstance(source, Mapping) else None
    return _text(component) or _text(body.get("reportingComponent"))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
