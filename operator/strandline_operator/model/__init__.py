"""What the operator sees and what it is going to do, as plain data."""
