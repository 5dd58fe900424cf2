"""What was measured before: kept by commit, compared, held above floors, and drawn."""
