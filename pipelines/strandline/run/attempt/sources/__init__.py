"""What an attempt lists: the sources of its pipeline, or groups of them."""
