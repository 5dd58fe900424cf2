"""Commands about kept answers of models."""
