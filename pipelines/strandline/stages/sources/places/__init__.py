"""Where files are listed: patterns, folders, stores. It knows no source and no format."""
