"""The texts of modules: which parts count for the fingerprint, and which modules they import."""

from __future__ import annotations

import ast

import pytest

from strandline.run.code.module_graph import ModuleGraph, OwnModule
from strandline.run.code.source_text import digest_tree, read_source

BASE = '''
"""What it does."""
import os

LIMIT = 3


def shorten(text, at=LIMIT):
    """Cut a text.

        Indented.
    """
    return f"{text[:at]!r:>{at}}"
'''
FORMATTED = """
'''What it does.'''  # a module
import os
LIMIT = (3)
def shorten(
    text,
    at=LIMIT,  # characters
):
  '''Cut a text.

      Indented.
  '''

  return f'{text[:at]!r:>{at}}'
"""


def test_comments_and_formatting_do_not_count() -> None:
    assert read_source(BASE, "") == read_source(FORMATTED, "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT = 3", "LIMIT = 3.0"),
        ("LIMIT = 3", "LIMIT = '3'"),
        ("at=LIMIT", "at=4"),
        ("at=LIMIT", "*, at=LIMIT"),
        ("def shorten", "@cached\ndef shorten"),
        ("def shorten", "async def shorten"),
        (":at]", "at:]"),
        ("!r", "!s"),
        ("Cut a text", "Cut the text"),  # a docstring may be used as a prompt
        ("import os", "import os as sys"),
        ("import os", "from . import os"),
    ],
)
def test_each_other_edit_counts(old: str, new: str) -> None:
    assert old in BASE
    assert read_source(BASE, "a").digest != read_source(BASE.replace(old, new), "a").digest


def test_unparsable_text_counts_verbatim() -> None:
    one, other = (read_source(f"def {name}(:", "").digest for name in "ab")
    assert one != other


def test_empty_parts_of_texts_that_python_adds_do_not_count() -> None:
    plain, padded = (ast.parse("f'{rate:.{digits}f}'") for _ in range(2))
    for node in ast.walk(padded):
        if isinstance(node, ast.JoinedStr):
            node.values.append(ast.Constant(""))
    assert digest_tree(plain)[0] == digest_tree(padded)[0]


def test_long_sums_are_read() -> None:
    one, other = (read_source(f"import os\na = 0{' + 1' * 900} + {last}", "") for last in (2, 3))
    assert one.digest != other.digest
    assert one.imports == {"os"}


MODULES = {
    "one": "import two.deep.leaf\ndef f():\n    from three import part, CONSTANT\n",
    "two/": "",
    "two.deep/": "from . import *\nfrom .. import beside\n__all__ = ['starred']\n",
    "two.deep.leaf": "from .. import one\nimport one, numpy\n",
    "two.deep.starred": "import importlib as il\nil.import_module('.late', 'two.deep')\n",
    "two.deep.late": "import importlib\nimportlib.import_module('plugin')\n",
    "two.beside": "from two.deep import leaf\n",
    "three/": None,  # a namespace package
    "three.part": "__import__('plugin_' + 'b')\nexec('1')\nmodel.eval()\n",
    "plugin": "import binary\n",
    "unused": "",
}


def find(name: str) -> OwnModule | None:
    """Find a module in `MODULES`."""
    path = name.replace(".", "/")
    if f"{name}/" in MODULES:
        text = MODULES[f"{name}/"]
        return OwnModule(f"{path}/__init__.py" if text is not None else "", name, text or "")
    if name == "binary":
        return OwnModule("binary.so", "", None)
    text = MODULES.get(name)
    return None if text is None else OwnModule(f"{path}.py", name.rpartition(".")[0], text)


def test_all_imported_modules_and_no_others_are_included() -> None:
    code = ModuleGraph(find).collect(["one"])
    assert sorted(code.digests) == [
        "one.py",
        "plugin.py",
        "three/part.py",
        "two/__init__.py",
        "two/beside.py",
        "two/deep/__init__.py",
        "two/deep/late.py",
        "two/deep/leaf.py",
        "two/deep/starred.py",
    ]
    assert code.unread == (
        "binary.so can't be read",
        "three/part.py calls __import__",
        "three/part.py calls exec",
    )


def test_modules_in_an_import_cycle_are_included_once() -> None:
    circle = {
        "a": OwnModule("a.py", "", "from b import c"),
        "b": OwnModule("b.py", "", "import a"),
    }
    graph = ModuleGraph(circle.get)
    assert graph.collect(["a"]).digests == graph.collect(["b"]).digests
    assert graph.collect([]).digests == {}
