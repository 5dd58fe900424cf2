"""Past measurements: stored by commit, compared, checked against floors, and drawn."""
