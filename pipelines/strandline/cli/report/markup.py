"""Escapes text for a page, shortens it, and makes hidden characters visible.

Templates and charts pass every text through `clean`. The module must not depend on the content of
pages.
"""

from __future__ import annotations

from markupsafe import Markup
from markupsafe import escape as escape_html

from strandline.cli.views.format import escape_text

CHARACTERS = 1000  # limit for a text, because keys and messages may have any length

Attribute = str | float | None
Child = str | None


def clean(value: object) -> object:
    """Return text without hidden characters, at most `CHARACTERS` long. Markup stays unchanged.

    None becomes an empty string. Other values that are not text stay unchanged.
    """
    if isinstance(value, Markup):
        return value
    if isinstance(value, str):
        return escape_text(value if len(value) <= CHARACTERS else f"{value[:CHARACTERS]}…")
    return "" if value is None else value


def escape(value: object) -> Markup:
    """Return a value as escaped markup, after `clean`."""
    return escape_html(clean(value))


def element(tag: str, *children: Child, **attributes: Attribute) -> Markup:
    """Return an element; children that are not markup are escaped.

    Args:
        tag: name of the element.
        children: children in order; None adds nothing.
        attributes: attributes by name; `class_` stands for `class`, and `aria_label` for
            `aria-label`. Attributes with the value None are omitted.
    """
    words = [
        Markup(' {}="{}"').format(name.rstrip("_").replace("_", "-"), escape(value))
        for name, value in attributes.items()
        if value is not None
    ]
    return Markup("<{0}{1}>{2}</{0}>").format(tag, join(*words), join(*children))


def join(*children: Child) -> Markup:
    """Return the concatenation of several pieces."""
    return Markup("").join(map(escape, children))
