"""Stages that call a function of the user."""
