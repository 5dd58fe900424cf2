"""The parent of a driver: starts and watches it, determines its end, and serves its status.

This package must not depend on sources.
"""
