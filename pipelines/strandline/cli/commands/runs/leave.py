"""`strandline leave`: reports to the driver that a worker's node leaves, from the `preStop` hook.

The command must start fast, so it does not load stages, Ray, or Arrow. It never fails, because the
pod ends in any case.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
from collections.abc import Callable, Mapping

import click

from strandline.cli.app.options import show_examples
from strandline_api.outcome.reader_token import HEADER, NOTICE_TOKEN_VARIABLE

# Seconds of the grace period reserved for stopping the processes.
SPARE_SECONDS = 3.0
PAUSE_SECONDS = 0.5
_ANSWER_SECONDS = 6.0
# Timeout for connections. A head on a lost node accepts no connection, but a busy head does and
# answers late.
_CONNECT_SECONDS = 6.0
# Environment variables in which KubeRay passes the head's address to a worker, the most reliable
# first.
_HEADS = ("FQ_RAY_IP", "RAY_IP", "RAY_ADDRESS")

Ask = Callable[[float], int | None]


@click.command(
    "leave",
    epilog=show_examples("strandline leave --wait --port 8780 --seconds 30"),
)
@click.option("--port", type=click.IntRange(1, 65535), required=True, help="The driver's port.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="Time until this node is gone.",
)
@click.option("--driver", metavar="HOST", help="The driver's host.  [default: the Ray head's]")
@click.option(
    "--node", metavar="ADDRESS", help="Address of the departing node.  [default: this node]"
)
@click.option(
    "--why",
    default="its pod is ended",
    show_default=True,
    help="Reason for the departure, for people.",
)
@click.option("--wait", "waits", is_flag=True, help="Return when the run no longer uses this node.")
def leave(
    port: int, seconds: float, driver: str | None, node: str | None, why: str, waits: bool
) -> None:
    """Report to a run's driver that this Ray node is going away.

    The driver sends no new work to the node, lets calls finish if time allows, and moves the node's
    data. The exit code is always 0; the token is read from STRANDLINE_NOTICE_TOKEN.
    """
    host = driver or find_head(os.environ)
    token = os.environ.get(NOTICE_TOKEN_VARIABLE, "")
    if not host or not token:
        click.echo("no driver to notify")
        return
    node = node or _find_own_address(host, port)

    def ask(left: float) -> int | None:
        return post(host, port, token, {"node": node, "seconds": left, "why": why})

    if wait_until_left(ask, seconds, time.monotonic, time.sleep, waits=waits):
        click.echo("the run no longer uses this node")


def find_head(environment: Mapping[str, str]) -> str | None:
    """Return the host of the Ray head from a worker's environment, if set."""
    for name in _HEADS:
        host = environment.get(name, "").rpartition("://")[2].strip()
        # `RAY_ADDRESS` has a port, and brackets around an IPv6 address: `ray://head:10001`,
        # `[fd00::1]:6379`.
        host = host if name != "RAY_ADDRESS" else host.rpartition(":")[0].strip("[]")
        if host:
            return host
    return None


def wait_until_left(
    ask: Ask,
    seconds: float,
    now: Callable[[], float],
    sleep: Callable[[float], None],
    *,
    waits: bool,
) -> bool:
    """Report to the driver repeatedly until no work is pending, the driver is gone, or time is up.

    Return True if no work is pending.

    Args:
        ask: reports the remaining seconds to the driver, and returns the amount of pending work, or
            None if the driver does not answer or accepts no notices.
        waits: whether to repeat the report.
    """
    end = now() + seconds
    while True:
        pending = ask(max(0.0, end - now()))
        if pending is None:
            return False
        if not pending or not waits or now() + PAUSE_SECONDS > end - SPARE_SECONDS:
            return not pending
        sleep(PAUSE_SECONDS)


def post(host: str, port: int, token: str, notice: Mapping[str, object]) -> int | None:
    """Send a notice to a driver.

    Return the amount of pending work, or None if the reply is invalid.
    """
    connection = http.client.HTTPConnection(host, port, timeout=_CONNECT_SECONDS)
    try:
        connection.connect()
    except OSError:
        return None
    try:
        connection.sock.settimeout(_ANSWER_SECONDS)
        headers = {HEADER: token, "Content-Type": "application/json"}
        connection.request("POST", "/notice", json.dumps(notice), headers)
        response = connection.getresponse()
        # Limit the size, because another program may listen on the port after the driver's end.
        content = json.loads(response.read(4096))
        return int(content["pending"]) if response.status == http.client.OK else None
    except TimeoutError:
        return 1  # the head is busy, so retry until the time is up
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return None
    finally:
        connection.close()


def _find_own_address(host: str, port: int) -> str:
    """Return the address that this host uses toward the driver: in a pod, the pod's address."""
    try:
        kind, form, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(kind, form, protocol) as probe:
            probe.connect(address)  # for a datagram socket, this sends no packet
            return str(probe.getsockname()[0])
    except OSError:
        return ""
