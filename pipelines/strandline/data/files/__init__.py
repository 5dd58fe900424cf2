"""Files behind a path or URL: found, listed, opened, and named in the results of stages."""
