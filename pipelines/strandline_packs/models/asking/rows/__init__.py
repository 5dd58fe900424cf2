"""Converts rows of a table to requests, and answers to columns."""
