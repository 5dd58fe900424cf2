"""Delivery of requests to a server: sending, retrying, and giving up."""
