"""Stages for tokens of models, and the files that training reads them from."""
