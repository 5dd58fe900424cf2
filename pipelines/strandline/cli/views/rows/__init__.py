"""Views of rows: their history, and the differences between two data sets."""
