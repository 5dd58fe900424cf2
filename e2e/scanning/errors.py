"""Errors of a scan, each one sentence for the release manager."""


class ScanError(Exception):
    """An image could not be scanned completely; the text gives the reason."""
