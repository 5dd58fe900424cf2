"""A user's own operators, as files that a recipe names."""
