"""Commands beside the operator itself."""
