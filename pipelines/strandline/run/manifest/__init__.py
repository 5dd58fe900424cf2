"""Reads manifests from YAML into plans.

No other package reads YAML.
"""
