"""Stages that find what is there more than once."""
