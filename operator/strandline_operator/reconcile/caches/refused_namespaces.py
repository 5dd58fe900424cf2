"""Watched namespaces in which the operator may not list pipelines: told once each, tried again.

A deleted RoleBinding, or a namespace that is gone, must not keep the other namespaces waiting.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from strandline_api.times import format_time
from strandline_operator.cluster.api import Api
from strandline_operator.cluster.errors import ApiError, Forbidden
from strandline_operator.model.plan import Resource

_LOGGER = logging.getLogger(__name__)
REASON = "NamespaceRefused"
_NAME = "strandline-namespace-refused"


class RefusedNamespaces:
    """Which namespaces are refused.

    Args:
        account: namespace and name of the operator's service account, which lacks the right and so
            has the event; empty: it runs elsewhere, and there is no event.
        show: takes a namespace and whether it is refused, for the gauge.
        clock: seconds since the epoch.
    """

    def __init__(
        self, account: str, show: Callable[[str, bool], None], clock: Callable[[], float]
    ) -> None:
        self._account, self._show, self._clock = account, show, clock
        self._refused: set[str] = set()

    def __len__(self) -> int:
        return len(self._refused)

    async def note(self, api: Api, namespace: str, error: Forbidden) -> None:
        """Take a refusal; a new one is told in the log and by an event."""
        if namespace in self._refused:
            return
        self._refused.add(namespace)
        self._show(namespace, True)  # noqa: FBT003 - one of two
        text = f"pipelines of namespace {namespace} are left alone: {error.message}"
        _LOGGER.warning("%s; give the operator its rights there, or stop watching it", text)
        if self._account:
            try:
                event = self._render(namespace, text)
                await api.create(Resource.EVENT, event["metadata"]["namespace"], event)
            except ApiError as failed:
                _LOGGER.info("no event tells of namespace %s: %s", namespace, failed)

    def clear(self, namespace: str) -> None:
        """Take that a namespace can be listed."""
        if namespace in self._refused:
            self._refused.discard(namespace)
            self._show(namespace, False)  # noqa: FBT003 - one of two
            _LOGGER.info("pipelines of namespace %s are looked after again", namespace)

    def _render(self, namespace: str, text: str) -> dict[str, Any]:
        home, _, name = self._account.partition("/")
        now = self._clock()
        time = format_time(int(now))
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{_NAME}-{namespace}.{int(now * 1000):x}", "namespace": home},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "name": name,
                "namespace": home,
            },
            "type": "Warning",
            "reason": REASON,
            "message": text[:1024],
            "source": {"component": "strandline-operator"},
            "reportingComponent": "strandline-operator",
            "reportingInstance": "strandline-operator",
            "firstTimestamp": time,
            "lastTimestamp": time,
            "count": 1,
        }
