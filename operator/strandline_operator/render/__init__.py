"""Manifests of what the operator makes, spelled from specs. Pure."""
