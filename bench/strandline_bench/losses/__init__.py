"""Work that is done again where nodes go."""
