"""Renders the pods of an attempt: templates, mounted claims, and user overlays."""
