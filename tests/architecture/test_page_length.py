"""The guides stay short, counted in hand-written words, without code and generated tables."""

from __future__ import annotations

import re

from source_tree import ROOT, list_files

# 45,000 when the pages had been shortened; since then new commands, five journeys, four packs, and
# a comparison with other products.
MOST_WORDS = 52_700
# Reference pages that are generated from the code, the API, or a recording.
GENERATED = {"api.md", "api-python.md", "scenarios.md", "stage-table.md"}
PARTS = (
    r"```.*?```",
    r"<!-- table: .*?<!-- end -->",
    r"<!-- ([\w ]+): begin -->.*?<!-- \1: end -->",
    r"<!--.*?-->",
    r"`test_[\w.:]+`",
)
WORD = re.compile(r"[A-Za-z][A-Za-z'-]*")


def count_words(text: str) -> int:
    for part in PARTS:
        text = re.sub(part, "", text, flags=re.DOTALL)
    return len(WORD.findall(text))


def test_code_and_generated_parts_are_not_counted() -> None:
    text = "Two words.\n```yaml\na: b\n```\n<!-- kills: begin -->\n| x |\n<!-- kills: end -->\n"
    assert (
        count_words(f"{text}<!-- table: causes -->\n| y |\n<!-- end -->\n`test_a.py::test_b`") == 2
    )


def test_the_guides_stay_short() -> None:
    pages = [
        path
        for path in list_files()
        if path.suffix == ".md" and path.parts[0] == "docs" and path.name not in GENERATED
    ]
    guides = [path for path in pages if path.parts[1] not in {"design", "failures"}]
    assert len(guides) > 30
    words = {path.name: count_words((ROOT / path).read_text()) for path in guides}
    longest = sorted(words.items(), key=lambda each: -each[1])[:5]
    assert sum(words.values()) <= MOST_WORDS, f"shorten a page, such as one of {longest}"
