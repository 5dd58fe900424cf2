"""Pods of an attempt: templates, the claims they mount, and what a user lays over them."""
