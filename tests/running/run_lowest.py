"""Implements `make lowest`: runs tests with the lowest versions that pyproject.toml allows.

The versions are installed into .cache/lowest, separately for each side, because the operator's
libraries require newer versions of common dependencies. Test tools have the versions of
constraints.txt.

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
# Extras that these tests do not need: KenLM requires a compiler, and Ray's dashboard a cluster.
LEFT_EXTRAS = {"perplexity", "cluster"}
OPERATOR = "operator"
ROOMS: Mapping[str, Sequence[str]] = {
    "runtime": ("engine", "laws", "ledger", "packs", "plan", "statistics"),
    OPERATOR: ("operator",),
}
LEFT_TESTS = (
    "tests/engine/test_start_of_ray.py",  # a separate make target tests versions of Ray
    "tests/operator/test_lineage_reporting.py",  # also needs the other side's libraries
    "tests/operator/test_with_last_release.py",  # also needs the other side's libraries
)
# Tools that the tests of these folders do not use.
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
    """Return the extras with which a side is tested."""
    if side == OPERATOR:
        return [OPERATOR]
    return sorted(set(read_extras()) - LEFT_EXTRAS - {OPERATOR})


def list_pins(extras: Sequence[str]) -> list[str]:
    """Return the lowest versions of some extras' requirements, and the pins of the test tools.

    Libraries for comparison are not pinned: their newest versions may need newer dependencies.
    """
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    runners = [pin for pin in pins if pin.startswith(RUNNERS)]
    return [*list_lowest(read_requirements(extras)), *runners]


def list_tools() -> list[str]:
    """Return the requirements of the tests, without Strandline."""
    document = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    tools: list[str] = document["dependency-groups"]["dev"]
    return [tool for tool in tools if not tool.startswith(LEFT_TOOLS)]


def try_side(side: str, words: Sequence[str]) -> int:
    """Install and test one side. Return pytest's exit code, or pip's if it finds no versions."""
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
    """Test both sides. Return exit code 1 if one fails."""
    codes = [try_side(side, sys.argv[1:]) for side in ROOMS]
    return int(any(codes))


if __name__ == "__main__":
    sys.exit(main())
