"""Personal data in texts, found and replaced."""
