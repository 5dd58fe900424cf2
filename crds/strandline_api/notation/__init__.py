"""Values in one notation, formatted and parsed: amounts and times."""
