"""A card's Markdown: a parser returns every text unchanged."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from report_builders import HARM
from strandline.cli.card.markdown import CHARACTERS, escape, make_code, make_table
from strandline.cli.views.format import escape_text

PARSER = MarkdownIt("gfm-like", {"linkify": False}).enable("table")
EACH = r"a|b `c` *d* _e_ [f](g) <h> &amp; # i ~~j~~ $k$ \* http://localhost www.m n|"
# Prefer characters with a meaning in Markdown over uniformly random ones.
texts = st.text(st.sampled_from("|`*_[]<>&#~\\$!:/.-+= 1)") | st.characters(), max_size=60)


def list_leaves(text: str) -> list[Token]:
    return [leaf for token in PARSER.parse(text) for leaf in token.children or [token]]


@example(text=EACH)
@given(text=texts)
def test_law_a_cell_keeps_its_text(text: str) -> None:
    leaves = list_leaves("\n".join(make_table(["a", "#b"], [[text, "1"]])))
    content = "".join(leaf.content for leaf in leaves if leaf.type.startswith("text"))
    assert content == f"ab{escape_text(text).strip()}1"


@example(text=EACH)
@given(text=texts)
def test_law_a_line_keeps_its_text(text: str) -> None:
    leaves = list_leaves(f"# {escape(text)}")
    assert "".join(leaf.content for leaf in leaves if leaf.type.startswith("text")) == (
        escape_text(text).strip()
    )
    kinds = {leaf.type for leaf in leaves} - {"text", "text_special", "inline"}
    assert kinds == {"heading_open", "heading_close"}


@pytest.mark.parametrize("harm", HARM)
def test_hostile_text_stays_text(harm: str) -> None:
    rendered = PARSER.render("\n".join([*make_table(["a"], [[harm]]), "", escape(harm)]))
    assert not [tag for tag in ("<script", "<img", "<svg", "<base") if tag in rendered]


@given(text=st.text(st.sampled_from("`~ \nab"), max_size=60))
def test_law_a_code_block_contains_the_whole_text(text: str) -> None:
    (block,) = PARSER.parse("\n".join(make_code(text, "yaml")))
    assert (block.type, block.info) == ("fence", "yaml")
    assert block.content.rstrip("\n") == text.rstrip("\n")


def test_a_long_text_is_cut() -> None:
    assert len(escape("x" * 5000)) == CHARACTERS + 1
