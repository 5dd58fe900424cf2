"""Stages for pages of the web: archives of them, their text, their addresses."""
