"""Pods of an attempt: templates, mounted claims, and user overlays."""
