"""Tracks watched namespaces in which the operator may not list pipelines, to report each once.

A deleted RoleBinding or namespace must not block the other namespaces.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from strandline_operator.cluster.errors import Forbidden
from strandline_operator.model.plan import EventDraft

_LOGGER = logging.getLogger(__name__)
REASON = "NamespaceRefused"


class RefusedNamespaces:
    """Namespaces whose list request was rejected.

    Args:
        show: callback that updates the metric with a namespace and whether it is rejected.
    """

    def __init__(self, show: Callable[[str, bool], None]) -> None:
        self._show = show
        self._refused: set[str] = set()

    def __len__(self) -> int:
        return len(self._refused)

    def note(self, namespace: str, error: Forbidden) -> EventDraft | None:
        """Record a rejection. Return an event if the rejection is new."""
        if namespace in self._refused:
            return None
        self._refused.add(namespace)
        self._show(namespace, True)  # noqa: FBT003 - one of two values
        text = f"the operator ignores the pipelines of namespace {namespace}: {error.message}"
        _LOGGER.warning(
            "%s; grant the operator its permissions there, or stop watching the namespace", text
        )
        return EventDraft(REASON, text, is_warning=True)

    def clear(self, namespace: str) -> None:
        """Record that listing a namespace succeeded."""
        if namespace in self._refused:
            self._refused.discard(namespace)
            self._show(namespace, False)  # noqa: FBT003 - one of two values
            _LOGGER.info("pipelines of namespace %s are processed again", namespace)
