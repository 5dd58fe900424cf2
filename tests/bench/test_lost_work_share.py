"""The share of a benchmark's marks that counts as repeated work."""

from __future__ import annotations

from pathlib import Path

import pytest

from strandline_bench.losses import nodes

MARKS = {
    "nothing is lost": ("1 a 0 10\n1 a 1 20\n2 b 0 10\n2 b 1 20\n", 0.0),
    # Six seconds of a task, and its whole length of ten on another node.
    "a node is taken": ("1 a 0 10\n1 a 1 20\n2 gone 0 10\n2 b 0 20\n2 b 1 30\n", 6 / 26),
    # A worker that lives on briefly begins another task, which does not count as lost.
    "a worker lives on": ("1 gone 0 20\n1 a 0 20\n1 a 1 30\n2 b 0 0\n2 b 1 10\n", 0.0),
    # The result was lost with the node, although the task had ended there.
    "an answer is lost": (
        "1 gone 0 5\n1 gone 1 15\n1 a 0 20\n1 a 1 30\n2 b 0 0\n2 b 1 9\n",
        10 / 29,
    ),
}


@pytest.mark.parametrize("case", MARKS)
def test_law_the_share_counts_lost_starts_and_second_ends(case: str, tmp_path: Path) -> None:
    text, share = MARKS[case]
    (tmp_path / "marks-1").write_text(text)
    losses = [nodes.Loss("gone", 16.0)]
    found = nodes._find_share(nodes._read_marks(tmp_path), losses, 2)
    assert share * 100 == pytest.approx(found)


def test_a_task_without_an_end_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "marks-1").write_text("1 a 0 10\n")
    with pytest.raises(RuntimeError, match="0 of 1 tasks ended"):
        nodes._find_share(nodes._read_marks(tmp_path), [], 1)
