"""Imports the fixtures of this folder from a module that mypy can import by name."""

from server_fixtures import _no_two_attempts, api_server, client, namespace, overlap_watch, stage

__all__ = ["_no_two_attempts", "api_server", "client", "namespace", "overlap_watch", "stage"]
