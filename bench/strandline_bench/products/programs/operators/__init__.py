"""A user's own Data-Juicer operators, as files that a recipe names."""
