"""Shortens values, so that messages can quote them."""

# 60 characters and two quotes.
_SHOWN = 62


def shorten(value: object) -> str:
    """Format a value for a sentence: quoted if it is text, truncated after 60 characters."""
    shown = repr(value)
    return shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 4]}...{shown[-1]}"
