"""Manifests, read from YAML into plans.

No other room reads YAML.
"""
