"""Views of a running pipeline."""
