"""Modules are short, documented, and have meaningful names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from source_tree import PACKAGES, Function, Module, list_modules, walk_public

MAX_MODULE_LINES = 450
MAX_TEST_LINES = 500  # long, because tables of test cases are read case by case
MAX_FUNCTION_LINES = 60
EMPTY_NAMES = {
    "utils",
    "util",
    "helpers",
    "helper",
    "common",
    "manager",
    "managers",
    "misc",
    "base",
}
EVERYWHERE = ("bench", "crds", "operator", "pipelines", "tests")


# mypy reads no file of this name but the root's, since it takes one of each name.
ROOT_CONFTEST = "tests/conftest.py"


def make_module(text: str, path: str = "pipelines/strandline/sample.py") -> Module:
    return Module(path, text, ast.parse(text))


def find_long(module: Module) -> Iterator[str]:
    lines = module.text.count("\n")
    most = MAX_TEST_LINES if module.path.startswith("tests/") else MAX_MODULE_LINES
    if lines > most:
        yield f"{module.path}:{most + 1}: {lines} lines: split the module by idea, at most {most}"
    for node in ast.walk(module.tree):
        if isinstance(node, Function) and node.end_lineno is not None:
            lines = node.end_lineno - node.lineno + 1
            if lines > MAX_FUNCTION_LINES:
                remedy = f"give its parts functions, at most {MAX_FUNCTION_LINES}"
                yield f"{module.path}:{node.lineno}: {node.name} has {lines} lines: {remedy}"


def find_empty_names(module: Module) -> Iterator[str]:
    parts = module.path.removesuffix(".py").split("/")
    for word in sorted(EMPTY_NAMES.intersection(parts)):
        yield f"{module.path}:1: {word}: name the module by the noun that lives in it"


def find_definitions(module: Module) -> Iterator[str]:
    """Yield the lines of code in a conftest that do not import fixtures, by location."""
    if not module.path.endswith("/conftest.py") or module.path == ROOT_CONFTEST:
        return
    for node in module.tree.body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not (is_docstring or isinstance(node, ast.ImportFrom | ast.Assign)):
            yield f"{module.path}:{node.lineno}: code in a conftest: move it to a module beside it"


def find_documented_methods(modules: tuple[Module, ...]) -> frozenset[str]:
    """Return names of methods that some class documents; overrides may omit the docstring."""
    return frozenset(
        dotted.rpartition(".")[2]
        for module in modules
        for dotted, node in walk_public(module.tree)
        if isinstance(node, Function) and "." in dotted and ast.get_docstring(node)
    )


def find_adapters(module: Module) -> frozenset[str]:
    """Return subclasses of library classes, whose methods the library documents."""
    return frozenset(
        dotted
        for dotted, node in walk_public(module.tree)
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Attribute) for base in node.bases)
    )


def find_undocumented(module: Module, known: frozenset[str]) -> Iterator[str]:
    if not ast.get_docstring(module.tree):
        yield f"{module.path}:1: the module: write a docstring: why it exists"
    adapters = find_adapters(module)
    for dotted, node in walk_public(module.tree):
        owner = dotted.rpartition(".")[0]
        is_known = isinstance(node, Function) and owner and node.name in known
        if not (ast.get_docstring(node) or is_known or owner in adapters):
            yield f"{module.path}:{node.lineno}: {dotted}: write a docstring"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\n" * 450, []),
        ("x = 1\n" * 451, ["451 lines"]),
        ("def long():\n" + "    x = 1\n" * 59, []),
        ("class A:\n    async def long(self):\n" + "        x = 1\n" * 60, ["long has 61 lines"]),
    ],
)
def test_long_modules_and_functions_are_found(text: str, expected: list[str]) -> None:
    assert [said.split(": ")[1] for said in find_long(make_module(text))] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\n", ["the module"]),
        ('"""Why."""\ndef run(): ...\n', ["run"]),
        ('"""Why."""\ndef _run(): ...\n', []),
        ('"""Why."""\nclass A:\n    def run(self): ...\n', ["A", "A.run"]),
        ('"""Why."""\nclass A:\n    """Who."""\n    def take(self): ...\n', []),
        ('"""Why."""\ndef take(): ...\n', ["take"]),
        ('"""Why."""\nclass A(io.RawIOBase):\n    """Who."""\n    def run(self): ...\n', []),
    ],
)
def test_missing_docstrings_are_found(text: str, expected: list[str]) -> None:
    module = make_module(text)
    found = find_undocumented(module, frozenset({"take"}))
    assert [said.split(": ")[1] for said in found] == expected


def test_a_meaningless_name_is_found() -> None:
    assert list(find_empty_names(make_module("", "pipelines/strandline/cli/utils.py")))
    assert not list(find_empty_names(make_module("", "pipelines/strandline/cli/views/summary.py")))


def test_modules_and_functions_keep_to_the_budget() -> None:
    modules = list_modules(*EVERYWHERE)
    assert len(modules) > 100
    found = [said for module in modules for said in find_long(module)]
    assert found == [], "\n".join(found)


def test_code_in_a_conftest_is_found() -> None:
    text = '"""Why."""\nfrom fixtures import store\n\n__all__ = ["store"]\n'
    assert not list(find_definitions(make_module(text, "tests/ledger/conftest.py")))
    planted = make_module(f"{text}def more(): ...\n", "tests/ledger/conftest.py")
    (found,) = find_definitions(planted)
    assert found.startswith("tests/ledger/conftest.py:5: code in a conftest: ")


def test_conftests_only_import_fixtures_so_that_types_are_checked_once() -> None:
    modules = list_modules("e2e", "tests")
    found = [place for module in modules for place in find_definitions(module)]
    assert found == [], "\n".join(found)


def test_module_names_are_meaningful() -> None:
    modules = list_modules(*EVERYWHERE)
    found = [said for module in modules for said in find_empty_names(module)]
    assert found == [], "\n".join(found)


def test_modules_and_everything_public_are_documented() -> None:
    modules = list_modules(*PACKAGES)
    known = find_documented_methods(modules)
    found = [said for module in modules for said in find_undocumented(module, known)]
    assert found == [], "\n".join(found)


def test_every_test_and_benchmark_has_a_docstring() -> None:
    modules = list_modules("bench", "tests")
    assert [module.path for module in modules if not ast.get_docstring(module.tree)] == []


def test_file_names_of_tests_are_unique() -> None:
    names = [module.path.rpartition("/")[2] for module in list_modules("tests")]
    doubled = {name for name in names if names.count(name) > 1}
    assert doubled <= {"conftest.py"}, f"{doubled}: give each file of tests a name of its own"
