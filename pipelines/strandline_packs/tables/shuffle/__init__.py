"""Rows in another order, by two pipelines in a row: one parts them, the next reads each part."""
