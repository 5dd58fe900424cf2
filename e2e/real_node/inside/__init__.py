"""A node's life inside its namespaces: its settings, programs, and first process."""
