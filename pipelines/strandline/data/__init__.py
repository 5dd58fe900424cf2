"""The data that stages work on: files behind paths and URLs, rows in tables, statistics of both."""
