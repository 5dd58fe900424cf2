"""Files behind a path or URL: how to find, list, open, and name them."""
