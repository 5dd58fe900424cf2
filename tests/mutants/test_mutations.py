"""The planted faults, the fate of a planted fault, and the list of faults that may survive."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import run_mutants
from mutations import list_mutants, plant

ONE_RUN = """
import sys
from pathlib import Path
from mutant_runs import load, run
from mutations import list_mutants
path, tests = Path(sys.argv[1]), sys.argv[2]
mutant = next(one for one in list_mutants(path.stem, path.read_text()) if one.after == sys.argv[3])
sys.path.insert(0, str(path.parent))
print(run(None, path, (tests,), path.parent / "log", 60.0).fate)
print(run(mutant, path, (tests,), path.parent / "log", 3.0).fate)
"""


def spell(source: str) -> list[str]:
    return [ast.unparse(plant(source, mutant)) for mutant in list_mutants("m", source)]


@pytest.mark.parametrize(
    ("source", "planted"),
    [
        ("x = a == b", ["x = a != b"]),
        ("x = a < b <= c", ["x = a <= b <= c", "x = a < b < c"]),
        ("x = a in b", ["x = a not in b"]),
        ("x = a is None", ["x = a is not None"]),
        ("x = a and b", ["x = a or b"]),
        ("x = not a", ["x = a"]),
        ("x = a - b", ["x = a + b"]),
        ("x += a", ["x -= a"]),
        ("x = a & b", ["x = a | b"]),
        ("x: a | None = b", []),
        ("if a:\n    pass", ["if not a:\n    pass"]),
        ("if a == b:\n    pass", ["if a != b:\n    pass"]),
        ("if not a:\n    pass", ["if a:\n    pass"]),
        ("x = a if b else c", ["x = a if not b else c"]),
        ("while a:\n    pass", ["while not a:\n    pass"]),
        ("f(a)", ["pass"]),
        ("x = f(a)", []),
        ("assert_never(a)", []),
        ("def f():\n    return True", ["def f():\n    return False"]),
        ("def f():\n    yield a", ["def f():\n    pass"]),
        ("for a in b:\n    continue", ["for a in b:\n    break"]),
        ("x = [a for a in b if a]", ["x = [a for a in b]"]),
        (
            "x = any((a for a in b if a if c))",
            ["x = any((a for a in b if c))", "x = any((a for a in b if a))"],
        ),
    ],
)
def test_a_piece_of_code_has_these_faults(source: str, planted: list[str]) -> None:
    assert spell(source) == planted


def test_a_fault_describes_itself() -> None:
    (mutant,) = list_mutants("room", "\nif a == b and f():\n    g = 1\n")[:1]
    assert (mutant.line, str(mutant)) == (
        2,
        "room: `if a == b and f():` → `if not (a == b and f()):`",
    )


def test_every_module_that_decides_has_faults_and_tests() -> None:
    paths = {path for path, _ in run_mutants.list_all()}
    assert paths >= set(run_mutants.TARGETS)
    assert f"{run_mutants.DECIDE}/attempts/attempt.py" in paths
    for path in paths:
        assert all((run_mutants.ROOT / tests).exists() for tests in run_mutants.find_tests(path))


def test_accepted_mutants_exist_and_have_a_reason() -> None:
    found = {str(mutant) for _, mutant in run_mutants.list_all()}
    named = run_mutants.read_alive()
    assert named.keys() <= found
    assert all(named.values())


@pytest.mark.more
@pytest.mark.parametrize(
    ("tested", "fate"),
    [
        ("is_more(2, 1)", "killed"),
        ("not is_more(1, 5)", "alive"),
        ("is_more(2, 1) or any(map(bool, iter(int, 1)))", "too slow"),
    ],
)
def test_a_fault_is_killed_by_a_test_that_checks_the_result(
    tmp_path: Path, tested: str, fate: str
) -> None:
    (tmp_path / "room.py").write_text("def is_more(a, b):\n    return a == b + 1\n")
    text = f"from room import is_more\n\ndef test_it():\n    assert {tested}\n"
    (tmp_path / "test_room.py").write_text(text)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-c", ONE_RUN, str(tmp_path / "room.py"), str(tmp_path), "b - 1"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.stdout.split() == ["alive", *fate.split()], done.stderr


TRIALS = """
import sys
from pathlib import Path
import mutant_trials
from mutant_trials import Trial, try_all
from mutations import list_mutants
mutant_trials.LEAST = 1.0
path = Path(sys.argv[1])
sys.path.insert(0, str(path.parent))
mutants = list_mutants(path.stem, path.read_text())
trials = [Trial(path, each) for each in mutants]
for each, fate in zip(mutants, try_all(trials, [str(path.parent)], path.parent / "log")):
    print(each.line, fate)
"""


def test_faults_of_functions_are_tried_without_a_new_import(tmp_path: Path) -> None:
    (tmp_path / "room.py").write_text(
        "def is_more(a, b):\n    return a > b\n\n\ndef add(a):\n    return a + 1\n\n\n"
        "def count(a):\n    while a > 0:\n        a -= 1\n\n\nX = 3 - 1\n"
    )
    (tmp_path / "test_room.py").write_text(
        "from room import add, count, is_more\n\n\ndef test_more():\n    assert is_more(2, 1)\n"
        "    assert not is_more(1, 1)\n\n\ndef test_add():\n    add(1)\n\n\n"
        "def test_count():\n    count(1)\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-c", TRIALS, str(tmp_path / "room.py")],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    fates = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    assert fates == [
        ["2", "killed"],  # its test checks the result
        ["6", "alive"],  # its test does not
        ["10", "alive"],
        ["10", "alive"],
        ["11", "too slow"],
        ["14", "alive"],  # outside of functions, so only a new import has the fault
    ], done.stderr
