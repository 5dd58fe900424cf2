"""Manifests of the operator's objects, rendered from specs. Pure."""
