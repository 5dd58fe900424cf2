"""Parses the command line, and runs the loop until a signal ends it."""

from __future__ import annotations

import argparse
import random
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from kuberay_standin.shell.api import Api, read_kubeconfig
from kuberay_standin.shell.dashboard import ask_dashboard, stop_job
from kuberay_standin.shell.loop import Loop, Outside

# Letters and digits of generated names, as in Kubernetes.
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
NAME_LENGTH = 5
# Pause in seconds after a turn with actions, which usually lead to more actions.
SOON = 0.05


def main() -> None:
    """Parse the arguments, and serve RayJobs until a signal arrives."""
    parser = argparse.ArgumentParser(prog="kuberay_standin", description="Play KubeRay.")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--namespace", default="", help="serve this one; else all")
    parser.add_argument("--every", type=float, default=0.5, help="seconds between two looks")
    arguments = parser.parse_args()
    api = Api(read_kubeconfig(arguments.kubeconfig))
    loop = Loop(api, find_outside(), arguments.namespace)
    report("serving RayJobs")
    while True:
        time.sleep(SOON if loop.turn() else arguments.every)


def find_outside() -> Outside:
    """Return the loop's real dependencies: clocks, randomness, dashboards, and log."""
    return Outside(
        read_time=lambda: datetime.now(UTC),
        read_seconds=time.monotonic,
        draw=lambda: "".join(random.SystemRandom().choices(LETTERS, k=NAME_LENGTH)),
        ask=ask_dashboard,
        stop=stop_job,
        report=report,
    )


def report(line: str) -> None:
    """Write a timestamped line to standard output and flush."""
    sys.stdout.write(f"{datetime.now(UTC).isoformat(timespec='milliseconds')} {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
