"""Commands about the logged answers of models."""
