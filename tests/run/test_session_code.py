"""The fingerprint of code in scripts, notebooks, and closures."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from code_builders import STAGE, Code, make_pipeline, numbers, read_fingerprint
from strandline import ExitCode
from strandline.errors import LedgerError
from strandline.plan.fingerprint import Fingerprint, describe_difference

SESSION = """
import re
from dataclasses import dataclass
from contextlib import contextmanager
from functools import cached_property, lru_cache, partial, singledispatch, wraps
from types import SimpleNamespace
from typing import NamedTuple
from strandline import Stage, Task
import top_b


@dataclass
class Config:
    level: int = 10


class Pair(NamedTuple):
    first: int = 12


CONFIG = Config(level=11)
PAIR = Pair(first=13)
SPACE = SimpleNamespace(level=14)

LEVEL = 3
WORDS = re.compile("a")
UNUSED = 1


def log(times=2):
    def decorate(function):
        @wraps(function)
        def call(*given):
            return function(*given)
        return call
    return decorate


double = lambda x: x * 2; triple = lambda x: x * 3


@lru_cache(maxsize=2)
def cached(one):
    return 21


@singledispatch
def dispatched(one):
    return 22


@dispatched.register
def _(one: int):
    return 23


@contextmanager
def opened():
    yield 24


def make(step, power=1):
    class Own(Stage):
        LIMIT = 4

        @log(times=5)
        def process(self, task: Task, *, shift=6) -> Task:
            import top_c
            self.note(CONFIG, PAIR, SPACE)
            return step(double(LEVEL), power, WORDS)

        def note(self, *values):
            with opened() as one:
                return cached(one), dispatched(one), self.lazy

        @cached_property
        def lazy(self):
            return 20
    return Own


Own = make(lambda x: x + 7)
Bound = make(partial(divmod, 8))
"""


class Session:
    """A notebook: a module that imports cannot find, whose text is in `linecache`."""

    def __init__(self, code: Code, patch: pytest.MonkeyPatch) -> None:
        self._code, self._patch = code, patch

    def read(self, text: str, kind: str) -> Fingerprint:
        name = f"session_{next(numbers)}"
        path = self._code.write(f"{name}.txt", text)
        module = ModuleType("session")
        self._patch.setitem(sys.modules, "session", module)
        source = compile(path.read_text(), str(path), "exec")
        exec(source, vars(module))  # noqa: S102 - as a notebook does
        return read_fingerprint(getattr(module, kind)())


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Code:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return Code(tmp_path)


@pytest.fixture
def session(code: Code, monkeypatch: pytest.MonkeyPatch) -> Session:
    for name in ("top_b.py", "top_c.py"):
        code.write(name, "")
    return Session(code, monkeypatch)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LEVEL = 3", "LEVEL = 4"),
        ('"a"', '"b"'),
        ("x * 2", "x * 4"),
        ("times=5", "times=6"),
        ("function(*given)", "function(*given, )  or 1"),
        ("power=1", "power=2"),
        ("shift=6", "shift=7"),
        ("LIMIT = 4", "LIMIT = 5"),
        ("x + 7", "x + 8"),
        ("step(double", "step(triple"),
        ("level=11", "level=12"),
        ("return 20", "return 30"),
        ("return 21", "return 31"),
        ("return 22", "return 32"),
        ("return 23", "return 33"),
        ("yield 24", "yield 34"),
        ("first=13", "first=14"),
        ("level=14", "level=15"),
        ("first: int = 12", "first: int = 13"),
    ],
)
def test_in_a_session_everything_a_stage_uses_counts(session: Session, old: str, new: str) -> None:
    assert old in SESSION
    before, after = session.read(SESSION, "Own"), session.read(SESSION.replace(old, new), "Own")
    assert before.unread == ()
    assert describe_difference(before.parts, after.parts) == [
        "own: make.<locals>.Own in this session has changed"
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("UNUSED = 1", "UNUSED = 2"),
        # The parameter of a function has the same name.
        ("UNUSED = 1", "UNUSED = 1\nx = 1\npower = 2\none = 3"),
        ("x * 3", "x * 4"),
        ("import re\n", "\n\nimport re  # first\n"),
        ("singledispatch, wraps", "wraps, singledispatch"),
        ("divmod, 8", "divmod, 9"),
        (
            "return step(double(LEVEL), power, WORDS)",
            "return step(  # a\n  double(LEVEL), power,WORDS)",
        ),
    ],
)
def test_in_a_session_unused_definitions_do_not_count(session: Session, old: str, new: str) -> None:
    assert old in SESSION
    before, after = session.read(SESSION, "Own"), session.read(SESSION.replace(old, new), "Own")
    assert before.digest == after.digest


def test_values_that_a_stage_is_bound_to_count(session: Session, code: Code) -> None:
    before = session.read(SESSION, "Bound")
    after = session.read(SESSION.replace("divmod, 8", "divmod, 9"), "Bound")
    assert before.digest != after.digest
    code.write("top_c.py", "A = 1")
    assert describe_difference(before.parts, session.read(SESSION, "Bound").parts) == [
        f"own: {code.top}_c.py has changed"
    ]


def test_a_closure_of_a_module_counts_with_its_values(code: Code) -> None:
    code.write("top.py", SESSION)
    code.write("top_b.py", "")
    module = importlib.import_module(code.top)
    two, three = (read_fingerprint(module.make(str, power)()) for power in (2, 3))
    assert code.describe(two, three) == ["own: make.<locals>.Own in top.py has changed"]


def test_code_without_text_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("nowhere")
    monkeypatch.setitem(sys.modules, "nowhere", module)
    exec(STAGE, vars(module))  # noqa: S102 - its text is not kept
    (line,) = read_fingerprint(module.Own()).unread
    assert line.startswith("own: Own.process can't be read; raise the stage's `version`")


def test_a_run_reads_the_code_when_it_begins(code: Code, monkeypatch: pytest.MonkeyPatch) -> None:
    code.write("in/a.txt", "text")
    module = ModuleType("session")
    monkeypatch.setitem(sys.modules, "session", module)
    text = f"LIMIT = 1\n{STAGE.replace('return task', 'return LIMIT and task')}"
    exec(compile(text, str(code.write("cell.txt", text)), "exec"), vars(module))  # noqa: S102
    pipeline = make_pipeline(module.Own())
    assert pipeline.run(code.root / "volume", engine="inline").code is ExitCode.COMPLETE
    vars(module)["LIMIT"] = 2
    with pytest.raises(LedgerError, match="  own: Own in this session has changed\n"):
        pipeline.run(code.root / "volume", engine="inline")
    vars(module)["LIMIT"] = 1
    outcome = pipeline.run(code.root / "volume", engine="inline")
    assert "nothing left to do" in outcome.message
