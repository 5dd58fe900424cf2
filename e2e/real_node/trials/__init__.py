"""Required abilities of a node, tried in sequence."""
