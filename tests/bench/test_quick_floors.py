"""The cheapest benchmarks hold their limits, so that a large loss of speed is noticed early."""

from __future__ import annotations

import subprocess
import sys

from strandline_bench.ground.folders import ROOT


def test_the_cheapest_ratios_hold_their_limits() -> None:
    words = [sys.executable, str(ROOT / "bench/run.py"), "--quick", "--floors"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
