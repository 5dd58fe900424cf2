"""`make ray-versions`: start the oldest and the newest supported Ray, and run on each.

Each version has its own environment. A small pipeline runs twice: with some functions of Ray
replaced during the start, and without. Both runs must complete and leave no process. The replaced
functions must exist with the expected signatures, and unused programs must not start if functions
are replaced.

python tests/runtime/run_ray_versions.py [VERSION ...]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil

ROOT = Path(__file__).parents[2]
TRIAL = Path(__file__).with_name("ray_version_trial.py")
UNNEEDED = {"dashboard.py", "log_monitor.py", "monitor.py"}
SOURCES = 8
MARK = "STRANDLINE_RAY_TRIAL"  # environment variable of all processes of a trial
END_SECONDS = 20.0
PIP_SECONDS, TRIAL_SECONDS = 900, 300


def main() -> int:
    """Try the versions. Return exit code 1 if a version fails, or works outside the known range."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", help="instead of the oldest and the newest")
    asked = [f"ray=={version}" for version in parser.parse_args().versions]
    is_good = True
    for requirement in asked or list_bounds(read_requirement()):
        # Ray's sockets are below this folder, and their names must be short.
        with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as folder:
            line, is_fine = try_version(requirement, Path(folder))
        print(line, flush=True)
        is_good = is_good and is_fine
    return 0 if is_good else 1


def read_requirement() -> str:
    """Return the requirement of Ray in pyproject.toml, such as `ray>=2.50,<3`."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wanted = document["project"]["optional-dependencies"]["runtime"]
    return next(str(line) for line in wanted if re.match(r"ray\W", line))


def list_bounds(requirement: str) -> list[str]:
    """Return requirements for the oldest allowed version and for the newest, which pip selects."""
    oldest = re.search(r">=([\d.]+)", requirement)
    assert oldest is not None
    return [f"ray=={oldest[1]}", requirement]


def try_version(requirement: str, folder: Path) -> tuple[str, bool]:
    """Return a line about a version, and whether the version works."""
    python = folder / "venv" / "bin" / "python"
    if not _install(requirement, folder, python):
        return f"{requirement}: pip did not install it", False
    found: dict[str, Any] = {}
    problems: list[str] = []
    for way in ("replaced", "plain"):
        room = folder / way[0]
        room.mkdir()
        found, wrong = _play(python, way, room)
        problems += [f"{way}: {problem}" for problem in wrong]
    version = found.get("version", requirement)
    if problems:
        return f"{version}: " + "; ".join(problems), False
    if not found["isKnown"]:
        where = "pipelines/strandline/engine/ray/local/start.py"
        return f"{version}: works both ways; starts plainly until {where} knows it", False
    return f"{version}: works both ways, and leaves nothing", True


def _install(requirement: str, folder: Path, python: Path) -> bool:
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    others = folder / "constraints.txt"
    others.write_text("\n".join(pin for pin in pins if not pin.startswith("ray==")))
    for words in (
        [sys.executable, "-m", "venv", str(folder / "venv")],
        [
            *(str(python), "-m", "pip", "install", "--quiet", "--constraint", str(others)),
            *("--editable", f"{ROOT}[runtime]", requirement),
        ],
    ):
        done = subprocess.run(words, capture_output=True, timeout=PIP_SECONDS, check=False)
        if done.returncode:
            return False
    return True


def _play(python: Path, way: str, room: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the report of a trial, and its problems."""
    mark = uuid4().hex
    temporary = room / "t"
    temporary.mkdir()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
        "PYTHONPATH": str(ROOT / "tests" / "engine"),
        "TMPDIR": str(temporary),
        MARK: mark,
    }
    done = subprocess.run(
        [str(python), str(TRIAL), way, str(room), str(SOURCES)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TRIAL_SECONDS,
        check=False,
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or [
            f"exit code {done.returncode}"
        ]
        return {}, [lines[-1]]
    found = dict(json.loads(done.stdout.splitlines()[-1]))
    return found, list(_find_problems(found, way, room, mark))


def _find_problems(found: dict[str, Any], way: str, room: Path, mark: str) -> Iterator[str]:
    yield from found["differences"]
    needless = UNNEEDED.intersection(found["scripts"])
    if way == "replaced" and needless:
        yield f"{', '.join(sorted(needless))} started"
    if way == "plain" and not needless:
        yield "nothing was saved by the other way, so nothing is shown by it"
    numbers = [
        json.loads(line)["number"]
        for path in (room / "out").rglob("*.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    if sorted(numbers) != list(range(SOURCES)):
        yield f"wrote {sorted(numbers)}"
    if left := _await_end(mark):
        yield f"left {', '.join(left)} running"
    if names := [path.name for path in (room / "t").iterdir()]:
        yield f"left {', '.join(names)}"


def _await_end(mark: str) -> list[str]:
    """Return the processes of a trial that remain after some time, in which workers may end."""
    until = time.monotonic() + END_SECONDS
    while (left := [*_list_marked(mark)]) and time.monotonic() < until:
        time.sleep(0.2)
    return left


def _list_marked(mark: str) -> Iterator[str]:
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                yield process.name()
        except psutil.Error:  # the process is another user's or has ended
            continue


if __name__ == "__main__":
    sys.exit(main())
