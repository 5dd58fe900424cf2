"""`make lowest`: run tests with the lowest versions that pyproject.toml allows.

They are installed into .cache/lowest, once for either side, since the operator's libraries want
newer ones of what both need. The tools of tests are as constraints.txt pins them.

python tests/running/run_lowest.py [WORDS OF PYTEST ...]
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence

from lowest_versions import PYPROJECT, list_lowest, read_extras, read_requirements

ROOT = PYPROJECT.parent
FOLDER = ROOT / ".cache" / "lowest"
# KenLM is compiled, and Ray's dashboard is for a cluster: these tests need neither.
LEFT_EXTRAS = {"perplexity", "cluster"}
OPERATOR = "operator"
ROOMS: Mapping[str, Sequence[str]] = {
    "runtime": ("engine", "laws", "ledger", "packs", "plan", "statistics"),
    OPERATOR: ("operator",),
}
LEFT_TESTS = (
    "tests/engine/test_start_of_ray.py",  # Ray's versions have a target
    "tests/operator/test_lineage_reporting.py",  # the other side's libraries are needed too
    "tests/operator/test_with_last_release.py",  # as there
)
# What these rooms' tests don't run.
LEFT_TOOLS = (
    "codespell",
    "import-linter",
    "ipykernel",
    "mypy",
    "nbclient",
    "pre-commit",
    "ruff",
    "towncrier",
    "types-",
)
RUNNERS = ("hypothesis==", "pytest")


def list_extras(side: str) -> list[str]:
    """The extras that a side is tested with."""
    if side == OPERATOR:
        return [OPERATOR]
    return sorted(set(read_extras()) - LEFT_EXTRAS - {OPERATOR})


def list_pins(extras: Sequence[str]) -> list[str]:
    """The lowest versions of what some extras need, and the pins of what runs tests.

    What tests compare with is not pinned: its newest versions may want newer libraries.
    """
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    runners = [pin for pin in pins if pin.startswith(RUNNERS)]
    return [*list_lowest(read_requirements(extras)), *runners]


def list_tools() -> list[str]:
    """What tests need beside Strandline."""
    document = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    tools: list[str] = document["dependency-groups"]["dev"]
    return [tool for tool in tools if not tool.startswith(LEFT_TOOLS)]


def try_side(side: str, words: Sequence[str]) -> int:
    """Install and test one side; the exit code of pytest, or of pip where it finds no versions."""
    room = FOLDER / side
    python = room / "bin" / "python"
    extras = list_extras(side)
    room.mkdir(parents=True, exist_ok=True)
    pins = room / "constraints.txt"
    pins.write_text("\n".join(list_pins(extras)))
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    folders = [f"tests/{folder}" for folder in ROOMS[side]]
    left = [f"--ignore={path}" for path in LEFT_TESTS]
    product = f".[{','.join(extras)}]"
    steps = [
        [sys.executable, "-m", "venv", str(room)],
        [*pip, "pip>=25.1"],
        [*pip, "--constraint", str(pins), "--editable", product, *list_tools()],
        [
            str(python),
            "-m",
            "pytest",
            "--quiet",
            "--numprocesses",
            "logical",
            *left,
            *words,
            *folders,
        ],
    ]
    for step in steps:
        print(side, *step[1:4], flush=True)
        if code := subprocess.run(step, cwd=ROOT, check=False).returncode:
            return code
    return 0


def main() -> int:
    """Test both sides; exit code 1 where one fails."""
    codes = [try_side(side, sys.argv[1:]) for side in ROOMS]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
