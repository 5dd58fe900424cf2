"""Requests on their way to a server: when they are sent, tried again, and given up."""
