"""Anthropic's batches: a list of requests, and a file of results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from strandline_packs.models.asking.answers import Reply
from strandline_packs.models.asking.traffic.batches.port import (
    BatchEnd,
    BatchItem,
    BatchProgress,
    VendorCalls,
    read_object,
)

_PATH = "messages/batches"
# Status that the Messages API has for a type of error; other errors are the server's.
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
}


class AnthropicBatches:
    """See `BatchInterface`."""

    most_requests, most_bytes = 100_000, 250_000_000

    async def create(self, calls: VendorCalls, items: Sequence[BatchItem], mark: str) -> str:
        del mark  # the interface has no place for it
        requests = [{"custom_id": name, "params": body} for name, body in items]
        return str((await calls.post(_PATH, {"requests": requests})).get("id"))

    async def find(self, calls: VendorCalls, mark: str) -> str | None:
        del calls, mark
        return None

    async def check(self, calls: VendorCalls, batch: str) -> BatchProgress | None:
        found = read_object(await calls.get(f"{_PATH}/{batch}"))
        if found.get("id") != batch:
            return None
        if found.get("processing_status") != "ended":
            return BatchProgress(BatchEnd.OPEN)
        is_cancelled = bool((found.get("request_counts") or {}).get("canceled"))
        end = BatchEnd.CANCELLED if is_cancelled else BatchEnd.ENDED
        return BatchProgress(end, paths=[f"{_PATH}/{batch}/results"])

    def read(self, line: Mapping[str, Any]) -> tuple[str, Reply | None]:
        name, result = line["custom_id"], line["result"]
        kind = result.get("type")
        if kind == "succeeded":
            return name, Reply(200, {}, json.dumps(result["message"]).encode())
        if kind in {"expired", "canceled"}:
            return name, None
        error = result.get("error") or {}
        inner = error.get("error") or error  # the error is wrapped like that of a response
        body = json.dumps({"type": "error", "error": inner}).encode()
        return name, Reply(_STATUSES.get(str(inner.get("type")), 500), {}, body)
