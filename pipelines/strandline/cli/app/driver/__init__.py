"""How a command starts a driver, and what it says to it."""
