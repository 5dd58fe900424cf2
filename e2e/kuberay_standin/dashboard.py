"""Ray's dashboard, asked over HTTP for one job. It must not know Kubernetes."""

from __future__ import annotations

import http.client
import json
from datetime import UTC, datetime

from kuberay_standin.objects import Json, spell_time
from kuberay_standin.scene import Word

TIMEOUT = 2
NOT_FOUND = 404
REFUSED = 400


def ask_dashboard(address: str, job: str) -> Word:
    """What the dashboard at `host:port` says of a job; an empty address does not answer."""
    try:
        status, text = _ask("GET", address, f"/api/jobs/{job}")
        if status == NOT_FOUND:
            return Word()
        return Word(is_reached=False) if status >= REFUSED else read_word(json.loads(text))
    except (OSError, http.client.HTTPException, ValueError):
        return Word(is_reached=False)


def stop_job(address: str, job: str) -> None:
    """Ask the dashboard to stop a job; it is no matter whether it answers."""
    try:
        _ask("POST", address, f"/api/jobs/{job}/stop")
    except (OSError, http.client.HTTPException):
        return


def read_word(told: Json) -> Word:
    """Read Ray's details of a job; its times are milliseconds since 1970."""
    return Word(
        status=str(told["status"]),
        message=str(told.get("message") or ""),
        start=_spell(told.get("start_time")),
        end=_spell(told.get("end_time")),
    )


def _spell(milliseconds: int | None) -> str:
    if not milliseconds:
        return ""
    return spell_time(datetime.fromtimestamp(milliseconds / 1000, UTC))


def _ask(method: str, address: str, path: str) -> tuple[int, str]:
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port or 0), timeout=TIMEOUT)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()
