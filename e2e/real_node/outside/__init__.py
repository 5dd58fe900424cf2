"""What the machine sees of a node: its life, and what it left behind."""
