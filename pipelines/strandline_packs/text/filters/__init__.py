"""Filters of documents by the published rules of large corpora, each a stage of its own."""
