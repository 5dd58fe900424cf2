"""The parent of a driver: starts and watches the driver, determines its end, and serves its status.

This package must not depend on sources.
"""
