"""Judges replies of servers, and decides whether a row or the server caused a failure."""
