"""ARCHITECTURE.md describes every package and mentions only existing names."""

from __future__ import annotations

import re

from source_tree import ROOT

PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
RUNTIME = ROOT / "pipelines" / "strandline"
OPERATOR = ROOT / "operator" / "strandline_operator"


def test_every_package_has_a_paragraph() -> None:
    rooms = {
        path.parent.relative_to(ROOT).as_posix()
        for package in (RUNTIME, OPERATOR)
        for path in package.glob("*/__init__.py")
    }
    whole = {"crds/strandline_api", "pipelines/strandline_packs"}
    assert set(re.findall(r"(?m)^### `(.+)`$", PAGE)) == rooms | whole


def test_names_on_the_page_exist() -> None:
    names = re.findall(r"`([\w/]+\.py)`", PAGE)
    assert len(names) >= 10
    places = (ROOT, RUNTIME, OPERATOR)
    assert [name for name in names if not any((place / name).is_file() for place in places)] == []


def test_the_links_have_targets() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", PAGE)
    assert links
    assert [link for link in links if not (ROOT / link).is_file()] == []
