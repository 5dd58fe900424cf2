"""OpenAI's batches: a file of requests, and files of answers and of errors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from strandline_packs.models.asking.answers import Endpoint, Reply
from strandline_packs.models.asking.protocols.index import find_protocol
from strandline_packs.models.asking.traffic.batches.port import (
    BatchEnd,
    BatchItem,
    BatchProgress,
    VendorCalls,
    read_object,
)

_MARK = "strandline"  # name of the mark in a batch's metadata
_LISTED = 100  # most batches in a list
_ENDS = {
    "completed": BatchEnd.ENDED,
    "expired": BatchEnd.ENDED,
    "cancelled": BatchEnd.CANCELLED,
    "failed": BatchEnd.FAILED,
}
# Codes of requests that the vendor did not begin.
_UNBEGUN = frozenset({"batch_expired", "batch_cancelled"})


class OpenAiBatches:
    """See `BatchInterface`.

    Args:
        window: time in which the vendor answers, such as `24h`.
    """

    most_requests, most_bytes = 50_000, 190_000_000

    def __init__(self, endpoint: Endpoint, window: str) -> None:
        self._path = f"/v1/{find_protocol(endpoint).paths[endpoint]}"
        self._window = window

    async def create(self, calls: VendorCalls, items: Sequence[BatchItem], mark: str) -> str:
        kind = f"multipart/form-data; boundary={mark}"
        content = b"".join(self._build_form(items, mark))
        file = read_object(await calls.call("POST", "files", content, kind))
        body = {
            "input_file_id": file.get("id"),
            "endpoint": self._path,
            "completion_window": self._window,
            "metadata": {_MARK: mark},
        }
        return str((await calls.post("batches", body)).get("id"))

    def _build_form(self, items: Sequence[BatchItem], boundary: str) -> Iterator[bytes]:
        part = f"--{boundary}\r\nContent-Disposition: form-data; name="
        yield f'{part}"purpose"\r\n\r\nbatch\r\n'.encode()
        yield f'{part}"file"; filename="requests.jsonl"\r\n'.encode()
        yield b"Content-Type: application/jsonl\r\n\r\n"
        for name, body in items:
            line = {"custom_id": name, "method": "POST", "url": self._path, "body": body}
            yield json.dumps(line).encode() + b"\n"
        yield f"\r\n--{boundary}--\r\n".encode()

    async def find(self, calls: VendorCalls, mark: str) -> str | None:
        found = read_object(await calls.get(f"batches?limit={_LISTED}")).get("data")
        for batch in found if isinstance(found, list) else ():
            if (batch.get("metadata") or {}).get(_MARK) == mark:
                return str(batch["id"])
        return None

    async def check(self, calls: VendorCalls, batch: str) -> BatchProgress | None:
        found = read_object(await calls.get(f"batches/{batch}"))
        if found.get("id") != batch:
            return None
        end = _ENDS.get(str(found.get("status")), BatchEnd.OPEN)
        files = [found.get(name) for name in ("output_file_id", "error_file_id")]
        errors = (found.get("errors") or {}).get("data") or ()
        what = "; ".join(str(each.get("message")) for each in errors)
        return BatchProgress(end, what, [f"files/{each}/content" for each in files if each])

    def read(self, line: Mapping[str, Any]) -> tuple[str, Reply | None]:
        name, response, error = line["custom_id"], line.get("response"), line.get("error")
        if response:
            body = json.dumps(response.get("body")).encode()
            return name, Reply(int(response.get("status_code") or 500), {}, body)
        if error and error.get("code") in _UNBEGUN:
            return name, None
        return name, Reply(500, {}, json.dumps({"error": error}).encode())
