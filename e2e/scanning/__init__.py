"""Scans an image for known vulnerabilities with an external scanner, and accepts exceptions."""
