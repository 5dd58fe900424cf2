"""Starting points of a redo. Each rule has a module, and `rules` lists them."""
