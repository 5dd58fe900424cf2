"""One pass over one pipeline: read all, decide, write. And when which pass runs."""
