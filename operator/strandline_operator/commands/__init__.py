"""Commands other than the operator itself."""
