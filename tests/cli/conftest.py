"""Imports the fixtures of this folder from a module that mypy can import by name."""

from command_fixtures import ask, call, kubectl, project, run

__all__ = ["ask", "call", "kubectl", "project", "run"]
