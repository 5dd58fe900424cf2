"""Implements `make test`: lint and the first tier of tests in parallel, with one summary.

python tests/running/run_first_tier.py [WORDS OF PYTEST ...]
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from changed_jobs import ROOT
from memory_folder import temporary_root
from run_groups import REPORTS, count_workers
from tiers import Tier


def run_tests(words: Sequence[str]) -> tuple[int, float]:
    """Run the first tier in the foreground. Return pytest's exit code and the seconds taken."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "pytest", "--quiet", "--numprocesses", count_workers()]
    command += [f"--tier={Tier.FIRST}", "--durations=10", f"--junitxml={REPORTS / Tier.FIRST}.xml"]
    with temporary_root() as environ:
        code = subprocess.run([*command, *words], cwd=ROOT, env=environ, check=False).returncode
    return code, time.monotonic() - begun


def main() -> int:
    """Run lint and tests, and print the results. Return exit code 1 if either failed."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile("w+") as output:
        # mypy and ruff finish long before the tests do, so their output waits until the end.
        command = ["make", "--silent", "check"]
        lint = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        try:
            code, seconds = run_tests(sys.argv[1:])
            is_clean = lint.wait() == 0
        finally:
            if lint.poll() is None:
                lint.terminate()
                lint.wait()
        if not is_clean:
            output.seek(0)
            sys.stdout.write(output.read())
    print(f"lint: {'passed' if is_clean else 'failed; run `make check`'}")
    print(f"tests: {'passed' if code == 0 else 'failed'} in {seconds:.0f} s")
    return int(code != 0 or not is_clean)


if __name__ == "__main__":
    sys.exit(main())
