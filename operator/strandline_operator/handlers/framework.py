"""Configuration of kopf, which streams events of two kinds, and does nothing else by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import kopf

from strandline_api.names import GROUP
from strandline_operator.settings import Settings

UNUSED_FINALIZER = f"{GROUP}/unused"
FieldSpec = str | tuple[str, ...] | list[str] | None
_CONNECT_SECONDS = 5.0
_REQUEST_SECONDS = 30.0
_STREAM_SECONDS = 300  # An integer, because kopf passes the value on unchanged.
# Bookmarks arrive every minute.
_SILENCE_SECONDS = 90.0
_PAGE_SIZE = 500
_EXTRA_SECONDS = 10.0


class NoMemory(kopf.DiffBaseStorage):
    """Storage of no object state: no handler needs differences, and copies are expensive."""

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
    """Endless retry delays: kopf ends the operator when they are used up."""

    def __iter__(self) -> Iterator[float]:
        """Yield seconds, growing to half a minute."""
        yield from (1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0)
        while True:
            yield 30.0


def configure(settings: Settings) -> kopf.OperatorSettings:
    """Return kopf's settings for an operator's settings."""
    options = kopf.OperatorSettings()
    options.posting.enabled = False
    options.peering.standalone = True
    # Discovery of new kinds and namespaces would need cluster-wide permissions.
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
    # Use a separate name: kopf removes its finalizer whenever it seems unnecessary.
    options.persistence.finalizer = UNUSED_FINALIZER
    options.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
    options.persistence.diffbase_storage = NoMemory()
    options.process.ultimate_exiting_timeout = settings.shutdown_grace + _EXTRA_SECONDS
    return options
