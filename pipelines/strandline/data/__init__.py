"""The data that stages process: files behind paths and URLs, tables, and statistics."""
