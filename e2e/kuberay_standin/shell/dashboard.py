"""HTTP client for the job API of Ray's dashboard. It must not depend on Kubernetes."""

from __future__ import annotations

import http.client
import json
from datetime import UTC, datetime

from kuberay_standin.objects import Json, format_time
from kuberay_standin.scene import JobAnswer

TIMEOUT = 2
NOT_FOUND = 404
REFUSED = 400


def ask_dashboard(address: str, job: str, token: str = "") -> JobAnswer:
    """Return the dashboard's response about a job. An empty address counts as unreachable.

    Args:
        token: token of the Ray cluster; empty if it requires no token.
    """
    try:
        status, text = _ask("GET", address, f"/api/jobs/{job}", token)
        if status == NOT_FOUND:
            return JobAnswer()
        return JobAnswer(is_reached=False) if status >= REFUSED else read_value(json.loads(text))
    except (OSError, http.client.HTTPException, ValueError):
        return JobAnswer(is_reached=False)


def stop_job(address: str, job: str, token: str = "") -> None:
    """Stop a job through the dashboard, and ignore the response."""
    try:
        _ask("POST", address, f"/api/jobs/{job}/stop", token)
    except (OSError, http.client.HTTPException):
        return


def read_value(found: Json) -> JobAnswer:
    """Parse Ray's job details. Times in the details are milliseconds since 1970."""
    return JobAnswer(
        status=str(found["status"]),
        message=str(found.get("message") or ""),
        start=_format_time(found.get("start_time")),
        end=_format_time(found.get("end_time")),
    )


def _format_time(milliseconds: int | None) -> str:
    if not milliseconds:
        return ""
    return format_time(datetime.fromtimestamp(milliseconds / 1000, UTC))


def _ask(method: str, address: str, path: str, token: str) -> tuple[int, str]:
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port or 0), timeout=TIMEOUT)
    try:
        headers = {"X-Ray-Authorization": f"Bearer {token}"} if token else {}
        connection.request(method, path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()
