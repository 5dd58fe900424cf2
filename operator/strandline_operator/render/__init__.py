"""Renders manifests of the operator's objects from specs. Pure."""
