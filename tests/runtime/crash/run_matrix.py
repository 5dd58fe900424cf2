"""`make crash`: run every fault at every named step in all engines, and keep the table.

PYTHONPATH=tests/runtime:tests/support python tests/runtime/crash/run_matrix.py \
    [--only TEXT] [--chains on|off|random] [--write]
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from matrix import ENGINES, Finding, Ground, describe_texts, list_cases
from strandline.storage.faults import ACTIONS, STEPS

ROOT = Path(__file__).parents[3]
REPORT = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- crash: begin -->", "<!-- crash: end -->"
AT_ONCE = 2
SHARES = {"on": 0.0, "off": 1.0, "random": 0.5}  # share of stages that run outside chains


def main() -> int:
    """Run all cases. Return exit code 1 if a result differs from the expectation."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases that have this in their name")
    parser.add_argument(
        "--chains", choices=SHARES, default="on", help="neighbours in one worker, or each apart"
    )
    parser.add_argument("--write", action="store_true", help=f"keep the table in {REPORT.name}")
    arguments = parser.parse_args()
    cases = [case for case in list_cases() if arguments.only in str(case)]
    with tempfile.TemporaryDirectory(prefix="crash-") as folder:
        ground = Ground(Path(folder, "ground"), partial(describe_cut, SHARES[arguments.chains]))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            findings = []
            for finding in pool.map(ground.carry_out, cases):
                findings.append(finding)
                _show(finding)
        ground.close()
    table = tabulate(findings)
    print(table)
    is_good = all(not finding.faults for finding in findings)
    if arguments.write and is_good and not arguments.only and arguments.chains == "on":
        text = REPORT.read_text()
        head, tail = text.split(BEGIN)[0], text.split(END)[1]
        REPORT.write_text(f"{head}{BEGIN}\n{table}\n{END}{tail}")
    return 0 if is_good else 1


def describe_cut(share: float, paths: str) -> dict[str, Any]:
    """Return the pipeline of the matrix. A random share of its stages gets separate workers."""
    spec = describe_texts(paths)
    for stage in spec["stages"]:
        stage["isolate"] = random.random() < share
    print("apart:", *(stage["use"] for stage in spec["stages"] if stage["isolate"]))
    return spec


def tabulate(findings: Sequence[Finding]) -> str:
    """Return the table: one line per step, with the number of cases that ended as expected."""
    columns = [(engine, action) for engine in ENGINES for action in ACTIONS]
    good = sum(not finding.faults for finding in findings)
    lines = [
        f"{len(findings)} cases, {good} as expected.",
        "",
        "| step | " + " | ".join(f"{engine} {action}" for engine, action in columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for step in STEPS:
        cells = (_spell_cell(findings, engine, step, action) for engine, action in columns)
        lines.append(f"| `{step}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _spell_cell(findings: Sequence[Finding], engine: str, step: str, action: str) -> str:
    """Return the exit codes of the disturbed runs by `nth`, or BAD for a wrong result."""
    own = [
        finding
        for finding in findings
        if (finding.case.engine, finding.case.step, finding.case.action) == (engine, step, action)
    ]
    return ", ".join("BAD" if finding.faults else str(finding.code) for finding in own)


def _show(finding: Finding) -> None:
    mark = "BAD" if finding.faults else "ok"
    print(f"{mark} {finding.case}: exit code {finding.code}", flush=True)
    for fault in finding.faults:
        print(f"    {fault}", flush=True)
    if finding.faults:
        print(finding.log, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
