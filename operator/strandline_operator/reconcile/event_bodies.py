"""Kubernetes events about pipelines and attempts, named so that telling twice makes one. Pure."""

from __future__ import annotations

import hashlib

from strandline_api.names import API_VERSION, ATTEMPT, PIPELINE
from strandline_api.times import spell_time
from strandline_operator.cluster.api import Body
from strandline_operator.model.objects import Meta
from strandline_operator.model.plan import Event

COMPONENT = "strandline-operator"
MAX_MESSAGE = 1024
_MAX_NAME = 253


def spell_event(event: Event, meta: Meta, turn: str, now: float) -> Body:
    """The object of an event.

    Args:
        meta: of the object that it is about.
        turn: what tells two transitions apart that are told in the same words.
    """
    kind = PIPELINE.name if event.attempt is None else ATTEMPT.name
    told = f"{meta.uid}\n{event.reason}\n{event.message}\n{turn}"
    digest = hashlib.blake2b(told.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    time = spell_time(int(now))
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{meta.name[: _MAX_NAME - len(digest) - 1].rstrip('-.')}.{digest}",
            "namespace": meta.namespace,
        },
        "involvedObject": {
            "apiVersion": API_VERSION,
            "kind": kind,
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
        },
        "type": "Warning" if event.is_warning else "Normal",
        "reason": event.reason,
        "message": event.message[:MAX_MESSAGE],
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
