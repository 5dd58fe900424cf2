"""Commands about near-duplicates."""
