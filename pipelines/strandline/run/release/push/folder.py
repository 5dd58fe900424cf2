"""Pushes to a folder or an object store: each revision has a folder, and `latest` moves last.

A revision's folder never changes once complete, so a push does not disturb readers of earlier
revisions. Files that a killed push has copied stay and are not copied again.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from strandline.data.shipments.contents import Contents
from strandline.data.shipments.shipment import (
    MANIFEST,
    PushResult,
    Shipment,
    read_properties,
    require_ours,
)
from strandline.data.shipments.target_files import TargetFiles, open_target
from strandline.storage import faults

LATEST = "latest.json"


def push_to_folder(
    shipment: Shipment, contents: Contents, location: str, fence: Callable[[], None]
) -> PushResult:
    """Push to a folder or URL, unless this revision is already the latest there.

    Args:
        location: a location from `resolve_location`.
        fence: raises if the pushing attempt no longer has the ledger.

    Raises:
        UnfitForPushError: if a file is missing, or its bytes have changed.
        VolumeError, CredentialsRefusedError: if the target is not writable.
    """
    store = open_target(location)
    revision = shipment.revision
    target = f"{location.rstrip('/')}/{revision}"
    pointer = _render_latest(shipment)
    _require_ours(store, location, shipment)
    is_there = store.read(f"{revision}/{MANIFEST}") is not None
    if is_there and _name_latest(store.read(LATEST)) == revision:
        return PushResult(target, revision, is_new=False, files=0)
    copied = 0
    if not is_there:
        sizes = dict(store.list_sizes(revision))
        for file in shipment.files:
            # A file of the right size is complete and belongs to this revision, so do not copy it
            # again.
            if sizes.get(file.name) != file.size:
                store.put(f"{revision}/{file.name}", contents.read(file))
                copied += 1
                faults.reach("push.copied")
        for name, content in shipment.extras.items():
            store.put(f"{revision}/{name}", [content])
        faults.reach("push.described")
    # Check the lease immediately before the pointer moves, which makes the revision visible.
    fence()
    store.put(LATEST, [pointer])
    faults.reach("push.published")
    return PushResult(target, revision, is_new=True, files=copied)


def _require_ours(store: TargetFiles, location: str, shipment: Shipment) -> None:
    """Reject a location whose `latest.json` points to another pipeline's revision."""
    latest = _name_latest(store.read(LATEST))
    manifest = None if latest is None else store.read(f"{latest}/{MANIFEST}")
    owner = None if manifest is None else read_properties(manifest)
    if owner is not None:
        require_ours(location, shipment.author, owner, "place")


def _render_latest(shipment: Shipment) -> bytes:
    facts = {
        "revision": shipment.revision,
        "manifest": f"{shipment.revision}/{MANIFEST}",
        "fingerprint": shipment.fingerprint,
        "rows": shipment.rows,
    }
    return (json.dumps(facts, indent=1) + "\n").encode()


def _name_latest(content: bytes | None) -> str | None:
    try:
        found = json.loads(content or b"null")
    except ValueError:
        return None
    return found.get("revision") if isinstance(found, dict) else None
