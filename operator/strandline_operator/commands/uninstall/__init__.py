"""What the operator leaves behind when it is taken away, and what must not be held by it then."""
