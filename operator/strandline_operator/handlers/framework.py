"""Configures kopf, which only streams the events of two kinds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import kopf

from strandline_api.names import GROUP
from strandline_operator.settings import Settings

UNUSED_FINALIZER = f"{GROUP}/unused"
FieldSpec = str | tuple[str, ...] | list[str] | None
_CONNECT_SECONDS = 5.0
_REQUEST_SECONDS = 30.0
_STREAM_SECONDS = 300  # must be an integer, because kopf passes the value on unchanged
# Seconds of silence after which a stream is closed. The server sends a bookmark every minute.
_SILENCE_SECONDS = 90.0
_PAGE_SIZE = 500
_EXTRA_SECONDS = 10.0


class NoMemory(kopf.DiffBaseStorage):
    """Disables kopf's storage of object states, because no handler needs differences.

    Copies of the states would be expensive.
    """

    def build(
        self,
        *,
        body: kopf.Body,  # noqa: ARG002 - signature of kopf
        extra_fields: Iterable[FieldSpec] | None = None,  # noqa: ARG002 - signature of kopf
    ) -> kopf.BodyEssence:
        """Return an empty essence for any object."""
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:  # noqa: ARG002 - signature of kopf
        """Return None, because nothing is stored."""
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Do nothing."""


class Backoffs:
    """Endless retry delays. kopf would end the operator after the last delay."""

    def __iter__(self) -> Iterator[float]:
        """Yield delays in seconds, growing to half a minute."""
        yield from (1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0)
        while True:
            yield 30.0


def configure(settings: Settings) -> kopf.OperatorSettings:
    """Convert the operator's settings to kopf's settings."""
    options = kopf.OperatorSettings()
    options.posting.enabled = False
    options.peering.standalone = True
    # To discover new kinds and namespaces, kopf would need cluster-wide permissions.
    options.scanning.disabled = True
    options.watching.server_timeout = _STREAM_SECONDS
    options.watching.client_timeout = _STREAM_SECONDS + _REQUEST_SECONDS
    options.watching.connect_timeout = _CONNECT_SECONDS
    options.watching.inactivity_timeout = _SILENCE_SECONDS
    options.watching.chunk_size = _PAGE_SIZE
    options.networking.request_timeout = _REQUEST_SECONDS
    options.networking.connect_timeout = _CONNECT_SECONDS
    options.networking.error_backoffs = Backoffs()
    options.networking.enforce_retry_after = True
    options.queueing.idle_timeout = 1.0
    # Use a name other than Strandline's finalizer, because kopf removes its finalizer if no handler
    # needs it.
    options.persistence.finalizer = UNUSED_FINALIZER
    options.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    options.persistence.diffbase_storage = NoMemory()
    options.process.ultimate_exiting_timeout = settings.shutdown_grace + _EXTRA_SECONDS
    return options
