"""Runs the operator as a process: settings, signal handling, and exit codes.

Exit codes: 0 if stopped on request, 64 for invalid settings or a missing cluster, 1 for any other
error.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import secrets
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import version

import kopf

from strandline_api.outcome.exit_codes import ExitCode
from strandline_operator.cluster.client import KubernetesApi
from strandline_operator.cluster.connection import (
    Credentials,
    NoClusterError,
    load_configuration,
    read_credentials,
)
from strandline_operator.cluster.errors import ApiError
from strandline_operator.cluster.server_clock import ServerClock
from strandline_operator.cluster.token_key import TokenKeyError, read_key
from strandline_operator.cluster.watches.garbage import GarbageWatch
from strandline_operator.commands import manifests
from strandline_operator.commands.uninstall.removal import Shell, UninstallError, prepare_removal
from strandline_operator.commands.uninstall.request import UninstallRequest, read_request
from strandline_operator.decide.pipeline import decide
from strandline_operator.handlers.framework import configure
from strandline_operator.handlers.registry import build_registry
from strandline_operator.integrations.lineage.reporting import start_reporting
from strandline_operator.metrics.health import make_health_page
from strandline_operator.metrics.listening import Listener, Page
from strandline_operator.metrics.log_lines import start_log
from strandline_operator.metrics.numbers import Numbers
from strandline_operator.reconcile.service import Service, World
from strandline_operator.settings import (
    FlagParser,
    Settings,
    SettingsError,
    add_flags,
    read_settings,
)

PROGRAM = "strandline-operator"
UNINSTALL = "uninstall"
RENDER = "render"
_LOGGER = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the operator until it is stopped, or run the command to render or uninstall."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == [RENDER]:
        sys.exit(manifests.main(words[1:], program=f"{PROGRAM} {RENDER}"))
    if words[:1] == [UNINSTALL]:
        sys.exit(_uninstall(read_request(words[1:])))
    parser = FlagParser(
        prog=PROGRAM,
        description="Runs CurationPipelines: one attempt after another, each as a RayJob.",
        epilog=(
            f"Example: {PROGRAM} --namespaces corpora --log-format text. "
            f"{PROGRAM} {RENDER} FILE prints the objects of an attempt of a pipeline."
        ),
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {_own_version()}")
    add_flags(parser)
    try:
        settings = read_settings(vars(parser.parse_args(words)), os.environ)
    except SettingsError as error:
        sys.exit(_complain(str(error)))
    start_log(sys.stderr, level=settings.log_level, form=settings.log_format)
    try:
        asyncio.run(_run(settings))
    except (NoClusterError, SettingsError, TokenKeyError) as error:
        sys.exit(_complain(str(error)))
    except KeyboardInterrupt:
        return
    except Exception:
        _LOGGER.critical("the operator failed", exc_info=True)
        sys.exit(ExitCode.APPLICATION_ERROR)


def _uninstall(request: UninstallRequest) -> int:
    try:
        return asyncio.run(_remove(request))
    except NoClusterError as error:
        return _complain(str(error))
    except (ApiError, UninstallError) as error:
        _complain(str(error))
        return ExitCode.APPLICATION_ERROR


async def _remove(request: UninstallRequest) -> int:
    api = KubernetesApi(await load_configuration(), agent=f"{PROGRAM}/{_own_version()}")

    def write(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    try:
        return await prepare_removal(request, Shell(api, time.monotonic, asyncio.sleep, write))
    finally:
        await api.close()


async def _run(settings: Settings) -> None:
    configuration = await load_configuration()
    numbers = Numbers()
    agent = f"{PROGRAM}/{_own_version()}"
    services: list[Service] = []

    def note(verb: str, resource: str, status: int) -> None:
        numbers.note_request(verb, resource, status)
        for each in services:
            each.queue.note_answer()

    clock = ServerClock(time.time, time.monotonic)
    api = KubernetesApi(configuration, agent=agent, note=note, clock=clock)
    world = World(api, clock=clock, draw=random.random)
    lineage = start_reporting(os.environ, numbers.note_lineage, clock)
    key = await read_key(api, settings.account, secrets.token_bytes, asyncio.sleep)
    if lineage is None:
        service = Service(settings, world, decide, numbers, None, key)
    else:
        find = lineage.find_state
        service = Service(settings, world, decide, numbers, lineage.report, key, find)
    services.append(service)

    async def login() -> Credentials:
        return await read_credentials(await load_configuration(configuration))

    health = make_health_page(service.report_health, asyncio.get_running_loop())
    listeners = [
        *_listen("metrics", settings.metrics_port, numbers.page),
        *_listen("liveness", settings.liveness_port, health),
    ]
    _LOGGER.info("%s starts", agent)
    gc.callbacks.append(GarbageWatch(time.perf_counter, gc.freeze, gc.unfreeze))
    try:
        await kopf.operator(
            registry=build_registry(service, login),
            settings=configure(settings),
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
            standalone=True,
        )
    finally:
        await service.stop()
        await api.close()
        for listener in listeners:
            listener.close()
        if lineage is not None:
            lineage.close()
    _LOGGER.info("%s has stopped", agent)


def _listen(name: str, port: int, page: Page) -> Iterator[Listener]:
    if not port:
        return
    try:
        yield Listener(port, page)
    except OSError as error:
        raise SettingsError(f"{name} can't be served on port {port}: {error.strerror}") from error


def _own_version() -> str:
    return version("strandline")


def _complain(text: str) -> int:
    for line in text.splitlines():
        sys.stderr.write(f"{PROGRAM}: {line}\n")
    return ExitCode.BAD_SPEC


if __name__ == "__main__":
    main()
