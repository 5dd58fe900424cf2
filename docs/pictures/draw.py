"""Draws report.png, the picture in the README: `make picture`.

It is the report of a real run: the main example over the standard library, with statistics, whose
driver is killed in its first attempt and told to go, as by a node's end, in its second.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from headless import NoBrowserError, find_browser, opened_page

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "pipelines" / "examples" / "python-functions.yaml"
SIZE = (1100, 1360)  # down to a whole row of charts
BUCKETS = 400
# After which share of all sources a driver is disturbed, and how.
DISTURBANCES = [(0.35, signal.SIGKILL), (0.7, signal.SIGTERM)]
POLL_SECONDS = 0.05
STRANDLINE = [sys.executable, "-m", "strandline"]


def main() -> None:
    """Run, disturb, report and photograph."""
    try:
        find_browser()  # first, since the run before the picture takes minutes
    except NoBrowserError as error:
        sys.exit(f"strandline: {error}")
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        manifest = _write_manifest(folder)
        _run(manifest, folder)
        page = folder / "page.html"
        command = [*STRANDLINE, "report", str(manifest), "--volume", str(folder), "--out"]
        subprocess.run([*command, str(page)], check=True)  # noqa: S603 - our own words
        content = page.read_text("utf-8").replace(path, "/data")
        page.write_text(content, "utf-8")
        with opened_page(folder / "browser") as shown:
            width, height = SIZE
            shown.open(page, width=width, height=height, scheme="light")
            answer = shown.call("Page.captureScreenshot")
            (HERE / "report.png").write_bytes(base64.b64decode(answer["data"]))


def _write_manifest(folder: Path) -> Path:
    """The example with statistics, of fewer files, and with retries at once."""
    manifest = yaml.safe_load(EXAMPLE.read_text("utf-8"))
    spec = manifest["spec"]
    spec["source"]["with"] |= {"paths": ["{stdlib}/**/*.py"], "buckets": BUCKETS}
    spec["stages"].append({"use": "measure-fields", "with": {"columns": ["docstring", "source"]}})
    spec["retry"] = {"backoff": "fixed", "delay": "1s"}
    path = folder / "pipeline.yaml"
    path.write_text(yaml.safe_dump(manifest), "utf-8")
    return path


def _run(manifest: Path, volume: Path) -> None:
    """Start the run and disturb its drivers, each of them once."""
    command = [*STRANDLINE, "run", str(manifest), "--volume", str(volume), "--engine", "inline"]
    progress = volume / "default" / "python-functions" / "progress.json"
    left = list(DISTURBANCES)
    disturbed: set[int] = set()
    with subprocess.Popen(command) as run:  # noqa: S603 - our own words
        while run.poll() is None:
            time.sleep(POLL_SECONDS)
            said = _read(progress)
            if not left or not said or said["pid"] in disturbed:
                continue
            share, how = left[0]
            if said["sources"]["finished"] + said["sources"]["skipped"] > share * BUCKETS:
                os.kill(said["pid"], how)
                disturbed.add(said["pid"])
                left.pop(0)


def _read(progress: Path) -> dict[str, Any]:
    try:
        said: dict[str, Any] = json.loads(progress.read_bytes())
    except (OSError, ValueError):  # not there yet
        return {}
    return said


if __name__ == "__main__":
    main()
