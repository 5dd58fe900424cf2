"""Rows of odd texts and addresses for all filters of the catalog."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from filter_cases import PROSE
from stage_runs import Rows

SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("key", "url", "text", "content")]
    + [("brightness", pa.float64()), ("sharpness", pa.float64())]
)
LINES = [
    "The keeper of the lighthouse climbed the stairs every evening with a can of oil.",
    "Ships wait outside, and the log says that nobody came to the lighthouse.",
    "The tide came in. It went out again. He slept well.",
    "Der Wärter stieg auf den Turm und zündete die Lampe an.",
    "光塔的看守人每天晚上都爬上楼梯。", "- a bullet", "lorem ipsum {", "# # ...", "...", "a", "",
    "Enable JavaScript to read on.", "ประภาคารอยู่ริมทะเล", "12 34 56 78", "word " * 9, "x" * 1100,
]  # fmt: skip
texts = st.lists(st.sampled_from(LINES), max_size=12).map("\n".join) | st.text(max_size=40)
texts |= st.just(PROSE * 3)


def draw_rows(most: int) -> st.SearchStrategy[Rows]:
    return st.lists(
        st.fixed_dictionaries(
            {
                "text": texts,
                "url": st.sampled_from(["https://a.org/x", "https://spam.org/y", "no address", ""]),
                "brightness": st.sampled_from([0.01, 0.05, 0.5, None, float("nan")]),
                "sharpness": st.sampled_from([1.0, 9.5, None]),
            }
        ),
        max_size=most,
    )


def name_rows(drawn: Rows) -> pa.Table:
    """Return rows with unique keys and a page per text."""
    whole = [
        row | {"key": f"{'abcd'[at % 4]}/{at}", "content": f"<p>{row['text']}</p>"}
        for at, row in enumerate(drawn)
    ]
    return pa.Table.from_pylist(whole, schema=SCHEMA)
