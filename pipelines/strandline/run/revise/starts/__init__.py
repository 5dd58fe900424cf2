"""Starting points of a redo: one rule in a module each, listed in `rules`."""
