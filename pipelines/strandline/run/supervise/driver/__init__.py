"""The process of a driver, as its supervisor starts, hears, and keeps it."""
