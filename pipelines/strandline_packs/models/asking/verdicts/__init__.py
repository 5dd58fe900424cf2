"""Verdicts on replies of servers, and blame for failures: the row or the server."""
