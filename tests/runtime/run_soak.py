"""`make soak`: disturb runs at random for SECONDS_TO_RUN seconds (600 by default).

SEED=... repeats the choices of an earlier soak. How far a run is at each choice depends on the
machine.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

from soaking import KINDS, Soak, choose_seed

SOURCES = 240


def main() -> int:
    """Run the soak; return exit code 1 after any violation."""
    seconds, seed = float(os.environ.get("SECONDS_TO_RUN", "600")), choose_seed()
    print(f"soak for {seconds:g} s with SEED={seed}", flush=True)
    folder = tempfile.mkdtemp(prefix="soak-")
    begun = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - begun:6.0f} s  {line}", flush=True)

    soak = Soak(Path(folder) / "soak", seed, SOURCES, say)
    soak.run(lambda: time.monotonic() - begun > seconds)
    print(f"{soak.jobs} jobs complete in {soak.attempts} attempts; disturbances:")
    for kind in KINDS:
        print(f"  {kind:<12}{soak.counts[kind]:5}")
    for violation in soak.violations:
        print(f"VIOLATION: {violation}")
    if soak.violations:
        print(f"all that was left is in {folder}")
        return 1
    print("nothing was lost, doubled or opened again")
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
