"""Which pipeline gets its pass, when, and how many attempts may begin."""
