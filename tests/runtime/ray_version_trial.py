"""A program that runs a small pipeline on the installed Ray, with or without replaced functions.

Prints a JSON line with the version, differences of the replaced functions, and the programs that
Ray started. `make ray-versions` runs this program in the environment of each version.

python tests/runtime/ray_version_trial.py replaced|plain FOLDER SOURCES
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import psutil
import ray

from replaced_functions import list_differences
from strandline import Pipeline
from strandline.engine.ray.local import start as local_start
from strandline.stages import Files, JsonlSink, ReadJsonl

LOOK_SECONDS = 0.02


def main() -> int:
    """Run the pipeline. Return exit code 1 if the run is incomplete."""
    way, folder, sources = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    is_known = local_start.replaces_functions(ray.__version__)
    # Force both ways for any version. The results decide whether the range of versions can be
    # extended.
    local_start._OLDEST, local_start._NEWEST = (2, 0), (2, 9999 if way == "replaced" else -1)
    texts = folder / "texts"
    texts.mkdir()
    for number in range(sources):
        (texts / f"{number}.jsonl").write_text(json.dumps({"number": number}))
    pipeline = Pipeline(
        "version",
        source=Files(paths=[f"{texts}/*.jsonl"]),
        stages=[ReadJsonl()],
        sink=JsonlSink(path=str(folder / "out")),
    )
    scripts: set[str] = set()
    is_over = threading.Event()
    watch = threading.Thread(target=_watch, args=(scripts, is_over))
    watch.start()
    try:
        outcome = pipeline.run(checkpoint_path=str(folder / "checkpoints"), engine="ray", workers=2)
    finally:
        is_over.set()
        watch.join()
    found = {
        "version": ray.__version__,
        "isKnown": is_known,
        "differences": list_differences(),
        "scripts": sorted(scripts),
        "message": outcome.message,
    }
    print(json.dumps(found))
    return int(outcome.code)


def _watch(scripts: set[str], is_over: threading.Event) -> None:
    """Record Ray's Python programs that run as descendants of this process."""
    while not is_over.wait(LOOK_SECONDS):
        for process in psutil.Process().children(recursive=True):
            try:
                words = process.cmdline()
            except psutil.Error:  # the process has ended
                continue
            scripts.update(Path(word).name for word in words[1:] if word.endswith(".py"))


if __name__ == "__main__":
    sys.exit(main())
