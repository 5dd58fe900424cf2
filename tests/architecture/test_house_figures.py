"""The size figures count correctly."""

from __future__ import annotations

import re

from house_figures import count_prose, list_figures

PAGE = """Two words.
<!-- table: begin -->
written by a program
<!-- table: end -->
```bash
strandline run
```
And three more.
"""
MODULE = '''"""Why it is."""

LIMIT = 3  # at most


class Twice:
    """A class."""


# Reason for it.
def add(left: int, right: int) -> int:
    """Return a sum."""
    total = left
    if right > LIMIT:
        total += LIMIT
    else:
        total += right
    return total
'''


def test_code_and_generated_tables_do_not_count_as_prose() -> None:
    assert count_prose(PAGE) == 5


def test_figures_of_a_small_repository() -> None:
    texts = {
        "pipelines/strandline/engine/one.py": MODULE,
        "pipelines/strandline/engine/two.py": re.sub(r"\b(left|right)\b", r"\1_one", MODULE),
        "tests/test_one.py": MODULE,
        "pyproject.toml": "[[tool.importlinter.contracts]]\n",
        "docs/engine.md": PAGE,
    }
    figures = dict(list_figures(texts))
    assert figures["product lines, modules"] == "0.0k, 2"
    assert figures["function med/p90/max"] == "8/8/8"
    assert figures["lines of tests for one of the product"] == "0.50"
    assert figures["class names twice (Params apart)"] == "1"
    assert figures["functions with the body of another"] == "1"
    assert figures["import contracts"] == "1"
    assert figures["boxes of a room"].startswith("engine 2; packs 0")
    assert figures["words of docs/engine.md"] == "5"
    assert figures["words of docs/running.md"] == "–"
