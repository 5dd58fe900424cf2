"""Judges replies of servers, and whether a row or the server is to blame."""
