"""The process of a driver, as started, observed, and reused by its supervisor."""
