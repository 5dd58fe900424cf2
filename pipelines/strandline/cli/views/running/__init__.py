"""Views of a run under way."""
